//! `ackwise probe` and its partner, each in its own namespace.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use ackwise_testbed::program::root;
use common::{ACKWISE, Net};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A partner that ends with the test.
struct Partner(Child);

impl Drop for Partner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Partner {
    /// Starts a partner; returns when clients may connect.
    fn start(mut command: Command) -> Self {
        let mut child = command
            .args(["--format", "json", "probe", "--serve"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let partner = Self(child);
        let serving: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(serving["event"], "serving");
        assert_eq!(serving["flows"], 9480);
        partner
    }

    /// The capabilities that the partner still has.
    fn rights(&self) -> String {
        let path = format!("/proc/{}/status", self.0.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("CapPrm:"));
        line.unwrap().trim().to_owned()
    }
}

/// Both ends run in their sandboxes. The library's tests in virtual time prove what is found about
/// a path.
#[test]
fn two_programs_probe_a_path() {
    root();
    let net = Net::new();
    let partner = Partner::start(net.in_sender(ACKWISE.path()));
    assert_eq!(partner.rights().trim_start_matches('0'), "");
    for host in ["10.9.0.1", "no-such-host.invalid"] {
        let ended = net.run(&["--format", "json", "probe", host]);
        if host != "10.9.0.1" {
            assert_eq!(ended.code, 1);
            assert!(ended.err.contains("the name is right"), "{}", ended.err);
            continue;
        }
        assert_eq!(ended.code, 0, "{}", ended.err);
        let report: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(report["partner"], "10.9.0.1");
        let directions = report["directions"].as_array().unwrap();
        assert_eq!(directions.len(), 2);
        for direction in directions {
            let phases = direction["phases"].as_array().unwrap();
            assert_eq!(phases.len(), 8, "{direction}");
            let acks: u64 = phases.iter().map(|it| it["acks"].as_u64().unwrap()).sum();
            assert!(acks > 1000, "{direction}");
        }
    }
}

/// Guide and manual promise 0 after a signal.
#[test]
fn a_signal_ends_a_partner_well() {
    root();
    let net = Net::new();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut partner = Partner::start(net.in_sender(ACKWISE.path()));
        kill(Pid::from_raw(partner.0.id() as i32), signal).unwrap();
        assert_eq!(partner.0.wait().unwrap().code(), Some(0), "{signal}");
    }
}

#[test]
fn arguments_that_exclude_each_other_are_refused() {
    ACKWISE.refuses(&["probe"], &["HOST", "--serve"]);
    ACKWISE.refuses(&["probe", "--serve", "somebody"], &["cannot be used with"]);
    ACKWISE.refuses(
        &["probe", "somebody", "--port", "65535"],
        &["65535", "65534"],
    );
    ACKWISE.refuses(&["probe", "somebody", "--rate", "fast"], &["fast"]);
    // Refused before anything is resolved.
    ACKWISE.refuses(
        &["probe", "somebody", "--rate", "300kbit"],
        &["--rate", "313kbit"],
    );
}

/// An impossible partner, or address to listen on, is reported before anything is resolved.
#[test]
fn hosts_and_addresses_that_cannot_be_are_refused() {
    ACKWISE.refuses(&["probe", ""], &["HOST is empty", "name the partner"]);
    ACKWISE.refuses(
        &["probe", "10.77.2.2:9479"],
        &[
            "HOST \"10.77.2.2:9479\"",
            "`ackwise probe 10.77.2.2 --port 9479`",
        ],
    );
    ACKWISE.refuses(
        &["probe", "[2001:db8::7]:9479"],
        &["`ackwise probe 2001:db8::7 --port 9479`"],
    );
    // Addresses for documentation (RFC 5737, RFC 3849).
    for address in ["192.0.2.9", "2001:db8::9"] {
        ACKWISE.refuses(
            &["probe", "--serve", "--listen", address],
            &[
                &format!("--listen {address}: no interface of this host"),
                "`ip address`",
            ],
        );
    }
    ACKWISE.refuses(
        &["probe", "--serve", "--listen", "fe80::1"],
        &[
            "--listen fe80::1: a link-local address",
            "leave --listen out",
        ],
    );
    // An IPv6 address is a valid host, and nobody serves there.
    let ended = ACKWISE.run(&["probe", "::1", "--port", "1"]);
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(ended.err.contains("::1, port 1: "), "{}", ended.err);
}
