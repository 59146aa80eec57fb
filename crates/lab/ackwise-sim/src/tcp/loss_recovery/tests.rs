//! Loss recovery without a sender: its inputs, and its actions.

use super::*;
use crate::packet::{AckRateOption, Block, Direction, Flags, FlowId, Sack};
use crate::tcp::configure;
use crate::tcp::tcb::Timer;
use ackwise_scenario::tcp_model::Halve;
use ackwise_scenario::{SocketOptions, TcpModel};

const MS: Nanos = 1_000_000;
const MSS: u64 = 1000;
/// The threshold before the first loss.
const NONE: u64 = u64::MAX / 8;

/// A connection with ten segments outstanding, all sent at time 0, and no more data.
struct Flight {
    tcb: Tcb,
    recovery: AnyRecovery,
}

impl Flight {
    fn new(recovery: Recovery) -> Flight {
        let model = TcpModel {
            recovery: Some(recovery),
            segment: Some(MSS as u32),
            halve: Some(Halve::Window),
            limited_transmit: Some(false),
            undo: Some(true),
            ..TcpModel::default()
        };
        let (config, _) = configure("newreno", &model, &SocketOptions::default(), 1500).unwrap();
        let mut tcb = Tcb::new(FlowId(0), config.into());
        let recovery = AnyRecovery::new(&tcb.config, false);
        tcb.supply(10 * MSS);
        tcb.renew_burst();
        // The RTT of a handshake.
        tcb.sample(0, 40 * MS);
        let mut flight = Flight { tcb, recovery };
        assert_eq!(flight.sent(0), (0..10).map(new).collect::<Vec<_>>());
        flight
    }

    /// All segments that leave at this time.
    fn sent(&mut self, now: Nanos) -> Vec<NextSegment> {
        let mut sent = Vec::new();
        while let Some(next) = self.recovery.next_segment(&mut self.tcb, now) {
            if next.again {
                self.tcb.stats.retransmits += 1;
            } else {
                self.tcb.max = next.end();
            }
            self.recovery.on_sent(&mut self.tcb, &next, now);
            sent.push(next);
        }
        sent
    }

    /// Delivers an ACK of this many segments that SACKs others, given by their numbers.
    fn ack(&mut self, segments: u64, sacked: Option<std::ops::Range<u64>>, now: Nanos) {
        let mut sack = Sack::default();
        if let Some(range) = sacked {
            sack.push(Block {
                start: range.start * MSS,
                end: range.end * MSS,
            });
        }
        let packet = Packet {
            flow: FlowId(0),
            direction: Direction::Ack,
            ack_rate: AckRateOption::NONE,
            flags: Flags::ACK | Flags::TIMESTAMPS,
            wire_len: 52,
            payload: 0,
            seq: 0,
            ack: segments * MSS,
            window: 0,
            tsval: 0,
            tsecr: now - 40 * MS,
            sack,
        };
        let ack = Ack {
            packet: &packet,
            now,
            ece: false,
        };
        self.tcb.renew_burst();
        self.recovery.on_ack(&mut self.tcb, ack);
    }
}

fn new(number: u64) -> NextSegment {
    NextSegment {
        seq: number * MSS,
        len: MSS as u32,
        again: false,
    }
}

fn again(number: u64) -> NextSegment {
    NextSegment {
        again: true,
        ..new(number)
    }
}

#[test]
fn the_third_duplicate_sends_the_first_segment_again_and_brings_the_window_down() {
    let mut flight = Flight::new(Recovery::NewReno);
    for _ in 0..2 {
        flight.ack(0, None, 50 * MS);
        assert_eq!(flight.sent(50 * MS), []);
    }
    assert_eq!(flight.tcb.window.cwnd, 10 * MSS);
    flight.ack(0, None, 60 * MS);
    assert_eq!(flight.sent(60 * MS), [again(0)]);
    assert_eq!(flight.tcb.stats.fast_recoveries, 1);
    assert_eq!(flight.tcb.window.cwnd, 5 * MSS);
    assert_eq!(flight.recovery.send_window(&flight.tcb), 8 * MSS);
    assert_eq!(flight.tcb.timer(), Timer::Retransmit);
    assert_eq!(flight.tcb.timer_at(), 60 * MS + flight.tcb.rto());
    // A partial ACK retransmits the next hole. A full ACK ends the recovery.
    flight.ack(4, None, 90 * MS);
    assert_eq!(flight.sent(90 * MS), [again(4)]);
    flight.ack(10, None, 130 * MS);
    assert_eq!(flight.sent(130 * MS), []);
    // RFC 6582 §3.2 step 3, option (1): nothing is in flight.
    assert_eq!(flight.tcb.window.cwnd, 2 * MSS);
    assert_eq!(flight.tcb.stats.fast_recoveries, 1);
}

#[test]
fn sack_says_which_segments_are_sent_again() {
    let mut flight = Flight::new(Recovery::Sack);
    flight.ack(2, Some(4..7), 50 * MS);
    // Two are lost; with their retransmissions, five are in flight.
    assert_eq!(flight.sent(50 * MS), [again(2), again(3)]);
    flight.ack(2, Some(4..9), 60 * MS);
    assert_eq!(flight.sent(60 * MS), [again(9)], "the rescue (RFC 6675 §4)");
    assert_eq!(flight.tcb.stats.fast_recoveries, 1);
    assert_eq!(flight.tcb.window.ssthresh, 5 * MSS);
}

/// A DSACK shows that the retransmission was unnecessary.
#[test]
fn a_needless_reduction_is_undone() {
    let mut flight = Flight::new(Recovery::Sack);
    flight.ack(0, Some(1..4), 50 * MS);
    assert_eq!(flight.sent(50 * MS), [again(0)]);
    assert_eq!(flight.tcb.window.ssthresh, 5 * MSS);
    flight.ack(10, Some(0..1), 90 * MS);
    assert_eq!(flight.tcb.stats.undos, 1);
    // The old window, plus one segment for this ACK.
    assert_eq!(flight.tcb.window.cwnd, 11 * MSS);
}

/// A duplicate made by the network says nothing about retransmissions, and more duplicates than
/// retransmissions are not believed at all (RFC 3708, Linux).
#[test]
fn what_the_network_doubled_undoes_nothing() {
    let mut flight = Flight::new(Recovery::Sack);
    flight.ack(2, Some(4..7), 50 * MS);
    assert_eq!(flight.sent(50 * MS), [again(2), again(3)]);
    for doubled in [0, 1] {
        flight.ack(2, Some(doubled..doubled + 1), 60 * MS);
    }
    flight.ack(10, None, 100 * MS);
    for doubled in [2, 3] {
        flight.ack(10, Some(doubled..doubled + 1), 110 * MS);
    }
    assert_eq!(flight.tcb.stats.undos, 0);
    assert_eq!(flight.tcb.window.ssthresh, 5 * MSS);
}

/// The DSACK of the last retransmission arrives after the recovery.
#[test]
fn a_needless_reduction_is_undone_after_the_recovery() {
    let mut flight = Flight::new(Recovery::Sack);
    flight.ack(0, Some(1..4), 50 * MS);
    assert_eq!(flight.sent(50 * MS), [again(0)]);
    flight.ack(10, None, 90 * MS);
    assert_eq!(flight.tcb.stats.undos, 0);
    assert_eq!(flight.tcb.window.ssthresh, 5 * MSS);
    flight.ack(10, Some(0..1), 95 * MS);
    assert_eq!(flight.tcb.stats.undos, 1);
    assert_eq!(flight.tcb.window.cwnd, 10 * MSS);
    assert_eq!(flight.tcb.window.ssthresh, NONE);
}

/// RACK waits for reordering before it marks a segment lost.
#[test]
fn rack_sets_the_timer_for_reordering_and_then_finds_the_loss() {
    let mut flight = Flight::new(Recovery::Rack);
    flight.ack(1, Some(2..3), 40 * MS);
    assert_eq!(flight.sent(40 * MS), []);
    assert_eq!(flight.tcb.timer(), Timer::Reorder);
    // A quarter of the minimum RTT, plus two ticks.
    assert_eq!(flight.tcb.timer_at(), 52 * MS);
    flight.recovery.on_reorder_timer(&mut flight.tcb, 52 * MS);
    assert_eq!(flight.sent(52 * MS)[0], again(1));
    assert_eq!(flight.tcb.stats.fast_recoveries, 1);
}

#[test]
fn a_probe_sends_the_last_segment_again() {
    let mut flight = Flight::new(Recovery::Rack);
    assert_eq!(flight.tcb.timer(), Timer::Probe);
    let at = flight.tcb.timer_at();
    assert_eq!(at, 2 * 40 * MS + 2 * MS);
    flight.recovery.on_probe_timer(&mut flight.tcb, at);
    assert_eq!(flight.sent(at), [again(9)]);
    assert_eq!(flight.tcb.timer(), Timer::Retransmit);
    assert_eq!(flight.tcb.stats.tail_probes, 1);
}

/// RFC 8985 §7.4.2: the original and its repetition have both arrived, so nothing was lost. The
/// ACK that shows it does not advance.
#[test]
fn a_needless_probe_changes_nothing() {
    // A DSACK, a duplicate without information, or neither.
    for (answers, ssthresh) in [
        (vec![Some(9..10)], NONE),
        (vec![None], NONE),
        (vec![], 5 * MSS),
    ] {
        let mut flight = Flight::new(Recovery::Rack);
        let at = flight.tcb.timer_at();
        flight.recovery.on_probe_timer(&mut flight.tcb, at);
        assert_eq!(flight.sent(at), [again(9)]);
        flight.ack(10, None, 100 * MS);
        for answer in &answers {
            flight.ack(10, answer.clone(), 122 * MS);
        }
        let new: Vec<_> = (10..20).map(new).collect();
        flight.tcb.supply(10 * MSS);
        flight.tcb.renew_burst();
        assert_eq!(flight.sent(200 * MS), new);
        flight.ack(11, Some(12..13), 240 * MS);
        assert_eq!(flight.tcb.window.ssthresh, ssthresh, "{answers:?}");
        // A quarter of the minimum RTT, plus two ticks: the DSACK has not increased it.
        assert_eq!(flight.tcb.timer(), Timer::Reorder);
        assert_eq!(flight.tcb.timer_at(), 252 * MS);
    }
}

#[test]
fn a_timeout_goes_back_to_the_first_byte_without_sack_and_resends_what_is_lost_with_it() {
    for recovery in [Recovery::Reno, Recovery::Sack] {
        let mut flight = Flight::new(recovery);
        flight.recovery.on_timeout(&mut flight.tcb, 300 * MS);
        assert_eq!(flight.tcb.window.cwnd, MSS, "{recovery:?}");
        assert_eq!(flight.sent(300 * MS), [again(0)], "{recovery:?}");
        flight.ack(1, None, 340 * MS);
        let next = flight.sent(340 * MS);
        assert_eq!(next, [again(1), again(2)], "{recovery:?}: slow start");
    }
}
