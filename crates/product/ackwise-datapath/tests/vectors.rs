//! The policies' test vectors, replayed by the kernel.

mod common;

use ackwise_datapath::Programs;
use ackwise_policy::{Policy, vectors};

#[test]
fn the_kernel_says_what_the_vectors_say() {
    let _alone = common::alone();
    let mut steps = 0;
    for policy in Policy::all() {
        let file = vectors::policy_file(&vectors::directory(), policy);
        let read = vectors::read_policy(&file).unwrap_or_else(|e| panic!("{e}"));
        assert!(!read.traces.is_empty(), "{policy} has no vectors");
        for trace in &read.traces {
            let mut programs = Programs::for_replay(trace.config).unwrap_or_else(|e| panic!("{e}"));
            trace
                .replay(|_, event| {
                    steps += 1;
                    programs.replay(event).unwrap_or_else(|e| panic!("{e}"))
                })
                .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        }
    }
    assert!(steps > 100, "only {steps} steps");
}

/// The segments of the vectors, parsed by the kernel's parser: which it accepts as TCP, and which
/// not.
#[test]
fn the_kernel_reads_what_the_vectors_read() {
    let _alone = common::alone();
    let cases = vectors::read_packets(&vectors::directory().join("parse.vec"))
        .unwrap_or_else(|e| panic!("{e}"));
    let mut compared = 0;
    for (link, raw) in [
        (
            ackwise_policy::LinkKind::Ethernet,
            ackwise_datapath::sys::AW_LINK_ETHERNET,
        ),
        (
            ackwise_policy::LinkKind::Ip,
            ackwise_datapath::sys::AW_LINK_IP,
        ),
    ] {
        let o = ackwise_datapath::Options::new("lo", "none".parse().expect("a policy"));
        let programs = Programs::load(&o, 1, raw, false).unwrap_or_else(|e| panic!("{e}"));
        for case in cases.iter().filter(|c| c.link == link) {
            // The kernel makes no packet that is shorter than its headers.
            if case.total != case.bytes.len() || case.bytes.len() < 34 {
                continue;
            }
            let before = programs.counters().unwrap_or_else(|e| panic!("{e}"));
            // Some cannot even become a packet in the kernel; these are skipped.
            if programs.run("ackwise_acks", &case.bytes, 1).is_err() {
                continue;
            }
            let after = programs.counters().unwrap_or_else(|e| panic!("{e}"));
            let status = if after.not_tcp > before.not_tcp {
                Err(ackwise_policy::ParseError::NotTcp)
            } else if after.fragments > before.fragments {
                Err(ackwise_policy::ParseError::Fragment)
            } else if after.unparsable > before.unparsable {
                // Truncated and malformed packets share a counter.
                case.status.and(Err(ackwise_policy::ParseError::Malformed))
            } else {
                Ok(())
            };
            assert_eq!(status, case.status, "line {} ({})", case.line, case.name);
            compared += 1;
        }
    }
    assert!(compared >= 10, "only {compared} packets compared");
}
