//! `ackwise ab` on a veth between two namespaces, with a continuous download.

mod common;

use std::process::{Command, Stdio};

use ackwise_testbed::program::{Ended, root, until};
use common::Net;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A program that is killed at the end of the test.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn silent(mut command: Command) -> Running {
    command.stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().unwrap())
}

/// A download at a steady rate.
const STEADY: &str = "-b 20M -l 1448";
/// A download of a few segments per round trip. A policy that waits for more segments than there
/// are slows it down to the length of its holds.
const SMALL_WINDOW: &str = "-w 16K";

/// A download that lasts longer than any test.
fn download(net: &Net, how: &str) -> [Running; 2] {
    let mut server = net.in_sender("iperf3");
    server.arg("-s");
    let server = silent(server);
    let mut client = net.in_receiver("sh");
    // The server may need a moment before it listens. It writes single segments: large blocks would
    // arrive at once, and get one ACK.
    let command = format!("until iperf3 -c 10.9.0.1 -R {how} -t 600; do sleep 0.1; done");
    client.args(["-c", &command]);
    let client = silent(client);
    until("a connection", || {
        let out = net.in_receiver("ss").arg("-tnH").output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        (text.matches("ESTAB").count() >= 2).then_some(())
    });
    [server, client]
}

fn of_kind(report: &Value, policy: &str, key: &str) -> Vec<f64> {
    let blocks = report["blocks"].as_array().unwrap().iter();
    let blocks = blocks.filter(|block| block["policy"] == policy);
    let mut values: Vec<_> = blocks.map(|block| block[key].as_f64().unwrap()).collect();
    values.sort_by(f64::total_cmp);
    values
}

#[test]
fn it_turns_the_policy_on_and_off_and_says_what_that_changed() {
    root();
    let net = Net::new();
    let _download = download(&net, STEADY);
    let page = tempfile::NamedTempFile::new().unwrap();
    let Ended { code, out, err } = net.run(&[
        "--format",
        "json",
        "ab",
        &net.iface,
        "--policy",
        "every-n",
        "--set",
        "n=8",
        "--block",
        "1s",
        "--pairs",
        "6",
        "--seed",
        "3",
        "--html",
        page.path().to_str().unwrap(),
    ]);
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    // The coin is determined by this seed.
    assert_eq!(report["setup"]["seed"], 3);
    assert_eq!(report["blocks"].as_array().unwrap().len(), 12, "{out}");
    // How many ACKs there are depends on the machine; that the policy is off does not.
    let (on, off) = (
        of_kind(&report, "on", "withheld_per_s"),
        of_kind(&report, "off", "withheld_per_s"),
    );
    assert_eq!((on.len(), off.len()), (6, 6));
    assert_eq!(off[5], 0.0, "{off:?}");
    assert!(on[5] > 0.0, "{on:?}");
    let data = of_kind(&report, "on", "data_bytes_per_s");
    assert!(data[5] > 0.0, "{data:?}");
    for key in [
        "rtt_ms",
        "cpu_share",
        "queue_bytes",
        "retransmissions_per_s",
    ] {
        assert!(report["blocks"][0][key].is_number(), "no {key}: {out}");
    }
    assert_eq!(report["effects"][3]["metric"], "ACKs");
    // Six pairs cannot decide at this error.
    assert_eq!(report["verdict"], "undecided");
    // One line per pair, and a page.
    assert_eq!(err.matches(" of 6 pairs").count(), 6, "{err}");
    let page = std::fs::read_to_string(page.path()).unwrap();
    for part in ["Does every-n", "Raw blocks", "<svg", "</html>"] {
        assert!(page.contains(part), "no {part}");
    }
    assert_eq!(net.programs(), 0);
}

/// This policy holds every ACK for as long as permitted.
const HARMFUL: [&str; 6] = ["--policy", "every-n", "--set", "n=32", "--set", "warm=0"];

#[test]
fn a_policy_that_harms_ends_at_once() {
    root();
    let net = Net::new();
    let _download = download(&net, SMALL_WINDOW);
    let args = ["--format", "json", "ab", &net.iface, "--block", "1s"];
    let Ended { code, out, err } = net.run(&[&args[..], &HARMFUL].concat());
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["verdict"], "harms", "{err}");
    assert_eq!(report["ended"], "ended at once, since it harms");
    // Either the data decreased or their round-trip time increased, whichever is found first.
    let worse = |effect: &Value| {
        let bound = |key: &str| effect[key].as_f64();
        match effect["metric"].as_str() {
            Some("RTT") => bound("low").is_some_and(|low| low > 1.0),
            _ => bound("high").is_some_and(|high| high < 1.0),
        }
    };
    let judged = &report["effects"].as_array().unwrap()[..3];
    assert!(judged.iter().any(worse), "{judged:?}");
    assert_eq!(net.programs(), 0);
}

#[test]
fn a_guard_leaves_a_policy_off_that_harms() {
    root();
    let net = Net::new();
    let _download = download(&net, SMALL_WINDOW);
    let mut attached = net.attach(&[&HARMFUL[..], &["--guard=1s", "--guard-block", "1s"]].concat());
    let event = attached.next_event();
    assert_eq!(event["event"], "harms", "{event}");
    let status = || {
        let shown = net.run(&["--format", "json", "status", &net.iface]);
        let shown: Value = serde_json::from_str(&shown.out).unwrap();
        let stats = &shown["attachments"][0]["stats"];
        assert_eq!(stats["paused"], true, "{stats}");
        stats["withheld"].as_u64().unwrap()
    };
    // Wait for longer than a block: the policy stays off.
    let withheld = status();
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    assert_eq!(status(), withheld, "it still withholds");
    let text = net.run(&["status", &net.iface]).out;
    assert!(text.contains("paused: every ACK passes"), "{text}");
    attached.signal(Signal::SIGTERM);
    let ended = attached.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    assert!(ended.err.contains("harms on this line"), "{}", ended.err);
    assert_eq!(net.programs(), 0);
}

#[test]
fn a_signal_ends_it_with_what_is_known() {
    root();
    let net = Net::new();
    let _download = download(&net, STEADY);
    let child = net
        .in_receiver(common::ACKWISE.path())
        .args(["ab", &net.iface, "--policy", "none", "--block", "1s"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the experiment", || (net.programs() > 0).then_some(()));
    std::thread::sleep(std::time::Duration::from_secs(3));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let ended = Ended::of(&child.wait_with_output().unwrap());
    assert_eq!(ended.code, 0, "{}", ended.err);
    for part in ["Not known yet", "ended by SIGINT", "without", "RTT"] {
        assert!(ended.out.contains(part), "no {part} in {}", ended.out);
    }
    assert_eq!(net.programs(), 0);
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_attached() {
    root();
    let net = Net::new();
    for (args, says) in [
        (&["--block", "500ms"][..], "leaves no time"),
        (&["--block", "2s", "--wash-out", "2s"], "leaves no time"),
        (&["--error", "0"], "above 0"),
        (&["--difference", "60%"], "at most a half"),
        (&["--pairs", "0"], "1..=2000"),
        (&["--block", "soon"], "--block"),
        (&["--policy", "nosuch"], "nosuch"),
    ] {
        let Ended { code, out, err } = net.run(&[&["ab", &net.iface][..], args].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(says), "{args:?}: {err}");
    }
    let Ended { code, err, .. } = net.run(&["ab", "nosuch0"]);
    assert_eq!(code, 2, "{err}");
}

/// An experiment that did not start leaves no empty page, and an existing page stays.
#[test]
fn a_page_is_made_by_an_experiment_only() {
    root();
    let net = Net::new();
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("ab.html");
    let html = page.to_str().unwrap();
    let attached = net.attach(&["--dry-run"]);
    let refused: [(&[&str], i32); 4] = [
        (&["ab", "nosuch0"], 2),
        (&["ab", "lo", "--policy", "nosuch"], 2),
        // The last check before the start.
        (&["ab", "lo", "--user", "nosuchuser"], 2),
        // Somebody is attached there.
        (&["ab", &net.iface], 1),
    ];
    for (args, code) in refused {
        let args = [args, &["--html", html]].concat();
        let ended = net.run(&args);
        assert_eq!(ended.code, code, "{args:?}: {}", ended.err);
        assert!(!page.exists(), "{args:?} leaves a page");
        std::fs::write(&page, "another report").unwrap();
        assert_eq!(net.run(&args).code, code);
        let stays = std::fs::read_to_string(&page).unwrap();
        assert_eq!(stays, "another report", "{args:?}");
        std::fs::remove_file(&page).unwrap();
    }
    attached.signal(Signal::SIGTERM);
    assert_eq!(attached.end().status.code(), Some(0));

    let nowhere = directory.path().join("nosuch").join("ab.html");
    let Ended { code, err, .. } = net.run(&["ab", &net.iface, "--html", nowhere.to_str().unwrap()]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("cannot be written"), "{err}");
    assert_eq!(net.programs(), 0);
}
