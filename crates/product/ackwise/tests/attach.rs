//! `attach`, `status` and `detach` on a veth between two namespaces, with real downloads.

mod common;

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

use ackwise_testbed::Netns;
use ackwise_testbed::program::{Ended, must, root, until};
use common::{ACKWISE, Detached, Net};
use nix::sys::signal::Signal;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(60);

/// The arguments of every attachment in this file, except `--dry-run`.
const EVERY_4: [&str; 6] = ["--policy", "every-n", "--set", "n=4", "--hold-ms", "20"];

fn status(net: &Net) -> Value {
    let Ended { code, out, err } = net.run(&["--format", "json", "status", &net.iface]);
    assert_eq!(code, 0, "{err}");
    let shown: Value = serde_json::from_str(&out).unwrap();
    let mut all = shown["attachments"].as_array().unwrap().clone();
    assert_eq!(all.len(), 1, "{out}");
    all.remove(0)
}

fn count(v: &Value, key: &str) -> u64 {
    v["stats"][key]
        .as_u64()
        .unwrap_or_else(|| panic!("no counter {key} in {v}"))
}

#[test]
fn it_thins_and_tells_and_ends_on_sigterm() {
    root();
    let net = Net::new();
    let attached = net.attach(&EVERY_4);
    assert_eq!(attached.started["interface"], net.iface.as_str());
    assert_eq!(attached.started["policy"], "every-n:n=4,warm=16");
    assert!(net.programs() >= 2, "nothing is attached");
    assert!(net.download(2) > 1_000_000);

    let s = status(&net);
    assert_eq!(s["interface"], net.iface.as_str());
    assert_eq!(s["pid"], attached.pid().as_raw());
    let (acks, withheld) = (count(&s, "acks"), count(&s, "withheld"));
    assert!(withheld > 0 && withheld < acks, "{withheld} of {acks}");
    assert!(s["stats"]["reasons"]["held"].as_u64().unwrap() > 0, "{s}");

    // The text output shows the same to a person.
    let Ended { code, out, err } = net.run(&["status", &net.iface, "--flows", "5"]);
    assert_eq!(code, 0, "{err}");
    for word in [net.iface.as_str(), "every-n", "withheld", "10.9.0.1"] {
        assert!(out.contains(word), "no {word} in {out}");
    }

    attached.signal(Signal::SIGTERM);
    let Detached { status, last, err } = attached.end();
    assert_eq!(status.code(), Some(0), "{err}");
    assert_eq!(last["event"], "detached", "{last}");
    assert!(count(&last, "withheld") >= withheld, "{last}");
    assert_eq!(net.programs(), 0, "something is still attached");
    let Ended { code, err, .. } = net.run(&["status", &net.iface]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("not attached"), "{err}");
}

#[test]
fn an_interface_that_is_not_there_is_bad_input() {
    root();
    for (name, says) in [
        ("nosuch0", "ip link"),
        ("a-name-that-is-far-too-long", "a-name-that-is-far-too-long"),
        ("", "interface"),
    ] {
        let Ended { code, out, err } = ACKWISE.run(&["attach", name]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(says), "{err}");
    }
}

#[test]
fn no_command_takes_an_interface_that_is_not_there_for_one_without_anything() {
    root();
    for command in [
        &["status"][..],
        &["detach"],
        &["down"],
        &["gateway", "status"],
        &["gateway", "down"],
    ] {
        let Ended { code, out, err } = ACKWISE.run(&[command, &["nosuch0"]].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{command:?}: {err}");
        assert!(err.contains("no interface nosuch0"), "{command:?}: {err}");
    }
}

/// The directory may be somebody's: it stays as it is, and the message names both ways.
#[test]
fn a_chosen_directory_that_others_may_enter_is_refused_with_what_to_do() {
    root();
    let net = Net::new();
    let directory = tempfile::tempdir().unwrap();
    let open = Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let out = net
        .in_receiver(ACKWISE.path())
        .args(["attach", &net.iface, "--dry-run"])
        .env("ACKWISE_RUN_DIR", directory.path())
        .output()
        .unwrap();
    let Ended { code, err, .. } = Ended::of(&out);
    assert_eq!(code, 1, "{err}");
    let close = format!("`chmod 700 {}`", directory.path().display());
    for word in ["if it is ackwise's own", &close, "set ACKWISE_RUN_DIR"] {
        assert!(err.contains(word), "no {word} in {err}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    assert_eq!(net.programs(), 0);
}

#[test]
fn a_second_attach_is_refused_and_detach_ends_the_first() {
    root();
    let net = Net::new();
    let attached = net.attach(&[]);
    let Ended { code, err, .. } = net.run(&["attach", &net.iface]);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains(&attached.pid().to_string()) && err.contains("ackwise detach"),
        "{err}"
    );

    let Ended { code, out, err } = net.run(&["detach", &net.iface]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains(&net.iface), "{out}");
    let Detached { status, last, err } = attached.end();
    assert_eq!(status.code(), Some(0), "{err}");
    assert_eq!(last["event"], "detached");
    assert_eq!(net.programs(), 0);

    let Ended { code, err, .. } = net.run(&["detach", &net.iface]);
    assert_eq!(code, 1);
    assert!(err.contains("not attached"), "{err}");
    // The interface can be attached to again.
    let again = net.attach(&["--attach-mode", "clsact"]);
    again.signal(Signal::SIGINT);
    assert_eq!(again.end().status.code(), Some(0));
    assert_eq!(net.programs(), 0);
}

/// From its claim on the interface to its entry in the registry a process loads programs.
#[test]
fn an_attachment_that_is_starting_is_detached_as_well() {
    root();
    let net = Net::new();
    let mut starting = net
        .in_receiver(ACKWISE.path())
        .args(["attach", &net.iface])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let open = format!("/proc/{}/fd", starting.id());
    until("its claim", || {
        let mut open = std::fs::read_dir(&open).unwrap().flatten();
        open.any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.starts_with("/run/ackwise")))
            .then_some(())
    });
    let Ended { code, err, .. } = net.run(&["detach", &net.iface]);
    assert_eq!(code, 0, "{err}");
    let status = until("its end", || starting.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert_eq!(net.programs(), 0);
}

/// While the daemon detaches, which takes as long as the maximum hold, a scrape is still answered:
/// it says that nothing is attached.
#[test]
fn l1_it_detaches_before_the_metrics_end() {
    root();
    let net = Net::new();
    let attached = net.attach(&["--metrics", "127.0.0.1:0", "--hold-ms", "200"]);
    let address = attached.started["metrics"].as_str().unwrap().to_owned();
    let scrapes = net.scrape_until_refused(&address);
    attached.signal(Signal::SIGTERM);
    assert_eq!(attached.end().status.code(), Some(0));
    let scrapes = scrapes.join().unwrap();
    assert!(
        scrapes.iter().any(|page| page.contains("not attached")),
        "{} scrapes",
        scrapes.len()
    );
}

#[test]
fn a_dry_run_counts_and_withholds_nothing() {
    root();
    let net = Net::new();
    let acks_on_wire = || -> u64 {
        let out = must(&format!(
            "ip -n {} -s -j link show {}",
            net.receiver, net.iface
        ));
        let shown: Value = serde_json::from_str(&out).unwrap();
        shown[0]["stats64"]["tx"]["packets"].as_u64().unwrap()
    };
    let attached = net.attach(&[&EVERY_4[..], &["--dry-run"]].concat());
    let before = acks_on_wire();
    net.download(1);
    let sent = acks_on_wire() - before;
    let s = status(&net);
    assert!(count(&s, "withheld") > 0, "{s}");
    // Every ACK that was counted left: none is missing on the wire.
    assert!(
        sent >= count(&s, "acks"),
        "{sent} left of {}",
        count(&s, "acks")
    );
    assert_eq!(attached.started["dry_run"], true);
}

#[test]
fn after_a_kill_everything_passes_and_nothing_is_in_the_way() {
    root();
    for mode in ["auto", "clsact"] {
        let net = Net::new();
        let attached = net.attach(&[&EVERY_4[..], &["--attach-mode", mode]].concat());
        attached.signal(Signal::SIGKILL);
        let status = attached.end().status;
        assert_eq!(status.code(), None);
        assert!(net.download(1) > 1_000_000, "{mode}");
        // What the killed process left does not stop the next one.
        let next = net.attach(&["--attach-mode", mode]);
        next.signal(Signal::SIGTERM);
        assert_eq!(next.end().status.code(), Some(0), "{mode}");
        assert_eq!(net.programs(), 0, "{mode}");
    }
}

#[test]
fn an_interface_that_goes_away_ends_it_with_an_error() {
    root();
    let net = Net::new();
    let attached = net.attach(&[]);
    must(&format!("ip -n {} link del {}", net.receiver, net.iface));
    let Detached { status, last, err } = attached.end();
    assert_eq!(status.code(), Some(1), "{err}");
    assert!(err.contains(&net.iface) && err.contains("deleted"), "{err}");
    assert_eq!(last["event"], "detached");
}

#[test]
fn a_duration_ends_it_by_itself() {
    root();
    let net = Net::new();
    let attached = net.attach(&["--duration", "300ms"]);
    assert_eq!(attached.end().status.code(), Some(0));
}

#[test]
fn metrics_are_served_while_it_runs() {
    root();
    let net = Net::new();
    let attached = net.attach(&[&EVERY_4[..], &["--metrics", "127.0.0.1:0"]].concat());
    let address = attached.started["metrics"].as_str().unwrap().to_owned();
    net.download(1);
    let page = net.scrape(&address);
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    let label = format!("interface=\"{}\"", net.iface);
    for name in [
        "ackwise_acks_seen_total",
        "ackwise_acks_withheld_total",
        "ackwise_acks_reemitted_total",
        "ackwise_flows_created_total",
    ] {
        assert!(
            page.lines()
                .any(|l| l.starts_with(&format!("{name}{{")) && l.contains(&label)),
            "no {name} in {page}"
        );
    }
    let (_, body) = page.split_once("\r\n\r\n").unwrap();
    for family in [
        "ackwise_acks_withheld_total",
        "ackwise_hold_time_seconds",
        "ackwise_release_lateness_seconds",
    ] {
        for kind in ["HELP", "TYPE"] {
            assert!(
                body.contains(&format!("# {kind} {family} ")),
                "{kind} {family}: {body}"
            );
        }
    }
    let withheld = body
        .lines()
        .find(|l| l.starts_with("ackwise_acks_withheld_total{"))
        .and_then(|l| l.rsplit(' ').next()?.parse::<u64>().ok());
    assert!(withheld.unwrap() > 0, "{body}");

    // An address in use is reported.
    let Ended { code, err, .. } = net.run(&["attach", "lo", "--metrics", &address]);
    assert_ne!(code, 0);
    assert!(err.contains(&address), "{err}");
}

#[test]
fn a_service_manager_hears_ready_alive_and_stopping() {
    root();
    let net = Net::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut child = net
        .in_receiver(ACKWISE.path())
        .args(["attach", &net.iface, "--user", "root"])
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "400000")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let next_message = || {
        let mut buf = [0; 1024];
        let n = socket.recv(&mut buf).unwrap();
        String::from_utf8(buf[..n].to_vec()).unwrap()
    };
    assert!(next_message().starts_with("READY=1\n"));
    let mut alive = 0;
    while alive < 3 {
        alive += usize::from(next_message().starts_with("WATCHDOG=1"));
    }
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(child.id() as i32),
        Signal::SIGTERM,
    )
    .unwrap();
    until("STOPPING=1", || {
        (next_message().trim_end() == "STOPPING=1").then_some(())
    });
    assert!(child.wait().unwrap().success());
    // Without a terminal it prints one line at the start, a few at the end, and nothing in between.
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    assert_eq!(err, "");
    let mut out = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut out)
        .unwrap();
    assert!(
        out.lines().count() <= 12 && out.starts_with("attached to "),
        "{out}"
    );
}

impl Net {
    /// Scrapes repeatedly until the connection is refused, and returns the pages.
    fn scrape_until_refused(&self, address: &str) -> std::thread::JoinHandle<Vec<String>> {
        let address = address.to_owned();
        Netns::named(&self.receiver).spawn(move || {
            let mut pages = Vec::new();
            while let Ok(mut s) = TcpStream::connect(&address) {
                s.set_read_timeout(Some(TIMEOUT)).unwrap();
                let mut page = String::new();
                // The last connection may be reset.
                let _ = s.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
                let _ = s.read_to_string(&mut page);
                pages.push(page);
            }
            pages
        })
    }

    /// Scrapes once from inside the receiver's namespace.
    fn scrape(&self, address: &str) -> String {
        Netns::named(&self.receiver).run(|| {
            let mut s = TcpStream::connect(address).unwrap();
            s.set_read_timeout(Some(TIMEOUT)).unwrap();
            s.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                .unwrap();
            let mut page = String::new();
            s.read_to_string(&mut page).unwrap();
            page
        })
    }
}
