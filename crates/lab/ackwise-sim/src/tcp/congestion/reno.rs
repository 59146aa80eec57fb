//! Reno's congestion avoidance (RFC 5681): one more segment each round trip, half after a
//! loss. Tahoe, Reno, NewReno and SACK differ in how they repair losses, not in this.

use ackwise_scenario::tcp_model::{Halve, Recovery, Stack};

use super::{Acked, CongestionControl, Variant};
use crate::packet::FlowId;
use crate::tcp::config::SenderConfig;
use crate::tcp::congestion_window::CongestionWindow;

/// Reno keeps no state beside the window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reno;

const fn variant(name: &'static str, recovery: Recovery) -> Variant {
    Variant {
        name,
        stack: Stack::Rfc,
        linux_recovery: recovery,
        recovery,
        hystart: false,
        needs_sack: false,
    }
}

impl CongestionControl for Reno {
    const VARIANTS: &'static [Variant] = &[
        variant("tahoe", Recovery::Tahoe),
        Variant {
            stack: Stack::Linux,
            linux_recovery: Recovery::Rack,
            ..variant("reno", Recovery::Reno)
        },
        variant("newreno", Recovery::NewReno),
        variant("sack", Recovery::Sack),
    ];

    fn new(_c: &SenderConfig, _flow: FlowId) -> Reno {
        Reno
    }

    #[inline]
    fn on_ack(&mut self, c: &SenderConfig, acked: &Acked, window: &mut CongestionWindow) {
        window.grow_reno(c, acked.bytes, acked.slow_restart);
    }

    fn ssthresh(&mut self, c: &SenderConfig, window: &CongestionWindow, in_flight: u64) -> u64 {
        let mss = u64::from(c.mss);
        match c.halve {
            Halve::Flight => (in_flight / 2).max(2 * mss),
            Halve::Window => (window.cwnd.min(c.window_limit) / 2 / mss * mss).max(2 * mss),
        }
    }

    fn reduce(&self, c: &SenderConfig, window: &mut CongestionWindow) {
        match c.halve {
            // ns-2 keeps the half segment that the threshold drops.
            Halve::Window => window.halve(c),
            Halve::Flight => window.set(window.ssthresh),
        }
    }
}
