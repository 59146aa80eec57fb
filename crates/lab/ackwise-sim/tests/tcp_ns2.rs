//! The senders of the `ns2` stack send what those of ns-2.35 send, packet by packet.
//!
//! `ns2/*.txt` are traces of ns-2.35, made by `scripts/peers/trace.tcl`: microseconds
//! since the start, and the packet's number. Losses follow from the numbers of the packets
//! in each direction, so that nothing is random; a sender that differs in one decision
//! differs in everything that follows.

mod tcp_support;

use ackwise_config::queues::QueueLimit;
use ackwise_scenario::tcp_model::{Growth, Pacing, Stack};
use ackwise_scenario::{SocketOptions, TcpModel};
use ackwise_sim::packet::Direction;
use tcp_support::{Fate, Net, Pipe, SECOND, ends};

const SEGMENT: u64 = 550;
const DELAY_NS: u64 = 20_013_700;

/// The trace of ns-2's agent, and ours for the same flow.
fn traces(
    agent: &str,
    golden: &str,
    ack_bps: u64,
    (every, lost): (usize, &[usize]),
) -> [Vec<(u64, u64)>; 2] {
    let limit = Some(QueueLimit::Packets(1000));
    let mut model = TcpModel {
        stack: Some(Stack::Ns2),
        segment: Some(SEGMENT as u32),
        window_limit: limit,
        ..TcpModel::default()
    };
    if agent == "asym" {
        model.growth = Some(Growth::Singly);
        model.pacing = Some(Pacing::BurstByAcks);
        model.max_burst = Some(4);
    }
    let cc = if agent == "asym" { "newreno" } else { agent };
    let lost = lost.to_vec();
    let drop_if = |lost| if lost { Fate::Drop } else { Fate::Pass };
    let data = Pipe::new(DELAY_NS)
        .rate(10_000_000, 10_000)
        .judge(move |_, n| drop_if(lost.contains(&(n % every))));
    let acks = Pipe::new(DELAY_NS)
        .rate(ack_bps, 10_000)
        .judge(move |_, n| drop_if(n >= 5 && matches!(n % 5, 1 | 3)));
    let mut net = Net::new(ends(cc, &model, &SocketOptions::default()), data, acks);
    // The same offset after a tick of the clock as at the beginning of the trace.
    let start = 100;
    net.now = start;
    net.start(u64::MAX);
    net.run_until(start + 8 * SECOND);
    let ours = net
        .log
        .iter()
        .filter(|s| s.packet.direction == Direction::Data)
        .map(|s| {
            let number = match s.packet.payload {
                0 => 0,
                _ => s.packet.seq / SEGMENT + 1,
            };
            ((s.at - start) / 1000, number)
        })
        .collect();
    let theirs = golden
        .lines()
        .map(|line| {
            let (at, number) = line.split_once(' ').unwrap();
            (at.parse().unwrap(), number.parse().unwrap())
        })
        .collect();
    [theirs, ours]
}

fn same([theirs, ours]: [Vec<(u64, u64)>; 2]) {
    // ns-2 counts time in floats: allow some slack, far less than a packet takes.
    let differs = |n: &usize| {
        let ((at, number), (at2, number2)) = (theirs[*n], ours[*n]);
        number != number2 || at.abs_diff(at2) > 10
    };
    let least = theirs.len().min(ours.len());
    if let Some(n) = (0..least).find(differs) {
        let around = n.saturating_sub(5)..(n + 5).min(least);
        panic!(
            "packet {n} differs\nns-2 {:?}\nours {:?}",
            &theirs[around.clone()],
            &ours[around]
        );
    }
    assert_eq!(theirs.len(), ours.len());
}

macro_rules! agents {
    ($($test:ident: $agent:literal, $file:literal, $kbps:literal, $every:literal $lost:expr;)*) => {$(
        #[test]
        fn $test() {
            let golden = include_str!(concat!("ns2/", $file, ".txt"));
            same(traces($agent, golden, $kbps * 1000, ($every, &$lost)));
        }
    )*};
}

agents! {
    tahoe: "tahoe", "tahoe", 10_000, 61 [17, 18, 19];
    reno: "reno", "reno", 10_000, 61 [17, 18, 19];
    newreno: "newreno", "newreno", 10_000, 61 [17, 18, 19];
    newreno_with_a_large_window: "newreno", "newreno-large", 10_000, 397 [140, 143, 146, 300];
    newreno_behind_a_thin_uplink: "newreno", "newreno-thin", 30, 61 [17, 18, 19];
    newreno_whose_syn_is_lost: "newreno", "newreno-lost-syn", 10_000, 61 [0, 40];
    asym: "asym", "asym", 10_000, 61 [17, 18, 19];
    asym_with_a_large_window: "asym", "asym-large", 10_000, 397 [140, 143, 146, 300];
    asym_behind_a_thin_uplink: "asym", "asym-thin", 30, 61 [17, 18, 19];
}
