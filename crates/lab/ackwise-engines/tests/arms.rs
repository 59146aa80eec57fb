//! Tests that arms are compared over the same wire.

mod common;

use std::fs;

use ackwise_engines::live::{self, Progress, RunOptions};
use ackwise_engines::topology::kernel_has_cake;
use ackwise_scenario::Scenario;
use common::{BULK, lock_tests, run_with, two_hosts};

fn with_arms(duration: &str, link: &str, arms: &str) -> Scenario {
    let mut text = two_hosts(duration, link, BULK).source.text;
    text.push_str(arms);
    Scenario::parse("lab-test.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

const EVERY_8: &str = r#"
    [[arm]]
    name = "every-8"
    policy = "every-n"
    at = "receiver"
    link = "wan"
    set = { n = 8 }
"#;

#[test]
fn a_policy_thins_what_crosses_the_wire_and_no_byte_is_lost() {
    let _lock = lock_tests();
    let scenario = with_arms(
        "4 s",
        r#"both = { rate = "20 Mbit/s", delay = "10 ms", queue = "200 packets" }"#,
        EVERY_8,
    );
    let report = run_with(&scenario, &RunOptions::default());
    let [baseline, thinned] = &report.runs[..] else {
        panic!("two runs, not {}", report.runs.len());
    };
    assert_eq!(
        (baseline.arm.as_str(), thinned.arm.as_str()),
        ("baseline", "every-8")
    );
    for run in [baseline, thinned] {
        assert_eq!(run.errors, Vec::<String>::new());
        assert!(run.totals.content.as_ref().unwrap().ok);
    }
    assert!(baseline.datapath.is_none());
    // The amount of thinning is judged in virtual time (`virtual_datapath`): on a busy machine,
    // ACKs pass while user space sends no heartbeat. Here, the saved ACKs must be missing on the
    // wire, where a run ends a moment before the counters are read.
    let counters = &thinned.datapath.as_ref().unwrap()["receiver/wan"];
    let counter = |name: &str| counters[name].as_u64().unwrap();
    assert!(counter("packets_saved") > 0, "{counters}");
    assert!(
        thinned.totals.acks_on_wire <= counter("acks") - counter("packets_saved"),
        "{} ACKs on the wire: {counters}",
        thinned.totals.acks_on_wire
    );
    assert!(report.environment.datapath.is_some());
}

#[test]
fn captures_show_what_was_counted() {
    let _lock = lock_tests();
    let directory = tempfile::tempdir().unwrap();
    let link = r#"both = { rate = "20 Mbit/s", delay = "5 ms" }"#;
    let text = with_arms("1 s", link, "[record]\ncapture = true")
        .source
        .text;
    let scenario =
        Scenario::parse("lab-test.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let options = RunOptions {
        capture_dir: Some(directory.path().to_owned()),
        ..RunOptions::default()
    };
    let run = common::only(run_with(&scenario, &options));
    assert_eq!(run.errors, Vec::<String>::new());
    let mut acks = 0;
    for node in ["sender", "receiver"] {
        let name = format!("lab-test-baseline-cubic-1-wan-{node}.pcap");
        let bytes = fs::read(directory.path().join(&name)).unwrap();
        assert_eq!(bytes[0..4], 0xa1b2_3c4d_u32.to_ne_bytes());
        let mut records = &bytes[24..];
        let mut count = 0;
        let mut before = 0;
        while !records.is_empty() {
            let field = |at: usize| u32::from_ne_bytes(records[at..at + 4].try_into().unwrap());
            let (kept, wire) = (field(8) as usize, field(12) as usize);
            let time = u64::from(field(0)) * 1_000_000_000 + u64::from(field(4));
            assert!(time >= before && kept <= wire);
            before = time;
            let segment = ackwise_engines::frame::parse(&records[16..16 + kept], wire);
            if segment.is_some_and(|segment| segment.is_ack_only() && segment.source == 5001) {
                count += 1;
            }
            records = &records[16 + kept..];
        }
        assert!(count > 0, "{name}");
        acks = acks.max(count);
    }
    // The receiver's capture has every ACK that was put on the wire.
    assert!(
        acks >= run.totals.acks_on_wire,
        "{acks} captured, {} counted",
        run.totals.acks_on_wire
    );
}

#[test]
fn an_unknown_policy_or_parameter_is_refused_where_it_stands() {
    let _lock = lock_tests();
    let link = r#"both = { rate = "20 Mbit/s", delay = "5 ms" }"#;
    for (wrong, right) in [
        ("every-m", "every-n"),
        ("set = { m = 8 }", "set = { n = 8 }"),
    ] {
        let scenario = with_arms("1 s", link, &EVERY_8.replace(right, wrong));
        let line = scenario
            .source
            .text
            .lines()
            .position(|line| line.contains(wrong))
            .unwrap()
            + 1;
        let error = live::run(&scenario, &RunOptions::default(), &mut |_| {}).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(&format!("lab-test.toml:{line}:")),
            "line {line}: {text}"
        );
    }
}

/// Here the links are emulated. In virtual time (`virtual_up`) they are the kernel's.
#[test]
fn ackwise_up_runs_on_a_router_before_the_link() {
    let _lock = lock_tests();
    let scenario = with_arms(
        "3 s",
        r#"
forward = { rate = "10 Mbit/s", delay = "10 ms", queue = "64 KiB" }
reverse = { rate = "300 kbit/s", delay = "10 ms", queue = "64 KiB" }"#,
        "[[arm]]\nname = \"up\"\nchange = { \"link.wan.reverse.by\" = \"up\" }\n",
    );
    let mut started = 0;
    let count = |progress: Progress<'_>, started: &mut usize| {
        *started += usize::from(matches!(progress, Progress::Started { .. }));
    };
    let ran = live::run(&scenario, &RunOptions::default(), &mut |it| {
        count(it, &mut started)
    });
    match ran {
        Ok(report) => {
            let up = report.runs.iter().find(|run| run.arm == "up").unwrap();
            assert_eq!(up.errors, Vec::<String>::new());
            assert!(up.totals.content.as_ref().unwrap().ok);
            let counters = &up.datapath.as_ref().unwrap()["wan.reverse.router/wan"];
            assert_eq!(counters["position"], "router", "{counters}");
            assert!(counters["acks"].as_u64() > Some(0), "{counters}");
        }
        Err(error) => {
            assert!(!kernel_has_cake().unwrap(), "{error}");
            assert!(error.to_string().contains("modprobe sch_cake"), "{error}");
            assert_eq!(started, 0);
        }
    }

    let refused = with_arms(
        "3 s",
        r#"reverse = { rate = "300 kbit/s" }"#,
        "[[arm]]\nname = \"both\"\npolicy = \"adaptive\"\nat = \"receiver\"\nlink = \"wan\"\n\
         change = { \"link.wan.reverse.by\" = \"up\" }\n",
    );
    started = 0;
    let ran = live::run(&refused, &RunOptions::default(), &mut |it| {
        count(it, &mut started)
    });
    let error = ran.unwrap_err();
    assert!(error.is_bad_input() && started == 0, "{error}");
}
