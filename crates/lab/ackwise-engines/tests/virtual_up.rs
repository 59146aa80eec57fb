//! `ackwise up` on a router before a link, in virtual time.
//!
//! Needs the program `ackwise` beside these tests' directory, which a build of the workspace makes.

mod virtual_harness;

use ackwise_engines::live::RunOptions;
use ackwise_engines::virt::{self, VirtualOptions};
use ackwise_scenario::Scenario;
use ackwise_scenario::record::Run;
use virtual_harness::{BASELINE, lock_tests, of, options, run};

/// Two downloads and an upload over a thin uplink with a deep queue; `arms` come last.
fn household(arms: &str) -> Scenario {
    let text = format!(
        r#"
[scenario]
name = "virtual-up"
duration = "8 s"
[[node]]
name = "server"
[[node]]
name = "client"
[[link]]
name = "wan"
between = ["server", "client"]
forward = {{ rate = "20 Mbit/s", delay = "15 ms", queue = "128 KiB" }}
reverse = {{ rate = "300 kbit/s", delay = "15 ms", queue = "64 KiB" }}
[[flow]]
name = "download"
from = "server"
to = "client"
app = "bulk"
connections = 2
[[flow]]
name = "upload"
from = "client"
to = "server"
app = "bulk"
{arms}
"#
    );
    Scenario::parse("virtual-up.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

const UP: &str = "[[arm]]\nname = \"up\"\nchange = { \"link.wan.reverse.by\" = \"up\" }\n";

#[test]
fn the_command_shapes_and_thins_before_the_link() {
    let _lock = lock_tests();
    let report = run(&household(&[BASELINE, UP].concat()));
    let (nothing, up) = (of(&report, "baseline"), of(&report, "up"));
    assert!(nothing.datapath.is_none());
    let counters = &up.datapath.as_ref().unwrap()["wan.reverse.router/wan"];
    assert!(
        counters["packets_saved"].as_u64().unwrap() > 100,
        "{counters}"
    );
    // It is the uplink of a router: nothing there is a socket's.
    assert_eq!(counters["position"], "router", "{counters}");
    let of_flow = |run: &Run, name: &str| {
        let flow = run.flows.iter().find(|flow| flow.flow == name).unwrap();
        assert!(flow.traffic.content.as_ref().unwrap().ok, "{name}");
        flow.traffic.goodput_bps
    };
    // Both count the same wire, behind the router.
    let per_ack = |run: &Run| run.totals.data_segments as f64 / run.totals.acks_on_wire as f64;
    let (few, many) = (per_ack(nothing), per_ack(up));
    assert!(many > 1.5 * few, "{many} and {few} segments an ACK");
    let (before, after) = (of_flow(nothing, "download"), of_flow(up, "download"));
    assert!(after > 2.0 * before, "{before} and {after}");
    let uploaded = of_flow(up, "upload");
    assert!(uploaded > 0.4 * 300e3, "{uploaded}");
    // Packets queue in its cake, and hardly in the link's queue behind it.
    let waiting = |run: &Run| {
        let queue = run.queues.iter().find(|queue| queue.name == "wan.reverse");
        queue.unwrap().max_packets.unwrap()
    };
    assert!(waiting(nothing) > 40, "{}", waiting(nothing));
    assert!(waiting(up) <= 2, "{}", waiting(up));
}

#[test]
fn it_repeats_itself() {
    let _lock = lock_tests();
    let scenario = household(&[BASELINE, UP].concat());
    let (once, again) = (run(&scenario), run(&scenario));
    assert_eq!(once.to_json().unwrap(), again.to_json().unwrap());
}

#[test]
fn both_ends_of_a_link_may_have_one() {
    let _lock = lock_tests();
    let arms = [
        BASELINE,
        "[[arm]]\nname = \"both\"\nchange = { \"link.wan.forward.by\" = \"up\", \"link.wan.reverse.by\" = \"up\", \
         \"flow.download.socket.ip\" = 6, \"flow.upload.socket.ip\" = 6 }\n",
    ];
    let report = run(&household(&arms.concat()));
    let both = of(&report, "both");
    let places = both.datapath.as_ref().unwrap().as_object().unwrap();
    let names: Vec<_> = places.keys().collect();
    assert_eq!(names, ["wan.forward.router/wan", "wan.reverse.router/wan"]);
    assert!(
        places
            .values()
            .all(|it| it["packets_saved"].as_u64() > Some(0)),
        "{places:?}"
    );
    assert!(both.totals.content.as_ref().unwrap().ok);
}

#[test]
fn without_the_program_nothing_runs() {
    let nowhere = VirtualOptions {
        run: RunOptions {
            ackwise: Some("/nowhere/ackwise".into()),
            ..RunOptions::default()
        },
        ..options()
    };
    let refused = |arms: &[&str]| virt::check(&household(&arms.concat()), &nowhere);
    assert!(refused(&[BASELINE]).is_ok());
    let text = refused(&[BASELINE, UP]).unwrap_err().to_string();
    assert!(text.contains("/nowhere/ackwise is none"), "{text}");
    assert!(text.contains("install it"), "{text}");
}

#[test]
fn a_policy_on_the_same_interface_is_refused() {
    let both = "[[arm]]\nname = \"both\"\npolicy = \"adaptive\"\nat = \"client\"\nlink = \"wan\"\n\
                change = { \"link.wan.reverse.by\" = \"up\" }\n";
    let scenario = household(&[BASELINE, both].concat());
    let refused = virt::check(&scenario, &options()).unwrap_err();
    assert!(refused.is_bad_input(), "{refused}");
    let text = refused.to_string();
    assert!(text.starts_with("virtual-up.toml:29:"), "{text}");
    assert!(text.contains("leave out this policy, or 'by'"), "{text}");
}
