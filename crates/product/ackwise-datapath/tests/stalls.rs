//! What delays the re-emitting thread: a full local queue, a process that is stopped or frozen, a
//! clock that is not the kernel's.

mod common;
mod freezer;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ackwise_datapath::{AttachMode, Datapath, Options, Position, Stats, control};
use common::{
    Flow, Netns, Pair, Seg, Wire, alone, eventually, here_and_in_virtual_time, in_virtual_time, ip,
    ms, output, tagged, tc, time_is_virtual,
};
use freezer::Freezer;

const CHILD: &str = "ACKWISE_TEST_CHILD";
const VLAN: u16 = 5;

/// 8 segments per ACK from the first on; D is 4 ms.
fn options(position: Position) -> Options {
    let mut o = Options::new("aw0", "every-n:n=8,warm=0".parse().expect("a policy"));
    o.attach = AttachMode::Tcx;
    o.hold_rtt_shift = 0;
    o.position = position;
    o
}

fn attach(o: Options) -> Datapath {
    Datapath::attach(o).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs a check that holds only where time is virtual.
fn exactly(check: impl FnOnce()) {
    if time_is_virtual() {
        check();
    }
}

/// 400 flows that have started.
fn started(near: &Wire, far: &Wire) -> Vec<Flow> {
    let mut flows: Vec<Flow> = (0..400)
        .map(|n| Flow {
            next: 1000,
            like: Seg {
                port: 10_000 + n,
                ..Seg::ack(0)
            },
        })
        .collect();
    for _ in 0..16 {
        for flow in &mut flows {
            flow.step(near, far);
        }
        far.drain(ms(30));
    }
    flows
}

/// 400 flows re-emit into a queue of 100 kbit/s, three times: more than the socket's default send
/// buffer of 208 KiB holds, for longer than a heartbeat is trusted.
#[test]
fn h2_a_full_local_queue_stops_nothing() {
    here_and_in_virtual_time(|| {
        let _alone = alone();
        Pair::new().run(|near, far| {
            let a = attach(options(Position::Receiver));
            let mut flows = started(near, far);
            // Starting them took longer than a pause after which a sender starts again.
            for _ in 0..12 {
                for flow in &mut flows {
                    flow.step(near, far);
                }
                std::thread::sleep(ms(30));
            }
            tc("qdisc add dev aw0 root tbf rate 100kbit burst 1600 limit 10000000");
            let stats = || a.stats().unwrap_or_else(|e| panic!("{e}"));
            let before = stats();
            for _ in 0..10 {
                for flow in &mut flows {
                    flow.step(near, far);
                }
                std::thread::sleep(ms(200));
            }
            let now = stats();
            exactly(|| {
                assert_eq!(now.fail_open["stale-heartbeat"], 0, "heartbeats stopped");
                assert_eq!(now.withheld - before.withheld, 4000, "{now:#?}");
                assert_eq!(now.reemitted - before.reemitted, 4000, "{now:#?}");
                assert_eq!(now.release.send_errors, 0);
            });
            let detaching = Instant::now();
            let last = a.detach().expect("detach");
            exactly(|| {
                let elapsed = detaching.elapsed();
                assert!(elapsed < ms(100), "{elapsed:?} to detach");
                assert_eq!(last.release.lost, 0);
            });
            let mut missing: Vec<_> = flows.iter().map(|flow| flow.ack().frame()).collect();
            while !missing.is_empty() {
                let got = far.expect(1);
                missing.retain(|frame| *frame != got[0].bytes);
            }
        });
    });
}

/// sch_fq lets a flow have `flow_limit` packets. It distinguishes the packets of one packet socket
/// by their hashes, so re-emitted ACKs are as many flows as they were: none is dropped.
#[test]
fn s4_fq_drops_no_re_emission() {
    in_virtual_time(|| {
        let _alone = alone();
        Pair::new().run(|near, far| {
            let a = attach(options(Position::Receiver));
            let mut flows = started(near, far);
            tc("qdisc add dev aw0 root handle 1: tbf rate 100kbit burst 1600 limit 10000000");
            tc("qdisc add dev aw0 parent 1:1 handle 2: fq flow_limit 10");
            let before = a.stats().expect("stats");
            for flow in &mut flows {
                flow.step(near, far);
            }
            std::thread::sleep(ms(10_000));
            let now = a.stats().expect("stats");
            assert_eq!(now.reemitted - before.reemitted, 400, "{now:#?}");
            assert_eq!(now.release.send_errors, 0, "{now:#?}");
            let mut missing: Vec<_> = flows.iter().map(|flow| flow.ack().frame()).collect();
            for got in far.expect(400) {
                missing.retain(|frame| *frame != got.bytes);
            }
            assert!(missing.is_empty(), "{} are missing", missing.len());
        });
    });
}

/// cake with and without its own ACK filter: the newest ACK of each flow leaves. A queue of cake
/// holds one flow, so it only drops what the filter finds superseded.
#[test]
fn cake_drops_no_re_emission_that_is_the_newest() {
    in_virtual_time(|| {
        let _alone = alone();
        for filter in ["no-ack-filter", "ack-filter", "ack-filter-aggressive"] {
            Pair::new().run(|near, far| {
                let a = attach(options(Position::Receiver));
                let mut flows = started(near, far);
                tc(&format!(
                    "qdisc add dev aw0 root cake bandwidth 100kbit {filter}"
                ));
                let before = a.stats().expect("stats");
                for _ in 0..3 {
                    for flow in &mut flows {
                        flow.step(near, far);
                    }
                    std::thread::sleep(ms(200));
                }
                let now = a.stats().expect("stats");
                let reemitted = now.reemitted - before.reemitted;
                assert_eq!(reemitted, 1200, "{filter}: {now:#?}");
                assert_eq!(now.release.send_errors, 0, "{filter}: {now:#?}");
                let backlog = output("tc", "-s qdisc show dev aw0");
                assert!(!backlog.contains("backlog 0b"), "{filter}: {backlog}");
                let mut missing: Vec<_> = flows.iter().map(|flow| flow.ack().frame()).collect();
                while !missing.is_empty() {
                    let got = far.expect(1);
                    missing.retain(|frame| *frame != got[0].bytes);
                }
                a.detach().expect("detach");
                tc("qdisc del dev aw0 root");
            });
        }
    });
}

/// The queue accepts almost nothing, until even the enlarged send buffer is full. What is not sent
/// is retried and given up; the thread never blocks.
#[test]
fn h2_a_full_send_buffer_stops_nothing() {
    in_virtual_time(|| {
        let _alone = alone();
        Pair::new().run(|near, far| {
            // No ACK passes: each is sent by the re-emitting thread.
            let policy = "every-n:n=200,warm=0".parse().expect("a policy");
            let a = attach(Options {
                policy,
                ..options(Position::Receiver)
            });
            let mut flows = started(near, far);
            tc("qdisc add dev aw0 root tbf rate 8kbit burst 1600 limit 10000000");
            let before = a.stats().expect("stats");
            for _ in 0..40 {
                for flow in &mut flows {
                    flow.step(near, far);
                }
                std::thread::sleep(ms(30));
            }
            std::thread::sleep(ms(300));
            let now = a.stats().expect("stats");
            assert!(now.release.send_errors > 0, "the buffer was never full");
            assert_eq!(now.fail_open["stale-heartbeat"], 0, "heartbeats stopped");
            assert!(now.release.lost > 0, "tried for ever: {now:#?}");
            assert_eq!(now.withheld - before.withheld, 16_000, "{now:#?}");
            let detaching = Instant::now();
            a.detach().expect("detach");
            let elapsed = detaching.elapsed();
            assert!(elapsed < ms(100), "{elapsed:?} to detach");
        });
    });
}

/// The datapath in a separate process. It is killed on drop, and what it leaves is removed.
struct Daemon(Child);

impl Daemon {
    fn start(test: &str) -> Self {
        Self::start_by(&[], test, "tcx")
    }

    /// Starts `test` by another program, whose arguments come first.
    fn start_by(wrapper: &[&str], test: &str, how: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let program = program.to_str().expect("UTF-8");
        let line = [wrapper, &[program, "--exact", test, "--nocapture"]].concat();
        let child = Command::new(line[0])
            .args(&line[1..])
            .env(CHILD, how)
            .stdout(Stdio::null())
            .spawn()
            .expect("a process");
        eventually("the process attaches", || control::status("aw0", 0).is_ok());
        Self(child)
    }

    /// In that process, attaches until it is killed.
    fn is_here() -> bool {
        let Some(how) = std::env::var_os(CHILD) else {
            return false;
        };
        let a = attach(Options {
            attach: if how == "clsact" {
                AttachMode::Clsact
            } else {
                AttachMode::Tcx
            },
            ..options(Position::Router)
        });
        let _ = a.wait(Duration::from_secs(120));
        true
    }

    fn signal(&self, signal: libc::c_int) {
        signal_to(self.0.id(), signal);
    }

    fn stats() -> Stats {
        control::status("aw0", 0).expect("status").stats
    }
}

fn signal_to(pid: u32, signal: libc::c_int) {
    // SAFETY: no pointers. The process is our child, or a child of it, and is alive.
    let r = unsafe { libc::kill(pid.cast_signed(), signal) };
    assert_eq!(r, 0);
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        // Nobody may come after this test who would remove it by attaching. There is nothing to
        // remove if the last handle on the programs was closed with the process (tcx).
        let _ = control::detach("aw0");
    }
}

/// How a process is stopped, and continued.
enum Stop {
    /// SIGSTOP and SIGCONT.
    Signal,
    /// The freezer of control groups.
    Freezer,
}

/// A held ACK whose tag is beside the frame, and a process that is stopped when its deadline
/// passes: the ACK leaves when the process continues, once, and with its tag.
#[test]
fn h2_a_stopped_process_sends_no_untagged_frame() {
    if Daemon::is_here() {
        return;
    }
    here_and_in_virtual_time(|| {
        for stopped_for in [50, 200, 1000, 2000] {
            stop_behind_a_bridge(
                "h2_a_stopped_process_sends_no_untagged_frame",
                &Stop::Signal,
                stopped_for,
            );
        }
    });
}

#[test]
fn a_frozen_process_sends_no_untagged_frame() {
    if Daemon::is_here() {
        return;
    }
    for stopped_for in [50, 200, 1000, 2000] {
        stop_behind_a_bridge(
            "a_frozen_process_sends_no_untagged_frame",
            &Stop::Freezer,
            stopped_for,
        );
    }
}

/// Through a bridge, which removes the tag from the frame as hardware would.
fn stop_behind_a_bridge(test: &str, by: &Stop, stopped_for_ms: u64) {
    let _alone = alone();
    let pair = Pair::new();
    let third = Netns::new();
    pair.near.wire("aw2", &third, "aw3");
    let source = third.run(|| Wire::open("aw3"));
    pair.run(|_, far| {
        ip("link add awbr type bridge");
        for port in ["aw0", "aw2"] {
            ip(&format!("link set {port} master awbr"));
        }
        ip("link set awbr up");
        std::thread::sleep(ms(50));
        let daemon = Daemon::start(test);
        match by {
            Stop::Signal => stop_in_a_hold(
                &|stop| daemon.signal(if stop { libc::SIGSTOP } else { libc::SIGCONT }),
                &source,
                far,
                ms(stopped_for_ms),
            ),
            Stop::Freezer => {
                let freezer = Freezer::around(daemon.0.id());
                stop_in_a_hold(
                    &|stop| freezer.freeze(stop),
                    &source,
                    far,
                    ms(stopped_for_ms),
                );
                drop(daemon);
                freezer.remove();
            }
        }
    });
}

/// A process in a time namespace has another CLOCK_MONOTONIC than the programs. Its heartbeats are
/// trusted for as long as elsewhere: they are not in the past, and when they end, ACKs pass, even
/// if the programs stay behind (clsact).
#[test]
fn a_time_namespace_changes_nothing() {
    if Daemon::is_here() {
        return;
    }
    for (offset, how) in [("-2", "tcx"), ("3600", "tcx"), ("3600", "clsact")] {
        let _alone = alone();
        Pair::new().run(|near, far| {
            let clock = ["--time", "--monotonic", offset, "--boottime", offset];
            let wrapper = [&["unshare", "--fork", "--kill-child"][..], &clock].concat();
            let daemon = Daemon::start_by(&wrapper, "a_time_namespace_changes_nothing", how);
            let pid = child_of(daemon.0.id());
            let mut flow = Flow::start(near, far, Seg::ack(0));
            eventually("an ACK is withheld", || {
                flow.step(near, far);
                Daemon::stats().withheld > 0
            });
            far.expect_up_to(&flow.ack().frame());
            for signal in [libc::SIGSTOP, libc::SIGKILL] {
                signal_to(pid, signal);
                // The last heartbeat is trusted for half a second, and may have come late.
                let mut passed = 0;
                eventually("every ACK passes", || {
                    let passes = flow.step(near, far);
                    let seen = far.drain(ms(50));
                    let has_arrived = seen.iter().any(|frame| frame.bytes == passes);
                    passed = if has_arrived { passed + 1 } else { 0 };
                    passed >= 12
                });
                for _ in 0..20 {
                    let passes = flow.step(near, far);
                    far.expect_up_to(&passes);
                }
            }
        });
    }
}

/// The only child of a process.
fn child_of(pid: u32) -> u32 {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).expect("children");
    children.trim().parse().expect("one child")
}

fn stop_in_a_hold(stop: &dyn Fn(bool), source: &Wire, far: &Wire, stopped_for: Duration) {
    let mut flow = Flow {
        next: 1000,
        like: Seg::ack(0),
    };
    let step = |flow: &mut Flow| {
        far.send(&tagged(&flow.segment(), VLAN));
        let frame = flow.ack().frame();
        source.send(&tagged(&frame, VLAN));
        frame
    };
    for _ in 0..16 {
        step(&mut flow);
    }
    far.drain(ms(30));
    let before = Daemon::stats();
    stop(true);
    let held = step(&mut flow);
    std::thread::sleep(stopped_for);
    exactly(|| assert_eq!(far.tcp(ms(0)).len(), 0, "it is not held"));
    stop(false);
    let mut got = far.expect_up_to(&held);
    got.extend(far.tcp(ms(300)));
    for frame in &got {
        assert_eq!(frame.tag, Some(VLAN), "a frame without its tag");
    }
    exactly(|| {
        assert_eq!(got.len(), 1, "stopped for {stopped_for:?}: each once");
        let now = Daemon::stats();
        assert_eq!(now.withheld - before.withheld, 1, "{now:#?}");
        assert_eq!(now.reemitted - before.reemitted, 1, "{now:#?}");
        assert_eq!(now.release.lost, 0, "{now:#?}");
    });
    // Everything works afterwards.
    far.drain(ms(30));
    let last = step(&mut flow);
    let got = far.expect_up_to(&last);
    assert!(got.iter().all(|frame| frame.tag == Some(VLAN)));
}
