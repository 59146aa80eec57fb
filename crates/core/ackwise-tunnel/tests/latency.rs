//! The latency that a tunnel adds to an ACK, from the hook that takes it to the device that emits
//! it: exact, for each pattern of arrivals. The path's own delay is not counted.

use ackwise_rng::Rng;
use ackwise_tunnel::Tunnel;
use ackwise_tunnel::trace::{Recorded, TracedPacket};

mod harness;

use harness::{CLEAN, Harness, MS, pair};

const ACKS: usize = 400;

/// Times are in thousandths of a period.
#[derive(Debug, Clone, Copy)]
enum Arrivals {
    /// One by one at random times, with this mean interval.
    Poisson(u64),
    Periodic(u64),
    /// Bursts of this many packets, 20 µs apart, with this interval from one burst to the next.
    Bursts(usize, u64),
    /// Bursts of this many packets, 20 µs apart, at random times with this mean interval.
    RandomBursts(usize, u64),
}

const ALL: [Arrivals; 17] = [
    Arrivals::Poisson(25),
    Arrivals::Poisson(300),
    Arrivals::Poisson(3000),
    Arrivals::Periodic(23),
    Arrivals::Periodic(125),
    Arrivals::Periodic(600),
    Arrivals::Periodic(1000),
    Arrivals::Periodic(1700),
    Arrivals::Bursts(8, 250),
    Arrivals::Bursts(8, 700),
    Arrivals::Bursts(8, 1000),
    Arrivals::Bursts(8, 1040),
    Arrivals::Bursts(8, 4000),
    Arrivals::Bursts(40, 8000),
    Arrivals::RandomBursts(8, 300),
    Arrivals::RandomBursts(8, 1000),
    Arrivals::RandomBursts(8, 4000),
];

fn exponential(rng: &mut Rng, mean: u64) -> u64 {
    let uniform = (rng.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
    (-uniform.ln() * mean as f64) as u64
}

impl Arrivals {
    /// The recorded ACKs at these times.
    fn at(self, period: u64, acks: &[TracedPacket]) -> Vec<TracedPacket> {
        let mut rng = Rng::new(11);
        let mut trace = acks.to_vec();
        let mut now = 0;
        for (n, seen) in trace.iter_mut().enumerate() {
            let of = |thousandths| period / 1000 * thousandths;
            seen.at_ns = now;
            now += match self {
                Arrivals::Poisson(mean) => exponential(&mut rng, of(mean)),
                Arrivals::Periodic(every) => of(every),
                Arrivals::Bursts(many, _) | Arrivals::RandomBursts(many, _)
                    if (n + 1) % many != 0 =>
                {
                    20_000
                }
                Arrivals::Bursts(many, every) => of(every) - 20_000 * (many as u64 - 1),
                Arrivals::RandomBursts(_, mean) => exponential(&mut rng, of(mean)),
            };
        }
        trace
    }
}

/// The added latencies in thousandths of a period, sorted, and the mean number of ACKs in a bundle.
fn added(arrivals: Arrivals, period: u64, acks: &[TracedPacket], respace: bool) -> (Vec<u64>, f64) {
    let trace = arrivals.at(period, acks);
    let configs = pair(|c| (c.period, c.follow_rtt, c.respace) = (period, false, respace));
    let mut net = Harness::new(configs, CLEAN);
    net.run(200 * MS);
    assert!(net.ends.iter().all(Tunnel::is_up));
    let came_in = net.play(&trace);
    assert_eq!(net.restored.len(), trace.len());
    assert_eq!(net.bypass.len(), 0);
    let added = net.restored.iter();
    let added = added.map(|(at, ack)| (at - came_in[ack] - CLEAN.delay) * 1000 / period);
    let mut added: Vec<u64> = added.collect();
    added.sort_unstable();
    let bundles = net.ends[0].counters().bundles_out;
    (added, trace.len() as f64 / bundles as f64)
}

#[test]
fn six_tenths_of_a_period_in_the_mean_and_never_more_than_one() {
    let trace = Recorded::Plain.read().expect("recorded");
    // Starting flows are another matter: none of their ACKs waits for a whole period.
    let recorded = &trace[100..100 + ACKS];
    for arrivals in ALL {
        for period in [5, 10, 25, 50] {
            let (added, acks) = added(arrivals, period * MS, recorded, false);
            let mean = added.iter().sum::<u64>() / added.len() as u64;
            let p99 = added[added.len() * 99 / 100];
            let most = added[added.len() - 1];
            println!(
                "{arrivals:?}, {period} ms: mean {mean}, p99 {p99}, most {most}; {acks:.1} ACKs a bundle"
            );
            assert!(mean <= 600, "{arrivals:?}, {period} ms: {mean}");
            assert!(most <= 1000, "{arrivals:?}, {period} ms: {most}");
        }
    }
}

#[test]
fn spacing_takes_half_a_period_more_in_the_mean_and_one_at_most() {
    let trace = Recorded::Plain.read().expect("recorded");
    let recorded = &trace[100..100 + ACKS];
    for arrivals in ALL {
        let (at_once, _) = added(arrivals, 10 * MS, recorded, false);
        let (spaced, _) = added(arrivals, 10 * MS, recorded, true);
        let sum = |added: &[u64]| added.iter().sum::<u64>();
        let more = (sum(&spaced) - sum(&at_once)) / ACKS as u64;
        assert!(more <= 500, "{arrivals:?}: {more}");
        let most = spaced[ACKS - 1];
        assert!(most <= 2000, "{arrivals:?}: {most}");
    }
}

#[test]
fn what_is_read_late_leaves_in_one_bundle() {
    let trace = Recorded::Plain.read().expect("recorded");
    let mut net = Harness::new(pair(|c| c.follow_rtt = false), CLEAN);
    net.run(200 * MS);
    net.packet(&trace[100].packet);
    net.run(net.now + MS);
    // After a pause one leaves at once; then nothing leaves for a quarter of the period.
    assert_eq!(net.ends[0].earliest_bundle_at(), net.now - MS + 10 * MS / 4);
    // Its period is over by the time a busy machine reads them; after a pause it is the same.
    for pause in [12 * MS, 100 * MS] {
        let before = *net.ends[0].counters();
        net.packet(&trace[101].packet);
        net.now += pause;
        for seen in &trace[200..210] {
            net.packet(&seen.packet);
        }
        assert_eq!(net.ends[0].counters().bundles_out, before.bundles_out);
        net.run(net.now);
        let after = *net.ends[0].counters();
        assert_eq!(after.bundles_out, before.bundles_out + 1);
        assert_eq!(after.packets_in, before.packets_in + 11);
    }
}
