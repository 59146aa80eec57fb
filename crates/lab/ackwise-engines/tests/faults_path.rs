//! Faults of the path: the transfer must cope with all of them while ACKs are withheld at the
//! receiver.

mod harness;

use std::time::Duration;

use ackwise_engines::command;
use ackwise_testbed::here_and_in_virtual_time;
use harness::{Case, LOSS_RECOVERY, Network, exactly, matrix};

fn losing(share: &str) -> Case {
    let mut case = Case::new(&format!("loss {share} of data")).link(&format!(
        r#"
        forward = {{ rate = "20 Mbit/s", delay = "10 ms", queue = "60 packets", loss = "{share}" }}
        reverse = {{ rate = "20 Mbit/s", delay = "10 ms" }}
        "#
    ));
    case.need = LOSS_RECOVERY;
    case
}

#[test]
fn no_loss() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("no fault");
        case.seconds = 3.0;
        let seen = matrix(&case);
        for (ran, stats) in &seen {
            // Thinning is the purpose. `adaptive` leaves the first second alone.
            exactly(|| assert!(stats.withheld * 3 > stats.acks, "{stats:#?}"));
            // Withheld ACKs did not reach the wire.
            let wire = ran.wire.as_ref().expect("emulated");
            let acks = wire.counter.flows()[0].acks.total();
            let passed = stats.acks - stats.withheld + stats.fail_open["busy"];
            let left = passed + stats.reemitted + stats.cloned;
            // The segments that open and close a connection are counted differently.
            assert!(acks.abs_diff(left) <= 4, "{acks} on the wire, {left} left");
        }
    });
}

#[test]
fn loss_of_one_in_a_thousand() {
    here_and_in_virtual_time(|| {
        matrix(&losing("0.1 %"));
    });
}

#[test]
fn loss_of_one_per_cent() {
    here_and_in_virtual_time(|| {
        let mut case = losing("1 %");
        case.timeouts = 2;
        for (_, stats) in matrix(&case) {
            exactly(|| assert!(stats.reasons["sack"] > 0, "{stats:#?}"));
        }
    });
}

#[test]
fn loss_of_five_per_cent() {
    here_and_in_virtual_time(|| {
        let mut case = losing("5 %");
        case.timeouts = 4;
        for (_, stats) in matrix(&case) {
            exactly(|| assert!(stats.reasons["sack"] > 0, "{stats:#?}"));
        }
    });
}

#[test]
fn reordering() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("reordering 2 %, 5 ms").link(
        r#"
        forward = { rate = "20 Mbit/s", delay = "10 ms", queue = "60 packets", reorder = { probability = "2 %", delay = "5 ms" } }
        reverse = { rate = "20 Mbit/s", delay = "10 ms" }
        "#,
    );
        case.need = LOSS_RECOVERY;
        for (_, stats) in matrix(&case) {
            exactly(|| {
                assert!(
                    stats.reasons["sack"] > 0,
                    "no ACK with SACK left: {stats:#?}"
                )
            });
        }
    });
}

#[test]
fn reordered_acks() {
    here_and_in_virtual_time(|| {
        matrix(&Case::new("reordering of ACKs 5 %, 5 ms").link(
        r#"
        forward = { rate = "20 Mbit/s", delay = "10 ms", queue = "60 packets" }
        reverse = { rate = "20 Mbit/s", delay = "10 ms", reorder = { probability = "5 %", delay = "5 ms" } }
        "#,
    ));
    });
}

#[test]
fn duplication() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("duplication 2 %").link(
        r#"both = { rate = "20 Mbit/s", delay = "10 ms", queue = "60 packets", duplicate = "2 %" }"#,
    );
        case.need = LOSS_RECOVERY;
        for (_, stats) in matrix(&case) {
            exactly(|| {
                assert!(
                    stats.reasons["sack"] > 0,
                    "no ACK with a DSACK left: {stats:#?}"
                )
            });
        }
    });
}

#[test]
fn everything_at_once_and_both_ways() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("loss, reorder, duplicate both ways").link(
        r#"both = { rate = "20 Mbit/s", delay = "10 ms", queue = "60 packets", loss = "1 %", duplicate = "1 %", reorder = { probability = "1 %", delay = "5 ms" } }"#,
    );
        case.timeouts = 3;
        case.need = LOSS_RECOVERY;
        matrix(&case);
    });
}

#[test]
fn a_narrow_way_back() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("ACKs lost on a narrow uplink").link(
            r#"
        forward = { rate = "20 Mbit/s", delay = "10 ms", queue = "60 packets" }
        reverse = { rate = "200 kbit/s", delay = "10 ms", queue = "10 packets", loss = "1 %" }
        "#,
        );
        case.timeouts = 2;
        case.need = LOSS_RECOVERY;
        matrix(&case);
    });
}

/// A router in the middle reports that packets are too large (RFC 1191).
fn shrink_at_the_router(network: &Network) {
    network.at(Duration::from_millis(1000));
    let lan = network.interface("router", "lan");
    network.inside("router", || {
        command::run("ip", &["link", "set", &lan, "mtu", "1000"])
            .unwrap_or_else(|error| panic!("{error}"))
    });
}

#[test]
fn the_path_mtu_shrinks_and_a_router_says_so() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("path MTU 1500 to 1000, told");
        case.router = true;
        case.place = ackwise_datapath::Position::Router;
        case.during = shrink_at_the_router;
        case.timeouts = 2;
        case.need = LOSS_RECOVERY;
        for (ran, _) in matrix(&case) {
            // Before that, a segment carried 1448 bytes.
            let wire = ran.wire.as_ref().expect("emulated");
            let segments = wire.counter.flows()[0].data_segments;
            exactly(|| {
                assert!(
                    ran.outcome.bytes / segments < 1300,
                    "segments did not become smaller: {} bytes in {segments}",
                    ran.outcome.bytes
                );
            });
        }
    });
}

fn shrink_in_silence(network: &Network) {
    network.at(Duration::from_millis(700));
    network.black_hole(1200);
}

#[test]
fn the_path_mtu_shrinks_and_nobody_says_so() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("path MTU 1500 to 1200, untold")
            // RFC 4821: after some timeouts the sender tries smaller segments.
            .sysctl("sender", "net.ipv4.tcp_mtu_probing", "1")
            .sysctl("sender", "net.ipv4.tcp_retries1", "2");
        case.during = shrink_in_silence;
        case.seconds = 4.0;
        case.timeouts = 4;
        case.need = LOSS_RECOVERY;
        for (ran, _) in matrix(&case) {
            exactly(|| {
                // The transfer stalled, and then it continued.
                assert!(
                    ran.stall() > Duration::from_millis(200),
                    "{:?}",
                    ran.stall()
                );
                let last = ran.progress.last().expect("progress").1;
                let before = ran.bytes_at(ran.stalled_at());
                assert!(last > before, "{before} of {last} bytes came before it");
            });
        }
    });
}
