//! The cost of forwarding a packet, and the memory of a connection.
//!
//! `cargo bench -p ackwise-sim --bench engine [-- CASE [FLOWS SECONDS]]`
//!
//! - `dumbbell`: the one of Saldana 2013, for 1000 simulated seconds.
//! - `many FLOWS SECONDS`: a bottleneck that grows with its flows, with 5 Mbit/s and 5
//!   packets of queue for each; 25 packets with `deep`.
//! - `idle FLOWS`: connections that have not begun.
//!
//! It prints the CPU time of this process, as the median of three, and the peak of the memory
//! requested. For instructions and cache misses run the binary under `callgrind
//! --cache-sim=yes`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ackwise_scenario::Scenario;
use ackwise_sim::build::{Simulation, build};
use nix::time::{ClockId, clock_gettime};

/// Counts the memory requested.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn grown(by: usize) {
    MOST.fetch_max(NOW.fetch_add(by, Relaxed) + by, Relaxed);
}

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks exist while one is copied to the other.
        grown(size);
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PREAMBLE: &str = r#"
[scenario]
name = "bench"
duration = "SECONDS s"
[record]
series = false
[sweep]
cc = ["CC"]
[[node]]
name = "n"
kind = "router"
[[node]]
name = "m"
kind = "router"
"#;

struct Case {
    text: String,
}

impl Case {
    fn new(seconds: u64, cc: &str) -> Case {
        let seconds = seconds.to_string();
        Case {
            text: PREAMBLE.replace("SECONDS", &seconds).replace("CC", cc),
        }
    }

    fn add(mut self, part: std::fmt::Arguments<'_>) -> Case {
        self.text
            .write_fmt(part)
            .expect("a String takes everything");
        self
    }

    fn host(self, name: &str) -> Case {
        self.add(format_args!("[[node]]\nname = \"{name}\"\n"))
    }

    fn link(self, [a, b]: [&str; 2], mbit: u64, delay_ms: u64, packets: u64) -> Case {
        self.add(format_args!(
            "[[link]]\nname = \"{a}{b}\"\nbetween = [\"{a}\", \"{b}\"]\noverhead = 0\nboth = {{ rate \
             = \"{mbit} Mbit/s\", delay = \"{delay_ms} ms\", queue = \"{packets} packets\" }}\n"
        ))
    }

    fn flow(self, [from, to]: [&str; 2], connections: u64, more: &str) -> Case {
        self.add(format_args!(
            "[[flow]]\nname = \"{from}\"\nfrom = \"{from}\"\nto = \"{to}\"\napp = \"bulk\"\n\
             connections = {connections}\nstart_within = \"1 s\"\n{more}\n"
        ))
    }

    fn network(&self) -> Simulation {
        let scenario = Scenario::parse("bench.toml", &self.text).unwrap_or_else(|e| panic!("{e}"));
        let built = build(&scenario, &scenario.runs()[0]).unwrap_or_else(|e| panic!("{e}"));
        built.network
    }
}

const NS2: &str =
    "model = { stack = \"ns2\", segment = \"1460 B\", window_limit = \"10000 packets\" }";

fn dumbbell(seconds: u64) -> Case {
    let mut case = Case::new(seconds, "newreno");
    for [from, to] in [["a", "c"], ["b", "d"]] {
        case = case.host(from).host(to);
        case = case.link([from, "n"], 100, 10, 50);
        case = case.link(["m", to], 100, 10, 50);
        case = case.flow([from, to], 1, NS2);
    }
    case.link(["n", "m"], 10, 20, 50)
}

fn many(flows: u64, seconds: u64, queue: u64, model: &str, cc: &str) -> Case {
    Case::new(seconds, cc)
        .host("a")
        .host("b")
        .link(["a", "n"], 50 * flows, 10, 50 * flows)
        .link(["n", "m"], 5 * flows, 20, queue * flows + 20)
        .link(["m", "b"], 50 * flows, 10, 50 * flows)
        .flow(["a", "b"], flows, model)
}

fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux has this clock");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

/// Runs the case `times` times; returns nanoseconds per hop.
fn measure(what: &str, case: &Case, times: usize) -> f64 {
    let mut costs = Vec::new();
    let mut summary = String::new();
    for _ in 0..times {
        let before = NOW.load(Relaxed);
        MOST.store(before, Relaxed);
        let start = cpu_s();
        let mut network = case.network();
        network.run(|_| true);
        let cpu = cpu_s() - start;
        costs.push(cpu / network.hops as f64 * 1e9);
        summary = format!(
            "{cpu:>8.3} CPU-s {:>11} hops {:>11} events {:>7} packets {:>8.1} MB",
            network.hops,
            network.events(),
            network.allocated(),
            (MOST.load(Relaxed) - before) as f64 / 1e6
        );
    }
    costs.sort_by(f64::total_cmp);
    let cost = costs[times / 2];
    println!("{what:<24}{cost:>7.1} ns a hop {summary}");
    cost
}

fn idle(flows: u64) {
    let case = many(flows, 1, 5, "", "cubic");
    let scenario = Scenario::parse("bench.toml", &case.text).unwrap_or_else(|e| panic!("{e}"));
    let before = NOW.load(Relaxed);
    let built = build(&scenario, &scenario.runs()[0]).unwrap_or_else(|e| panic!("{e}"));
    let taken = NOW.load(Relaxed) - before;
    println!(
        "{:<24}{:>7} bytes a connection",
        format!("idle {flows}"),
        taken / built.network.connections.len()
    );
}

fn all() {
    measure("dumbbell", &dumbbell(1000), 3);
    let mut first = None;
    for (flows, seconds) in [(2, 1000), (100, 20), (1000, 4), (10_000, 2)] {
        let case = many(flows, seconds, 5, NS2, "newreno");
        let cost = measure(&format!("many {flows}"), &case, 3);
        let first = *first.get_or_insert(cost);
        println!("{:<24}{:>7.2} times that of 2 flows", "", cost / first);
    }
    measure("deep 10000", &many(10_000, 2, 25, NS2, "newreno"), 1);
    measure("cubic 100", &many(100, 20, 25, "", "cubic"), 3);
    idle(10_000);
}

fn main() {
    // Cargo passes --bench.
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let number = |n: usize, other| args.get(n).map_or(other, |a| a.parse().expect("a number"));
    match args.first().map(String::as_str) {
        None => all(),
        Some("dumbbell") => drop(measure("dumbbell", &dumbbell(number(1, 1000)), 1)),
        Some("many") => {
            let (flows, seconds) = (number(1, 1000), number(2, 4));
            measure("many", &many(flows, seconds, 5, NS2, "newreno"), 1);
        }
        Some("deep") => {
            let (flows, seconds) = (number(1, 10_000), number(2, 2));
            measure("deep", &many(flows, seconds, 25, NS2, "newreno"), 1);
        }
        Some("cubic") => {
            let (flows, seconds) = (number(1, 100), number(2, 20));
            measure("cubic", &many(flows, seconds, 25, "", "cubic"), 1);
        }
        Some("idle") => idle(number(1, 10_000)),
        Some(other) => panic!("'{other}' is none of dumbbell, many, deep, cubic, idle"),
    }
}
