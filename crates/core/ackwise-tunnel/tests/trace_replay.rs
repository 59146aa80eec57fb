//! Recorded ACKs of real Linux receivers through both ends: what they cost, and that each of them
//! comes out unchanged.

use ackwise_rng::Probability;
use ackwise_tunnel::Variant;
use ackwise_tunnel::trace::Recorded;
use ackwise_tunnel::trace_replay::{Outcome, ReplayConfig, replay};

fn run(which: Recorded, change: impl FnOnce(&mut ReplayConfig), variant: Variant) -> Outcome {
    let trace = which.read().expect("recorded");
    let mut settings = ReplayConfig::new(variant);
    change(&mut settings);
    let outcome = replay(&trace, &settings);
    println!(
        "{which:?} {variant:?}: {:.3} B/ACK, {:.1} ACKs/bundle, {} whole, {} lost with bundles, mux {:.0} k/s, demux {:.0} k/s",
        outcome.bytes_per_ack(),
        outcome.counted as f64 / outcome.counted_bundles as f64,
        outcome.uncompressed,
        outcome.lost_with_bundles,
        outcome.acks as f64 / outcome.mux.as_secs_f64() / 1e3,
        outcome.acks as f64 / outcome.demux.as_secs_f64() / 1e3,
    );
    assert_eq!(outcome.acks, trace.len());
    assert_eq!((outcome.wrong, outcome.lost_beyond), (0, 0));
    outcome
}

const VARIANTS: [Variant; 2] = [Variant::Aligned, Variant::Entropy];

/// Bytes per ACK once the flows are known.
fn steady(which: Recorded, variant: Variant) -> f64 {
    let outcome = run(which, |r| r.count_from_ns = 200_000_000, variant);
    assert!(outcome.counted >= 40 * outcome.counted_bundles);
    outcome.bytes_per_ack()
}

#[test]
fn bytes_per_ack() {
    assert!(steady(Recorded::Plain, Variant::Aligned) <= 4.2);
    assert!(steady(Recorded::Plain, Variant::Entropy) <= 3.0);
    assert!(steady(Recorded::Sack, Variant::Entropy) <= 6.5);
    steady(Recorded::Sack, Variant::Aligned);
}

#[test]
fn loss_costs_the_lost_bundles_only() {
    for which in Recorded::ALL {
        for variant in VARIANTS {
            for (percent, seed) in [(1, 1), (2, 2), (5, 3), (30, 4)] {
                let lossy = run(
                    which,
                    |r| {
                        r.loss = Probability::from_fraction(f64::from(percent) / 100.0);
                        r.seed = seed;
                    },
                    variant,
                );
                assert!(percent < 5 || lossy.lost_with_bundles > 0);
            }
        }
    }
}

#[test]
fn order_and_duplicates_do_not_matter() {
    for which in Recorded::ALL {
        for variant in VARIANTS {
            run(
                which,
                |r| {
                    r.reorder = Probability::from_fraction(0.3);
                    r.duplicate = Probability::from_fraction(0.2);
                    r.loss = Probability::from_fraction(0.02);
                },
                variant,
            );
        }
    }
}

#[test]
fn more_flows_than_there_is_room_for() {
    for variant in VARIANTS {
        let few = run(Recorded::Plain, |r| r.max_flows = 3, variant);
        assert!(few.uncompressed > 300);
    }
}

#[test]
fn small_datagrams() {
    for variant in VARIANTS {
        run(Recorded::Sack, |r| r.max_bundle = 800, variant);
    }
}
