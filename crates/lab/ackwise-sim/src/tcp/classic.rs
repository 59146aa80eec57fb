//! Loss recovery by cumulative acknowledgments alone: Tahoe, Reno, NewReno.
//!
//! The third duplicate ACK tells of a loss. Tahoe starts anew from there. Reno
//! and NewReno send the missing segment again and let each further duplicate
//! clock out a new one, by an inflated window (RFC 5681 §3.2); NewReno stays in
//! recovery until all that was out when it began is acknowledged, and takes a
//! partial ACK for the next hole (RFC 6582). A timeout goes back to the first
//! missing byte and sends everything after it again, as one-way agents of ns-2
//! and BSD do.

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::{Exit, Halve, Pacing, PartialAck, Recovery};

use super::sender::Sender;
use crate::packet::Packet;

/// What Tahoe, Reno and NewReno remember.
#[derive(Debug, Clone, Default)]
pub(crate) struct Classic {
    pub dupacks: u32,
    /// Segments that Limited Transmit adds to the window.
    lent: u32,
    /// All that was sent when the last reduction was made.
    pub recover: u64,
    /// In fast recovery.
    pub recovering: bool,
    /// A partial ACK came in this recovery.
    partial: bool,
    /// What duplicates add to the window while recovering.
    pub inflation: u64,
    /// The segment at `una` is to be sent again, whatever the window.
    pub resend: bool,
    /// The segment that is timed: its end, and when it left. Without timestamps.
    pub timed: Option<(u64, Nanos)>,
    /// 8 × SRTT to the nanosecond, for pacing by bursts; 0 before the first sample.
    pub srtt8: Nanos,
}

impl Classic {
    /// Duplicates are counted, too few to tell of a loss.
    pub fn is_first(&self, dupthresh: u32) -> bool {
        self.dupacks > 0 && self.dupacks < dupthresh
    }
}

impl Sender {
    /// An ACK that is not older than the last.
    pub(super) fn classic_ack(&mut self, p: &Packet, now: Nanos, ece: bool) {
        let acked = p.ack - self.una;
        if acked == 0 {
            if self.is_duplicate(p) {
                self.classic_duplicate(now);
                self.limit_burst();
            }
            return;
        }
        let partial = self.classic.recovering
            && self.config.recovery == Recovery::NewReno
            && p.ack < self.classic.recover;
        self.take_ack(p);
        self.classic_sample(p, now);
        if partial {
            self.classic_partial(acked, now);
            self.limit_burst();
            return;
        }
        self.classic_time(p, now);
        let ended = std::mem::take(&mut self.classic.recovering);
        self.classic.dupacks = 0;
        self.classic.lent = 0;
        self.classic.inflation = 0;
        self.rearm(now);
        if ended {
            self.classic_exit();
        }
        if !(ece || ended && self.config.recovery_exit != Exit::Grow) {
            self.grow(acked, now);
        }
    }

    /// By timestamps (RFC 7323 §4.3), else by the one segment that is timed (RFC 6298 §3).
    fn classic_sample(&mut self, p: &Packet, now: Nanos) {
        let timed = self.classic.timed.filter(|(end, _)| p.ack >= *end);
        if timed.is_some() {
            self.classic.timed = None;
            self.rtt.reset_backoff();
        }
        if self.is_synthetic(p) {
            return;
        }
        let sent = if self.config.timestamps {
            self.rtt.reset_backoff();
            Some(p.tsecr)
        } else {
            timed.map(|(_, sent)| sent)
        };
        if let Some(sent) = sent.filter(|sent| *sent <= now) {
            self.sample(sent, now);
            self.note_delay(now - sent, now);
        }
    }

    /// What paces bursts is not for the timer: each ACK counts, on a clock without ticks.
    pub(super) fn classic_time(&mut self, p: &Packet, now: Nanos) {
        let bursts = matches!(self.config.pacing, Pacing::Burst | Pacing::BurstByAcks);
        if bursts && !self.is_synthetic(p) && p.tsecr <= now {
            let rtt = now - p.tsecr;
            let srtt8 = &mut self.classic.srtt8;
            *srtt8 = match *srtt8 {
                0 => rtt * 8,
                srtt8 => srtt8 - srtt8 / 8 + rtt,
            };
        }
    }

    /// 8 × the round trip that a burst takes its share of.
    pub(super) fn burst_rtt8(&self) -> Nanos {
        match self.classic.srtt8 {
            0 => self.srtt().unwrap_or(0) * 8,
            srtt8 => srtt8,
        }
    }

    /// ns-2's NewReno: while it counts duplicates, the first two let one segment out each,
    /// whatever the window, and later ACKs no more than two.
    fn limit_burst(&mut self) {
        let most = self.config.recovery_burst;
        if most > 0 {
            self.burst = if self.classic.is_first(self.config.dupthresh) {
                u32::from(self.config.limited_transmit)
            } else {
                most
            };
        }
    }

    fn classic_exit(&mut self) {
        let mss = self.mss();
        match self.config.recovery_exit {
            Exit::Grow => {}
            Exit::Ssthresh => self.window.set(self.window.ssthresh),
            // RFC 6582 §3.2 step 3, option (1).
            Exit::Flight => {
                let flight = (self.nxt - self.una).max(mss);
                self.window.set(self.window.ssthresh.min(flight + mss));
            }
        }
    }

    /// RFC 6582 §3.2 step 3, partial acknowledgments.
    fn classic_partial(&mut self, acked: u64, now: Nanos) {
        let mss = self.mss();
        // Deflate by what was acknowledged, less the segment that goes out for it.
        let c = &mut self.classic;
        if c.inflation > acked {
            c.inflation -= acked.saturating_sub(mss);
        } else {
            let below = acked - c.inflation;
            c.inflation = mss;
            self.window.cwnd = self.window.cwnd.saturating_sub(below).max(mss);
        }
        let first = !std::mem::replace(&mut c.partial, true);
        c.resend = true;
        if first || self.config.partial_ack == PartialAck::SlowButSteady {
            self.rearm(now);
        }
    }

    fn classic_duplicate(&mut self, now: Nanos) {
        self.stats.dup_acks += 1;
        let mss = self.mss();
        let c = &mut self.classic;
        c.dupacks = c.dupacks.saturating_add(1);
        c.lent = c.dupacks;
        if c.dupacks > self.config.dupthresh && c.recovering {
            c.inflation += mss;
        }
        if c.dupacks != self.config.dupthresh || c.recovering {
            return;
        }
        // Duplicates of what a recovery or a timeout sent twice are no new loss
        // (RFC 6582 §4.1; the first window is exempt).
        if self.config.avoid_repeat && self.una <= c.recover && self.una != 0 {
            return;
        }
        self.stats.fast_recoveries += 1;
        // What Limited Transmit sent does not count (RFC 5681 §3.2 step 2).
        let extra = if self.config.limited_transmit {
            u64::from(self.config.dupthresh - 1) * mss
        } else {
            0
        };
        self.halve(extra);
        self.classic.recover = self.max;
        self.classic.timed = None;
        if self.config.recovery == Recovery::Tahoe {
            self.window.set(mss);
            self.nxt = self.una;
        } else {
            let c = &mut self.classic;
            c.recovering = true;
            c.partial = false;
            c.inflation = u64::from(self.config.dupthresh) * mss;
            c.resend = true;
        }
        self.arm(now);
    }

    /// The retransmission timer fired.
    pub(super) fn classic_timeout(&mut self) {
        let mss = self.mss();
        // Sent again in vain: the threshold stays (RFC 5681 §3.1).
        if self.config.halve == Halve::Window || self.rtt.backoff() == 0 {
            self.halve(0);
        }
        self.window.set(mss);
        self.forget_growth();
        self.nxt = self.una;
        self.classic = Classic {
            recover: self.max,
            srtt8: self.classic.srtt8,
            // ns-2's Tahoe goes on counting: no second Limited Transmit.
            dupacks: match self.config.recovery {
                Recovery::Tahoe => self.classic.dupacks,
                _ => 0,
            },
            ..Classic::default()
        };
    }

    /// How far data may go, from `una` on.
    pub(super) fn classic_allowance(&self) -> u64 {
        let c = &self.classic;
        let mut window = self.window.cwnd;
        if c.recovering {
            window += c.inflation;
        } else if self.config.limited_transmit && c.dupacks < self.config.dupthresh {
            window += u64::from(c.lent) * self.mss();
        }
        window
    }
}
