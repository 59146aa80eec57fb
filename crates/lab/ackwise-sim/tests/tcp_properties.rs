//! Whatever the path does, every byte arrives, once and in order.

mod tcp_support;

use ackwise_config::queues::QueueLimit;
use ackwise_scenario::tcp_model::{HyStart, Pacing, Stack};
use ackwise_scenario::{SocketOptions, TcpModel};
use ackwise_sim::packet::{Direction, Flags, Packet};
use ackwise_sim::tcp::congestion_controls;
use proptest::prelude::*;
use tcp_support::{Fate, MS, Net, Pipe, SECOND, ends};

/// A path that misbehaves at random, but repeatably.
#[derive(Debug, Clone)]
struct Weather {
    seed: u64,
    loss: u64,
    ack_loss: u64,
    late: u64,
    twice: u64,
    rate_bps: u64,
    queue: usize,
    delay_ms: u64,
}

fn weather() -> impl Strategy<Value = Weather> {
    let percent = prop_oneof![Just(0u64), 1..10u64, Just(30)];
    (
        any::<u64>(),
        percent.clone(),
        percent.clone(),
        percent.clone(),
        percent,
        prop_oneof![Just(0u64), Just(300_000), Just(10_000_000)],
        2..60usize,
        0..120u64,
    )
        .prop_map(|t| Weather {
            seed: t.0,
            loss: t.1,
            ack_loss: t.2,
            late: t.3,
            twice: t.4,
            rate_bps: t.5,
            queue: t.6,
            delay_ms: t.7,
        })
}

/// Percentages of each fate, drawn from a small generator of its own.
fn judge(mut state: u64, loss: u64, late: u64, twice: u64) -> impl FnMut(&Packet, usize) -> Fate {
    move |_, _| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (draw, extra) = ((state >> 33) % 100, (state >> 20) % (60 * MS));
        if draw < loss {
            Fate::Drop
        } else if draw < loss + late {
            Fate::Late(extra)
        } else if draw < loss + late + twice {
            Fate::Twice
        } else {
            Fate::Pass
        }
    }
}

fn net(cc: &str, model: &TcpModel, socket: &SocketOptions, w: &Weather) -> Net {
    let forward = Pipe::new(w.delay_ms * MS)
        .rate(w.rate_bps, w.queue)
        .judge(judge(w.seed, w.loss, w.late, w.twice));
    let back = Pipe::new(w.delay_ms * MS).judge(judge(!w.seed, w.ack_loss, w.late, w.twice));
    Net::new(ends(cc, model, socket), forward, back)
}

/// Runs a transfer to its end, and checks it on the way.
fn transfer(mut net: Net, bytes: u64) -> Result<Net, TestCaseError> {
    net.keep_log = true;
    net.start(bytes);
    net.sender.close();
    net.drain();
    let (mut delivered, mut acknowledged) = (0, 0);
    // With 30 % loss in both directions half of the timeouts achieve nothing, and thirty of them
    // in a row are practically impossible. Each may take the maximum RTO, 120 s: a round-trip time
    // that was measured across a backed-off timeout keeps the next timeouts long.
    let patience = 30 * 120 * SECOND;
    let mut moved_at = 0;
    while !net.sender.is_done() {
        prop_assert!(
            net.step(u64::MAX),
            "no event is left, and the sender is not done"
        );
        let now = (net.receiver.delivered(), net.sender.acknowledged());
        prop_assert!(now.0 >= delivered && now.1 >= acknowledged, "went back");
        prop_assert!(now.1 <= now.0, "acknowledged what has not arrived");
        if now != (delivered, acknowledged) {
            moved_at = net.now;
        }
        (delivered, acknowledged) = now;
        prop_assert!(net.now - moved_at < patience, "stuck at {now:?}");
        prop_assert!(net.log.len() < 400_000, "a storm");
    }
    prop_assert_eq!(net.receiver.delivered(), bytes);
    prop_assert_eq!(net.receiver.stats().delivered_bytes, bytes);
    prop_assert_eq!(net.sender.stats().acked_bytes, bytes);
    prop_assert!(net.receiver.is_done());
    check_log(&net)?;
    Ok(net)
}

/// Cumulative ACKs never go back, and acknowledge only what was sent.
fn check_log(net: &Net) -> Result<(), TestCaseError> {
    let mut last = 0;
    let mut highest = 0;
    let (mut sent, mut again) = (0, 0);
    for s in &net.log {
        let p = &s.packet;
        if p.direction == Direction::Ack {
            prop_assert!(p.ack >= last, "the ACK {} after {}", p.ack, last);
            prop_assert!(p.ack <= highest);
            last = p.ack;
            for b in p.sack.blocks() {
                prop_assert!(b.start < b.end && b.end <= highest, "{b:?}");
            }
        } else if p.payload > 0 {
            let fresh = p.seq + u64::from(p.payload) > highest;
            prop_assert_eq!(p.flags.contains(Flags::RETRANSMIT), !fresh);
            highest = highest.max(p.seq + u64::from(p.payload));
            sent += 1;
            again += u64::from(!fresh);
        }
    }
    let stats = net.sender.stats();
    prop_assert_eq!(stats.data_segments, sent);
    prop_assert_eq!(stats.retransmits, again);
    Ok(())
}

fn models() -> Vec<TcpModel> {
    let stacks = [Stack::Linux, Stack::Rfc, Stack::Ns2].map(|stack| TcpModel {
        stack: Some(stack),
        ..TcpModel::default()
    });
    let mut models = stacks.to_vec();
    models.push(TcpModel {
        stack: Some(Stack::Ns2),
        max_burst: Some(4),
        pacing: Some(Pacing::Burst),
        window_limit: Some(QueueLimit::Packets(1000)),
        ..TcpModel::default()
    });
    models.push(TcpModel {
        pacing: Some(Pacing::Linux),
        hystart: Some(HyStart::PlusPlus),
        ..TcpModel::default()
    });
    models
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_byte_arrives(w in weather(), bytes in 1u64..120_000) {
        for cc in congestion_controls() {
            for model in models() {
                transfer(net(cc, &model, &SocketOptions::default(), &w), bytes)?;
            }
        }
    }

    /// A window of a few segments, or of less than one.
    #[test]
    fn small_windows_do_not_stall(w in weather(), bytes in 1u64..60_000, buffer in 1u64..9_000) {
        let socket = SocketOptions { receive_buffer: Some(buffer), ..SocketOptions::default() };
        for cc in congestion_controls() {
            transfer(net(cc, &TcpModel::default(), &socket, &w), bytes)?;
        }
    }

    /// The same seed gives the same run, packet by packet.
    #[test]
    fn a_run_repeats(w in weather(), bytes in 1u64..200_000) {
        let run = || transfer(net("cubic", &TcpModel::default(), &SocketOptions::default(), &w), bytes);
        let (a, b) = (run()?, run()?);
        prop_assert_eq!(a.log.len(), b.log.len());
        for (a, b) in a.log.iter().zip(&b.log) {
            prop_assert_eq!((a.at, a.packet), (b.at, b.packet));
        }
    }
}
