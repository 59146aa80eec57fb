//! The kernel in an emulated machine: it boots, its TCP follows a policy, and its report is the
//! same every time. The machine is QEMU's, without KVM, so this runs anywhere; its clock counts
//! instructions, so load does not disturb it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use ackwise_engines::LabError;
use ackwise_engines::emulated::{self, Between, First, Job, Machine, Record};

/// 125 million instructions per second.
const SHIFT: u8 = 3;

/// The kernel, which is built if it does not exist.
fn kernel() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        if let Some(named) = std::env::var_os(emulated::KERNEL_VARIABLE) {
            return named.into();
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../kernel/build");
        let output = Command::new(&script).arg("x86_64").output().unwrap();
        let (stderr, path) = (output.stderr, String::from_utf8(output.stdout).unwrap());
        assert!(
            output.status.success(),
            "{} x86_64: {}",
            script.display(),
            String::from_utf8_lossy(&stderr)
        );
        path.trim().into()
    };
    BUILT.get_or_init(build).clone()
}

fn machine() -> Machine {
    Machine::new(
        kernel(),
        env!("CARGO_BIN_EXE_ackwise-emulated-guest"),
        SHIFT,
    )
}

fn job(policy: Option<&str>) -> Job {
    let policy = policy.map(|policy| ("net.ipv4.tcp_ack_policy".to_owned(), policy.to_owned()));
    // The path is short: a share of its round trip would leave no time to hold. With 0, the
    // delayed-ACK timer is the only bound.
    let hold = ("net.ipv4.tcp_ack_hold_us".to_owned(), "0".to_owned());
    Job {
        duration_ms: 400,
        write_bps: None,
        chunk_bytes: 2896,
        first: First::Receiver,
        trace: false,
        cc: "reno".to_owned(),
        sample_ms: 50,
        sender_sysctls: Vec::new(),
        receiver_sysctls: policy.into_iter().chain([hold]).collect(),
        between: Between::Wire,
    }
}

fn run(job: &Job) -> Result<Record, LabError> {
    emulated::run(&machine(), job, &false.into())
}

#[test]
fn it_boots_and_a_policy_takes_acks_and_instructions_away() {
    let stock = run(&job(None)).unwrap();
    let limited = run(&job(Some("every-n:n=16"))).unwrap();
    assert!(stock.kernel.starts_with("Linux 6.12."), "{}", stock.kernel);
    let [stock, limited] =
        [stock, limited].map(|record| record.span(200_000_000, u64::MAX).unwrap());
    let per_ack = |span: &emulated::Span| span.segments_per_ack().unwrap();
    assert!(per_ack(&stock) < 2.5, "{stock:?}");
    assert!(per_ack(&limited) > 10.0, "{limited:?}");
    let cost = |span: &emulated::Span| span.instructions_per_mb(span.busy_ns, SHIFT).unwrap();
    assert!(
        cost(&limited) < 0.9 * cost(&stock),
        "{} and {}",
        cost(&limited),
        cost(&stock)
    );
}

#[test]
fn the_same_job_gives_the_same_record() {
    let job = Job {
        trace: true,
        ..job(Some("rate-limit:start=100"))
    };
    let (first, second) = (run(&job).unwrap(), run(&job).unwrap());
    assert!(first.samples.len() > 5, "{first:?}");
    assert!(first.samples.iter().any(|sample| sample.ack_rate > Some(1)));
    two_of_three(&first, &second, || run(&job).unwrap());
}

/// Once in eight runs on a busy machine, two records differed. We suspect that QEMU accounts
/// instructions after the processor leaves its loop, and may find the guest idle before that. If
/// two of three records agree, it is that; otherwise it is another fault.
fn two_of_three(first: &Record, second: &Record, again: impl FnOnce() -> Record) {
    if first != second {
        println!("{first:#?}\n{second:#?}");
        let third = again();
        assert!(third == *first || third == *second, "{third:#?}");
    }
}

#[test]
fn what_fails_inside_is_told_outside() {
    let unknown = run(&job(Some("no-such-policy"))).unwrap_err().to_string();
    assert!(
        unknown.contains("net.ipv4.tcp_ack_policy = no-such-policy"),
        "{unknown}"
    );
    let nowhere = Machine::new("/nowhere/bzImage", "/nowhere/init", SHIFT);
    let error = emulated::run(&nowhere, &job(None), &false.into()).unwrap_err();
    assert!(error.to_string().contains("kernel/build x86_64"), "{error}");
}

/// A machine on which every host has time to spare: 500 million instructions per second.
const FORWARDING_SHIFT: u8 = 1;
const SEGMENT: u64 = 1448;

/// 20 Mbit/s through a router and a bridge.
fn forwarded(acks_bps: Option<u64>) -> Record {
    let machine = Machine::new(
        kernel(),
        env!("CARGO_BIN_EXE_ackwise-emulated-guest"),
        FORWARDING_SHIFT,
    );
    let job = Job {
        duration_ms: 500,
        between: Between::Router {
            shape_bps: 20_000_000,
            acks_bps,
        },
        cc: "cubic".to_owned(),
        ..job(None)
    };
    emulated::run(&machine, &job, &false.into()).unwrap()
}

#[test]
fn what_a_router_pays_for_acks_is_told_apart_and_exact() {
    let [all, few, again] = [None, Some(87_000), Some(87_000)].map(forwarded);
    two_of_three(&few, &again, || forwarded(Some(87_000)));
    // ACKs and router instructions per segment that arrived.
    let [(acks, cost), (few_acks, few_cost)] = [all, few].map(|record| {
        let span = record.span(200_000_000, 500_000_000).unwrap();
        let segments = span.bytes / SEGMENT;
        assert!(segments > 450, "{span:?}");
        let acks = (span.forwarded - segments) as f64 / segments as f64;
        (acks, span.router_ns as f64 / 2.0 / segments as f64)
    });
    assert!((0.45..0.55).contains(&acks), "{acks}");
    assert!((0.08..0.13).contains(&few_acks), "{few_acks}");
    // An ACK costs nearly as much as a segment; at equal cost, 26.7 % would be saved.
    let saved = 1.0 - few_cost / cost;
    assert!((0.24..0.29).contains(&saved), "{cost}, {few_cost}: {saved}");
}

/// Runs four seconds of writes at this rate, with `adaptive` as it is shipped or with no policy.
/// Returns the last 1.5 s in two halves: by then the policy has known the CPU's state for at least
/// a second.
fn last_halves(policy: &str, write_bps: Option<u64>) -> [emulated::Span; 2] {
    let job = Job {
        duration_ms: 4000,
        write_bps,
        sample_ms: 100,
        receiver_sysctls: vec![("net.ipv4.tcp_ack_policy".to_owned(), policy.to_owned())],
        cc: "cubic".to_owned(),
        ..job(None)
    };
    let record = run(&job).unwrap();
    [2_500_000_000, 3_250_000_000].map(|from| record.span(from, from + 750_000_000).unwrap())
}

/// On a path of a third of a millisecond, nine ACKs per round trip are all ACKs. Even so,
/// `adaptive` relieves a CPU that is the bottleneck, and continues when that leaves it some time. A
/// CPU that has time to spare is left alone.
#[test]
fn adaptive_saves_acks_on_a_short_path_where_the_cpu_is_short_of_time() {
    let per_ack = |spans: &[emulated::Span; 2]| spans.map(|s| s.segments_per_ack().unwrap());
    let goodput = |spans: &[emulated::Span; 2]| {
        spans.iter().map(emulated::Span::goodput_bps).sum::<f64>() / 2.0
    };
    let stock = last_halves("none", None);
    let full = last_halves("adaptive", None);
    assert!(per_ack(&stock).iter().all(|n| *n < 2.5), "{stock:?}");
    assert!(per_ack(&full).iter().all(|n| *n > 5.0), "{full:?}");
    let gain = goodput(&full) / goodput(&stock);
    assert!(gain > 1.15, "{gain}: {stock:?}, {full:?}");
    // More than the CPU can do without the policy, but less than it can do with it.
    let more = goodput(&stock) * (1.0 + gain) / 2.0;
    let relieved = last_halves("adaptive", Some(more as u64));
    assert!(per_ack(&relieved).iter().all(|n| *n > 5.0), "{relieved:?}");
    assert!(
        relieved.iter().all(|s| (0.8..0.96).contains(&s.load())),
        "{relieved:?}"
    );
    let spare = last_halves("adaptive", Some((goodput(&stock) * 0.7) as u64));
    assert!(per_ack(&spare).iter().all(|n| *n < 2.5), "{spare:?}");
    assert!(spare.iter().all(|s| s.load() < 0.9), "{spare:?}");
}
