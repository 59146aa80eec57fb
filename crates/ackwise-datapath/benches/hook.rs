//! What a packet costs at the hook, by BPF_PROG_TEST_RUN, and what a flood does.
//!
//! `cargo bench -p ackwise-datapath [-- --format json]`, as root.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use ackwise_datapath::{Options, Programs};
use common::{SYN, Seg};
use serde_json::json;

const ROUNDS: u32 = 15;
const REPEAT: u32 = 50_000;
const MSS: usize = 1000;
/// Beyond the empty program, ns: what this project allows itself.
const DATA_TARGET: u128 = 60;
const HELD_TARGET: u128 = 120;

struct Row {
    name: String,
    ns: u128,
    target: Option<u128>,
}

fn load(policy: &str, step: u32) -> Programs {
    let mut o = Options::new("lo", policy.parse().expect("a policy"));
    o.hold_rtt_shift = 0;
    let mut p = Programs::for_benchmark(&o, step).unwrap_or_else(|e| panic!("{e}"));
    p.keep_alive(Duration::from_secs(600)).expect("control map");
    p
}

fn best(p: &Programs, program: &str, packet: &[u8]) -> u128 {
    (0..ROUNDS)
        .map(|_| {
            p.run(program, packet, REPEAT)
                .unwrap_or_else(|e| panic!("{e}"))
                .1
                .as_nanos()
        })
        .min()
        .unwrap_or(0)
}

/// A flow that has started, at a policy that may thin it.
fn started(p: &Programs, options: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let data = Seg {
        options: options.to_vec(),
        ..Seg::data(1000, MSS)
    }
    .frame();
    let ack = Seg {
        options: options.to_vec(),
        ..Seg::ack(2000)
    }
    .frame();
    for _ in 0..200 {
        p.run("ackwise_data", &data, 1).expect("data");
        p.run("ackwise_acks", &ack, 1).expect("ack");
    }
    (data, ack)
}

fn costs() -> (u128, Vec<Row>) {
    let mut rows = Vec::new();
    let p = load("none", 1);
    let (data, ack) = started(&p, &[]);
    let empty = best(&p, "ackwise_empty", &data);
    let mut udp = data.clone();
    udp[23] = 17;
    let mut row = |name: &str, ns, target| {
        rows.push(Row {
            name: name.into(),
            ns,
            target,
        })
    };
    row("not TCP", best(&p, "ackwise_data", &udp), None);
    row(
        "data, none",
        best(&p, "ackwise_data", &data),
        Some(DATA_TARGET),
    );
    row("ACK passed, none", best(&p, "ackwise_acks", &ack), None);
    let ts = [1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 9];
    for (name, policy, step) in [
        ("every-n", "every-n:n=8,warm=0", MSS as u32),
        ("adaptive", "adaptive", MSS as u32),
    ] {
        let p = load(policy, step);
        let (data, ack) = started(&p, &ts);
        row(
            &format!("data, {name}"),
            best(&p, "ackwise_data", &data),
            Some(DATA_TARGET),
        );
        let before = p.counters().expect("counters");
        let ns = best(&p, "ackwise_acks", &ack);
        let now = p.counters().expect("counters");
        let share = (now.withheld - before.withheld) * 100 / (now.acks - before.acks).max(1);
        row(&format!("ACK, {name}, {share} % withheld"), ns, None);
    }
    for (name, policy) in [
        ("every-n", "every-n:n=256,warm=0".to_owned()),
        ("adaptive", "adaptive".to_owned()),
    ] {
        // Small steps: one run is held, and its frame replaced, for long.
        let p = load(&policy, 1);
        let (_, ack) = started(&p, &ts);
        let before = p.counters().expect("counters");
        let ns = best(&p, "ackwise_acks", &ack);
        let now = p.counters().expect("counters");
        let share = (now.withheld - before.withheld) * 100 / (now.acks - before.acks).max(1);
        let target = (share >= 90).then_some(HELD_TARGET);
        row(&format!("ACK withheld, {name} ({share} %)"), ns, target);
    }
    (empty, rows)
}

fn flood() -> serde_json::Value {
    const FLOWS: u32 = 100_000;
    const SYNS: u32 = 1_000_000;
    let mut o = Options::new("lo", "every-n".parse().expect("a policy"));
    o.max_flows = 1 << 18;
    let p = Programs::load(&o, 1, ackwise_datapath::sys::AW_LINK_ETHERNET, false)
        .unwrap_or_else(|e| panic!("{e}"));
    let memory: u64 = p.memory().values().sum();
    // The address is changed in place; the hook does not verify checksums.
    let mut ack = Seg::ack(5000).frame();
    let mut established = |p: &Programs| {
        for i in 0..FLOWS {
            ack[26..30].copy_from_slice(&(0x0a00_0000 + i).to_be_bytes());
            p.run("ackwise_acks", &ack, 1).expect("ack");
        }
    };
    established(&p);
    let created = p.counters().expect("counters").flows_created;
    let mut syn = Seg {
        acks: false,
        flags: SYN,
        ..Seg::data(1, 0)
    }
    .frame();
    let begin = Instant::now();
    for i in 0..SYNS {
        syn[26..30].copy_from_slice(&(0x2000_0000 + i).to_be_bytes());
        p.run("ackwise_data", &syn, 1).expect("SYN");
    }
    let took = begin.elapsed();
    established(&p);
    let again = p.counters().expect("counters").flows_created - created;
    let now: u64 = p.memory().values().sum();
    assert_eq!(memory, now, "memory is fixed when it is loaded");
    json!({
        "flows": FLOWS,
        "flows_created": created,
        "syns": SYNS,
        "flows_lost_to_the_flood": again,
        "seconds": took.as_secs_f64(),
        "memory_bytes": memory,
        "memory": p.memory(),
    })
}

fn main() {
    // SAFETY: no arguments, cannot fail.
    let user = unsafe { libc::geteuid() };
    assert_eq!(user, 0, "BPF programs are loaded: run this as root");
    let json = std::env::args().any(|a| a == "json" || a == "--format=json");
    let (empty, rows) = costs();
    let flood = flood();
    let missed: Vec<_> = rows
        .iter()
        .filter(|r| r.target.is_some_and(|t| r.ns > empty + t))
        .map(|r| r.name.clone())
        .collect();
    if json {
        let rows: Vec<_> = rows
            .iter()
            .map(
                |r| json!({ "name": r.name, "ns": r.ns, "target_ns": r.target.map(|t| empty + t) }),
            )
            .collect();
        println!(
            "{}",
            json!({ "empty_ns": empty, "packets": rows, "flood": flood, "missed": missed })
        );
    } else {
        println!(
            "{:<36} {:>6} {:>8} {:>8}",
            "packet", "ns", "beyond", "target"
        );
        println!("{:<36} {empty:>6}", "empty program");
        for r in &rows {
            let target = r.target.map_or_else(String::new, |t| t.to_string());
            println!(
                "{:<36} {:>6} {:>8} {target:>8}",
                r.name,
                r.ns,
                r.ns.saturating_sub(empty)
            );
        }
        println!(
            "\n{} flows kept in {} bytes of kernel memory; {} SYNs in {:.1} s; flows lost to them: {}",
            flood["flows_created"],
            flood["memory_bytes"],
            flood["syns"],
            flood["seconds"].as_f64().unwrap_or(0.0),
            flood["flows_lost_to_the_flood"]
        );
        for name in &missed {
            println!("over its target: {name}");
        }
    }
    if flood["flows_lost_to_the_flood"] != 0 {
        eprintln!("a SYN flood evicted flows");
        std::process::exit(1);
    }
}
