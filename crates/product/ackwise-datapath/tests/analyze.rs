//! `ackwise analyze` finds in a capture what the datapath's dry run counts on the same packets: the
//! programs run frame by frame, under the clock of the capture.

mod common;

use std::path::Path;

use ackwise_analyze::{Analysis, Analyzer, Options as Wanted, default_policies, read};
use ackwise_datapath::{Context, Options, Scripted, sys};
use ackwise_policy::{Config, Reason};
use common::alone;

const CAPTURES: [&str; 2] = ["loss.pcap", "ipv6.pcap"];

struct Frame {
    at_ns: u64,
    /// The frame in its length on the wire: what was not captured is zero.
    bytes: Vec<u8>,
}

fn frames(name: &str) -> Vec<Frame> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/data");
    let file = std::fs::File::open(root.join(name)).unwrap();
    let mut frames = Vec::new();
    read(file, &mut |packet| {
        let mut bytes = packet.bytes.to_vec();
        bytes.resize(packet.wire_len as usize, 0);
        frames.push(Frame {
            at_ns: packet.at_ns,
            bytes,
        });
    })
    .unwrap();
    frames
}

fn analysis(name: &str) -> Analysis {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/data");
    let mut analyzer = Analyzer::new(Wanted::default());
    let file = std::fs::File::open(root.join(name)).unwrap();
    read(file, &mut |packet| analyzer.packet(packet)).unwrap();
    analyzer.finish()
}

/// The programs' counts in a dry run at both ends of each connection.
fn dry_run(policy: Config, frames: &[Frame]) -> (sys::aw_counters, u64) {
    let mut options = Options::new("lo", policy);
    options.dry_run = true;
    options.selftest = true;
    let mut programs = Scripted::load(&options, sys::AW_LINK_ETHERNET).unwrap();
    for frame in frames {
        programs.set_time(frame.at_ns).unwrap();
        for acks in [false, true] {
            programs
                .run(acks, &frame.bytes, Context::default())
                .unwrap();
        }
    }
    let end = frames.last().map_or(0, |f| f.at_ns);
    // A deadline is checked when the flow's next segment arrives.
    let entries = programs.entries().unwrap();
    let due = |e: &&sys::aw_entry| e.dry_until_ns != 0 && e.dry_until_ns <= end;
    let due = entries.iter().filter(due).count() as u64;
    (programs.counters().unwrap(), due)
}

#[test]
fn what_analyze_says_is_what_a_dry_run_counts() {
    let _alone = alone();
    for name in CAPTURES {
        let frames = frames(name);
        let found = analysis(name);
        for (policy, found) in default_policies().into_iter().zip(&found.policies) {
            let (counted, due) = dry_run(policy, &frames);
            let what = format!("{name}, {policy}");
            let judged: u64 = counted.reason.iter().sum();
            assert!(found.acks > 500, "{what}: {found:?}");
            assert_eq!(found.acks, judged, "{what}");
            for reason in Reason::all() {
                let reported = found.reasons.iter().find(|r| r.reason == reason.name());
                let reported = reported.map_or(0, |r| r.acks);
                let counted = counted.reason[reason.id() as usize];
                assert_eq!(reported, counted, "{what}: {reason}");
            }
            let withheld = counted.reason[sys::AW_R_HELD as usize]
                + counted.reason[sys::AW_R_DROPPED as usize];
            assert_eq!(found.withheld, withheld, "{what}");
            assert_eq!(found.replaced, counted.replaced, "{what}");
            assert_eq!(found.superseded, counted.superseded, "{what}");
            assert_eq!(found.reemitted, counted.reemitted + due, "{what}");
            assert_eq!(found.cloned, counted.cloned, "{what}");
        }
        // The capture must distinguish the policies.
        let withheld: Vec<_> = found.policies.iter().map(|p| p.withheld).collect();
        assert!(
            withheld.iter().filter(|n| **n > 50).count() >= 3,
            "{name}: {withheld:?}"
        );
    }
}
