//! When to acknowledge: the delayed ACK of RFC 1122 §4.2.3.2 and RFC 5681 §4.2,
//! and what Linux makes of it.

use ackwise_net::Nanos;
use ackwise_scenario::tcp_model::AckTimer;

use super::config::ReceiverConfig;
use super::sender::NEVER;

const MS: Nanos = 1_000_000;
/// Linux: the least and the greatest delay, and the quick ACKs of a start.
const ATO_MIN: Nanos = 40 * MS;
const DELACK_MAX: Nanos = 200 * MS;
/// What Linux takes the timeout of the way back for: it sends no data, so its own
/// estimate stays where it starts.
const RTO: Nanos = 1_000 * MS;

/// What a data segment means for the next ACK.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// The next one, with no hole above it.
    pub in_order: bool,
    /// There are holes after it.
    pub holes: bool,
    /// It carries a mark, or ends an echo.
    pub marked: bool,
    pub payload: u32,
    /// Bytes in order that no ACK has covered yet, its own included.
    pub unacked: u64,
}

/// The counters and the timer of the delayed ACK.
#[derive(Debug, Clone)]
pub(crate) struct DelayedAck {
    deadline: Nanos,
    /// Data segments since the last ACK.
    segments: u32,
    /// Linux: its estimate of the gap between segments, 0 before the first;
    /// ACKs to send without delay; when the last segment came.
    ato: Nanos,
    quick: u32,
    last_data: Nanos,
    /// Linux: payload of a full segment.
    rcv_mss: u32,
}

impl DelayedAck {
    pub fn new(_: &ReceiverConfig) -> DelayedAck {
        DelayedAck {
            deadline: NEVER,
            segments: 0,
            ato: 0,
            quick: 0,
            last_data: 0,
            rcv_mss: 536,
        }
    }

    pub fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// A data segment; true if it is to be acknowledged at once.
    pub fn on_data(&mut self, c: &ReceiverConfig, seen: &Seen, now: Nanos) -> bool {
        self.segments += 1;
        if c.ack_timer == AckTimer::Adaptive {
            self.adapt(c, seen, now);
        }
        let quick = self.quick > 0;
        if !seen.in_order || seen.holes || seen.marked || quick || self.enough(c, seen) {
            return true;
        }
        self.start_timer(c, now);
        false
    }

    fn enough(&self, c: &ReceiverConfig, seen: &Seen) -> bool {
        if !c.ack_bytes {
            return self.segments >= c.ack_every;
        }
        if c.ack_timer == AckTimer::Adaptive {
            // Linux: more than one full segment less than the factor.
            return seen.unacked > u64::from(c.ack_every - 1) * u64::from(self.rcv_mss);
        }
        seen.unacked >= u64::from(c.ack_every) * u64::from(c.mss)
    }

    /// Linux, `tcp_event_data_recv()`: the delay follows the gaps between segments.
    fn adapt(&mut self, c: &ReceiverConfig, seen: &Seen, now: Nanos) {
        self.rcv_mss = self.rcv_mss.max(seen.payload).min(c.mss);
        let gap = now - self.last_data;
        if self.ato == 0 {
            self.quick_start(c);
            self.ato = ATO_MIN;
        } else if gap <= ATO_MIN / 2 {
            self.ato = self.ato / 2 + ATO_MIN / 2;
        } else if gap < self.ato {
            self.ato = (self.ato / 2 + gap).min(RTO);
        } else if gap > RTO {
            // The sender starts again; help its slow start.
            self.quick_start(c);
        }
        self.last_data = now;
    }

    fn quick_start(&mut self, c: &ReceiverConfig) {
        let halves = c.window / (2 * u64::from(self.rcv_mss));
        let halves = u32::try_from(halves).unwrap_or(u32::MAX);
        let quick = if halves == 0 { 2 } else { halves };
        self.quick = self.quick.max(quick.min(c.quick_acks));
    }

    fn start_timer(&mut self, c: &ReceiverConfig, now: Nanos) {
        if self.deadline != NEVER {
            return;
        }
        self.deadline = match c.ack_timer {
            AckTimer::FirstSegment => now + c.ack_delay,
            AckTimer::Heartbeat => (now / c.ack_delay + 1) * c.ack_delay,
            AckTimer::Adaptive => now + self.ato.max(c.ack_delay.min(ATO_MIN)).min(DELACK_MAX),
        };
    }

    /// The timer's time has come; true if an ACK is due.
    pub fn on_timer(&mut self, c: &ReceiverConfig, now: Nanos) -> bool {
        if now < self.deadline {
            return false;
        }
        self.deadline = NEVER;
        if c.ack_timer == AckTimer::Adaptive {
            // The delay was too short for the gap: wait longer next time.
            self.ato = (2 * self.ato).min(RTO);
        }
        true
    }

    /// An ACK leaves.
    pub fn on_ack_sent(&mut self, _: &ReceiverConfig) {
        self.segments = 0;
        self.deadline = NEVER;
        if self.quick > 0 {
            self.quick -= 1;
            if self.quick == 0 {
                self.ato = ATO_MIN;
            }
        }
    }
}
