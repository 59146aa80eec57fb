//! `ackwise up --up MIN..MAX`: a rate that is measured, on a kernel with cake, in virtual time.

mod common;
mod uplink;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ackwise_testbed::in_virtual_time;
use ackwise_testbed::program::{must, until};
use common::ACKWISE;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use uplink::{Measured, Uplink, near, quantile, upload};

/// A running `ackwise up`; killed when dropped.
struct Up {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Up {
    fn start(args: &[&str]) -> Self {
        let mut child = near(ACKWISE.path())
            .args(["--format", "json", "up", "up0", "--router"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut up = Self { child, out };
        assert_eq!(up.next()["event"], "up");
        up
    }

    /// The next event that it prints.
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn end(mut self) -> Value {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).unwrap();
        loop {
            let event = self.next();
            if event["event"] == "down" {
                assert!(self.child.wait().unwrap().success());
                return event;
            }
        }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `ackwise status` says about the rate.
fn status() -> Value {
    let out = near(ACKWISE.path())
        .args(["--format", "json", "status", "up0"])
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let shown: Value = serde_json::from_slice(&out.stdout).unwrap();
    shown["attachments"][0]["stats"]["measured_rate"].clone()
}

fn rate_now() -> u64 {
    status()["rate_bps"].as_u64().unwrap()
}

fn queue() -> String {
    must("tc -n near qdisc show dev up0")
}

fn row(name: &str, measured: &Measured) -> String {
    let [m, s] = [&measured.modem_ms, &measured.sparse_ms];
    format!(
        "{name}: utilisation {:.3}; modem {:.1} {:.1} {:.1} ms; sparse {:.1} {:.1} {:.1} ms",
        measured.utilisation,
        quantile(m, 0.5),
        quantile(m, 0.95),
        quantile(m, 0.99),
        quantile(s, 0.5),
        quantile(s, 0.95),
        quantile(s, 0.99)
    )
}

/// 6, 1.5 and 6 Mbit/s, for eight seconds each.
#[test]
fn it_follows_a_link_that_changes() {
    in_virtual_time(|| {
        let mut uplink = Uplink::new(6_000_000, 500_000);
        let before = queue();
        let up = Up::start(&["--up", "300kbit..20mbit"]);
        assert_eq!(rate_now(), 20_000_000);
        let rates = [6_000_000, 1_500_000, 6_000_000];
        let each: Vec<u64> = rates.iter().flat_map(|rate| [*rate; 80]).collect();
        let mut seen = Vec::new();
        let measured = uplink.measure(&each, 20, 2, |index, rate| {
            if index % 80 >= 60 {
                seen.push((rate, rate_now()));
            }
        });
        println!("{}", row("measured", &measured));
        // The last two seconds of each rate: at single moments it may be far above, and takes that back.
        for phase in seen.chunks(20) {
            let mut parts: Vec<f64> = phase
                .iter()
                .map(|(link, rate)| *rate as f64 / *link as f64)
                .collect();
            parts.sort_by(f64::total_cmp);
            let half = quantile(&parts, 0.5);
            assert!((0.9..1.1).contains(&half), "{parts:?}");
        }
        assert!(measured.utilisation > 0.85, "{measured:?}");
        assert!(quantile(&measured.modem_ms, 0.5) < 60.0);
        assert!(queue().contains("cake ac40:"));
        let last = up.end();
        let shown = &last["stats"]["measured_rate"];
        assert!(shown["changes"].as_u64().unwrap() > 10, "{last}");
        assert_eq!(queue(), before);
    });
}

/// An `ackwise up` and uploads for some seconds, then something happens; returns why the rate is not measured any
/// more.
fn halted(happens: impl FnOnce(&Up)) -> String {
    let _uplink = Uplink::new(6_000_000, 100_000);
    let mut up = Up::start(&["--up", "300kbit..20mbit"]);
    let end = Arc::new(AtomicBool::new(false));
    let upload = upload(5000, &end);
    std::thread::sleep(Duration::from_secs(5));
    happens(&up);
    let event = up.next();
    assert_eq!(event["event"], "rate-halted", "{event}");
    let shown = status()["state"].clone();
    assert_eq!(shown["halted"], event["why"], "{shown}");
    let queue_then = queue();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(queue(), queue_then, "it went on");
    end.store(true, Ordering::Relaxed);
    upload.join().unwrap();
    event["why"].as_str().unwrap().to_owned()
}

#[test]
fn a_rate_that_somebody_else_sets_stays() {
    in_virtual_time(|| {
        let why = halted(|_| {
            must("tc -n near qdisc change dev up0 root handle ac40: cake bandwidth 2222kbit");
        });
        assert_eq!(why, "rate-changed");
    });
}

#[test]
fn a_queue_that_somebody_else_sets_stays() {
    in_virtual_time(|| {
        let why = halted(|_| {
            must("tc -n near qdisc replace dev up0 root handle 7: pfifo limit 77");
        });
        assert_eq!(why, "replaced");
    });
}

#[test]
fn without_who_sets_it_the_last_rate_stays() {
    in_virtual_time(|| {
        let why = halted(|up| {
            let guard = must(&format!("pgrep -P {} ackwise-guard", up.child.id()));
            kill(
                Pid::from_raw(guard.trim().parse().unwrap()),
                Signal::SIGKILL,
            )
            .unwrap();
        });
        assert_eq!(why, "refused");
    });
}

/// A line without load tells nothing.
#[test]
fn without_load_the_rate_stays() {
    in_virtual_time(|| {
        let _uplink = Uplink::new(6_000_000, 100_000);
        let up = Up::start(&["--up", "300kbit..20mbit"]);
        std::thread::sleep(Duration::from_secs(10));
        assert_eq!(rate_now(), 20_000_000);
        assert_eq!(status()["state"], "blind");
        up.end();
    });
}

/// Somebody who dies does not come to take the rate back: the guard does.
#[test]
fn what_is_killed_leaves_the_queue_that_was_there() {
    in_virtual_time(|| {
        let mut uplink = Uplink::new(6_000_000, 100_000);
        let before = queue();
        let mut up = Up::start(&["--up", "300kbit..20mbit"]);
        uplink.measure(&[6_000_000; 50], 20, 1, |_, _| {});
        assert!(rate_now() < 7_000_000);
        up.child.kill().unwrap();
        up.child.wait().unwrap();
        until("the queue", || (queue() == before).then_some(()));
    });
}
