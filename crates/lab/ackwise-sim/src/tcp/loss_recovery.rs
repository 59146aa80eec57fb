//! The interface of loss recovery, and the two that there are.
//!
//! A loss recovery finds out what is lost, says what leaves next, and brings the congestion
//! window down and up again. It is told what happens by the methods of [`LossRecovery`], and
//! acts on the connection by the methods of [`Tcb`]:
//!
//! | Action | Method |
//! |---|---|
//! | what to send, new or again | the answer of [`LossRecovery::next_segment`] |
//! | the window comes down | [`Tcb::halve`], [`Tcb::start_reduction`], [`Tcb::end_reduction`] |
//! | the reduction was needless | [`Tcb::saved_window`], [`Tcb::undo_reduction`] |
//! | the window grows | [`Tcb::grow`] |
//! | a timer is set | [`Tcb::arm`], [`Tcb::rearm`], [`Tcb::set_timer`], [`Tcb::stop_timer`] |
//! | an RTT sample is taken | [`Tcb::sample`], [`Tcb::note_delay`] |

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::Recovery;

use super::config::SenderConfig;
use super::tcb::Tcb;
use crate::packet::Packet;
use classic::Classic;
use selective::Selective;

mod classic;
mod selective;
#[cfg(test)]
mod tests;

/// An ACK that is not older than the last one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ack<'a> {
    /// As it arrived.
    pub packet: &'a Packet,
    /// When it arrived.
    pub now: Nanos,
    /// It echoes a mark of congestion, and the connection uses ECN (RFC 3168).
    pub ece: bool,
}

/// A data segment that leaves now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextSegment {
    /// Its first byte.
    pub seq: u64,
    /// Its length, bytes. So narrow that a segment, or none, is answered in two registers.
    pub len: u32,
    /// It was sent before.
    pub again: bool,
}

impl NextSegment {
    /// First byte after it.
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
}

/// A loss recovery. Sequence numbers and windows are bytes, times are nanoseconds.
pub(crate) trait LossRecovery {
    /// The connection is open.
    fn on_established(&mut self, _tcb: &mut Tcb, _now: Nanos) {}

    /// The application is about to supply more data.
    fn on_supply(&mut self, _tcb: &Tcb) {}

    /// The first segment after a pause is about to leave, and the congestion control is
    /// model-based.
    fn on_transmit_start(&mut self, _tcb: &mut Tcb, _now: Nanos) {}

    /// An ACK arrived. Takes it, with its RTT sample, and does what follows from it.
    fn on_ack(&mut self, tcb: &mut Tcb, ack: Ack<'_>);

    /// The retransmission timer fired, and something is outstanding. The caller then backs
    /// the timer off and starts it.
    fn on_timeout(&mut self, tcb: &mut Tcb, now: Nanos);

    /// The timer of a tail loss probe fired (RFC 8985 §7).
    fn on_probe_timer(&mut self, _tcb: &mut Tcb, _now: Nanos) {}

    /// The time that reordering may take is over (RFC 8985 §6).
    fn on_reorder_timer(&mut self, _tcb: &mut Tcb, _now: Nanos) {}

    /// Returns the segment that leaves now, or `None` if the windows, pacing or the
    /// application let none out. What it returns counts as sent.
    fn next_segment(&mut self, tcb: &mut Tcb, now: Nanos) -> Option<NextSegment>;

    /// The segment that [`LossRecovery::next_segment`] returned has left.
    fn on_sent(&mut self, tcb: &mut Tcb, next: &NextSegment, now: Nanos);

    /// Bytes that count against [`LossRecovery::send_window`].
    fn in_flight(&self, tcb: &Tcb) -> u64;

    /// Bytes that may be in flight; the limit of the configuration is not applied.
    fn send_window(&self, tcb: &Tcb) -> u64;
}

/// Any one of the loss recoveries.
#[derive(Debug, Clone)]
pub(crate) enum AnyRecovery {
    /// By cumulative acknowledgments alone.
    Classic(Classic),
    /// By selective acknowledgments.
    Selective(Box<Selective>),
}

impl AnyRecovery {
    /// Makes the recovery that the configuration asks for. `model_based`: the congestion
    /// control needs delivery-rate samples.
    pub fn new(c: &SenderConfig, model_based: bool) -> AnyRecovery {
        match c.recovery {
            Recovery::Tahoe | Recovery::Reno | Recovery::NewReno => {
                AnyRecovery::Classic(Classic::default())
            }
            Recovery::Sack | Recovery::Rack => {
                AnyRecovery::Selective(Box::new(Selective::new(model_based)))
            }
        }
    }
}

/// Calls the recovery that is there, without a virtual call.
macro_rules! dispatch {
    ($this:ident, $recovery:ident => $call:expr) => {
        match $this {
            AnyRecovery::Classic($recovery) => $call,
            AnyRecovery::Selective($recovery) => $call,
        }
    };
}

impl LossRecovery for AnyRecovery {
    fn on_established(&mut self, tcb: &mut Tcb, now: Nanos) {
        dispatch!(self, recovery => recovery.on_established(tcb, now));
    }

    fn on_supply(&mut self, tcb: &Tcb) {
        dispatch!(self, recovery => recovery.on_supply(tcb));
    }

    fn on_transmit_start(&mut self, tcb: &mut Tcb, now: Nanos) {
        dispatch!(self, recovery => recovery.on_transmit_start(tcb, now));
    }

    #[inline]
    fn on_ack(&mut self, tcb: &mut Tcb, ack: Ack<'_>) {
        dispatch!(self, recovery => recovery.on_ack(tcb, ack));
    }

    fn on_timeout(&mut self, tcb: &mut Tcb, now: Nanos) {
        dispatch!(self, recovery => recovery.on_timeout(tcb, now));
    }

    fn on_probe_timer(&mut self, tcb: &mut Tcb, now: Nanos) {
        dispatch!(self, recovery => recovery.on_probe_timer(tcb, now));
    }

    fn on_reorder_timer(&mut self, tcb: &mut Tcb, now: Nanos) {
        dispatch!(self, recovery => recovery.on_reorder_timer(tcb, now));
    }

    #[inline]
    fn next_segment(&mut self, tcb: &mut Tcb, now: Nanos) -> Option<NextSegment> {
        dispatch!(self, recovery => recovery.next_segment(tcb, now))
    }

    #[inline]
    fn on_sent(&mut self, tcb: &mut Tcb, next: &NextSegment, now: Nanos) {
        dispatch!(self, recovery => recovery.on_sent(tcb, next, now));
    }

    #[inline]
    fn in_flight(&self, tcb: &Tcb) -> u64 {
        dispatch!(self, recovery => recovery.in_flight(tcb))
    }

    #[inline]
    fn send_window(&self, tcb: &Tcb) -> u64 {
        dispatch!(self, recovery => recovery.send_window(tcb))
    }
}
