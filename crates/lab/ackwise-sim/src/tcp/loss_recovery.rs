//! The interface of loss recovery, and its two implementations.
//!
//! A loss recovery detects losses, chooses the next segment to send, and reduces and restores
//! the congestion window. It learns of events by the methods of [`LossRecovery`], and
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
    /// The packet as it arrived.
    pub packet: &'a Packet,
    /// When it arrived.
    pub now: Nanos,
    /// Whether it echoes a congestion mark on a connection that uses ECN (RFC 3168).
    pub ece: bool,
}

/// A data segment that leaves now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextSegment {
    /// Sequence number of the first byte.
    pub seq: u64,
    /// Length in bytes. It is narrow so that an `Option` of the segment is returned in two registers.
    pub len: u32,
    /// Whether it is a retransmission.
    pub again: bool,
}

impl NextSegment {
    /// Sequence number of the first byte after it.
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
}

/// A loss recovery. Sequence numbers and windows are bytes, times are nanoseconds.
pub(crate) trait LossRecovery {
    /// The connection is established.
    fn on_established(&mut self, _tcb: &mut Tcb, _now: Nanos) {}

    /// The application is about to supply more data.
    fn on_supply(&mut self, _tcb: &Tcb) {}

    /// The first segment after a pause is about to leave, and the congestion control is
    /// model-based.
    fn on_transmit_start(&mut self, _tcb: &mut Tcb, _now: Nanos) {}

    /// An ACK arrived. Processes it and its RTT sample, and acts on them.
    fn on_ack(&mut self, tcb: &mut Tcb, ack: Ack<'_>);

    /// The retransmission timer fired while something is outstanding. The caller then backs
    /// the timer off and restarts it.
    fn on_timeout(&mut self, tcb: &mut Tcb, now: Nanos);

    /// The timer of a tail loss probe fired (RFC 8985 §7).
    fn on_probe_timer(&mut self, _tcb: &mut Tcb, _now: Nanos) {}

    /// The reordering timer fired (RFC 8985 §6).
    fn on_reorder_timer(&mut self, _tcb: &mut Tcb, _now: Nanos) {}

    /// Returns the segment that leaves now, or `None` if the windows, pacing or the
    /// application allow none. The returned segment counts as sent.
    fn next_segment(&mut self, tcb: &mut Tcb, now: Nanos) -> Option<NextSegment>;

    /// The segment that [`LossRecovery::next_segment`] returned has left.
    fn on_sent(&mut self, tcb: &mut Tcb, next: &NextSegment, now: Nanos);

    /// Bytes that count against [`LossRecovery::send_window`].
    fn in_flight(&self, tcb: &Tcb) -> u64;

    /// Bytes that may be in flight, before the configured limit is applied.
    fn send_window(&self, tcb: &Tcb) -> u64;
}

/// A loss recovery of either kind.
#[derive(Debug, Clone)]
pub(crate) enum AnyRecovery {
    /// Loss recovery by cumulative ACKs alone.
    Classic(Classic),
    /// Loss recovery by selective ACKs.
    Selective(Box<Selective>),
}

impl AnyRecovery {
    /// Makes the configured recovery. `model_based` means that the congestion control needs
    /// delivery-rate samples.
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

/// Calls the recovery in use, without a virtual call.
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
