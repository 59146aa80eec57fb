//! Tests that faults are recorded, that runs end, and that nothing is left behind.

mod common;

use std::io::{BufRead, BufReader};
use std::panic::catch_unwind;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ackwise_engines::LabError;
use ackwise_engines::live::{self, Event, Incident, Progress, RunOptions};
use ackwise_engines::netns;
use ackwise_engines::topology::{LinkBackend, Topology};
use ackwise_engines::traffic::Behaviour;
use common::{
    BULK, CHILD, assert_sound, lock_tests, mine, myself, of_process, only, run_with, two_hosts,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const LINK: &str = r#"both = { rate = "20 Mbit/s", delay = "10 ms" }"#;

fn behaving(behaviour: Behaviour) -> RunOptions {
    RunOptions {
        behaviour: vec![("bulk".to_owned(), behaviour)],
        ..RunOptions::default()
    }
}

#[test]
fn a_reader_that_pauses_closes_the_window_and_loses_nothing() {
    let _lock = lock_tests();
    let flow = format!("{BULK} bytes = \"4 MB\"\n[flow.socket]\nreceive_buffer = \"64 KiB\"");
    let options = behaving(Behaviour::ReceiverPause {
        after: Duration::from_millis(300),
        lasting: Duration::from_secs(2),
    });
    let run = only(run_with(&two_hosts("60 s", LINK, &flow), &options));
    assert_sound(&run, 20e6, 20_000.0);
    assert_eq!(run.totals.bytes, 4_000_000);
    assert!(run.totals.duration_s > 2.0, "it paused for two seconds");
    assert!(run.totals.acks.unwrap().window_update > 0);
}

#[test]
fn a_slow_reader_slows_the_sender() {
    let _lock = lock_tests();
    let flow = format!("{BULK} bytes = \"1 MB\"\n[flow.socket]\nreceive_buffer = \"64 KiB\"");
    let options = behaving(Behaviour::SlowReader {
        bytes_per_s: 500_000,
    });
    let run = only(run_with(&two_hosts("60 s", LINK, &flow), &options));
    assert_sound(&run, 5e6, 20_000.0);
}

#[test]
fn a_sender_that_pauses_goes_on() {
    let _lock = lock_tests();
    let flow = format!("{BULK} bytes = \"2 MB\"");
    let options = behaving(Behaviour::SenderPause {
        after: Duration::from_millis(300),
        lasting: Duration::from_secs(1),
    });
    let run = only(run_with(&two_hosts("60 s", LINK, &flow), &options));
    assert_sound(&run, 20e6, 20_000.0);
    assert!(run.totals.duration_s > 1.0);
}

#[test]
fn a_path_mtu_that_shrinks_silently_ends_in_a_recorded_error_or_in_smaller_segments() {
    let _lock = lock_tests();
    let text = format!("{LINK}\n");
    let flow = format!("{BULK} bytes = \"8 MB\"");
    let mut scenario = two_hosts("4 s", &text, &flow);
    // Find smaller segments after two timeouts (RFC 4821), like most hosts.
    for node in [
        "[[node]]\n            name = \"sender\"",
        "[[node]]\n            name = \"receiver\"",
    ] {
        let with =
            format!("{node}\n            sysctl = {{ \"net.ipv4.tcp_mtu_probing\" = \"1\" }}");
        let text = scenario.source.text.replace(node, &with);
        scenario = ackwise_scenario::Scenario::parse("lab-test.toml", &text)
            .unwrap_or_else(|error| panic!("{error}"));
    }
    let options = RunOptions {
        incidents: vec![Incident {
            after: Duration::from_secs(1),
            what: Event::PathMtu {
                link: "wan".to_owned(),
                mtu: 1000,
            },
        }],
        ..RunOptions::default()
    };
    let began = Instant::now();
    let run = only(run_with(&scenario, &options));
    assert!(began.elapsed() < Duration::from_secs(80));
    let content = run.totals.content.as_ref().unwrap();
    assert!(content.ok || !run.errors.is_empty(), "{run:?}");
    assert!(run.totals.retransmits > 0);
}

#[test]
fn an_interface_that_vanishes_is_an_error_and_not_a_hang() {
    let _lock = lock_tests();
    let options = RunOptions {
        incidents: vec![Incident {
            after: Duration::from_secs(1),
            what: Event::DeleteInterface {
                link: "wan".to_owned(),
                node: "receiver".to_owned(),
            },
        }],
        ..RunOptions::default()
    };
    let began = Instant::now();
    let run = only(run_with(&two_hosts("2 s", LINK, BULK), &options));
    assert!(
        began.elapsed() < Duration::from_secs(90),
        "the run ends within its time limit"
    );
    assert!(!run.errors.is_empty());
    assert!(!run.totals.content.as_ref().unwrap().ok);
}

#[test]
fn a_killed_program_is_a_recorded_error() {
    let _lock = lock_tests();
    let flow = r#"
        [[flow]]
        name = "bulk"
        from = "sender"
        to = "receiver"
        app = "iperf3"
    "#;
    let options = behaving(Behaviour::KillSender {
        after: Duration::from_secs(1),
    });
    let run = only(run_with(&two_hosts("5 s", LINK, flow), &options));
    assert!(
        run.errors.iter().any(|error| error.contains("iperf3")),
        "{:?}",
        run.errors
    );
}

#[test]
fn too_short_a_time_is_said() {
    let _lock = lock_tests();
    let flow = format!("{BULK} bytes = \"50 MB\"");
    let run = only(run_with(
        &two_hosts("1 s", LINK, &flow),
        &RunOptions::default(),
    ));
    assert!(
        run.errors.iter().any(|error| error.contains("`duration`")),
        "{:?}",
        run.errors
    );
}

#[test]
fn cancelling_keeps_the_runs_that_are_finished() {
    let _lock = lock_tests();
    let text = two_hosts("1 s", LINK, BULK)
        .source
        .text
        .replace("cc = [\"cubic\"]", "cc = [\"cubic\", \"reno\", \"bbr\"]");
    let scenario = ackwise_scenario::Scenario::parse("lab-test.toml", &text)
        .unwrap_or_else(|error| panic!("{error}"));
    let options = RunOptions::default();
    let report = live::run(&scenario, &options, &mut |progress| {
        if let Progress::Running { .. } = progress {
            return;
        }
        if let Progress::Started { index: 1, .. } = progress {
            options
                .cancel
                .store(true, std::sync::atomic::Ordering::Relaxed);
        }
    })
    .unwrap();
    assert_eq!(report.runs.len(), 1);
    assert!(
        report.notes.iter().any(|note| note.contains("1 of 3")),
        "{:?}",
        report.notes
    );
    assert_eq!(mine(), Vec::<String>::new());
}

#[test]
fn an_observer_that_panics_ends_the_run_and_leaves_nothing() {
    let _lock = lock_tests();
    let scenario = two_hosts("60 s", LINK, BULK);
    let began = Instant::now();
    let panicked = catch_unwind(|| {
        live::run(&scenario, &RunOptions::default(), &mut |progress| {
            if let Progress::Running { .. } = progress {
                panic!("on purpose");
            }
        })
    });
    assert!(panicked.is_err());
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "it must not wait for the 60 s of the run"
    );
    assert_eq!(mine(), Vec::<String>::new());
}

#[test]
fn a_panic_leaves_nothing() {
    let _lock = lock_tests();
    let scenario = two_hosts("1 s", LINK, BULK);
    let panicked = catch_unwind(|| {
        let topology = Topology::build(&scenario, LinkBackend::Emulator).unwrap();
        assert_eq!(topology.namespaces.len(), 2);
        assert_eq!(mine().len(), 2);
        panic!("on purpose");
    });
    assert!(panicked.is_err());
    assert_eq!(mine(), Vec::<String>::new());
}

#[test]
fn what_cannot_be_built_is_said_and_leaves_nothing() {
    let _lock = lock_tests();
    let text = two_hosts("1 s", LINK, BULK).source.text.replace(
        "name = \"receiver\"",
        "name = \"receiver\"\nsysctl = { \"net.ipv4.tcp_no_such\" = \"1\" }",
    );
    let scenario = ackwise_scenario::Scenario::parse("lab-test.toml", &text)
        .unwrap_or_else(|error| panic!("{error}"));
    let error = live::run(&scenario, &RunOptions::default(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("tcp_no_such"), "{error}");
    assert!(error.to_string().contains("receiver"), "{error}");
    assert_eq!(mine(), Vec::<String>::new());
}

#[test]
fn an_unknown_congestion_control_is_refused_with_a_way_out() {
    let _lock = lock_tests();
    let text = two_hosts("1 s", LINK, BULK)
        .source
        .text
        .replace("cc = [\"cubic\"]", "cc = [\"no-such-cc\"]");
    let scenario = ackwise_scenario::Scenario::parse("lab-test.toml", &text)
        .unwrap_or_else(|error| panic!("{error}"));
    let error = live::run(&scenario, &RunOptions::default(), &mut |_| {}).unwrap_err();
    assert!(matches!(error, LabError::Missing { .. }));
    let text = error.to_string();
    assert!(
        text.contains("no-such-cc") && text.contains("modprobe"),
        "{text}"
    );
}

/// Runs in a separate process until it is told to stop.
fn long_run_as_child() {
    let cancel = live::cancel_on_signals().unwrap();
    let options = RunOptions {
        cancel,
        ..RunOptions::default()
    };
    let report = live::run(&two_hosts("60 s", LINK, BULK), &options, &mut |progress| {
        if let Progress::Running { .. } = progress {
            println!("traffic flows");
        }
    })
    .unwrap();
    println!("finished {} runs", report.runs.len());
}

/// A process that does not outlive the test.
struct Guarded(std::process::Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // It has usually ended and been reaped already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts this test as a separate process, and waits until its traffic flows.
fn start_child(test: &str) -> Guarded {
    let mut child = Guarded(myself(test).stdout(Stdio::piped()).spawn().unwrap());
    let output = BufReader::new(child.0.stdout.take().unwrap());
    let mut lines = output.lines();
    let flows = lines.any(|line| line.unwrap().contains("traffic flows"));
    assert!(flows, "the child ended early");
    // Keeps reading, so that the child never blocks on its output.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

#[test]
fn an_interrupt_ends_the_run_and_leaves_nothing() {
    if std::env::var_os(CHILD).is_some() {
        return long_run_as_child();
    }
    let _lock = lock_tests();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut child = start_child("an_interrupt_ends_the_run_and_leaves_nothing");
        let pid = child.0.id();
        assert_eq!(of_process(pid).len(), 2);
        kill(Pid::from_raw(pid as i32), signal).unwrap();
        let cancelled_at = Instant::now();
        let status = child.0.wait().unwrap();
        assert!(status.success(), "{status}");
        assert!(
            cancelled_at.elapsed() < Duration::from_secs(20),
            "it must not wait for the 60 s of the run"
        );
        assert_eq!(of_process(pid), Vec::<String>::new());
    }
}

#[test]
fn what_a_killed_process_leaves_can_be_removed() {
    if std::env::var_os(CHILD).is_some() {
        return long_run_as_child();
    }
    let _lock = lock_tests();
    let mut child = start_child("what_a_killed_process_leaves_can_be_removed");
    let pid = child.0.id();
    let names = of_process(pid);
    assert_eq!(names.len(), 2);
    assert!(
        netns::remove_leftovers()
            .unwrap()
            .iter()
            .all(|name| !names.contains(name)),
        "it lives"
    );
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    let removed = netns::remove_leftovers().unwrap();
    assert!(
        names.iter().all(|name| removed.contains(name)),
        "{removed:?}"
    );
    assert_eq!(of_process(pid), Vec::<String>::new());
}
