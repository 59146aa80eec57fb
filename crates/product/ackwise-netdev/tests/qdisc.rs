//! Queue disciplines that are replaced and restored, on a kernel that has them.

use ackwise_netdev::clsact;
use ackwise_netdev::ifreq::index_of;
use ackwise_netdev::netlink::Netlink;
use ackwise_netdev::qdisc::{Cake, CakeFilter, Qdisc, Replaced, RestoreOutcome};
use ackwise_testbed::{Netns, in_virtual_time, run_command};

const CAKE: Cake = Cake {
    rate_bps: 5_000_000,
    overhead: Some(22),
    filter: CakeFilter::Aggressive,
};

/// Everything that is restored with its options, and options that the kernel would not choose.
const ROOTS: [&str; 10] = [
    "pfifo limit 77",
    "bfifo limit 9999",
    "pfifo_fast",
    "fq_codel limit 1234 target 7ms interval 143ms quantum 600 noecn",
    "fq_codel flows 512 target 777us interval 33333us ce_threshold 1111us memory_limit 1234567",
    "codel limit 55 target 3333us interval 77777us ce_threshold 999us noecn",
    "fq limit 4321 flow_limit 44 buckets 256 quantum 3333 initial_quantum 9999 maxrate 7mbit",
    "fq horizon 3s ce_threshold 3ms timer_slack 7000 low_rate_threshold 333kbit refill_delay 30ms",
    "sfq perturb 7 quantum 2000 limit 99 divisor 512 depth 33",
    "sfq limit 60 redflowlimit 60000 min 4000 max 12000 probability 0.2 ecn headdrop",
];

fn shown() -> String {
    run_command("tc", "qdisc show dev aw0")
}

/// Runs a test in a namespace with an interface `aw0`, whose index it gets.
fn at_aw0(test: impl FnOnce(u32, Netlink) + Send) {
    let (here, there) = (Netns::new(), Netns::new());
    here.wire("aw0", &there, "aw1");
    here.run(|| test(index_of("aw0").unwrap(), Netlink::open().unwrap()));
}

#[test]
fn what_is_put_back_is_what_was_there_however_often() {
    in_virtual_time(|| {
        at_aw0(|index, mut netlink| {
            assert!(netlink.has_cake(index).unwrap());
            for (number, root) in [None].into_iter().chain(ROOTS.map(Some)).enumerate() {
                if let Some(root) = root {
                    let set = format!("qdisc replace dev aw0 root handle {number}: {root}");
                    run_command("tc", &set);
                }
                let before = shown();
                // A time that comes back slightly shorter shows after several rounds.
                for _ in 0..20 {
                    let found = netlink.qdiscs(index).unwrap();
                    assert_eq!(found.len(), 1, "{found:?}");
                    let found = found.into_iter().find(Qdisc::is_root);
                    assert!(found.as_ref().is_some_and(Qdisc::is_restorable), "{root:?}");
                    netlink.replace_root_by_cake(index, &CAKE).unwrap();
                    let cake = shown();
                    for option in [
                        "cake ac40:",
                        "bandwidth 5Mbit",
                        "ack-filter-aggressive",
                        "overhead 22",
                        "diffserv4",
                    ] {
                        assert!(cake.contains(option), "no {option} in {cake}");
                    }
                    let replaced = Replaced { index, found };
                    assert_eq!(
                        replaced.restore(&mut netlink).unwrap(),
                        RestoreOutcome::Restored
                    );
                    assert_eq!(shown(), before);
                    // A second undo changes nothing.
                    assert_eq!(
                        replaced.restore(&mut netlink).unwrap(),
                        RestoreOutcome::NotOurs
                    );
                    assert_eq!(shown(), before);
                }
            }
        });
    });
}

#[test]
fn a_kernel_is_asked_for_cake_and_nothing_changes() {
    in_virtual_time(|| {
        let (here, there) = (Netns::new(), Netns::new());
        here.wire("aw0", &there, "aw1");
        here.run(|| {
            let index = index_of("aw0").unwrap();
            let before = shown();
            assert!(Netlink::open().unwrap().has_cake(index).unwrap());
            assert_eq!(shown(), before);
        });
        here.run_as_nobody(|| {
            let index = index_of("aw0").unwrap();
            let refused = Netlink::open().unwrap().has_cake(index).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
        });
    });
}

/// The round trip that cake assumes follows the rate, also when that is changed later.
#[test]
fn a_fast_cake_assumes_a_longer_round_trip() {
    in_virtual_time(|| {
        at_aw0(|index, mut netlink| {
            netlink.replace_root_by_cake(index, &CAKE).unwrap();
            assert!(shown().contains(" rtt 300ms "), "{}", shown());
            netlink.change_cake_rate(index, 1_900_000).unwrap();
            let slow = shown();
            assert!(
                slow.contains("bandwidth 1900Kbit") && slow.contains(" rtt 100ms "),
                "{slow}"
            );
            netlink.change_cake_rate(index, 2_000_000).unwrap();
            assert!(shown().contains(" rtt 300ms "), "{}", shown());
        });
    });
}

/// Nobody is warned of what is done already.
#[test]
fn a_clsact_that_someone_has_removed_needs_no_removal() {
    let (here, there) = (Netns::new(), Netns::new());
    here.wire("aw0", &there, "aw1");
    here.run(|| {
        let index = index_of("aw0").unwrap();
        assert!(clsact::add(index).unwrap());
        run_command("tc", "qdisc del dev aw0 clsact");
        clsact::remove_if_unused(index).unwrap();
    });
}
