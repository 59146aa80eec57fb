//! When to acknowledge: the delayed ACK of RFC 1122 §4.2.3.2 and RFC 5681 §4.2,
//! and its variant in Linux.

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::AckTimer;

use super::config::ReceiverConfig;
use super::reassembly::Arrival;
use crate::time::NEVER;

const MS: Nanos = 1_000_000;
/// Linux: the minimum and the maximum delay.
const ATO_MIN: Nanos = 40 * MS;
const DELACK_MAX: Nanos = 200 * MS;
/// Linux: the retransmission timeout before the first round trip is measured, and the least that
/// its variance counts.
const INITIAL_RTO: Nanos = 1_000 * MS;
const RTTVAR_MIN: Nanos = 200 * MS;
/// Linux: quick ACKs after a duplicate, and after a mark.
const QUICK_ACKS_AFTER_DUPLICATE: u32 = 16;
const QUICK_ACKS_AFTER_MARK: u32 = 2;
/// Linux: this many duplicate ACKs are not delayed. After them one ACK stands for at most
/// `COMPRESSED` duplicates, for up to a 20th of the round trip, 1 ms at most, plus the timer's slack.
const PLAIN_DUPLICATES: u32 = 3;
const COMPRESSED: u32 = 44;
const COMPRESS_MAX: Nanos = MS;
const COMPRESS_SLACK: Nanos = MS / 10;

/// The effect of a data segment on the next ACK.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub arrival: Arrival,
    /// Whether holes remain after it.
    pub holes: bool,
    /// Whether it carries a CE mark, or changes the ECN echo.
    pub marked: bool,
    /// Whether PSH is set.
    pub pushed: bool,
    pub payload: u32,
    /// Whether the offered window opens with it.
    pub opens: bool,
    /// The next byte expected.
    pub next: u64,
    /// Bytes in order that no ACK has covered yet, its own included.
    pub unacked: u64,
    /// The round-trip time, if the receiver has measured it.
    pub rtt: Option<Nanos>,
    /// The round-trip time of the handshake, if there was one. A receiver that sends no data has no
    /// other sample for its retransmission timeout.
    pub handshake_rtt: Option<Nanos>,
}

impl Seen {
    /// Linux: the retransmission timeout of the receiver's own direction.
    fn rto(&self) -> Nanos {
        self.handshake_rtt
            .map_or(INITIAL_RTO, |rtt| rtt + (2 * rtt).max(RTTVAR_MIN))
    }
}

/// The counters and the timer of the delayed ACK.
#[derive(Debug, Clone)]
pub(crate) struct DelayedAck {
    deadline: Nanos,
    /// Data segments since the last ACK.
    segments: u32,
    /// Linux: the estimated gap between segments, 0 before the first; then the number of
    /// ACKs to send without delay; then when the last segment arrived.
    ato: Nanos,
    quick: u32,
    last_data: Nanos,
    /// Linux: `Seen::rto` of the last segment.
    rto: Nanos,
    /// Linux: payload of a full segment.
    rcv_mss: u32,
    /// Linux: the number that the duplicate ACKs carry, how many were sent, and how many were compressed.
    duplicates_of: u64,
    duplicates: u32,
    compressed: u32,
    /// Linux: whether data go both ways ("pingpong"), so that ACKs wait for them.
    conversing: bool,
}

impl DelayedAck {
    pub fn new() -> DelayedAck {
        DelayedAck {
            deadline: NEVER,
            segments: 0,
            ato: 0,
            quick: 0,
            last_data: 0,
            rto: INITIAL_RTO,
            rcv_mss: 536,
            duplicates_of: 0,
            duplicates: 0,
            compressed: 0,
            conversing: false,
        }
    }

    pub fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// Handles a data segment; returns true if it must be acknowledged at once.
    pub fn on_data(&mut self, c: &ReceiverConfig, seen: &Seen, now: Nanos) -> bool {
        self.segments += 1;
        if c.ack_timer == AckTimer::Adaptive {
            self.adapt(c, seen, now);
        }
        let enough = self.enough(c, seen);
        // Linux: pushed data are read at once, and the read acknowledges them.
        let pushed = c.ack_pushes && seen.pushed && !seen.holes && !self.conversing;
        let quick = self.quick > 0 && !self.conversing;
        if enough || quick || seen.marked || pushed {
            return true;
        }
        if seen.arrival != Arrival::InOrder || seen.holes {
            return !(c.compress_sack && seen.holes && self.compress(seen, now));
        }
        self.start_timer(c, seen, now);
        false
    }

    fn enough(&self, c: &ReceiverConfig, seen: &Seen) -> bool {
        if !c.ack_bytes {
            return self.segments >= c.ack_every;
        }
        if c.ack_timer == AckTimer::Adaptive {
            // Linux: more than `ack_every - 1` full segments.
            return seen.unacked > u64::from(c.ack_every - 1) * u64::from(self.rcv_mss);
        }
        seen.unacked >= u64::from(c.ack_every) * u64::from(c.mss)
    }

    /// Linux, `tcp_event_data_recv()`: the delay follows the gaps between segments.
    fn adapt(&mut self, c: &ReceiverConfig, seen: &Seen, now: Nanos) {
        self.rcv_mss = self.rcv_mss.max(seen.payload).min(c.mss);
        self.rto = seen.rto();
        if seen.arrival == Arrival::InOrder || seen.arrival == Arrival::FillsGap {
            let gap = now - self.last_data;
            if self.ato == 0 {
                self.quick_start(c);
                self.ato = ATO_MIN;
            } else if gap <= ATO_MIN / 2 {
                self.ato = self.ato / 2 + ATO_MIN / 2;
            } else if gap < self.ato {
                self.ato = (self.ato / 2 + gap).min(self.rto);
            } else if gap > self.rto {
                // The sender restarts; help its slow start.
                self.quick_start(c);
            }
            self.last_data = now;
        }
        if c.quick_acks == 0 {
            return;
        }
        if seen.opens {
            self.quick |= 1;
        }
        if seen.arrival == Arrival::Duplicate {
            self.quick = self.quick.max(QUICK_ACKS_AFTER_DUPLICATE.min(c.quick_acks));
            self.conversing = false;
            self.ato = ATO_MIN;
        } else if seen.marked {
            self.quick = self.quick.max(QUICK_ACKS_AFTER_MARK.min(c.quick_acks));
        }
    }

    fn quick_start(&mut self, c: &ReceiverConfig) {
        let halves = c.window / (2 * u64::from(self.rcv_mss));
        let halves = u32::try_from(halves).unwrap_or(u32::MAX);
        let quick = if halves == 0 { 2 } else { halves };
        self.quick = self.quick.max(quick.min(c.quick_acks));
    }

    /// Linux, `__tcp_ack_snd_check()`: after three duplicates one ACK stands for
    /// several; returns true if this one waits.
    fn compress(&mut self, seen: &Seen, now: Nanos) -> bool {
        if self.duplicates_of != seen.next {
            self.duplicates_of = seen.next;
            self.duplicates = 0;
        }
        if self.compressed >= COMPRESSED {
            return false;
        }
        if self.duplicates < PLAIN_DUPLICATES {
            self.duplicates += 1;
            return false;
        }
        self.compressed += 1;
        if self.compressed == 1 {
            let wait = seen.rtt.map_or(0, |rtt| (rtt / 20).min(COMPRESS_MAX));
            self.deadline = self.deadline.min(now + wait + COMPRESS_SLACK);
        }
        true
    }

    fn start_timer(&mut self, c: &ReceiverConfig, seen: &Seen, now: Nanos) {
        if self.deadline != NEVER {
            return;
        }
        self.deadline = match c.ack_timer {
            AckTimer::FirstSegment => now + c.ack_delay,
            AckTimer::Heartbeat => (now / c.ack_delay + 1) * c.ack_delay,
            AckTimer::Adaptive => {
                // Linux, `tcp_send_delayed_ack()`: no longer than a round trip, or than the minimum.
                let longest = seen
                    .handshake_rtt
                    .map_or(DELACK_MAX, |rtt| rtt.max(ATO_MIN));
                let shortest = c.ack_delay.min(ATO_MIN);
                now + self.ato.clamp(shortest, longest.min(DELACK_MAX))
            }
        };
    }

    /// Handles the timer; returns true if an ACK is due.
    pub fn on_timer(&mut self, c: &ReceiverConfig, now: Nanos) -> bool {
        if now < self.deadline {
            return false;
        }
        self.deadline = NEVER;
        if c.ack_timer == AckTimer::Adaptive && self.compressed == 0 {
            // The delay was too short for the gap: wait longer the next time.
            self.ato = (2 * self.ato).min(self.rto);
        }
        true
    }

    /// Stops the timer: a policy decides when the ACK leaves.
    pub fn stop_timer(&mut self) {
        self.deadline = NEVER;
    }

    /// Data of the other direction carried the ACK. Linux then sees a conversation, in which
    /// ACKs need not be quick.
    pub fn on_ack_piggybacked(&mut self) {
        self.on_ack_sent();
        self.conversing = true;
    }

    /// Handles the sending of an ACK.
    pub fn on_ack_sent(&mut self) {
        self.segments = 0;
        self.deadline = NEVER;
        self.compressed = 0;
        if self.quick > 0 {
            self.quick -= 1;
            if self.quick == 0 {
                self.ato = ATO_MIN;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::configure;
    use ackwise_scenario::tcp_model::Stack;
    use ackwise_scenario::{SocketOptions, TcpModel};

    fn config(model: TcpModel) -> ReceiverConfig {
        configure("newreno", &model, &SocketOptions::default(), 1500)
            .unwrap()
            .1
    }

    fn next(unacked: u64) -> Seen {
        Seen {
            arrival: Arrival::InOrder,
            holes: false,
            marked: false,
            pushed: false,
            payload: 1448,
            opens: false,
            next: 0,
            unacked,
            rtt: None,
            handshake_rtt: None,
        }
    }

    /// RFC 5681 §4.2, RFC 1122 §4.2.3.2: an ACK for every second full segment; the timer runs
    /// from the first segment that waits.
    #[test]
    fn every_second_full_segment() {
        let c = config(TcpModel::default());
        let mut d = DelayedAck::new();
        assert!(!d.on_data(&c, &next(1448), 10 * MS));
        assert_eq!(d.deadline(), 210 * MS);
        // Half a segment does not count as the second.
        assert!(!d.on_data(&c, &next(1448 + 700), 30 * MS));
        assert_eq!(d.deadline(), 210 * MS, "the deadline is not postponed");
        assert!(d.on_data(&c, &next(2 * 1448), 40 * MS));
        d.on_ack_sent();
        assert_eq!(d.deadline(), NEVER);
        assert!(!d.on_data(&c, &next(1), 50 * MS));
        assert!(!d.on_timer(&c, 249 * MS));
        assert!(d.on_timer(&c, 250 * MS));
    }

    #[test]
    fn what_is_not_in_order_is_answered_at_once() {
        let c = config(TcpModel::default());
        for (arrival, holes) in [
            (Arrival::OutOfOrder, true),
            (Arrival::Duplicate, false),
            (Arrival::FillsGap, false),
            (Arrival::FillsGap, true),
        ] {
            let seen = Seen {
                arrival,
                holes,
                ..next(100)
            };
            assert!(DelayedAck::new().on_data(&c, &seen, 0), "{arrival:?}");
        }
        let marked = Seen {
            marked: true,
            ..next(100)
        };
        assert!(DelayedAck::new().on_data(&c, &marked, 0));
    }

    /// ns-2's DelAck counts packets of any size.
    #[test]
    fn packets_may_be_counted() {
        let c = config(TcpModel {
            stack: Some(Stack::Ns2),
            ack_every: Some(2),
            ..TcpModel::default()
        });
        let mut d = DelayedAck::new();
        assert!(!d.on_data(&c, &next(1), 0));
        assert_eq!(d.deadline(), 100 * MS);
        assert!(d.on_data(&c, &next(2), MS));
    }

    #[test]
    fn a_heartbeat_does_not_wait_for_data() {
        let c = config(TcpModel {
            ack_timer: Some(AckTimer::Heartbeat),
            ..TcpModel::default()
        });
        let mut d = DelayedAck::new();
        assert!(!d.on_data(&c, &next(1448), 390 * MS));
        assert_eq!(d.deadline(), 400 * MS);
    }

    /// Linux: sixteen immediate ACKs, then every second segment and 40 ms.
    #[test]
    fn linux_starts_quick() {
        let c = config(TcpModel {
            stack: Some(Stack::Linux),
            ..TcpModel::default()
        });
        let mut d = DelayedAck::new();
        for n in 0..16 {
            assert!(d.on_data(&c, &next(1448), n * MS), "{n}");
            d.on_ack_sent();
        }
        assert!(!d.on_data(&c, &next(1448), 20 * MS));
        assert_eq!(d.deadline(), 60 * MS);
        // So is a segment with PSH.
        let pushed = Seen {
            pushed: true,
            ..next(1448)
        };
        assert!(d.clone().on_data(&c, &pushed, 21 * MS));
        // More than one full segment is enough.
        assert!(d.on_data(&c, &next(1449), 21 * MS));
    }

    /// Linux: the timer doubles each time it expires, up to a round trip but never below 40 ms. A
    /// sender that pauses for longer than a retransmission timeout gets quick ACKs again.
    #[test]
    fn linux_waits_for_at_most_a_round_trip() {
        let c = config(TcpModel {
            stack: Some(Stack::Linux),
            ..TcpModel::default()
        });
        let cases = [
            (None, [40, 80, 160, 200], 1001),
            (Some(20), [40, 40, 40, 40], 221),
            (Some(100), [40, 80, 100, 100], 301),
            (Some(300), [40, 80, 160, 200], 901),
        ];
        for (rtt, waits, pause) in cases {
            let seen = Seen {
                handshake_rtt: rtt.map(|rtt| rtt * MS),
                ..next(1448)
            };
            let mut d = DelayedAck::new();
            for n in 0..16 {
                assert!(d.on_data(&c, &seen, n * MS), "{n}");
                d.on_ack_sent();
            }
            let mut now = 16 * MS;
            for wait in waits {
                assert!(!d.on_data(&c, &seen, now));
                assert_eq!(d.deadline(), now + wait * MS, "{rtt:?}");
                assert!(d.on_timer(&c, now + wait * MS));
                d.on_ack_sent();
                now += 210 * MS;
            }
            let last = now - 210 * MS;
            assert!(
                !d.clone().on_data(&c, &seen, last + (pause - 1) * MS),
                "{rtt:?}"
            );
            assert!(d.on_data(&c, &seen, last + pause * MS), "{rtt:?}");
        }
    }

    /// Linux: the fourth and later duplicates share one ACK for 1 ms.
    #[test]
    fn linux_compresses_sacks() {
        let c = config(TcpModel {
            stack: Some(Stack::Linux),
            ..TcpModel::default()
        });
        let mut d = DelayedAck::new();
        let seen = Seen {
            arrival: Arrival::OutOfOrder,
            holes: true,
            rtt: Some(100 * MS),
            ..next(0)
        };
        let now = 5 * MS;
        for _ in 0..3 {
            assert!(d.on_data(&c, &seen, now));
            d.on_ack_sent();
        }
        assert!(!d.on_data(&c, &seen, now));
        assert!(!d.on_data(&c, &seen, now + MS / 2));
        assert_eq!(d.deadline(), now + MS + MS / 10);
        assert!(d.on_timer(&c, now + MS + MS / 10));
    }
}
