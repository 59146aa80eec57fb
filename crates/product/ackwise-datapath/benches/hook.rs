//! Measures what a packet costs at the hook, what loading takes, and what a flood does.
//!
//! `cargo bench -p ackwise-datapath [-- --format json]`, as root.

#[path = "../tests/common/mod.rs"]
mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use ackwise_datapath::{Datapath, Lateness, Options, Programs, sys};
use common::{Flow, Pair, SYN, Seg, Topology, Wire, host, link, ms};
use serde_json::{Value, json};

/// The machine is shared, so the minimum of many short runs, taken in turns, counts.
const ROUNDS: u32 = 25;
/// Warm-up rounds before them: a policy needs two rounds of a flow's ACKs for its start.
const WARM_UP: u32 = 3;
const REPEAT: u32 = 20_000;
const MSS: usize = 1000;
/// The name of rows whose ACKs are withheld.
const HELD: &str = "ACK withheld";
/// The round trip of a flow, far longer than a run takes.
const RTT: Duration = Duration::from_millis(20);
/// The project's targets for the cost beyond the empty program, ns.
const DATA_TARGET: u128 = 60;
const HELD_TARGET: u128 = 120;
/// The targets for lateness beyond the bound D on an idle machine, us: for half of the held ACKs,
/// and for 99 of 100.
const LATE_TARGETS: (u64, u64) = (200, 5000);

/// A link whose other end drops everything.
const BENCH: Topology = Topology {
    nodes: &[host("here"), host("there")],
    links: &[link("here.bench0", "there.bench1").without_addresses()],
};

const POLICIES: [(&str, &str); 4] = [
    ("none", "none"),
    ("every-n", "every-n:n=8,warm=0"),
    ("adaptive", "adaptive"),
    ("rate-limit", "rate-limit"),
];

/// One packet that is run through one program repeatedly.
struct Case {
    name: String,
    programs: usize,
    program: &'static str,
    packet: Vec<u8>,
    target: Option<u128>,
    ns: u128,
    /// The ACKs that the programs counted, and the number of them that were withheld.
    acks: (u64, u64),
}

fn load(policy: &str, step: usize) -> Programs {
    let mut o = Options::new("lo", policy.parse().expect("a policy"));
    (o.hold_rtt_shift, o.max_flows) = (0, 1024);
    let step = u32::try_from(step).expect("small");
    let mut p = Programs::for_benchmark(&o, step).unwrap_or_else(|e| panic!("{e}"));
    p.keep_alive(Duration::from_secs(600)).expect("control map");
    p
}

/// Timestamps of data that echo `echoed`, or of an ACK.
fn time_stamps(echoed: u8) -> Vec<u8> {
    vec![1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, echoed]
}

/// A flow that has started, with a policy that may thin it. Its path has the round trip [`RTT`]:
/// data echo the preceding ACK once after that time, and an older one afterwards.
fn started(p: &Programs) -> (Vec<u8>, Vec<u8>) {
    let data = |echoed| {
        let mut seg = Seg::data(1000, MSS);
        seg.options = time_stamps(echoed);
        seg.frame()
    };
    let ack = Seg {
        options: time_stamps(9),
        ..Seg::ack(2000)
    };
    let ack = ack.frame();
    p.run("ackwise_acks", &ack, 1).expect("ack");
    std::thread::sleep(RTT);
    p.run("ackwise_data", &data(9), 1).expect("data");
    for _ in 0..200 {
        p.run("ackwise_data", &data(8), 1).expect("data");
        p.run("ackwise_acks", &ack, 1).expect("ack");
    }
    (data(8), ack)
}

fn cases() -> (Vec<Programs>, Vec<Case>) {
    let (mut programs, mut cases) = (Vec::new(), Vec::new());
    let mut add = |name: &str, programs: usize, program, packet: &[u8], target| {
        cases.push(Case {
            name: name.into(),
            programs,
            program,
            packet: packet.to_vec(),
            target,
            ns: u128::MAX,
            acks: (0, 0),
        });
    };
    for (i, (name, policy)) in POLICIES.into_iter().enumerate() {
        let p = load(policy, MSS);
        let (data, ack) = started(&p);
        if i == 0 {
            add("empty program", i, "ackwise_empty", &data, None);
            let mut udp = data.clone();
            udp[23] = 17;
            add("not TCP", i, "ackwise_data", &udp, None);
        }
        let target = (name != "rate-limit").then_some(DATA_TARGET);
        add(&format!("data, {name}"), i, "ackwise_data", &data, target);
        let what = if i == 0 { "ACK passed" } else { "ACK, mixed" };
        let what = format!("{what}, {name}");
        add(&what, i, "ackwise_acks", &ack, None);
        programs.push(p);
    }
    // Small steps: a run is held, and its frame replaced, for a long time, but not until its
    // deadline, because nothing here takes what the timer hands out. The start is over after the
    // warm-up, and the other cases' turns are too short to cause a new start.
    let held = [
        ("every-n", "every-n:n=256,warm=0", MSS / 10),
        (
            "adaptive",
            "adaptive:acks_per_rtt=2,start_segments=10,plateau=1,idle_us=60000000",
            1,
        ),
    ];
    for (name, policy, step) in held {
        let p = load(policy, step);
        let (_, ack) = started(&p);
        let name = format!("{HELD}, {name}");
        add(
            &name,
            programs.len(),
            "ackwise_acks",
            &ack,
            Some(HELD_TARGET),
        );
        programs.push(p);
    }
    (programs, cases)
}

fn costs() -> (u128, Vec<Case>) {
    let (programs, mut cases) = cases();
    for round in 0..WARM_UP + ROUNDS {
        for case in &mut cases {
            let p = &programs[case.programs];
            let before = p.counters().expect("counters");
            let (_, elapsed) = p
                .run(case.program, &case.packet, REPEAT)
                .unwrap_or_else(|e| panic!("{e}"));
            if round < WARM_UP {
                continue;
            }
            let now = p.counters().expect("counters");
            case.ns = case.ns.min(elapsed.as_nanos());
            case.acks.0 += now.acks - before.acks;
            case.acks.1 += now.withheld - before.withheld;
        }
    }
    for case in &mut cases {
        if let Some(share) = (100 * case.acks.1).checked_div(case.acks.0) {
            let held = case.name.starts_with(HELD);
            assert!(!held || share > 90, "{}: only {share} %", case.name);
            case.name += &format!(" ({share} % withheld)");
        }
    }
    (cases[0].ns, cases)
}

/// Measures loading, which is mostly the verifier's work.
fn loading() -> Vec<Value> {
    POLICIES
        .into_iter()
        .map(|(name, policy)| {
            let o = Options::new("lo", policy.parse().expect("a policy"));
            let begin = Instant::now();
            let p = Programs::load(&o, 1, sys::AW_LINK_ETHERNET, false)
                .unwrap_or_else(|e| panic!("{e}"));
            let elapsed = begin.elapsed();
            let verified = p.verified();
            json!({
                "policy": name,
                "milliseconds": elapsed.as_secs_f64() * 1e3,
                "verified_instructions": verified.values().sum::<u32>(),
                "of_them": verified,
            })
        })
        .collect()
}

/// Measures what `tc` offers for the same purpose: dropping the ACKs above a rate. Filters cannot
/// be run like programs, so packets are sent through a veth with and without it.
fn police() -> Option<u128> {
    const PACKETS: u32 = 20_000;
    let [here, _there] = BENCH.build();
    here.run(|| {
        let tc = |args: &str| {
            Command::new("tc")
                .args(args.split_whitespace())
                .output()
                .is_ok_and(|o| o.status.success())
        };
        let filter = "dev bench0 egress protocol ip prio 1 u32 match ip protocol 6 0xff \
                      police rate 10gbit burst 1mb conform-exceed drop";
        if !tc("qdisc add dev bench0 clsact") || !tc(&format!("filter add {filter}")) {
            return None;
        }
        let wire = Wire::open("bench0");
        let ack = Seg::ack(1000).frame();
        let mut best = [u128::MAX; 2];
        for round in 0..20 {
            let with = round % 2;
            let change = if with == 1 { "add" } else { "del" };
            tc(&format!("filter {change} {filter}"));
            let begin = Instant::now();
            for _ in 0..PACKETS {
                wire.send(&ack);
            }
            let ns = begin.elapsed().as_nanos() / u128::from(PACKETS);
            best[with] = best[with].min(ns);
        }
        Some(best[1].saturating_sub(best[0]))
    })
}

/// Measures how late ACKs leave that nothing supersedes.
fn release() -> Lateness {
    Pair::new().run(|near, far| {
        let mut o = Options::new("aw0", "every-n:n=64,warm=0".parse().expect("a policy"));
        o.hold_rtt_shift = 0;
        o.hold_max = ms(4);
        let a = Datapath::attach(o).unwrap_or_else(|e| panic!("{e}"));
        let mut flow = Flow::start(near, far, Seg::ack(0));
        far.drain(ms(20));
        for _ in 0..400 {
            flow.data(far);
            near.send(&flow.ack().frame());
            far.tcp(ms(8));
        }
        a.detach().unwrap_or_else(|e| panic!("{e}")).lateness
    })
}

fn flood() -> Value {
    const FLOWS: u32 = 100_000;
    const SYNS: u32 = 1_000_000;
    let mut o = Options::new("lo", "every-n".parse().expect("a policy"));
    o.max_flows = 1 << 18;
    let p = Programs::load(&o, 1, sys::AW_LINK_ETHERNET, false).unwrap_or_else(|e| panic!("{e}"));
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
    let elapsed = begin.elapsed();
    established(&p);
    let again = p.counters().expect("counters").flows_created - created;
    let now: u64 = p.memory().values().sum();
    assert_eq!(memory, now, "memory is fixed when it is loaded");
    json!({
        "flows": FLOWS,
        "flows_created": created,
        "syns": SYNS,
        "flows_lost_to_the_flood": again,
        "seconds": elapsed.as_secs_f64(),
        "memory_bytes": memory,
        "memory": p.memory(),
    })
}

fn print_release(l: &Lateness) {
    let ok = |us, target| if us <= target { "ok" } else { "OVER" };
    println!("\nrelease of held ACKs           us past D  target");
    for (name, us, target) in [
        ("median", l.p50_us, LATE_TARGETS.0),
        ("99th percentile", l.p99_us, LATE_TARGETS.1),
    ] {
        println!("  {name:<26} {us:>11} {target:>7}  {}", ok(us, target));
    }
    println!("  {:<26} {:>11}          of {}", "worst", l.max_us, l.count);
}

fn print(empty: u128, cases: &[Case], peer: Option<u128>, loading: &[Value], flood: &Value) {
    println!(
        "{:<44} {:>5} {:>11} {:>7}",
        "packet", "ns", "over empty", "target"
    );
    for c in cases {
        let over = c.ns.saturating_sub(empty);
        let (target, verdict) = match c.target {
            Some(t) if over > t => (t.to_string(), "OVER"),
            Some(t) => (t.to_string(), "ok"),
            None => (String::new(), ""),
        };
        println!(
            "{:<44} {:>5} {over:>11} {target:>7}  {verdict}",
            c.name, c.ns
        );
    }
    let peer = peer.map_or_else(|| "not in this kernel".into(), |ns| format!("{ns:>17}"));
    println!("{:<44} {peer}", "peer: tc u32 + police, sent over a veth");

    println!(
        "\n{:<16} {:>8} {:>24}",
        "loading", "ms", "verified instructions"
    );
    for l in loading {
        println!(
            "{:<16} {:>8.0} {:>24}",
            l["policy"].as_str().unwrap_or(""),
            l["milliseconds"].as_f64().unwrap_or(0.0),
            l["verified_instructions"]
        );
    }

    println!("\nflood");
    println!("  flows kept              {:>12}", flood["flows_created"]);
    println!("  SYNs                    {:>12}", flood["syns"]);
    println!(
        "  seconds for the SYNs    {:>12.1}",
        flood["seconds"].as_f64().unwrap_or(0.0)
    );
    println!(
        "  flows lost to them      {:>12}",
        flood["flows_lost_to_the_flood"]
    );
    println!("  kernel memory, bytes    {:>12}", flood["memory_bytes"]);
    let mut memory: Vec<_> = flood["memory"].as_object().into_iter().flatten().collect();
    memory.sort_by_key(|(_, bytes)| std::cmp::Reverse(bytes.as_u64()));
    for (map, bytes) in memory.into_iter().take(4) {
        println!("    {map:<22}{bytes:>12}");
    }
}

fn main() {
    // SAFETY: no arguments, cannot fail.
    let user = unsafe { libc::geteuid() };
    assert_eq!(user, 0, "BPF programs are loaded: run this as root");
    let json = std::env::args().any(|a| a == "json" || a == "--format=json");
    let (empty, cases) = costs();
    let (peer, loading, release, flood) = (police(), loading(), release(), flood());
    if json {
        let rows: Vec<_> = cases
            .iter()
            .map(|c| {
                let over = c.ns.saturating_sub(empty);
                json!({
                    "name": c.name,
                    "ns": c.ns,
                    "over_empty_ns": over,
                    "target_ns": c.target,
                    "ok": c.target.map(|t| over <= t),
                })
            })
            .collect();
        let peer = json!({ "name": "tc u32 + police", "over_empty_ns": peer });
        println!(
            "{}",
            json!({
                "packets": rows,
                "peer": peer,
                "loading": loading,
                "release_lateness": release,
                "flood": flood,
            })
        );
    } else {
        print(empty, &cases, peer, &loading, &flood);
        print_release(&release);
    }
    if flood["flows_lost_to_the_flood"] != 0 {
        eprintln!("a SYN flood evicted flows");
        std::process::exit(1);
    }
}
