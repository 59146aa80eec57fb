//! The systemd units, run by a systemd that boots in namespaces of its own, with the units from
//! `packaging/`, the package's user, and no other service.

mod common;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use ackwise_testbed::program::{root, until};
use common::{ACKWISE, Net};

const NET_RAW: u64 = 1 << 13;
/// The directory of the units, relative to this crate.
const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../packaging");
const BOOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/units/boot.sh");

/// A systemd in the receiver's namespace, which ends when this is dropped.
struct Systemd {
    child: Child,
    /// Its process id, seen from here.
    pid: u32,
}

/// The descendant of this process with the given name.
fn below(pid: u32, name: &str) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().find_map(|child| {
        let child = child.parse().ok()?;
        let comm = std::fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
        if comm.trim() == name {
            return Some(child);
        }
        below(child, name)
    })
}

impl Systemd {
    fn boot(net: &Net, configuration: &Path) -> Self {
        let mut child = net
            .in_receiver("unshare")
            .args(["--mount", BOOT])
            .args(["systemd", "sysusers.d"].map(|name| format!("{PACKAGING}/{name}")))
            .arg(ACKWISE.path())
            .arg(configuration)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = until("systemd", || {
            assert_eq!(child.try_wait().unwrap(), None, "it did not boot");
            below(child.id(), "systemd")
        });
        let systemd = Self { child, pid };
        until("the units", || {
            let state = systemd.run("systemctl", &["is-system-running"]);
            let state = String::from_utf8_lossy(&state.stdout).into_owned();
            ["running", "degraded"]
                .contains(&state.trim())
                .then_some(())
        });
        systemd
    }

    /// Runs a program inside the systemd's namespaces.
    fn run(&self, program: &str, args: &[&str]) -> Output {
        Command::new("nsenter")
            .args(["--target", &self.pid.to_string()])
            .args(["--mount", "--pid", "--net", "--cgroup", program])
            .args(args)
            .output()
            .unwrap()
    }

    /// Runs a program that must succeed, and returns its output.
    fn must(&self, program: &str, args: &[&str]) -> String {
        let out = self.run(program, args);
        assert!(
            out.status.success(),
            "{program} {args:?}: {}\n{}",
            String::from_utf8_lossy(&out.stderr),
            String::from_utf8_lossy(&self.run("cat", &["/run/units.log"]).stdout)
        );
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    fn property(&self, unit: &str, name: &str) -> String {
        self.must("systemctl", &["show", "--value", "--property", name, unit])
    }

    /// Checks the user and the capabilities of each thread of a unit's process, as in `rights.rs`.
    /// The bounding set is the unit's: without CAP_SETPCAP nobody can empty it.
    fn has_rights(&self, unit: &str, kept: u64) {
        let pid = self.property(unit, "MainPID");
        let user = self.must("id", &["-u", "ackwise"]);
        let bounding = self.property(unit, "CapabilityBoundingSet");
        let bounding = bounding.split_whitespace().count() as u32;
        let threads = format!("cat /proc/{pid}/task/*/status");
        let threads = self.must("sh", &["-c", &threads]);
        let field = |name: &'static str| {
            let lines = threads
                .lines()
                .filter_map(move |line| line.strip_prefix(name));
            let values = lines.map(|line| line.split_whitespace().next().unwrap());
            let values: Vec<_> = values.collect();
            assert!(
                values.len() >= 3,
                "{unit}: main, worker, control: {threads}"
            );
            values
        };
        let all_are = |name, wanted: &str| {
            assert!(
                field(name).iter().all(|is| *is == wanted),
                "{unit}: {threads}"
            );
        };
        all_are("Uid:", &user);
        all_are("NoNewPrivs:", "1");
        // SECCOMP_MODE_FILTER
        all_are("Seccomp:", "2");
        let sets = |name| {
            field(name)
                .into_iter()
                .map(|set| u64::from_str_radix(set, 16).unwrap())
        };
        for name in ["CapPrm:", "CapEff:"] {
            assert!(sets(name).all(|set| set == kept), "{unit}: {threads}");
        }
        for name in ["CapInh:", "CapAmb:"] {
            assert!(sets(name).all(|set| set == 0), "{unit}: {threads}");
        }
        assert!(
            sets("CapBnd:").all(|set| set.count_ones() == bounding),
            "{unit}: {threads}"
        );
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        let pid = |pid: u32| nix::unistd::Pid::from_raw(pid as i32);
        let _ = nix::sys::signal::kill(pid(self.pid), nix::sys::signal::Signal::SIGKILL);
        // The script removes the control groups.
        let _ = self.child.wait();
    }
}

/// Configurations of a gateway and a tunnel on the interface.
fn configuration(net: &Net) -> tempfile::TempDir {
    let files = tempfile::tempdir().unwrap();
    let iface = &net.iface;
    let write = |name: String, text: String| std::fs::write(files.path().join(name), text).unwrap();
    write(
        "ackwise.toml".to_owned(),
        format!("[[interface]]\nname = \"{iface}\"\npolicy = \"every-n:n=4\"\nguard = \"5 min\"\n"),
    );
    write(
        format!("gateway-{iface}.toml"),
        format!("interface = \"{iface}\"\nrate = \"50 Mbit/s\"\nqueue = \"100 packets\"\n"),
    );
    let keygen = |name: &str| {
        let key = files.path().join(name);
        let ended = ACKWISE.run(&["tunnel", "keygen", key.to_str().unwrap()]);
        assert_eq!(ended.code, 0, "{}", ended.err);
        ended.out.trim().to_owned()
    };
    keygen("tunnel.key");
    let far = keygen("far.key");
    write(
        "tunnel-office.toml".to_owned(),
        format!(
            "listen_port = 51830\nprivate_key = \"tunnel.key\"\ninterface = \"{iface}\"\n[[peer]]\n\
             name = \"far\"\npublic_key = \"{far}\"\nendpoint = \"10.9.0.1:51830\"\n\
             allowed_ips = [\"10.9.0.1\"]\n"
        ),
    );
    files
}

/// The same process reads the file again, and a mistake in the file fails `systemctl reload`.
fn reloads(systemd: &Systemd, unit: &str, iface: &str) {
    let pid = systemd.property(unit, "MainPID");
    let edit = |change: &str| systemd.must("sed", &["-i", change, "/etc/ackwise/ackwise.toml"]);
    edit("s/n=4/n=9/");
    systemd.must("systemctl", &["reload", unit]);
    let status = systemd.must("ackwise", &["status", iface]);
    assert!(status.contains("every-n:n=9"), "{status}");
    edit("s/n=9/n=999/");
    assert!(!systemd.run("systemctl", &["reload", unit]).status.success());
    edit("s/n=999/n=4/");
    systemd.must("systemctl", &["reload", unit]);
    let status = systemd.must("ackwise", &["status", iface]);
    assert!(status.contains("every-n:n=4"), "{status}");
    assert_eq!(systemd.property(unit, "MainPID"), pid);
    assert_eq!(systemd.property(unit, "NRestarts"), "0");
}

/// Each unit starts as its own user with the documented privileges, is restarted after `kill -9`,
/// and leaves nothing behind when it stops. A download runs meanwhile.
#[test]
fn units_start_restart_and_stop() {
    root();
    let net = Net::new();
    let files = configuration(&net);
    let systemd = Systemd::boot(&net, files.path());
    let iface = &net.iface;
    for (unit, kept) in [
        (format!("ackwise@{iface}"), NET_RAW),
        (format!("ackwise-gateway@{iface}"), 0),
        ("ackwise-tunnel@office".to_owned(), 0),
    ] {
        systemd.must("systemctl", &["start", &unit]);
        assert_eq!(systemd.property(&unit, "ActiveState"), "active", "{unit}");
        systemd.has_rights(&unit, kept);
        assert!(net.programs() > 0, "{unit}");
        if unit.starts_with("ackwise@") {
            // As configured in /etc/ackwise/ackwise.toml.
            let status = systemd.must("ackwise", &["status", iface]);
            assert!(status.contains("every-n:n=4"), "{status}");
            reloads(&systemd, &unit, iface);
            systemd.has_rights(&unit, kept);
        }
        assert!(net.download(1) > 100_000, "{unit}");

        systemd.must(
            "systemctl",
            &["kill", "--signal=KILL", "--kill-whom=main", &unit],
        );
        until("the restart", || {
            let is = |name, value| systemd.property(&unit, name) == value;
            (is("NRestarts", "1") && is("ActiveState", "active")).then_some(())
        });
        systemd.has_rights(&unit, kept);

        systemd.must("systemctl", &["stop", &unit]);
        assert_eq!(systemd.property(&unit, "ActiveState"), "inactive", "{unit}");
        assert_eq!(systemd.property(&unit, "Result"), "success", "{unit}");
        assert_eq!(systemd.must("ls", &["/run/ackwise"]), "", "{unit}");
        assert_eq!(net.programs(), 0, "{unit}");
        let links = systemd.must("ip", &["-o", "link"]);
        assert_eq!(links.lines().count(), 2, "{unit}: {links}");
    }
    assert!(net.download(1) > 100_000);
}

/// An interface that disappears and returns, like a modem's or PPP's, gets its units back without
/// anybody starting them.
#[test]
fn units_come_back_with_their_interface() {
    root();
    let net = Net::new();
    let files = configuration(&net);
    let systemd = Systemd::boot(&net, files.path());
    let iface = &net.iface;
    // A name that systemd has to escape.
    let other = "br-lan0";
    let make = |name: &str| {
        systemd.must("ip", &["link", "add", name, "type", "veth"]);
        systemd.must("ip", &["link", "set", name, "up"]);
    };
    make(other);
    let escaped = systemd.must("systemd-escape", &[other]);
    systemd.must("ip", &["link", "del", other]);
    let units = [
        (format!("ackwise@{escaped}"), other),
        (format!("ackwise-gateway@{iface}"), iface.as_str()),
        ("ackwise-tunnel@office".to_owned(), iface.as_str()),
    ];
    for (unit, interface) in &units {
        if *interface == other {
            make(other);
        }
        systemd.must("systemctl", &["enable", "--now", unit]);
        for _ in 0..2 {
            systemd.must("ip", &["link", "del", interface]);
            until("the end of the unit", || {
                let state = systemd.property(unit, "ActiveState");
                ["inactive", "failed", "activating"]
                    .contains(&state.as_str())
                    .then_some(())
            });
            make(interface);
            until("the unit", || {
                let state = systemd.property(unit, "ActiveState");
                (state == "active").then_some(())
            });
        }
        systemd.must("systemctl", &["disable", "--now", unit]);
    }
}

/// A hung process does not notify the watchdog, which ends it, and it is restarted.
#[test]
fn a_process_that_hangs_is_started_again() {
    root();
    let net = Net::new();
    let files = configuration(&net);
    let systemd = Systemd::boot(&net, files.path());
    let unit = format!("ackwise@{}", net.iface);
    systemd.must("systemctl", &["start", &unit]);
    systemd.must(
        "systemctl",
        &["kill", "--signal=STOP", "--kill-whom=main", &unit],
    );
    // ACKs pass meanwhile.
    assert!(net.download(1) > 100_000);
    until("the watchdog", || {
        let is = |name, value| systemd.property(&unit, name) == value;
        (!is("ActiveState", "active") || is("NRestarts", "1")).then_some(())
    });
    until("the restart", || {
        let is = |name, value| systemd.property(&unit, name) == value;
        (is("NRestarts", "1") && is("ActiveState", "active")).then_some(())
    });
    systemd.has_rights(&unit, NET_RAW);
    assert!(net.download(1) > 100_000);
}

/// A restart does not help against a bad option: the unit fails at once, and is not restarted.
#[test]
fn a_bad_option_is_not_tried_again() {
    root();
    let net = Net::new();
    let files = configuration(&net);
    let wanted = format!(
        "[[interface]]\nname = \"{}\"\npolicy = \"nonsense\"\n",
        net.iface
    );
    std::fs::write(files.path().join("ackwise.toml"), wanted).unwrap();
    let systemd = Systemd::boot(&net, files.path());
    let unit = format!("ackwise@{}", net.iface);
    assert!(!systemd.run("systemctl", &["start", &unit]).status.success());
    for (name, value) in [
        ("ActiveState", "failed"),
        ("ExecMainStatus", "2"),
        ("NRestarts", "0"),
    ] {
        assert_eq!(systemd.property(&unit, name), value, "{name}");
    }
    assert_eq!(net.programs(), 0);
}
