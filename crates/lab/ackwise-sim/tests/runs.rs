//! Whole runs: the same on every machine, and refused where they must be.

use std::sync::atomic::{AtomicU64, Ordering};

use ackwise_scenario::Scenario;
use ackwise_scenario::record::Report;
use ackwise_sim::{Progress, RunOptions, SimError, run};

/// A host, a router and a host, with an uplink that ACKs fill.
const NETWORK: &str = r#"
[scenario]
name = "test"
duration = "5 s"
[[node]]
name = "sender"
[[node]]
name = "router"
kind = "router"
[[node]]
name = "receiver"
[[link]]
name = "lan"
between = ["sender", "router"]
both = { rate = "100 Mbit/s", delay = "1 ms" }
[[link]]
name = "wan"
between = ["router", "receiver"]
forward = { rate = "10 Mbit/s", delay = "10 ms", queue = "50 packets" }
reverse = { rate = "1 Mbit/s", delay = "10 ms", queue = "50 packets" }
"#;
const BULK: &str = r#"
[[flow]]
name = "bulk"
from = "sender"
to = "receiver"
app = "bulk"
"#;
const ARMS: &str = r#"
[[arm]]
name = "baseline"
[[arm]]
name = "every-n"
policy = "every-n"
at = "receiver"
link = "wan"
set = { n = 8 }
[sweep]
cc = ["newreno", "tahoe"]
seed = [1, 2]
"#;
const LOSSY: &str = r#"forward = { rate = "10 Mbit/s", delay = "10 ms", queue = "50 packets", loss = "0.5 %", jitter = "1 ms" }"#;

fn scenario(parts: &[&str]) -> Scenario {
    Scenario::parse("test.toml", &parts.concat()).unwrap_or_else(|e| panic!("{e}"))
}

fn lossy() -> String {
    let plain = NETWORK.lines().find(|l| l.starts_with("forward")).unwrap();
    NETWORK.replace(plain, LOSSY)
}

fn report(scenario: &Scenario, jobs: usize) -> Report {
    let options = RunOptions {
        jobs,
        ..RunOptions::default()
    };
    run(scenario, &options, &mut |_| {}).unwrap_or_else(|e| panic!("{e}"))
}

/// FNV-1a of the runs as JSON.
fn hash(report: &Report) -> u64 {
    let text = serde_json::to_string(&report.runs).unwrap();
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[test]
fn threads_do_not_matter() {
    let scenario = scenario(&[&lossy(), BULK, ARMS]);
    let one = report(&scenario, 1);
    assert_eq!(one.runs.len(), 8);
    assert_eq!(
        one.to_json().unwrap(),
        report(&scenario, 4).to_json().unwrap()
    );
    // Seeds make a difference: what the wire loses is drawn from them.
    assert_ne!(
        one.runs[0].totals.retransmits,
        one.runs[1].totals.retransmits
    );
}

/// Whoever changes the simulator's behaviour on purpose writes the new number here;
/// it must be the same in debug and release builds.
#[test]
fn a_record_is_the_same_everywhere() {
    let report = report(&scenario(&[&lossy(), BULK, ARMS]), 2);
    assert!(report.runs.iter().all(|run| run.errors.is_empty()));
    assert_eq!(hash(&report), PINNED, "got {:#x}", hash(&report));
}

const PINNED: u64 = 0x5104_f0b2_5165_064c;

#[test]
fn a_bottleneck_is_filled_and_thinning_is_seen() {
    let report = report(&scenario(&[NETWORK, BULK, ARMS]), 2);
    let run = |arm: &str| report.runs.iter().find(|run| run.arm == arm).unwrap();
    let (plain, thin) = (&run("baseline").totals, &run("every-n").totals);
    // 1448 of 1514 bytes are payload.
    let most = 10e6 * 1448.0 / 1514.0;
    for totals in [plain, thin] {
        assert!(
            totals.goodput_bps > 0.85 * most && totals.goodput_bps <= most,
            "{totals:?}"
        );
        let content = totals.content.as_ref().unwrap();
        assert!(content.ok && content.bytes == totals.bytes);
        assert_eq!(totals.acks.unwrap().total(), totals.acks_on_wire);
        let series = totals.series.as_ref().unwrap();
        assert_eq!(series.t_s.len(), 50);
        assert!(
            series
                .columns()
                .iter()
                .all(|(_, column)| column.len() == 50)
        );
        assert_eq!(series.ssthresh_segments[0], None, "no loss yet");
        let rtt = totals.rtt_us.unwrap();
        assert!(
            rtt.min.unwrap() >= 22_000.0 && rtt.p99 < 200_000.0,
            "{rtt:?}"
        );
    }
    assert!(
        plain.acks_on_wire > 2 * thin.acks_on_wire,
        "{} {}",
        plain.acks_on_wire,
        thin.acks_on_wire
    );
    let datapath = run("every-n").datapath.as_ref().unwrap();
    assert!(
        datapath["receiver/wan"]["withheld"].as_u64().unwrap() > 0,
        "{datapath}"
    );
    let queues: Vec<&str> = run("baseline")
        .queues
        .iter()
        .map(|q| q.name.as_str())
        .collect();
    assert_eq!(
        queues,
        ["lan.forward", "lan.reverse", "wan.forward", "wan.reverse"]
    );
    let queue = &run("baseline").queues[2];
    assert!(
        queue.drops > 0 && queue.max_packets == Some(50),
        "{queue:?}"
    );
}

#[test]
fn a_policy_in_the_stack_makes_fewer_acks() {
    let arms = r#"
[[arm]]
name = "baseline"
[[arm]]
name = "stack"
policy = "every-n"
at = "receiver"
link = "wan"
environment = "stack"
set = { n = 8 }
[sweep]
cc = ["newreno"]
"#;
    let report = report(&scenario(&[NETWORK, BULK, arms]), 2);
    let [plain, stack] = [0, 1].map(|n| &report.runs[n].totals);
    assert!(
        stack.acks_on_wire * 2 < plain.acks_on_wire,
        "{} {}",
        stack.acks_on_wire,
        plain.acks_on_wire
    );
    assert!(report.runs[1].datapath.is_none());
}

#[test]
fn applications_end() {
    let short = r#"
[[flow]]
name = "short"
from = "sender"
to = "receiver"
app = "short-flows"
sizes = ["10 kB", "100 kB"]
count = 10
connections = 2
[[flow]]
name = "asks"
from = "sender"
to = "receiver"
app = "request-response"
request = "1 kB"
response = "20 kB"
count = 20
[[flow]]
name = "file"
from = "sender"
to = "receiver"
app = "bulk"
bytes = "200 kB"
connections = 3
[sweep]
cc = ["newreno"]
"#;
    let report = report(&scenario(&[NETWORK, short]), 1);
    let run = &report.runs[0];
    assert!(run.errors.is_empty(), "{:?}", run.errors);
    let of = |name: &str| {
        &run.flows
            .iter()
            .find(|flow| flow.flow == name)
            .unwrap()
            .traffic
    };
    let short = of("short");
    let completion = short.completion.as_ref().unwrap();
    assert_eq!((completion.count, completion.unfinished), (20, 0));
    assert_eq!(short.bytes, 10 * 110_000);
    // A handshake and the data take at least two round trips of 22 ms.
    assert!(completion.time_us.min.unwrap() > 33_000.0, "{completion:?}");
    let asks = of("asks");
    assert_eq!(asks.completion.as_ref().unwrap().count, 20);
    assert_eq!(asks.bytes, 20 * 20_000);
    assert_eq!(of("file").bytes, 3 * 200_000);
    assert_eq!(run.totals.bytes, 1_100_000 + 400_000 + 600_000);
    let jain = run.totals.jain.unwrap();
    assert!(jain > 1.0 / 3.0 && jain < 1.0, "{jain}");
}

#[test]
fn a_kernel_parameter_that_changes_nothing_here_is_taken() {
    let sysctl = NETWORK.replacen(
        "name = \"sender\"",
        "name = \"sender\"\nsysctl = { \"net.ipv4.tcp_no_metrics_save\" = 1 }",
        1,
    );
    assert_eq!(report(&scenario(&[&sysctl, BULK]), 1).runs.len(), 1);
}

/// An ACK is piggybacked on the next request or response if that leaves before the ACK has
/// to leave by itself.
#[test]
fn acks_are_piggybacked_on_data_of_the_other_direction() {
    let flow = "[[flow]]\nname = \"asks\"\nfrom = \"sender\"\nto = \"receiver\"\n\
                app = \"request-response\"\nrequest = \"500 B\"\nresponse = \"1 kB\"\n\
                count = 20\n[sweep]\ncc = [\"newreno\", \"cubic\"]\n";
    // The last response's ACK, and Linux's first, when it does not see a conversation yet.
    for (run, acks) in report(&scenario(&[NETWORK, flow]), 1)
        .runs
        .iter()
        .zip([1, 2])
    {
        assert!(run.errors.is_empty(), "{:?}", run.errors);
        assert_eq!(run.totals.bytes, 20_000);
        assert_eq!(run.totals.completion.as_ref().unwrap().unfinished, 0);
        assert_eq!(run.totals.acks_on_wire, acks, "{}", run.id);
    }
}

/// A pure ACK has the sequence number of its host's next data. With a number from before the last
/// request it would be an old segment, which no policy withholds.
#[test]
fn acks_of_responses_are_thinned() {
    let flow = "[[flow]]\nname = \"asks\"\nfrom = \"sender\"\nto = \"receiver\"\n\
                app = \"request-response\"\nrequest = \"500 B\"\nresponse = \"100 kB\"\n\
                count = 20\n[sweep]\ncc = [\"cubic\"]\n[[arm]]\nname = \"baseline\"\n[[arm]]\n\
                name = \"every-n\"\npolicy = \"every-n\"\nat = \"receiver\"\nlink = \"wan\"\nset = { n = 8 }\n";
    let report = report(&scenario(&[NETWORK, flow]), 1);
    let acks = [0, 1].map(|arm| {
        let run = &report.runs[arm];
        assert!(run.errors.is_empty(), "{:?}", run.errors);
        assert_eq!(run.totals.completion.as_ref().unwrap().unfinished, 0);
        run.totals.acks_on_wire
    });
    assert!(2 * acks[1] < acks[0], "{acks:?}");
    let thinned = serde_json::to_value(&report.runs[1].datapath).unwrap();
    let reasons = &thinned["receiver/wan"]["reasons"];
    assert!(reasons["policy"].as_u64() > Some(100), "{thinned}");
    assert!(reasons.get("unacceptable").is_none(), "{thinned}");
}

/// The last segment of a transfer has the FIN, and the receiver's FIN comes back at once: the next
/// transfer begins half a round trip after the last byte of this one has arrived.
#[test]
fn the_end_of_a_transfer_takes_no_round_trip_of_its_own() {
    let flow = "[[flow]]\nname = \"short\"\nfrom = \"sender\"\nto = \"receiver\"\n\
                app = \"short-flows\"\nsizes = [\"10 kB\"]\ncount = 10\n[sweep]\ncc = [\"cubic\"]\n";
    let report = report(&scenario(&[NETWORK, flow]), 1);
    let run = &report.runs[0];
    assert!(run.errors.is_empty(), "{:?}", run.errors);
    let completion = run.totals.completion.as_ref().unwrap();
    assert_eq!((completion.count, completion.unfinished), (10, 0));
    let transfer_s = completion.time_us.p50 / 1e6;
    let between_s = (run.totals.duration_s - 10.0 * transfer_s) / 9.0;
    let half_s = 0.011;
    assert!((half_s..1.2 * half_s).contains(&between_s), "{between_s}");
}

fn refused(parts: &[&str], options: &RunOptions) -> String {
    run(&scenario(parts), options, &mut |_| {})
        .unwrap_err()
        .to_string()
}

#[test]
fn what_it_has_no_model_of_is_refused_with_its_place() {
    let dctcp = BULK.replace("app =", "cc = \"dctcp\"\napp =");
    let mptcp = BULK.replace("app =", "socket = { mptcp = true }\napp =");
    let sysctl = NETWORK.replacen(
        "name = \"sender\"",
        "name = \"sender\"\nsysctl = { \"net.ipv4.tcp_rmem\" = \"1 2 3\" }",
        1,
    );
    // Without a rate or a delay nothing limits the sender.
    let free: String = NETWORK
        .lines()
        .map(|line| match line.split_once(" = {") {
            Some((side, _)) => format!("{side} = {{}}\n"),
            None => format!("{line}\n"),
        })
        .collect();
    let literal = r#"
[[arm]]
name = "baseline"
[[arm]]
name = "literal"
policy = "rate-limit-literal"
at = "receiver"
link = "wan"
"#;
    let two = r#"
[[arm]]
name = "baseline"
[[arm]]
name = "two"
[[arm.place]]
policy = "every-n"
at = "receiver"
link = "wan"
[[arm.place]]
policy = "adaptive"
at = "receiver"
link = "wan"
"#;
    for (parts, message) in [
        (
            vec![NETWORK, &dctcp],
            "'bulk' runs with 'dctcp', which the simulator has no model of",
        ),
        (vec![NETWORK, &mptcp], "asks for Multipath TCP"),
        (vec![&sysctl, BULK], "'sender' sets 'net.ipv4.tcp_rmem'"),
        (
            vec![NETWORK, BULK, "[record]\ncapture = true\n"],
            "'capture' is not made",
        ),
        (vec![&free, BULK], "'bulk' has no bounded rate on its path"),
        (
            vec![NETWORK, BULK, literal],
            "policy rate-limit-literal has to make the ACKs, which this environment cannot",
        ),
        (
            vec![NETWORK, BULK, two],
            "the interface of 'receiver' on link 'wan' already has a policy",
        ),
    ] {
        let error = refused(&parts, &RunOptions::default());
        assert!(error.contains(message), "{error}");
        assert!(error.contains("test.toml:"), "{error}");
    }
}

/// A flow may have the name of a node or a link that is defined before it.
#[test]
fn what_is_refused_is_pointed_at_where_it_stands() {
    let line = |parts: &[&str], wanted: &str| {
        let text = parts.concat();
        1 + text.lines().position(|line| line.contains(wanted)).unwrap()
    };
    let flow = BULK.replace("\"bulk\"\nfrom", "\"wan\"\nfrom");
    let dctcp = flow.replace("app =", "cc = \"dctcp\"\napp =");
    let mptcp = flow.replace("app =", "socket = { mptcp = true }\napp =");
    let network = NETWORK.replace("name = \"test\"", "name = \"test\"\nabout = \"no capture\"");
    for (parts, wanted) in [
        (vec![NETWORK, &dctcp], "dctcp"),
        (vec![NETWORK, &mptcp], "mptcp"),
        (
            vec![&network, BULK, "[record]\ncapture = true\n"],
            "capture = true",
        ),
    ] {
        let error = refused(&parts, &RunOptions::default());
        let place = format!("test.toml:{}:", line(&parts, wanted));
        assert!(error.contains(&place), "{place} in {error}");
    }
}

/// Two sweeps over `sack` would give the same runs under two names.
#[test]
fn sack_is_not_left_out_or_used_against_the_file() {
    let with =
        |cc: &str, more: &str| BULK.replace("app =", &format!("cc = \"{cc}\"\n{more}\napp ="));
    for (cc, more, message) in [
        ("newreno", "socket = { sack = true }", "does not use SACK"),
        ("tahoe", "socket = { sack = true }", "does not use SACK"),
        (
            "cubic",
            "socket = { sack = true }\nmodel = { recovery = \"reno\" }",
            "this 'recovery' does not use SACK",
        ),
        ("sack", "socket = { sack = false }", "needs SACK"),
    ] {
        let error = refused(&[NETWORK, &with(cc, more)], &RunOptions::default());
        assert!(error.contains(message), "{error}");
    }
    for (cc, sack) in [
        ("newreno", false),
        ("sack", true),
        ("cubic", false),
        ("reno", true),
    ] {
        let flow = with(cc, &format!("socket = {{ sack = {sack} }}"));
        let done = run(
            &scenario(&[NETWORK, &flow]),
            &RunOptions::default(),
            &mut |_| {},
        );
        assert!(done.is_ok(), "{cc} {sack}");
    }
}

#[test]
fn what_exceeds_a_limit_is_refused_before_it_starts() {
    let started = AtomicU64::new(0);
    for options in [
        RunOptions {
            max_events: 10_000,
            ..RunOptions::default()
        },
        RunOptions {
            max_memory: 1000,
            ..RunOptions::default()
        },
    ] {
        let outcome = run(&scenario(&[NETWORK, BULK]), &options, &mut |_| {
            started.fetch_add(1, Ordering::Relaxed);
        });
        let Err(SimError::TooLarge { run, hint, .. }) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(
            run == "baseline/cubic/1" && hint.contains("--max"),
            "{hint}"
        );
    }
    assert_eq!(started.into_inner(), 0);
}

#[test]
fn a_cancelled_run_leaves_those_that_are_finished() {
    let scenario = scenario(&[NETWORK, BULK, ARMS]);
    let options = RunOptions {
        jobs: 1,
        ..RunOptions::default()
    };
    let cancel = std::sync::Arc::clone(&options.cancel);
    let mut finished = 0;
    let report = run(&scenario, &options, &mut |progress| {
        if let Progress::Finished { .. } = progress {
            finished += 1;
            cancel.store(finished == 3, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert_eq!((finished, report.runs.len()), (3, 3));
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.contains("5 of 8 runs are missing")),
        "{:?}",
        report.notes
    );
}

/// An hour is reported every 18 s, which many packets fill.
#[test]
fn a_long_run_is_cancelled_before_its_next_report() {
    let hour = std::time::Duration::from_secs(3600);
    let scenario = scenario(&[NETWORK, BULK]).with_duration(hour).unwrap();
    let options = RunOptions::default();
    let mut told = 0;
    let report = run(&scenario, &options, &mut |progress| {
        told += u64::from(matches!(progress, Progress::Running { .. }));
        options.cancel.store(true, Ordering::Relaxed);
    });
    assert_eq!((told, report.unwrap().runs.len()), (0, 0));
}

#[test]
fn one_job_is_executed_by_the_calling_thread() {
    let scenario = scenario(&[NETWORK, BULK, ARMS]);
    let threads = |jobs| {
        let options = RunOptions {
            jobs,
            ..RunOptions::default()
        };
        let mut threads = std::collections::HashSet::new();
        run(&scenario, &options, &mut |_| {
            threads.insert(std::thread::current().id());
        })
        .unwrap();
        threads
    };
    let this = std::thread::current().id();
    assert!(threads(1).into_iter().eq([this]));
    assert!(!threads(2).contains(&this));
}

/// Two flows leave by one interface, with a policy for the second only.
#[test]
fn a_policy_for_one_flow_leaves_the_other_alone() {
    let second = BULK.replace("\"bulk\"\nfrom", "\"second\"\nfrom");
    let arms = r#"
[[arm]]
name = "baseline"
[[arm]]
name = "second"
policy = "every-n"
at = "receiver"
link = "wan"
flows = ["second"]
set = { n = 8, warm = 0 }
"#;
    // No loss, so that ACKs depend only on the data of their own flow.
    let network = NETWORK.replace("50 packets", "5000 packets");
    let report = run(
        &scenario(&[&network, BULK, &second, arms]),
        &RunOptions::default(),
        &mut |_| {},
    )
    .unwrap();
    let per_ack = |arm: &str, flow: &str| {
        let run = report.runs.iter().find(|run| run.arm == arm).unwrap();
        let traffic = &run.flows.iter().find(|f| f.flow == flow).unwrap().traffic;
        traffic.data_segments as f64 / traffic.acks_on_wire as f64
    };
    assert!(per_ack("baseline", "second") < 2.1);
    assert!(
        per_ack("second", "bulk") < 2.1,
        "{}",
        per_ack("second", "bulk")
    );
    assert!(
        per_ack("second", "second") > 6.0,
        "{}",
        per_ack("second", "second")
    );
}

/// A sender limited by the receiver's window is as fast with held ACKs as without, to 3 %:
/// an ACK that opens a 32nd of the window does not wait. It used to lose a fifth.
#[test]
fn s5_a_sender_that_fills_its_window_is_not_slowed_down() {
    let network = NETWORK
        .replace("10 Mbit/s", "100 Mbit/s")
        .replace("1 Mbit/s", "10 Mbit/s");
    for window in ["16 KiB", "32 KiB", "64 KiB", "128 KiB", "256 KiB"] {
        let flow = format!(
            "{BULK}cc = \"cubic\"\n[flow.socket]\nreceive_buffer = \"{window}\"\n\
             [flow.model]\ntune_window = false\n"
        );
        let arms = r#"
[[arm]]
name = "baseline"
[[arm]]
name = "every-n"
policy = "every-n"
at = "receiver"
link = "wan"
set = { n = 256, warm = 0 }
[[arm]]
name = "adaptive"
policy = "adaptive"
at = "receiver"
link = "wan"
"#;
        let report = report(&scenario(&[&network, &flow, arms]), 1);
        let goodput = |arm: &str| {
            let run = report.runs.iter().find(|run| run.arm == arm).unwrap();
            assert!(run.errors.is_empty(), "{:?}", run.errors);
            run.totals.goodput_bps
        };
        for arm in ["every-n", "adaptive"] {
            let ratio = goodput(arm) / goodput("baseline");
            assert!(ratio > 0.97, "{window}, {arm}: {ratio:.3} of the goodput");
        }
    }
}

/// The time in which nothing arrives counts: until the end for a bulk transfer without a size, but
/// not for one that is done.
#[test]
fn a_flow_that_stalls_has_less_goodput_not_more() {
    let ends = r#"forward = { rate = { steps = [["0 s", "10 Mbit/s"], ["2 s", "1 kbit/s"]] }, delay = "10 ms", queue = "50 packets" }"#;
    let plain = NETWORK.lines().find(|l| l.starts_with("forward")).unwrap();
    let stalls = NETWORK.replace(plain, ends);
    let sized = format!("{BULK}bytes = \"1 MB\"\n");
    let of = |network: &str, flow: &str| {
        let scenario = scenario(&[network, flow]);
        report(&scenario, 1).runs[0].totals.clone()
    };
    let stalled = of(&stalls, BULK);
    assert!(stalled.bytes > 1_000_000, "{stalled:?}");
    assert!((4.9..=5.0).contains(&stalled.duration_s), "{stalled:?}");
    let done = of(NETWORK, &sized);
    assert!((0.8..2.0).contains(&done.duration_s), "{done:?}");
    let whole = of(NETWORK, BULK);
    assert!(stalled.goodput_bps < 0.5 * whole.goodput_bps, "{stalled:?}");
    assert!(done.goodput_bps > 0.7 * whole.goodput_bps, "{done:?}");
}

/// The goodput of a starved flow is taken over the time until the end of the run: always for chunks,
/// whose pauses count, and for a transfer that was not finished.
#[test]
fn the_goodput_of_what_starves_is_over_the_whole_time() {
    let ends = r#"forward = { rate = { steps = [["0 s", "10 Mbit/s"], ["2 s", "0 kbit/s"], ["100 s", "10 Mbit/s"]] }, delay = "10 ms", queue = "50 packets" }"#;
    let plain = NETWORK.lines().find(|l| l.starts_with("forward")).unwrap();
    let stalls = NETWORK.replace(plain, ends);
    let chunks = BULK.replace(
        "\"bulk\"\nfrom",
        "\"video\"\nchunk = \"100 kB\"\nperiod = \"900 ms\"\nfrom",
    );
    let chunks = chunks.replace("app = \"bulk\"", "app = \"chunks\"");
    let sized = format!("{BULK}bytes = \"100 MB\"\n");
    let of = |network: &str, flow: &str| {
        let scenario = scenario(&[network, flow]);
        report(&scenario, 1).runs.remove(0)
    };
    let whole = of(NETWORK, &chunks);
    let stalled = of(&stalls, &chunks);
    assert_eq!(
        (whole.totals.bytes, stalled.totals.bytes),
        (600_000, 300_000)
    );
    assert_eq!(whole.totals.duration_s, stalled.totals.duration_s);
    assert_eq!(whole.totals.goodput_bps, 2.0 * stalled.totals.goodput_bps);
    assert_eq!(whole.errors, [""; 0]);
    let unfinished = of(&stalls, &sized);
    assert_eq!(unfinished.totals.duration_s, whole.totals.duration_s);
}

/// What the file asks for only in some runs is refused, too, where these get it from.
#[test]
fn what_only_some_runs_ask_for_is_refused() {
    let swept = |path: &str, values: &str| format!("[sweep]\n{path} = [{values}]\n");
    let changed = |change: &str| {
        format!("[[arm]]\nname = \"baseline\"\n[[arm]]\nname = \"b\"\nchange = {{ {change} }}\n")
    };
    let zipped = "[sweep]\nzip = { flow.bulk.socket.mptcp = [false, true],\n\
                  link.wan.forward.rate = [\"5 Mbit/s\", \"6 Mbit/s\"] }\n";
    let drawn = "[sweep.draw]\nn = 2\nflow.bulk.socket.send_buffer = \
                 { choice = [\"64 KiB\", \"1 MiB\"] }\n";
    for (more, wanted, said) in [
        (
            swept("flow.bulk.socket.mptcp", "false, true"),
            "socket.mptcp =",
            "Multipath",
        ),
        (
            swept("record.capture", "false, true"),
            "record.capture",
            "'capture'",
        ),
        (
            swept("link.wan.offload", "false, true"),
            "wan.offload",
            "offloads",
        ),
        (
            swept("flow.bulk.socket.send_buffer", "\"64 KiB\""),
            "send_buffer =",
            "receive_buffer",
        ),
        (
            swept("flow.bulk.cc", "\"reno\", \"dctcp\""),
            "flow.bulk.cc",
            "dctcp",
        ),
        (
            changed("node.sender.sysctl.\"net.ipv4.tcp_sack\" = \"0\""),
            "tcp_sack",
            "no kernel",
        ),
        (
            changed("\"flow.*.socket.mptcp\" = true"),
            "socket.mptcp",
            "Multipath",
        ),
        (zipped.to_owned(), "socket.mptcp =", "Multipath"),
        (drawn.to_owned(), "send_buffer =", "receive_buffer"),
    ] {
        let text = [NETWORK, BULK, &more].concat();
        let line = 1 + text.lines().position(|line| line.contains(wanted)).unwrap();
        let error = refused(&[NETWORK, BULK, &more], &RunOptions::default());
        let place = format!("test.toml:{line}:");
        assert!(error.contains(&place) && error.contains(said), "{error}");
    }
    // A run without it is fine.
    let options = RunOptions {
        only: vec!["baseline/cubic/1".to_owned()],
        ..RunOptions::default()
    };
    let parts = [NETWORK, BULK, &changed("flow.bulk.socket.mptcp = true")];
    let done = run(&scenario(&parts), &options, &mut |_| {});
    assert!(done.is_ok_and(|report| report.runs.len() == 1));
}

/// Shares of different lines are not added.
#[test]
fn the_share_of_the_uplink_is_that_of_one_line() {
    let flow = |name: &str, from: &str, to: &str| {
        format!("[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\napp = \"bulk\"\n")
    };
    let link = |name: &str, between: &str, up: &str| {
        format!(
            "[[link]]\nname = \"{name}\"\nbetween = [{between}]\n\
             forward = {{ rate = \"20 Mbit/s\", delay = \"10 ms\", queue = \"50 packets\" }}\n\
             reverse = {{ rate = \"{up}\", delay = \"10 ms\", queue = \"50 packets\" }}\n"
        )
    };
    let head = |nodes: &[&str]| {
        let nodes = nodes
            .iter()
            .map(|node| format!("[[node]]\nname = \"{node}\"\n"));
        let nodes: String = nodes.collect();
        format!("[scenario]\nname = \"t\"\nduration = \"2 s\"\n{nodes}")
    };
    let shares = |parts: &[&str]| {
        let run = report(&scenario(parts), 1).runs.remove(0);
        let share = |part: &ackwise_scenario::record::Traffic| part.uplink_share.unwrap();
        let flows: Vec<f64> = run.flows.iter().map(|flow| share(&flow.traffic)).collect();
        (share(&run.totals), flows)
    };
    // Two pairs, each with an uplink of its own.
    let (all, each) = shares(&[
        &head(&["a", "b", "c", "d"]),
        &link("one", "\"a\", \"b\"", "800 kbit/s"),
        &link("two", "\"c\", \"d\"", "800 kbit/s"),
        &flow("f", "a", "b"),
        &flow("g", "c", "d"),
    ]);
    assert!(
        each[0] > 0.3 && all <= each[0].max(each[1]) * 1.01,
        "{all} {each:?}"
    );
    // Both ways over a symmetric link.
    let (all, each) = shares(&[
        &head(&["a", "b"]),
        &link("one", "\"a\", \"b\"", "20 Mbit/s"),
        &flow("f", "a", "b"),
        &flow("g", "b", "a"),
    ]);
    assert!(all <= each[0].max(each[1]) * 1.01, "{all} {each:?}");
    // Two downloads over one uplink take it together.
    let (all, each) = shares(&[
        &head(&["a", "b"]),
        &link("one", "\"a\", \"b\"", "2 Mbit/s"),
        &flow("f", "a", "b"),
        &flow("g", "a", "b"),
    ]);
    let sum = each[0] + each[1];
    assert!(
        (all - sum).abs() < 0.1 * sum && all > each[0].max(each[1]),
        "{all} {each:?}"
    );
}

/// Many runs take a while to check, and a signal need not wait for that.
#[test]
fn a_signal_ends_the_checks_before_the_first_run() {
    let options = RunOptions {
        max_events: 1,
        ..RunOptions::default()
    };
    options.cancel.store(true, Ordering::Relaxed);
    let done = run(&scenario(&[NETWORK, BULK]), &options, &mut |_| {});
    assert!(done.is_ok_and(|report| report.runs.is_empty()));
}
