//! The interface of a congestion control, and the list of the available ones.
//!
//! Each congestion control is one file below `congestion/`. The sender calls it on each ACK,
//! on each RTT sample and on each loss, and applies its answer. A control that works
//! from a model of the path, such as BBR, says so with
//! [`CongestionControl::is_model_based`]; it is then given delivery-rate samples, and
//! sets the window and the pacing rate itself.

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::{Recovery, Stack};

use super::config::SenderConfig;
use super::congestion_window::CongestionWindow;
use super::delivery_rate::RateSample;
use super::recovery_state::RecoveryState;
use crate::packet::FlowId;

mod bbr;
mod cubic;
mod reno;
mod vegas;

/// A name by which a scenario selects a congestion control, with its defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variant {
    /// The value of `cc` in a scenario.
    pub name: &'static str,
    /// The stack that it models unless the scenario names one.
    pub stack: Stack,
    /// The default loss recovery in the Linux model.
    pub linux_recovery: Recovery,
    /// The default loss recovery in the models of other stacks.
    pub recovery: Recovery,
    /// Whether slow start ends by HyStart unless the scenario says otherwise.
    pub hystart: bool,
    /// Whether it works with SACK only.
    pub needs_sack: bool,
}

/// What an ACK acknowledged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acked {
    /// When it arrived.
    pub now: Nanos,
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// Whether the sender is in the slow start after a timeout.
    pub slow_restart: bool,
    /// Whether slow start is in the conservative phase of HyStart++ (RFC 9406 §4.2).
    pub conservative: bool,
}

/// The path as seen by a model-based control. Counts are segments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    /// The current time.
    pub now: Nanos,
    /// Payload of a full segment, bytes.
    pub mss: u64,
    /// The congestion window.
    pub cwnd: u64,
    /// Segments in the network.
    pub in_flight: u64,
    /// Segments delivered since the connection was opened, including its SYN.
    pub delivered: u64,
    /// When the last segment was delivered.
    pub delivered_at: Nanos,
    /// Segments marked lost since the connection was opened.
    pub lost: u64,
    /// The smoothed RTT, once one was measured.
    pub srtt: Option<Nanos>,
    /// When pacing lets the next segment out.
    pub departure: Nanos,
    /// State of the loss recovery.
    pub state: RecoveryState,
    /// Whether the sender had too little to send for the packets in flight to show the path's rate.
    pub app_limited: bool,
}

/// What a model-based control decides after an ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    /// The congestion window, segments.
    pub cwnd: u64,
    /// Whether the packets now in flight will not show the path's rate, because the control holds
    /// the sender back.
    pub app_limited: bool,
}

/// A congestion control. Windows are bytes, times are nanoseconds.
pub(crate) trait CongestionControl: Sized {
    /// The names by which a scenario selects it.
    const VARIANTS: &'static [Variant];

    /// The state of a new connection.
    fn new(c: &SenderConfig, flow: FlowId) -> Self;

    /// Grows the window for what an ACK acknowledged.
    fn on_ack(&mut self, c: &SenderConfig, acked: &Acked, window: &mut CongestionWindow);

    /// Returns the slow-start threshold after a loss, with `in_flight` bytes in flight.
    fn ssthresh(&mut self, c: &SenderConfig, window: &CongestionWindow, in_flight: u64) -> u64;

    /// Sets the window after a loss; the threshold has been set.
    fn reduce(&self, _c: &SenderConfig, window: &mut CongestionWindow) {
        window.set(window.ssthresh);
    }

    /// Takes an RTT sample. Returns the minimum RTT against which HyStart judges it, or
    /// `None` if HyStart must not judge it.
    fn on_rtt(&mut self, _rtt: Nanos, _now: Nanos) -> Option<Nanos> {
        Some(0)
    }

    /// The retransmission timer fired.
    fn on_timeout(&mut self) {}

    /// Sending resumes after `idle` without data.
    fn on_restart(&mut self, _idle: Nanos, _now: Nanos) {}

    /// Whether it sets the window and the pacing rate from delivery-rate samples. It then needs
    /// SACK, and [`CongestionControl::on_ack`] is not called.
    fn is_model_based(&self) -> bool {
        false
    }

    /// The connection is established; `path.srtt` is the RTT of its handshake if it had one.
    fn on_established(&mut self, _path: &Path) {}

    /// An ACK has been processed. Returns a decision, or `None` to leave the window alone.
    fn on_rate_sample(&mut self, _sample: &RateSample, _path: &Path) -> Option<Decision> {
        None
    }

    /// The retransmission timer fired; everything outstanding is marked lost.
    fn on_loss_state(&mut self, _path: &Path) {}

    /// The last reduction was unnecessary: nothing had been lost.
    fn on_undo(&mut self, _path: &Path) {}

    /// The first segment after a pause is about to leave. Returns a new window in
    /// segments, or `None` to leave it alone.
    fn on_transmit_start(&mut self, _path: &Path) -> Option<u64> {
        None
    }

    /// The pacing rate in bytes of payload per second; `None` if the control does not pace.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// The minimum number of segments that are handed down together.
    fn min_chunk(&self) -> u32 {
        2
    }
}

/// Defines [`Control`], an enum of all congestion controls, and their list.
/// The first argument is a dollar sign, which the inner macro needs.
macro_rules! congestion_controls {
    ($d:tt $($file:ident::$name:ident,)*) => {
        /// Any one of the congestion controls.
        #[derive(Debug, Clone)]
        pub(crate) enum Control {
            $(#[doc = stringify!($name)] $name($file::$name),)*
        }

        /// The names of all congestion controls, in the order of registration.
        const VARIANTS: &[&[Variant]] = &[$(<$file::$name>::VARIANTS,)*];

        impl Control {
            /// Makes the control that the configuration names.
            pub fn new(c: &SenderConfig, flow: FlowId) -> Control {
                $(if <$file::$name>::VARIANTS.iter().any(|v| v.name == c.congestion_control) {
                    return Control::$name(<$file::$name>::new(c, flow));
                })*
                unreachable!("'configure' accepts registered names only")
            }
        }

        /// Calls the congestion control in use, without a virtual call.
        macro_rules! dispatch {
            ($d this:ident, $d control:ident => $d call:expr) => {
                match $d this {
                    $(Control::$name($d control) => $d call,)*
                }
            };
        }
    };
}

congestion_controls! { $
    reno::Reno,
    cubic::Cubic,
    bbr::Bbr,
    vegas::Vegas,
}

/// Forwards the methods of [`CongestionControl`].
impl Control {
    #[inline]
    pub fn on_ack(&mut self, c: &SenderConfig, acked: &Acked, window: &mut CongestionWindow) {
        dispatch!(self, control => control.on_ack(c, acked, window));
    }

    pub fn ssthresh(&mut self, c: &SenderConfig, window: &CongestionWindow, in_flight: u64) -> u64 {
        dispatch!(self, control => control.ssthresh(c, window, in_flight))
    }

    pub fn reduce(&self, c: &SenderConfig, window: &mut CongestionWindow) {
        dispatch!(self, control => control.reduce(c, window));
    }

    #[inline]
    pub fn on_rtt(&mut self, rtt: Nanos, now: Nanos) -> Option<Nanos> {
        dispatch!(self, control => control.on_rtt(rtt, now))
    }

    pub fn on_timeout(&mut self) {
        dispatch!(self, control => control.on_timeout());
    }

    pub fn on_restart(&mut self, idle: Nanos, now: Nanos) {
        dispatch!(self, control => control.on_restart(idle, now));
    }

    #[inline]
    pub fn is_model_based(&self) -> bool {
        dispatch!(self, control => control.is_model_based())
    }

    pub fn on_established(&mut self, path: &Path) {
        dispatch!(self, control => control.on_established(path));
    }

    pub fn on_rate_sample(&mut self, sample: &RateSample, path: &Path) -> Option<Decision> {
        dispatch!(self, control => control.on_rate_sample(sample, path))
    }

    pub fn on_loss_state(&mut self, path: &Path) {
        dispatch!(self, control => control.on_loss_state(path));
    }

    pub fn on_undo(&mut self, path: &Path) {
        dispatch!(self, control => control.on_undo(path));
    }

    pub fn on_transmit_start(&mut self, path: &Path) -> Option<u64> {
        dispatch!(self, control => control.on_transmit_start(path))
    }

    #[inline]
    pub fn pacing_rate(&self) -> Option<u64> {
        dispatch!(self, control => control.pacing_rate())
    }

    pub fn min_chunk(&self) -> u32 {
        dispatch!(self, control => control.min_chunk())
    }
}

/// The names of all congestion controls, in the order of registration.
pub fn congestion_controls() -> impl Iterator<Item = &'static str> {
    VARIANTS.iter().flat_map(|of| of.iter()).map(|v| v.name)
}

/// The congestion control of this name.
pub(crate) fn variant(name: &str) -> Option<&'static Variant> {
    let mut all = VARIANTS.iter().flat_map(|of| of.iter());
    all.find(|v| v.name == name)
}
