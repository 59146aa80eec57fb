//! Tahoe, Reno and NewReno, compared with traces worked out by hand.
//!
//! On a path without a rate all packets of a burst arrive at the same time, 50 ms
//! later, so everything happens at multiples of 50 ms and is easy to write down.

mod tcp_support;

use ackwise_config::queues::QueueLimit;
use ackwise_scenario::tcp_model::{PartialAck, Stack};
use ackwise_scenario::{SocketOptions, TcpModel};
use tcp_support::{Fate, MS, Net, Pipe, SECOND, ends, lose};

/// Ten segments at once, with every segment acknowledged.
fn trace(cc: &str, stack: Stack, lost: &[u64]) -> Net {
    let model = TcpModel {
        stack: Some(stack),
        handshake: Some(false),
        initial_window: Some(10),
        initial_ssthresh: Some(QueueLimit::Packets(100)),
        window_limit: Some(QueueLimit::Packets(100)),
        ack_every: Some(1),
        ..TcpModel::default()
    };
    let ends = ends(cc, &model, &SocketOptions::default());
    let mss = u64::from(ends.0.config().mss);
    let forward = Pipe::new(50 * MS).judge(lose(mss, lost));
    Net::new(ends, forward, Pipe::new(50 * MS))
}

/// Numbers of the segments that left at a time; negative ones are retransmissions.
fn at(net: &Net, ms: u64) -> Vec<i64> {
    net.data()
        .iter()
        .filter(|(at, ..)| *at == ms * MS)
        .map(|(_, n, again)| if *again { -(*n as i64) } else { *n as i64 })
        .collect()
}

fn segments(net: &Net) -> (u64, u64) {
    let mss = u64::from(net.sender.config().mss);
    (net.sender.cwnd() / mss, net.sender.ssthresh() / mss)
}

#[test]
fn reno_repairs_one_loss_in_a_round_trip() {
    let mut net = trace("reno", Stack::Rfc, &[1]);
    net.start(u64::MAX);
    net.run_until(100 * MS);
    // ACK 1: cwnd 11, two more leave (RFC 5681 §3.1). Of eight duplicates, 1 and 2 let
    // one segment leave each (RFC 3042). The third halves the flight without those two,
    // (14 - 1 - 2) / 2 = 5 segments and a half, and retransmits 1. Five more inflate
    // 5.5 + 3 to 13.5, and 13 are outstanding: none leaves.
    assert_eq!(at(&net, 100), [10, 11, 12, 13, -1]);
    assert_eq!(segments(&net), (5, 5));
    net.run_until(200 * MS);
    // The duplicates of 10 to 13 come first: 14.5 … 17.5. Then ACK 14 ends recovery.
    assert_eq!(at(&net, 200), [14, 15, 16, 17, 18]);
    assert_eq!(segments(&net), (5, 5));
    assert_eq!(net.sender.stats().fast_recoveries, 1);
    assert_eq!(net.sender.stats().timeouts, 0);
    assert_eq!(net.sender.stats().retransmits, 1);
}

#[test]
fn tahoe_goes_back() {
    // ns-2: cwnd 1, and everything after the hole is retransmitted, whether it arrived or not.
    let mut net = trace("tahoe", Stack::Ns2, &[0, 5]);
    net.start(u64::MAX);
    net.run_until(100 * MS);
    assert_eq!(at(&net, 100), [10, 11, 0], "0 is not negative: -0");
    assert_eq!(segments(&net), (1, 5));
    assert!(
        net.data().last().unwrap().2,
        "it was sent before, so it counts as a retransmission"
    );
    net.run_until(200 * MS);
    // Duplicates of 10 and 11; then 0 fills the hole up to 5. Slow start from there: 6 arrived
    // long ago, and is retransmitted.
    assert_eq!(at(&net, 200), [-5, -6]);
    net.run_until(300 * MS);
    // 5 brings ACK 12; 6 gives a duplicate, but not the third one.
    assert_eq!(at(&net, 300), [12, 13, 14, 15]);
    assert_eq!(segments(&net).1, 5);
}

#[test]
fn newreno_takes_a_partial_ack_for_the_next_hole() {
    let mut net = trace("newreno", Stack::Rfc, &[0, 4]);
    net.start(u64::MAX);
    net.run_until(100 * MS);
    // Eight duplicates: two by Limited Transmit, then 0 again, (12 - 2) / 2 + 3 + 5 = 13.
    assert_eq!(at(&net, 100), [10, 11, 0, 12]);
    net.run_until(200 * MS);
    // The duplicates of 10 and 11: 15. ACK 4 is partial: 4 again, deflated by four and
    // inflated by one: 5 + 7 = 12 from 4 on, so 15. The duplicate of 12: 16.
    assert_eq!(at(&net, 200), [13, 14, -4, 15, 16]);
    assert_eq!(segments(&net), (5, 5));
    net.run_until(300 * MS);
    // The duplicates of 13 and 14; 4 brings ACK 15, beyond the recovery point 12: four
    // are outstanding, so the window is min(ssthresh, 4 + 1) = 5.
    assert_eq!(at(&net, 300), [17, 18, 19, 20, 21]);
    assert_eq!(segments(&net), (5, 5));
    assert_eq!(net.sender.stats().fast_recoveries, 1);
}

#[test]
fn reno_takes_a_partial_ack_for_the_end() {
    // The same losses: ACK 4 ends recovery. The third duplicate is no proof of a second
    // loss, as it is not beyond the recovery point.
    let mut net = trace("reno", Stack::Rfc, &[0, 4]);
    net.start(u64::MAX);
    net.run_until(10 * SECOND);
    assert_eq!(net.sender.stats().timeouts, 1);
    assert_eq!(net.sender.stats().fast_recoveries, 1);
}

/// RFC 6582 §4: with a window full of holes the impatient variant runs into a timeout, while
/// the slow-but-steady one, which is that of Linux, repairs one hole per round trip.
#[test]
fn impatience_is_a_choice() {
    let timeouts = |stack, partial_ack| {
        let model = TcpModel {
            stack: Some(stack),
            handshake: Some(false),
            initial_window: Some(40),
            window_limit: Some(QueueLimit::Packets(100)),
            partial_ack,
            ..TcpModel::default()
        };
        let ends = ends("newreno", &model, &SocketOptions::default());
        let mss = u64::from(ends.0.config().mss);
        let holes: Vec<u64> = (1..=12).map(|n| 2 * n).collect();
        let forward = Pipe::new(50 * MS).judge(lose(mss, &holes));
        let mut net = Net::new(ends, forward, Pipe::new(50 * MS));
        net.start(u64::MAX);
        net.run_until(3 * SECOND);
        (
            net.sender.stats().timeouts,
            net.sender.stats().fast_recoveries,
        )
    };
    let (impatient, steady) = (PartialAck::Impatient, PartialAck::SlowButSteady);
    assert_eq!(timeouts(Stack::Rfc, Some(impatient)), (1, 1));
    assert_eq!(timeouts(Stack::Rfc, Some(steady)), (0, 1));
    assert_eq!(timeouts(Stack::Rfc, None), (1, 1));
    assert_eq!(timeouts(Stack::Linux, None), (0, 1));
}

#[test]
fn timeouts_double() {
    let model = TcpModel {
        stack: Some(Stack::Rfc),
        handshake: Some(false),
        ..TcpModel::default()
    };
    let ends = ends("newreno", &model, &SocketOptions::default());
    let forward = Pipe::new(50 * MS).judge(|_, _| Fate::Drop);
    let mut net = Net::new(ends, forward, Pipe::new(50 * MS));
    net.start(1);
    net.run_until(200 * SECOND);
    let times: Vec<u64> = net.data().iter().map(|(at, ..)| at / MS).collect();
    // Initially 1 s, doubled up to 60 s (RFC 6298 §2.1, §5.5).
    assert_eq!(
        times,
        [
            0, 1_000, 3_000, 7_000, 15_000, 31_000, 63_000, 123_000, 183_000
        ]
    );
}

/// Karn's algorithm: a retransmitted segment gives no sample, and the back-off stays until
/// a segment sent only once is acknowledged (RFC 6298 §3, §5.7).
#[test]
fn retransmissions_are_not_timed() {
    let model = TcpModel {
        stack: Some(Stack::Rfc),
        handshake: Some(false),
        ..TcpModel::default()
    };
    let socket = SocketOptions {
        timestamps: Some(false),
        ..SocketOptions::default()
    };
    let ends = ends("newreno", &model, &socket);
    let forward = Pipe::new(50 * MS).judge(|_, n| if n < 2 { Fate::Drop } else { Fate::Pass });
    let mut net = Net::new(ends, forward, Pipe::new(50 * MS));
    net.start(1);
    net.run_until(10 * SECOND);
    assert_eq!(net.data().len(), 3, "at 0, 1 and 3 s");
    assert_eq!(net.sender.acknowledged(), 1);
    assert_eq!(net.sender.stats().rtt_samples, 0);
    assert_eq!(net.sender.rto(), 4 * SECOND);
    net.sender.supply(1);
    net.drain();
    net.run_until(20 * SECOND);
    assert_eq!(net.sender.acknowledged(), 2);
    assert_eq!(net.sender.stats().rtt_samples, 1);
    // 100 ms and the receiver's 200: 300 + 4 · 150 = 900, below the minimum of 1 s.
    assert_eq!(net.sender.rto(), SECOND);
}

#[test]
fn nothing_is_sent_beyond_the_offered_window() {
    let model = TcpModel {
        stack: Some(Stack::Rfc),
        ..TcpModel::default()
    };
    let socket = SocketOptions {
        receive_buffer: Some(4 * 1448 + 100),
        ..SocketOptions::default()
    };
    let ends = ends("newreno", &model, &socket);
    let mut net = Net::new(ends, Pipe::new(50 * MS), Pipe::new(50 * MS));
    net.start(u64::MAX);
    for _ in 0..500 {
        assert!(net.step(10 * SECOND));
        assert!(net.sender.outstanding() <= 4 * 1448);
    }
    assert!(net.sender.acknowledged() > 40 * 1448);
}

/// RFC 3168: one reduction per window, and ECE until CWR; a mark causes no retransmission.
#[test]
fn an_echo_halves_once() {
    for cc in ["newreno", "sack", "reno"] {
        let model = TcpModel {
            handshake: Some(false),
            initial_window: Some(10),
            ack_every: Some(1),
            ..TcpModel::default()
        };
        let socket = SocketOptions {
            ecn: Some(true),
            ..SocketOptions::default()
        };
        let ends = ends(cc, &model, &socket);
        let forward = Pipe::new(50 * MS).judge(|_, n| match n {
            2..=5 => Fate::Mark,
            _ => Fate::Pass,
        });
        let mut net = Net::new(ends, forward, Pipe::new(50 * MS));
        net.start(u64::MAX);
        net.run_until(299 * MS);
        assert_eq!(net.sender.stats().ecn_reductions, 1, "{cc}");
        assert!(
            (5..=6).contains(&segments(&net).1),
            "{cc} {:?}",
            segments(&net)
        );
        assert_eq!(net.sender.stats().retransmits, 0);
        let echoes = net
            .acks()
            .iter()
            .filter(|s| s.packet.flags.contains(ackwise_sim::packet::Flags::ECE))
            .count();
        // From the first mark until CWR arrives with the first new segment.
        assert!((8..=14).contains(&echoes), "{cc} {echoes}");
    }
}

/// The dumbbell of Saldana 2013: 10 Mbit/s, 40 ms one way, 50 packets, and ns-2's ends.
#[test]
fn tahoe_in_the_dumbbell_swings_as_published() {
    let model = TcpModel {
        stack: Some(Stack::Ns2),
        window_limit: Some(QueueLimit::Packets(10_000)),
        ..TcpModel::default()
    };
    let ends = ends("tahoe", &model, &SocketOptions::default());
    // Two links of 100 Mbit/s store and forward 1500 bytes in 120 µs each.
    let forward = Pipe::new(40 * MS + 240_000).rate(10_000_000, 50);
    let mut net = Net::new(ends, forward, Pipe::new(40 * MS));
    net.keep_log = false;
    net.start(u64::MAX);
    net.run_until(200 * SECOND);
    let (segments, resets) = (
        net.receiver.stats().data_segments,
        net.sender.stats().fast_recoveries,
    );
    net.run_until(600 * SECOND);
    let segments = net.receiver.stats().data_segments - segments;
    let resets = net.sender.stats().fast_recoveries - resets;
    // 9.24 Mbit/s on the wire and a reset every 7 s (S3-E1); ns-2: 9.32 and 7.02.
    let mbps = segments as f64 * 1500.0 * 8.0 / 400e6;
    let period = 400.0 / resets as f64;
    assert!((9.24 * 0.985..9.32 * 1.01).contains(&mbps), "{mbps}");
    assert!((6.7..7.3).contains(&period), "{period}");
    assert_eq!(net.sender.stats().timeouts, 0);
}
