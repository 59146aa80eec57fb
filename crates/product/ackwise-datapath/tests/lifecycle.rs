//! Attaching, refusing, detaching and surviving: everything around the programs.

mod common;

use std::panic::catch_unwind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ackwise_datapath::{
    AttachMode, Datapath, Ended, Error, Options, Position, Prepared, Programs, control, sys,
};
use ackwise_netdev::{Error as Netdev, registry};
use ackwise_testbed::refuse;
use common::{
    Flow, Netns, Pair, Seg, Wire, alone, eventually, here_and_in_virtual_time, ip, ms, output, tc,
    time_is_virtual,
};

const CHILD: &str = "ACKWISE_TEST_CHILD";

fn options(attach: AttachMode) -> Options {
    let mut o = Options::new("aw0", "every-n:n=8,warm=0".parse().expect("a policy"));
    o.attach = attach;
    o.hold_rtt_shift = 0;
    o
}

fn attach(o: Options) -> Datapath {
    Datapath::attach(o).unwrap_or_else(|e| panic!("{e}"))
}

/// A busy machine delays the heartbeat at first, and ACKs pass.
fn step_until_withheld(a: &Datapath, flow: &mut Flow, near: &Wire, far: &Wire) {
    eventually("an ACK is withheld", || {
        flow.step(near, far);
        a.stats().expect("counters").withheld > 0
    });
}

fn refused(o: Options) -> Error {
    Datapath::attach(o)
        .map(|_| ())
        .expect_err("it must be refused")
}

/// Runs this test again, in a process with its own namespaces.
fn child(test: &str, how: &str) -> Command {
    let mut c = Command::new(std::env::current_exe().expect("this program"));
    c.args(["--exact", test, "--nocapture"]).env(CHILD, how);
    c
}

fn is_child(how: &str) -> bool {
    std::env::var(CHILD).is_ok_and(|v| v == how)
}

/// Returns `true` in that process. Otherwise starts it, and requires it to succeed.
fn in_child(test: &str, how: &str) -> bool {
    if is_child(how) {
        return true;
    }
    let _alone = alone();
    let out = child(test, how).output().expect("child");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{stderr}");
    false
}

#[test]
fn every_policy_passes_the_verifier() {
    here_and_in_virtual_time(|| {
        let _alone = alone();
        verify_every_policy();
    });
}

fn verify_every_policy() {
    for policy in ackwise_policy::Policy::all() {
        let o = Options::new("lo", ackwise_policy::Config::new(policy));
        for (link, clsact, dry_run) in [
            (sys::AW_LINK_ETHERNET, false, false),
            (sys::AW_LINK_IP, true, true),
        ] {
            let mut o = Options {
                dry_run,
                ..o.clone()
            };
            if time_is_virtual() {
                // That kernel has little memory, and the verifier does not depend on sizes.
                (o.max_flows, o.slots) = (64, 64);
            }
            match Programs::load(&o, 1, link, clsact) {
                Ok(_) => {}
                Err(Error::Capability(e)) => assert!(!e.missing.is_empty()),
                Err(e) => panic!("{policy}: {e}"),
            }
        }
    }
}

#[test]
fn a_second_attach_is_told_who_is_there() {
    let _alone = alone();
    Pair::new().run(|_, _| {
        let first = attach(options(AttachMode::Auto));
        match refused(options(AttachMode::Auto)) {
            Error::Held {
                ifname,
                pid,
                policy,
            } => {
                assert_eq!((ifname.as_str(), pid), ("aw0", std::process::id()));
                assert_eq!(policy, "every-n:n=8,warm=0");
            }
            e => panic!("{e}"),
        }
        drop(first);
        attach(options(AttachMode::Auto))
            .detach()
            .expect("free again");
    });
}

#[test]
fn l7_another_user_cannot_block_the_next_attach() {
    use std::os::unix::fs::MetadataExt;

    let _alone = alone();
    let pair = Pair::new();
    let first = pair.near.run(|| attach(options(AttachMode::Auto)));
    let dir = registry::run_dir();
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let netns = pair.near.run(|| registry::netns_inode().expect("an inode"));
    let ours = format!("datapath-{netns}-");
    let files: Vec<_> = std::fs::read_dir(&dir)
        .expect("the registry")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with(&ours))
        })
        .collect();
    assert_eq!(files.len(), 2, "a lock and a socket: {files:?}");
    for file in &files {
        assert_eq!(mode(file), 0o600, "{file:?}");
    }
    pair.near.run_as_nobody(|| {
        for file in &files {
            let opened = std::fs::File::open(file).expect_err("it must be refused");
            assert_eq!(opened.kind(), std::io::ErrorKind::PermissionDenied);
        }
        assert!(matches!(
            control::list(),
            Err(Error::Netdev(Netdev::Registry { .. }))
        ));
    });
    pair.near.run(|| {
        first.detach().expect("detach");
        attach(options(AttachMode::Auto))
            .detach()
            .expect("free again");
    });
}

#[test]
fn the_control_socket_answers() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        assert!(matches!(
            control::status("aw0", 1),
            Err(Error::NotAttached(_))
        ));
        let a = attach(options(AttachMode::Auto));
        Flow::start(near, far, Seg::ack(0));
        let listed = control::list().expect("list");
        assert!(
            listed
                .iter()
                .any(|h| h.ifname == "aw0" && h.pid == std::process::id()),
            "{listed:?}"
        );
        let status = control::status("aw0", 10).expect("status");
        assert_eq!(status.stats.ifname, "aw0");
        assert_eq!(status.flows.len(), 1);
        assert_eq!(status.flows[0].data_sender, "198.18.0.2:80");
        assert!(
            status.stats.memory_bytes > 1 << 20,
            "{:?}",
            status.stats.memory
        );
        let last = control::detach("aw0").expect("detach").expect("counters");
        assert!(last.acks >= 16);
        assert_eq!(a.wait(ms(30_000)), Some(Ended::Requested));
        assert!(matches!(
            control::status("aw0", 1),
            Err(Error::NotAttached(_))
        ));
        assert_eq!(a.detach().expect("again").acks, last.acks);
    });
}

/// For the calling thread, `BPF_LINK_CREATE` fails as on a kernel without tcx.
fn without_bpf_links() {
    const BPF_LINK_CREATE: u32 = 28;
    refuse(libc::SYS_bpf, Some(BPF_LINK_CREATE), libc::EINVAL).expect("a filter");
}

#[test]
fn without_tcx_it_takes_clsact_and_says_so() {
    let _alone = alone();
    // Each runs in its own thread, and the filter ends with it.
    Pair::new().run(|near, far| {
        without_bpf_links();
        assert!(matches!(
            refused(options(AttachMode::Tcx)),
            Error::Netdev(Netdev::NoTcx { .. })
        ));
        let a = attach(options(AttachMode::Auto));
        Flow::start(near, far, Seg::ack(0));
        let s = a.stats().expect("counters");
        assert_eq!(s.attach, AttachMode::Clsact);
        let why = s.attach_fallback.clone().expect("a reason");
        assert!(why.contains("Invalid argument"), "{why}");
        assert!(s.acks >= 16, "{s:?}");
        a.detach().expect("detached");
        let qdiscs = output("tc", "qdisc show dev aw0");
        assert!(!qdiscs.contains("clsact"), "{qdiscs}");
    });
}

#[test]
fn clsact_is_removed_only_if_it_was_ours() {
    let _alone = alone();
    Pair::new().run(|_, _| {
        let qdiscs = || output("tc", "qdisc show dev aw0");
        drop(attach(options(AttachMode::Clsact)));
        assert!(!qdiscs().contains("clsact"), "{}", qdiscs());
        tc("qdisc add dev aw0 clsact");
        drop(attach(options(AttachMode::Clsact)));
        assert!(qdiscs().contains("clsact"));
        assert_eq!(output("tc", "filter show dev aw0 egress").trim(), "");
    });
}

/// The kernel takes a filter for the egress of such an interface, and asks it at ingress: there ACKs
/// that arrive would be withheld, and sent back where they came from.
#[test]
fn a_qdisc_for_ingress_alone_is_refused() {
    let _alone = alone();
    Pair::new().run(|_, _| {
        tc("qdisc add dev aw0 ingress");
        let error = refused(options(AttachMode::Clsact)).to_string();
        assert!(error.contains("aw0 has the qdisc ingress"), "{error}");
        assert_eq!(output("tc", "filter show dev aw0 ingress").trim(), "");
        assert!(output("tc", "qdisc show dev aw0").contains("ingress"));
        drop(attach(options(AttachMode::Tcx)));
    });
}

/// The programs are already attached when the descriptor that wakes the thread is refused.
#[test]
fn a_start_that_fails_leaves_no_clsact() {
    let _alone = alone();
    for by in [AttachMode::Tcx, AttachMode::Clsact] {
        Pair::new().run(|_, _| {
            refuse(libc::SYS_eventfd2, None, libc::EPERM).expect("a filter");
            let error = refused(options(by)).to_string();
            assert!(error.contains("an event descriptor"), "{error}");
            let filters = output("tc", "filter show dev aw0 egress");
            assert_eq!(filters.trim(), "", "{by:?}");
            let qdiscs = output("tc", "qdisc show dev aw0");
            assert!(!qdiscs.contains("clsact"), "{by:?}: {qdiscs}");
        });
    }
}

#[test]
fn a_trial_that_fails_leaves_nothing_attached() {
    let _alone = alone();
    Pair::new().run(|_, _| {
        let clean = || {
            let filters = output("tc", "filter show dev aw0 egress");
            assert_eq!(filters.trim(), "");
            assert!(!output("tc", "qdisc show dev aw0").contains("clsact"));
            // Nothing obstructs the next one.
            drop(attach(options(AttachMode::Auto)));
        };
        for by in [AttachMode::Tcx, AttachMode::Clsact] {
            let refused = Prepared::checked_by(options(by), |mode| {
                assert_eq!(mode, by);
                let (release, what) = ("6.12".to_owned(), "it reports it");
                Err(Error::NotSilent { release, what })
            });
            assert!(matches!(refused, Err(Error::NotSilent { .. })));
            clean();
            let broken =
                catch_unwind(|| Prepared::checked_by(options(by), |_| panic!("on purpose")));
            assert!(broken.is_err());
            clean();
        }
    });
}

#[test]
fn what_is_held_leaves_before_the_detach() {
    let _alone = alone();
    for by in [AttachMode::Tcx, AttachMode::Clsact] {
        Pair::new().run(|near, far| {
            let a = attach(options(by));
            let mut flow = Flow::start(near, far, Seg::ack(0));
            far.drain(ms(10));
            let frame = flow.step(near, far);
            let last = a.detach().expect("detach");
            assert_eq!(last.release.lost, 0);
            let got = far.expect(1);
            assert_eq!(got[0].bytes, frame);
            assert_eq!(far.tcp(ms(10)).len(), 0, "once");
        });
    }
}

#[test]
fn a_deleted_interface_ends_it() {
    let _alone = alone();
    for by in [AttachMode::Tcx, AttachMode::Clsact] {
        Pair::new().near.run(|| {
            let a = attach(options(by));
            assert!(a.interface_alive());
            ip("link del aw0");
            assert_eq!(a.wait(ms(30_000)), Some(Ended::InterfaceGone));
            match a.detach() {
                Err(Error::InterfaceGone(name)) => assert_eq!(name, "aw0"),
                other => panic!("{other:?}"),
            }
        });
    }
}

#[test]
fn a_filter_that_someone_removes_from_clsact_ends_it() {
    let _alone = alone();
    for what in [
        "qdisc del dev aw0 clsact",
        "filter del dev aw0 egress",
        "filter del dev aw0 ingress",
    ] {
        Pair::new().near.run(|| {
            let a = attach(options(AttachMode::Clsact));
            assert_eq!(a.wait(ms(3_000)), None, "{what}");
            output("tc", what);
            assert_eq!(a.wait(ms(30_000)), Some(Ended::FilterGone), "{what}");
            match a.detach() {
                Err(Error::FilterGone(name)) => assert_eq!(name, "aw0", "{what}"),
                other => panic!("{what}: {other:?}"),
            }
        });
    }
}

/// At a sender, held ACKs come back through a device of ours. Without it nothing is held.
#[test]
fn a_device_that_is_deleted_or_taken_down_ends_it() {
    let _alone = alone();
    for (what, by) in [
        ("link set ackwise0 down", AttachMode::Tcx),
        ("link del ackwise0", AttachMode::Tcx),
        ("link del ackwise0", AttachMode::Clsact),
    ] {
        Pair::new().run(|near, far| {
            let a = attach(Options {
                position: Position::Sender,
                ..options(by)
            });
            let mut flow = Flow::start(far, near, Seg::ack(0));
            step_until_withheld(&a, &mut flow, far, near);
            ip(what);
            assert_eq!(a.wait(ms(30_000)), Some(Ended::DeviceGone), "{what}");
            near.drain(ms(10));
            for _ in 0..20 {
                flow.step(far, near);
            }
            let got = near.expect(20);
            assert_eq!(got[19].bytes, flow.ack().frame());
            assert!(matches!(a.detach(), Err(Error::DeviceGone(_))), "{what}");
        });
    }
}

/// An interface that is moved to another namespace takes a tcx program along. Once its absence is
/// noticed, the program no longer holds ACKs that could not be sent.
#[test]
fn s3_an_interface_that_is_moved_away_holds_nothing() {
    let _alone = alone();
    let third = Netns::new();
    let mut inside = third.run(|| Command::new("sleep").arg("60").spawn().expect("sleep"));
    Pair::new().run(|near, far| {
        let a = attach(options(AttachMode::Tcx));
        let mut flow = Flow::start(near, far, Seg::ack(0));
        step_until_withheld(&a, &mut flow, near, far);
        far.expect_up_to(&flow.ack().frame());
        ip(&format!("link set aw0 netns {}", inside.id()));
        let moved = third.run(|| {
            ip("link set aw0 up");
            Wire::open("aw0")
        });
        assert_eq!(a.wait(ms(30_000)), Some(Ended::InterfaceGone));
        far.drain(ms(10));
        for _ in 0..20 {
            flow.step(&moved, far);
        }
        let got = far.expect(20);
        assert_eq!(got[19].bytes, flow.ack().frame());
        assert!(matches!(a.detach(), Err(Error::InterfaceGone(_))));
    });
    inside.kill().expect("kill");
    inside.wait().expect("wait");
}

#[test]
fn errors_say_what_and_where() {
    let _alone = alone();
    Pair::new().near.run(|| {
        let mut o = options(AttachMode::Auto);
        o.ifname = "nothere".into();
        assert!(
            matches!(refused(o.clone()), Error::Netdev(Netdev::NoInterface(n)) if n == "nothere")
        );
        o = options(AttachMode::Auto);
        o.hold_max = Duration::from_secs(2);
        assert!(matches!(refused(o), Error::Option { what, .. } if what.contains("hold_max")));
        o = options(AttachMode::Auto);
        o.slots = 0;
        assert!(matches!(refused(o), Error::Option { what: "slots", .. }));
    });
}

#[test]
fn without_capabilities_it_says_which() {
    if !in_child("without_capabilities_it_says_which", "nocaps") {
        return;
    }
    // SAFETY: sets the ids of this process; the child does nothing else.
    unsafe {
        assert_eq!(libc::setresgid(65534, 65534, 65534), 0);
        assert_eq!(libc::setresuid(65534, 65534, 65534), 0);
    }
    match refused(Options {
        ifname: "lo".into(),
        ..options(AttachMode::Auto)
    }) {
        e @ Error::Permission { .. } => {
            let text = e.to_string();
            assert!(
                text.contains("CAP_BPF") && text.contains("CAP_NET_ADMIN"),
                "{text}"
            );
        }
        e => panic!("{e}"),
    }
}

#[test]
fn without_the_kernels_btf_it_works() {
    if !in_child("without_the_kernels_btf_it_works", "nobtf") {
        return;
    }
    // In a mount namespace of this thread, which everything that it starts inherits.
    // SAFETY: the strings are NUL-terminated; only this thread's mounts change.
    unsafe {
        assert_eq!(libc::unshare(libc::CLONE_NEWNS | libc::CLONE_FS), 0);
        let none = c"none".as_ptr();
        assert_eq!(
            libc::mount(
                none,
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null()
            ),
            0
        );
        assert_eq!(
            libc::mount(
                none,
                c"/sys/kernel/btf".as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                std::ptr::null()
            ),
            0,
            "{}",
            std::io::Error::last_os_error()
        );
    }
    assert!(!std::path::Path::new("/sys/kernel/btf/vmlinux").exists());
    Pair::new().run(|near, far| {
        let a = attach(options(AttachMode::Auto));
        let mut flow = Flow::start(near, far, Seg::ack(0));
        step_until_withheld(&a, &mut flow, near, far);
        far.expect_up_to(&flow.ack().frame());
        let s = a.stats().expect("stats");
        assert!(s.reemitted > 0, "{s:#?}");
    });
}

/// The number of flows that are asked for exceeds what can be allocated.
#[test]
fn l10_a_huge_limit_of_flows_is_no_error() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        let a = attach(options(AttachMode::Auto));
        Flow::start(near, far, Seg::ack(0));
        for limit in [usize::MAX, usize::MAX / 2, usize::MAX / 4 + 1] {
            assert_eq!(
                control::status("aw0", limit).expect("status").flows.len(),
                1
            );
        }
        assert_eq!(a.flows(usize::MAX).expect("flows").len(), 1);
    });
}

#[test]
fn a_killed_holder_leaves_no_harm() {
    let by = [("tcx", AttachMode::Tcx), ("clsact", AttachMode::Clsact)];
    if let Some((_, by)) = by.iter().find(|(name, _)| is_child(name)) {
        let a = attach(options(*by));
        println!("attached");
        let _ = a.wait(Duration::from_secs(30));
        return;
    }
    let _alone = alone();
    for (name, by) in by {
        Pair::new().run(|near, far| {
            let mut holder = child("a_killed_holder_leaves_no_harm", name)
                .stdout(Stdio::piped())
                .spawn()
                .expect("child");
            eventually("the child attaches", || control::status("aw0", 0).is_ok());
            let mut flow = Flow::start(near, far, Seg::ack(0));
            holder.kill().expect("SIGKILL");
            holder.wait().expect("gone");
            std::thread::sleep(ms(600)); // longer than a heartbeat is believed
            far.drain(ms(1));
            for _ in 0..20 {
                flow.step(near, far);
            }
            let got = far.expect(20);
            assert_eq!(
                got[19].bytes,
                flow.ack().frame(),
                "{name}: everything passes"
            );
            let left = output("tc", "filter show dev aw0 egress");
            assert_eq!(left.contains("ackwise"), by == AttachMode::Clsact, "{left}");
            // The next process cleans up, by detaching or by attaching.
            if by == AttachMode::Clsact {
                assert!(control::detach("aw0").expect("sweep").is_none());
                assert_eq!(output("tc", "filter show dev aw0 egress").trim(), "");
                assert!(!output("tc", "qdisc show dev aw0").contains("clsact"));
            }
            attach(options(by)).detach().expect("detach");
        });
    }
}

#[test]
fn only_matching_flows_are_touched() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        let mut o = options(AttachMode::Auto);
        o.matches.local_ports = Some(4000..=4000);
        o.matches.remote = Some(ackwise_datapath::Prefix {
            address: "198.18.0.0".parse().expect("an address"),
            length: 24,
        });
        let a = attach(o);
        for (port, touched) in [(4000, true), (4001, false)] {
            let before = a.stats().expect("stats");
            let mut flow = Flow::start(
                near,
                far,
                Seg {
                    port,
                    ..Seg::ack(0)
                },
            );
            // A busy machine may delay the heartbeats for a while, and then every ACK passes.
            eventually("it is withheld, or let alone", || {
                flow.step(near, far);
                far.expect_up_to(&flow.ack().frame());
                let now = a.stats().expect("stats");
                now.withheld > before.withheld || now.unmatched > before.unmatched + 8
            });
            let now = a.stats().expect("stats");
            assert_eq!(now.withheld > before.withheld, touched, "port {port}");
            assert_eq!(now.unmatched > before.unmatched, !touched, "port {port}");
        }
    });
}
