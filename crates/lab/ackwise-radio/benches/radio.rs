//! The cost of an event on a chain of low-power radios.
//!
//! `cargo bench -p ackwise-radio --bench radio [-- HOPS]`: 1000 segments over a chain of
//! HOPS hops (10 by default), with AODV routes, for each of three seeds. It prints the CPU
//! time of this process.

use ackwise_radio::scenario::RadioScenario;
use ackwise_radio::{Point, run_point};
use nix::time::{ClockId, clock_gettime};

fn cpu_s() -> f64 {
    let spent = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a CPU clock");
    spent.tv_sec() as f64 + spent.tv_nsec() as f64 * 1e-9
}

fn main() {
    // Cargo passes --bench.
    let hops = std::env::args().skip(1).find(|arg| arg != "--bench");
    let hops: u64 = hops.map_or(10, |hops| hops.parse().expect("a number of hops"));
    let text = format!(
        "[scenario]\nname = \"bench\"\nduration = \"3600 s\"\ndata = \"48 kB\"\n[radio]\n\
         topology = \"chain\"\nhops = {hops}\ncapture = 4\n[[arm]]\nname = \"tcp\"\n\
         model = {{ stack = \"rfc\", segment = \"48 B\", ack_every = 1 }}\n"
    );
    let scenario = RadioScenario::parse("bench.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    for seed in 1..=3 {
        let point = Point {
            arm: 0,
            field: 0,
            seed,
        };
        let start = cpu_s();
        let result = run_point(&scenario, point).unwrap_or_else(|e| panic!("{e}"));
        let cpu = cpu_s() - start;
        println!(
            "{:<24}{:>7.1} ns an event {cpu:>7.4} CPU-s {:>9} events",
            format!("radio {hops}, seed {seed}"),
            cpu / result.events as f64 * 1e9,
            result.events,
        );
    }
}
