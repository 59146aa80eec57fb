//! The transmission control block of a sender (RFC 9293 §3.3.1): sequence state, windows,
//! timers and counters.
//!
//! The sender drives the connection and the loss recovery repairs it; both work on this
//! state. State that depends on how losses are repaired is elsewhere.

use std::sync::Arc;

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::Pacing;

use super::ack_rate::AckRateState;
use super::ack_ratio::AckRatioState;
use super::config::{SenderConfig, UNLIMITED};
use super::congestion::Control;
use super::congestion_window::CongestionWindow;
use super::cwnd_validation::CwndValidation;
use super::hystart::Round;
use super::pacing::Pacer;
use super::rtt::Rtt;
use super::stats::SenderStats;
use crate::packet::{AckRateOption, Direction, Flags, FlowId, Packet, Sack};
use crate::time::NEVER;

/// The purpose of the timer. There is one timer, as in Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The retransmission timeout (RFC 6298).
    Retransmit,
    /// A tail loss probe (RFC 8985 §7).
    Probe,
    /// The reordering timer (RFC 8985 §6).
    Reorder,
}

/// The state of a sender that all loss recoveries share. Sequence numbers and
/// windows are bytes.
#[derive(Debug, Clone)]
pub(crate) struct Tcb {
    pub flow: FlowId,
    pub config: Arc<SenderConfig>,
    /// End of the data supplied by the application.
    pub supplied: u64,
    /// First byte not yet acknowledged (SND.UNA).
    pub una: u64,
    /// Next byte to be sent (SND.NXT). It may move back after a timeout.
    pub nxt: u64,
    /// First byte never sent.
    pub max: u64,
    /// Right edge of the receiver's offered window.
    pub edge: u64,
    /// The window in the last ACK (SND.WND).
    pub offered: u64,
    pub window: CongestionWindow,
    pub rtt: Rtt,
    pub control: Control,
    pub hystart: Round,
    pub validation: CwndValidation,
    timer: Timer,
    timer_at: Nanos,
    /// The pacer for a congestion control that sets a pacing rate.
    pub pacer: Pacer,
    /// Nothing new leaves before this time.
    pub pace_at: Nanos,
    /// Nothing new leaves before an ACK arrives after `pace_at`.
    pub pausing: bool,
    /// 8 × SRTT in nanoseconds, for pacing by bursts; 0 before the first sample.
    burst_srtt8: Nanos,
    /// Segments that may still leave for this event.
    pub burst: u32,
    /// New segments of the current chunk, and their maximum.
    pub chunk: u32,
    pub chunk_most: u32,
    /// When the last packet left.
    pub last_sent: Nanos,
    /// The newest TSval received.
    pub tsrecent: u64,
    /// Whether the next data carry CWR.
    pub owe_cwr: bool,
    /// Whether the next data report that an ACK arrived marked.
    pub owe_ack_ce: bool,
    /// The highest end of a segment that requested an immediate ACK.
    pub ask_ack_end: u64,
    /// The ACK rate requested from the receiver.
    pub ack_rate: AckRateState,
    /// What is known about lost ACKs, with ACK congestion control.
    pub ack_ratio: Option<Box<AckRatioState>>,
    /// Whether the sender is in the slow start after a timeout.
    pub slow_restart: bool,
    pub stats: SenderStats,
}

/// Exemptions of a segment from limits other than the window.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gate {
    /// Bursts and the pauses between them do not delay it (Limited Transmit).
    pub past_bursts: bool,
    /// The pacing rate does not delay it.
    pub past_rate: bool,
    /// Segments in the next burst; `max_burst` if `None`.
    pub burst: Option<u32>,
}

impl Tcb {
    /// The state before the connection is opened.
    pub fn new(flow: FlowId, config: Arc<SenderConfig>) -> Tcb {
        Tcb {
            flow,
            supplied: 0,
            una: 0,
            nxt: 0,
            max: 0,
            // The SYN-ACK sets it; without a handshake the first ACK does.
            edge: u64::MAX,
            offered: 0,
            window: CongestionWindow::new(&config),
            rtt: Rtt::new(),
            control: Control::new(&config, flow),
            hystart: Round::new(),
            validation: CwndValidation::default(),
            timer: Timer::Retransmit,
            timer_at: NEVER,
            pacer: Pacer::default(),
            pace_at: 0,
            pausing: false,
            burst_srtt8: 0,
            burst: 0,
            chunk: 0,
            chunk_most: 0,
            last_sent: 0,
            tsrecent: 0,
            owe_cwr: false,
            owe_ack_ce: false,
            ask_ack_end: 0,
            ack_rate: AckRateState::default(),
            ack_ratio: config
                .ack_congestion_control
                .map(|control| Box::new(AckRatioState::new(control))),
            slow_restart: false,
            stats: SenderStats {
                rtt_min_ns: Nanos::MAX,
                ..SenderStats::default()
            },
            config,
        }
    }

    /// Payload of a full segment, bytes.
    pub fn mss(&self) -> u64 {
        u64::from(self.config.mss)
    }

    /// The smoothed round-trip time, once one was measured.
    pub fn srtt(&self) -> Option<Nanos> {
        self.rtt.srtt(&self.config.rto)
    }

    /// The current retransmission timeout, including back-off.
    pub fn rto(&self) -> Nanos {
        self.rtt.rto(&self.config.rto)
    }

    /// Records that the application has more data; `u64::MAX` never ends.
    pub fn supply(&mut self, bytes: u64) {
        self.supplied = self.supplied.saturating_add(bytes).min(UNLIMITED);
    }

    /// Bytes supplied and not yet sent.
    pub fn unsent(&self) -> u64 {
        self.supplied - self.max
    }

    /// The congestion window, bounded by the configured limit.
    pub fn limited_cwnd(&self) -> u64 {
        self.window.cwnd.min(self.config.window_limit)
    }

    /// Whether an ACK is a duplicate (RFC 5681 §2): it acknowledges nothing new, carries no data and the
    /// same window, and something is outstanding.
    pub fn is_duplicate(&self, p: &Packet) -> bool {
        p.payload == 0
            && p.ack == self.una
            && (self.max > self.una || self.config.idle_duplicates)
            && (p.window == self.offered || self.offered == 0)
    }

    /// Moves `una` to the number of an ACK.
    pub fn take_ack(&mut self, p: &Packet) {
        self.stats.acked_bytes += p.ack - self.una;
        self.una = p.ack;
        self.nxt = self.nxt.max(self.una);
    }

    /// Takes the RTT sample of a segment sent at `sent`.
    pub fn sample(&mut self, sent: Nanos, now: Nanos) {
        let rtt = now - sent;
        self.stats.rtt_samples += 1;
        self.stats.rtt_last_ns = rtt;
        self.stats.rtt_sum_ns += u128::from(rtt);
        self.stats.rtt_min_ns = self.stats.rtt_min_ns.min(rtt);
        self.rtt
            .sample(&self.config.rto, sent, now, self.una, self.nxt);
    }

    /// Takes an RTT sample for pacing by bursts. It differs from the timer's: each ACK counts, on a
    /// clock without ticks.
    pub fn sample_for_bursts(&mut self, p: &Packet, now: Nanos) {
        let bursts = matches!(self.config.pacing, Pacing::Burst | Pacing::BurstByAcks);
        if bursts && !p.flags.contains(Flags::SYNTHETIC) && p.tsecr <= now {
            let rtt = now - p.tsecr;
            self.burst_srtt8 = match self.burst_srtt8 {
                0 => rtt * 8,
                srtt8 => srtt8 - srtt8 / 8 + rtt,
            };
        }
    }

    /// 8 × the round trip of which a burst takes its share.
    fn burst_rtt8(&self) -> Nanos {
        match self.burst_srtt8 {
            0 => self.srtt().unwrap_or(0) * 8,
            srtt8 => srtt8,
        }
    }

    /// Allows a whole burst for a new event.
    pub fn renew_burst(&mut self) {
        self.chunk = 0;
        self.burst = match self.config.max_burst {
            0 => u32::MAX,
            n => n,
        };
    }

    /// The purpose of the timer.
    pub fn timer(&self) -> Timer {
        self.timer
    }

    /// When the timer fires; `NEVER` if it is stopped.
    pub fn timer_at(&self) -> Nanos {
        self.timer_at
    }

    /// Sets the timer, replacing its earlier purpose.
    pub fn set_timer(&mut self, timer: Timer, at: Nanos) {
        self.timer = timer;
        self.timer_at = at;
    }

    /// Stops the timer; its purpose is remembered.
    pub fn stop_timer(&mut self) {
        self.timer_at = NEVER;
    }

    /// Starts the retransmission timer.
    pub fn arm(&mut self, now: Nanos) {
        self.set_timer(Timer::Retransmit, now.saturating_add(self.rto()));
    }

    /// Restarts the retransmission timer after an ACK of new data if something is
    /// outstanding (RFC 6298 §5.2 and §5.3).
    pub fn rearm(&mut self, now: Nanos) {
        // If no ACK is to come, the timer ends the pause between two bursts.
        let waits = self.config.pacing == Pacing::BurstByAcks && self.supplied > self.max;
        if self.max > self.una || waits {
            self.arm(now);
        } else {
            self.stop_timer();
        }
    }

    /// Whether pacing and the burst limit let a segment leave now; if so, the segment counts
    /// towards the burst. A burst is a share of `window`.
    pub fn may_leave(&mut self, now: Nanos, window: u64, gate: Gate) -> bool {
        if (now < self.pace_at || self.pausing) && !gate.past_bursts {
            return false;
        }
        if self.chunk == 0 && !self.pacer.may_leave(now) && !gate.past_rate {
            return false;
        }
        if self.burst > 0 {
            self.burst -= 1;
            return true;
        }
        let in_bursts = matches!(self.config.pacing, Pacing::Burst | Pacing::BurstByAcks);
        if in_bursts && !gate.past_bursts {
            // The next burst leaves after this one's share of the round trip.
            let segments = (window / self.mss()).max(1);
            let burst = gate.burst.unwrap_or(self.config.max_burst);
            self.pace_at = now + self.burst_rtt8() * u64::from(burst) / (8 * segments);
            self.pausing = self.config.pacing == Pacing::BurstByAcks;
        }
        false
    }

    /// The length of the new segment at `nxt`, if there are data and the receiver
    /// has room for them.
    pub fn next_new(&self) -> Option<u64> {
        let mut len = self.mss().min(self.supplied - self.nxt);
        let offered = self.edge.saturating_sub(self.nxt);
        // A window smaller than a segment must not stall the flow forever.
        if offered < len && self.max == self.una {
            len = offered;
        }
        (len > 0 && len <= offered).then_some(len)
    }

    /// A packet of this connection, sent now.
    #[inline]
    pub fn packet(&self, mut flags: Flags, seq: u64, payload: u32, now: Nanos) -> Packet {
        if self.config.timestamps {
            flags |= Flags::TIMESTAMPS;
        }
        Packet {
            flow: self.flow,
            direction: Direction::Data,
            ack_rate: AckRateOption::NONE,
            flags,
            wire_len: self.config.header + payload,
            payload,
            seq,
            ack: 0,
            window: self.told_window(),
            tsval: now,
            tsecr: self.tsrecent,
            sack: Sack::default(),
        }
    }

    /// The window field of data: a constant, or the cwnd hint for the receiver in whole
    /// segments.
    fn told_window(&self) -> u64 {
        if !self.config.cwnd_hint {
            return 65_535;
        }
        (self.limited_cwnd() / self.mss()).max(1) * self.mss()
    }
}
