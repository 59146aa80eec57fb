//! SACK, RACK, TLP, PRR and CUBIC between two ends, compared with traces worked out by hand.

mod tcp_support;

use ackwise_config::queues::QueueLimit;
use ackwise_scenario::tcp_model::{Recovery, Stack};
use ackwise_scenario::{SocketOptions, TcpModel};
use ackwise_sim::packet::{Block, Packet};
use tcp_support::{Fate, MS, Net, Pipe, SECOND, ends, lose};

fn quiet(cc: &str, model: TcpModel, forward: Pipe) -> Net {
    let model = TcpModel {
        handshake: Some(false),
        ack_every: Some(1),
        compress_sack: Some(false),
        window_limit: Some(QueueLimit::Packets(100)),
        ..model
    };
    let ends = ends(cc, &model, &SocketOptions::default());
    Net::new(ends, forward, Pipe::new(50 * MS))
}

fn at(net: &Net, ms: u64) -> Vec<(u64, bool)> {
    net.data()
        .iter()
        .filter(|(at, ..)| *at == ms * MS)
        .map(|(_, n, again)| (*n, *again))
        .collect()
}

fn segments(net: &Net) -> (u64, u64) {
    let mss = u64::from(net.sender.config().mss);
    (net.sender.cwnd() / mss, net.sender.ssthresh() / mss)
}

/// RFC 6675 §5: three losses in a window of ten are repaired in one round trip.
#[test]
fn sack_repairs_several_losses_at_once() {
    let forward = Pipe::new(50 * MS).judge(lose(1448, &[0, 2, 4]));
    let mut net = quiet("sack", TcpModel::default(), forward);
    net.start(u64::MAX);
    net.run_until(100 * MS);
    // 1 3 5 6 7 8 9 arrive. SACK of 1: pipe 9, so 10 leaves; SACK of 3: 11. With 5 there
    // are three runs above 0, so 0 is lost. 12 are outstanding, 9 of them in the pipe: threshold
    // (12 - 3 - 1) / 2 = 4. 0 leaves. With 6, 2 is lost. With 7, 4 is lost. The pipe is then
    // 12 - 5 sacked - 3 lost + 1 = 5; with 8 it is 4, and with 9 it is 3, so 2 leaves.
    let first = at(&net, 100);
    assert_eq!(first[..3], [(10, false), (11, false), (0, true)]);
    assert_eq!(segments(&net), (4, 4));
    net.run_until(300 * MS);
    let again: Vec<u64> = net.data().iter().filter(|d| d.2).map(|d| d.1).collect();
    assert_eq!(again, [0, 2, 4]);
    assert_eq!(net.sender.stats().fast_recoveries, 1);
    assert_eq!(net.sender.stats().timeouts, 0);
    assert!(net.sender.acknowledged() >= 12 * 1448);
}

/// RFC 6675 NextSeg() rule 4: the last segment of a burst and one before it are lost.
#[test]
fn a_lost_tail_is_rescued_in_recovery() {
    let run = |lost: &'static [u64]| {
        let forward = Pipe::new(50 * MS).judge(lose(1448, lost));
        let mut net = quiet("sack", TcpModel::default(), forward);
        net.start(10 * 1448);
        net.run_until(900 * MS);
        (net.sender.stats().timeouts, net.receiver.delivered())
    };
    assert_eq!(run(&[3, 9]), (0, 14_480));
    // Nothing arrived above it and there is no recovery: only the timer finds it.
    assert_eq!(run(&[9]), (0, 9 * 1448));
}

/// RFC 8985 §7: the probe repairs a lost tail after two round trips, and the window
/// is reduced once for it.
#[test]
fn a_probe_finds_a_lost_tail() {
    let forward = Pipe::new(50 * MS).judge(lose(1448, &[9]));
    let mut net = quiet("reno", TcpModel::default(), forward);
    net.start(10 * 1448);
    net.run_until(99 * MS);
    assert_eq!(net.data().len(), 10);
    net.run_until(10 * SECOND);
    let probe = net.data()[10];
    // The ACK of 0 to 8 comes at 100 ms, with one outstanding: 2 · 100 ms and the minimum RTO.
    assert_eq!((probe.1, probe.2), (9, true));
    assert_eq!(
        probe.0,
        100 * MS + 300 * MS,
        "the timeout is earlier than the probe's 400"
    );
    assert_eq!(net.receiver.delivered(), 14_480);
}

#[test]
fn a_probe_is_new_data_if_there_are_some() {
    // All ACKs are lost from 0.3 s on, but data wait, so the probe is a new segment.
    let model = TcpModel {
        ack_every: Some(1),
        ..TcpModel::default()
    };
    let ends = ends("cubic", &model, &SocketOptions::default());
    let mut net = Net::new(
        ends,
        Pipe::new(50 * MS),
        Pipe::new(50 * MS).judge(|p: &Packet, _| match p.ack {
            0..=30_000 => Fate::Pass,
            _ => Fate::Drop,
        }),
    );
    net.start(u64::MAX);
    net.run_until(10 * SECOND);
    assert!(net.sender.stats().tail_probes >= 1);
    let last_ack = net.windows.last().unwrap().0;
    let probe = net.data().into_iter().find(|d| d.0 > last_ack).unwrap();
    assert!(!probe.2, "a new segment");
    // 2 · 100 + 2 ms, unless the timeout of the oldest outstanding segment is earlier:
    // 300 ms after it left, which was a round trip before.
    assert_eq!(probe.0, last_ack + 200 * MS);
}

/// RFC 8985 §6.2: a delay of less than a quarter of the round trip is no loss. A longer one
/// is, and the DSACK that follows undoes the reduction.
#[test]
fn reordering_is_given_a_quarter_of_the_round_trip() {
    let run = |late: u64| {
        let forward = Pipe::new(50 * MS).judge(move |p, n| match n {
            5 if p.payload > 0 => Fate::Late(late * MS),
            _ => Fate::Pass,
        });
        let model = TcpModel {
            initial_window: Some(8),
            ..TcpModel::default()
        };
        let mut net = quiet("reno", model, forward);
        net.start(8 * 1448);
        net.run_until(2 * SECOND);
        let s = net.sender.stats();
        (s.retransmits, s.undos, segments(&net).0)
    };
    // Two segments above it are less than three, so time decides. The two ACKs that only
    // SACK do not open the window: 8 + 6.
    assert_eq!(run(20), (0, 0, 14));
    let (retransmits, undos, cwnd) = run(60);
    assert_eq!((retransmits, undos), (1, 1));
    assert!(cwnd >= 8, "{cwnd}");
}

/// RFC 6937: while the window shrinks from 20 to 10, one segment leaves for every two that arrive.
#[test]
fn the_window_shrinks_in_proportion() {
    let model = TcpModel {
        initial_window: Some(20),
        defer_chunks: Some(false),
        ..TcpModel::default()
    };
    let forward = Pipe::new(50 * MS).judge(lose(1448, &[0]));
    let mut net = quiet("reno", model, forward);
    net.start(u64::MAX);
    net.run_until(100 * MS);
    // 19 SACKs. The first two let 20 and 21 leave; the third finds 0 lost: prior 20,
    // target 10. The 1st, 3rd … 15th ACK from then on let one leave each, 0 first; with
    // the 17th ten are in flight.
    let burst = at(&net, 100);
    assert_eq!(burst[..3], [(20, false), (21, false), (0, true)]);
    assert_eq!(burst.len(), 2 + 8);
    assert_eq!(segments(&net).1, 10);
    assert_eq!(net.sender.stats().retransmits, 1);
    net.run_until(210 * MS);
    assert_eq!(segments(&net).0, 10);
}

/// A lost retransmission is found by time, not by the retransmission timer.
#[test]
fn a_lost_retransmission_is_found() {
    let forward = Pipe::new(50 * MS).judge(lose(1448, &[3, 3]));
    let mut net = quiet("reno", TcpModel::default(), forward);
    net.start(u64::MAX);
    net.run_until(SECOND);
    assert_eq!(net.sender.stats().timeouts, 0);
    assert_eq!(net.sender.stats().retransmits, 2);
    // RFC 6675 finds it only by the timer.
    let forward = Pipe::new(50 * MS).judge(lose(1448, &[3, 3]));
    let mut net = quiet("sack", TcpModel::default(), forward);
    net.start(u64::MAX);
    net.run_until(3 * SECOND);
    assert_eq!(net.sender.stats().timeouts, 1);
}

/// Everything outstanding was delivered and only the ACKs were late: the timeout is undone.
#[test]
fn a_spurious_timeout_is_undone() {
    let mut stalled = 0;
    let back = Pipe::new(50 * MS).judge(move |p, _| {
        // The ACKs of more than one flight come a second late.
        if p.ack > 20 * 1448 && stalled < 60 {
            stalled += 1;
            return Fate::Late(SECOND);
        }
        Fate::Pass
    });
    let model = TcpModel {
        handshake: Some(false),
        ack_every: Some(1),
        recovery: Some(Recovery::Rack),
        stack: Some(Stack::Linux),
        window_limit: Some(QueueLimit::Packets(100)),
        ..TcpModel::default()
    };
    let ends = ends("reno", &model, &SocketOptions::default());
    let mut net = Net::new(ends, Pipe::new(50 * MS), back);
    net.start(u64::MAX);
    net.run_until(2 * SECOND);
    let s = net.sender.stats();
    assert!(s.timeouts >= 1);
    assert!(s.undos >= 1);
    assert!(net.sender.cwnd() > 20 * 1448, "{}", net.sender.cwnd());
}

/// HyStart leaves slow start before a queue of one bandwidth-delay product is full.
#[test]
fn hystart_spares_the_queue() {
    let lost = |hystart| {
        let model = TcpModel {
            hystart: Some(hystart),
            ..TcpModel::default()
        };
        let ends = ends("cubic", &model, &SocketOptions::default());
        let forward = Pipe::new(20 * MS).rate(50_000_000, 200);
        let mut net = Net::new(ends, forward, Pipe::new(20 * MS));
        net.keep_log = false;
        net.start(u64::MAX);
        net.run_until(400 * MS);
        net.sender.stats().retransmits
    };
    use ackwise_scenario::tcp_model::HyStart;
    assert_eq!(lost(HyStart::Linux), 0);
    // Plain slow start, or a pause that comes too late, loses more than the queue holds.
    assert!(lost(HyStart::Off) > 50);
    // Conservative slow start fills the queue too, but later and by less.
    assert!(lost(HyStart::PlusPlus) < lost(HyStart::Off));
}

/// RFC 2018 §4 and RFC 2883 §4, on the wire.
#[test]
fn sack_blocks_say_what_came_last() {
    let forward = Pipe::new(50 * MS).judge(|p, n| match n {
        1 | 3 | 5 if p.payload > 0 => Fate::Drop,
        7 => Fate::Twice,
        _ => Fate::Pass,
    });
    let mut net = quiet("cubic", TcpModel::default(), forward);
    net.start(10 * 1448);
    net.run_until(60 * MS);
    let acks = net.acks();
    let s = |n: u64, m: u64| Block {
        start: n * 1448,
        end: m * 1448,
    };
    assert!(acks[0].packet.sack.is_empty());
    assert_eq!(acks[1].packet.sack.blocks(), [s(2, 3)]);
    assert_eq!(acks[2].packet.sack.blocks(), [s(4, 5), s(2, 3)]);
    assert_eq!(acks[3].packet.sack.blocks(), [s(6, 7), s(4, 5), s(2, 3)]);
    assert_eq!(acks[4].packet.sack.blocks(), [s(6, 8), s(4, 5), s(2, 3)]);
    assert_eq!(
        acks[5].packet.sack.blocks(),
        [s(7, 8), s(6, 8), s(4, 5)],
        "DSACK"
    );
    // The DSACK is reported once.
    assert_eq!(acks[6].packet.sack.blocks(), [s(6, 9), s(4, 5), s(2, 3)]);
    // 52 bytes with timestamps, plus 4 and 8 per block.
    let sizes: Vec<u32> = acks.iter().map(|a| a.packet.wire_len).collect();
    assert_eq!(sizes[..5], [52, 64, 72, 80, 80]);
}
