//! A flow under the contract.

use std::{fmt, mem};

use crate::meta::literal;
use crate::{Config, Segment, Verdict, sys};

/// Why an ACK was sent or withheld.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason(u32);

impl Reason {
    /// Every reason, in the order of `enum aw_reason`.
    pub fn all() -> impl ExactSizeIterator<Item = Reason> {
        (0..sys::AW_REASON_COUNT).map(Reason)
    }

    /// Its number in `enum aw_reason`.
    pub fn id(self) -> u32 {
        self.0
    }

    /// The reason with this number.
    pub fn from_id(id: u32) -> Option<Reason> {
        (id < sys::AW_REASON_COUNT).then_some(Reason(id))
    }

    fn text(self) -> (&'static str, &'static str) {
        // SAFETY: returns null or an entry of a static table.
        match unsafe { sys::aw_shim_reason(self.0).as_ref() } {
            Some(meta) => (literal(meta.name), literal(meta.what)),
            None => ("unknown", "a reason that this version does not know"),
        }
    }

    /// Its name, as the counters print it.
    pub fn name(self) -> &'static str {
        self.text().0
    }

    /// What it means.
    pub fn what(self) -> &'static str {
        self.text().1
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reason({})", self.name())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A policy, and the bound on the contract's holds: D, which is
/// `clamp(RTT >> hold_rtt_shift, hold_min_us, hold_max_us)` rounded down to one of
/// [`FlowConfig::holds`].
#[derive(Debug, Clone, Copy)]
pub struct FlowConfig(pub(crate) sys::aw_flow_cfg);

impl FlowConfig {
    /// The policy with the default bounds.
    pub fn new(policy: &Config) -> FlowConfig {
        FlowConfig(sys::aw_flow_cfg {
            policy: *policy.raw(),
            hold_max_us: sys::AW_HOLD_MAX_US,
            hold_min_us: sys::AW_HOLD_MIN_US,
            hold_rtt_shift: sys::AW_HOLD_RTT_SHIFT,
            ..Default::default()
        })
    }

    /// The configuration with other bounds on the hold, in µs. A minimum above the maximum is
    /// lowered to it.
    #[must_use]
    pub fn with_hold(mut self, min_us: u32, max_us: u32, rtt_shift: u32) -> FlowConfig {
        self.0.hold_min_us = min_us.min(max_us);
        self.0.hold_max_us = max_us;
        self.0.hold_rtt_shift = rtt_shift.min(31);
        self
    }

    /// Every D that the contract may grant, in µs, ascending: the two bounds, and four lengths per
    /// octave between them.
    pub fn holds(&self) -> Vec<u32> {
        let (min, max) = (self.0.hold_min_us, self.0.hold_max_us);
        // SAFETY: it only computes with a number.
        let is_length = |us: &u32| unsafe { sys::aw_shim_hold_length(*us) } == *us;
        let between = (min.saturating_add(1)..max).filter(is_length);
        let mut holds: Vec<u32> = [min].into_iter().chain(between).chain([max]).collect();
        holds.dedup();
        holds
    }

    /// The C structure of the configuration.
    pub fn raw(&self) -> &sys::aw_flow_cfg {
        &self.0
    }
}

/// What the handshake of a connection revealed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Handshake(sys::aw_handshake);

impl Handshake {
    /// Takes a SYN, a SYN-ACK or the first segment after them. `acks` says that it travels in the
    /// direction of the ACKs.
    pub fn on_segment(&mut self, segment: &Segment, acks: bool, now_us: u64) {
        // SAFETY: both pointers are to live values of the types C expects.
        unsafe { sys::aw_shim_handshake(&mut self.0, &segment.0, i32::from(acks), now_us) };
    }

    /// The C structure of the handshake.
    pub fn raw(&self) -> &sys::aw_handshake {
        &self.0
    }
}

/// The bytes of a state, for a copy of it in another process of the same version.
macro_rules! bytes {
    ($state:ident, $raw:ty) => {
        impl $state {
            /// Its bytes.
            pub fn bytes(&self) -> [u8; size_of::<$raw>()] {
                // SAFETY: the structure has integers and no padding.
                unsafe { mem::transmute(self.0) }
            }

            /// The state that had these bytes, in the same version.
            pub fn from_bytes(bytes: [u8; size_of::<$raw>()]) -> $state {
                // SAFETY: all of its fields are integers.
                $state(unsafe { mem::transmute::<[u8; size_of::<$raw>()], $raw>(bytes) })
            }
        }
    };
}

bytes!(Handshake, sys::aw_handshake);
bytes!(Flow, sys::aw_flow);

/// What an environment must do with a segment of the ACK direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Whether to send, hold or drop it, with the contract applied.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// A held ACK of the flow no longer needs to leave.
    pub supersedes: bool,
    /// The ACK must be sent twice: it duplicates an ACK that was held.
    pub twice: bool,
}

impl Decision {
    pub(crate) fn from_raw(raw: &sys::aw_decision) -> Decision {
        Decision {
            verdict: Verdict::from_raw(raw.kind, raw.hold_us),
            reason: Reason(raw.reason),
            supersedes: raw.flags & sys::AW_DEC_SUPERSEDES != 0,
            twice: raw.flags & sys::AW_DEC_TWICE != 0,
        }
    }
}

/// One direction of a connection, with its policy, under the contract.
#[derive(Clone, Copy)]
pub struct Flow(pub(crate) sys::aw_flow);

impl Flow {
    /// A flow; `handshake` is `None` if it was not seen.
    pub fn new(handshake: Option<&Handshake>, now_us: u64) -> Flow {
        let mut flow = Flow(sys::aw_flow::default());
        let hs = handshake.map_or(std::ptr::null(), |h| &raw const h.0);
        // SAFETY: flow is live and zeroed as C asks; hs is null or live.
        unsafe { sys::aw_shim_flow_init(&mut flow.0, hs, now_us) };
        flow
    }

    /// Takes a segment from the data sender; `segments` counts what was aggregated.
    pub fn on_data(&mut self, config: &FlowConfig, s: &Segment, segments: u32, now_us: u64) {
        // SAFETY: every pointer is to a live value of the type C expects.
        unsafe { sys::aw_shim_flow_on_data(&mut self.0, &config.0, &s.0, segments, now_us) };
    }

    /// Whether the acknowledgment number of this segment counts. The receiver of a probe, or of
    /// data sent again, drops it without looking at the number.
    pub fn counts(&self, s: &Segment) -> bool {
        // SAFETY: both pointers are to live values of the types C expects.
        unsafe { sys::aw_shim_flow_counts(&self.0, &s.0) != 0 }
    }

    /// Whether the held ACK must leave, unchanged, before this segment of the ACK direction,
    /// because the segment does not say all that the held ACK says. If so, the environment sends
    /// the held ACK and calls [`Flow::on_sent`], and only then [`Flow::on_ack`].
    pub fn releases(&self, s: &Segment) -> bool {
        // SAFETY: both pointers are to live values of the types C expects.
        unsafe { sys::aw_shim_flow_releases(&self.0, &s.0) != 0 }
    }

    /// Takes a segment of the ACK direction that is not a SYN.
    pub fn on_ack(&mut self, config: &FlowConfig, s: &Segment, now_us: u64) -> Decision {
        let mut d = sys::aw_decision::default();
        // SAFETY: every pointer is to a live value of the type C expects.
        unsafe { sys::aw_shim_flow_on_ack(&mut self.0, &config.0, &s.0, now_us, &mut d) };
        Decision::from_raw(&d)
    }

    /// A held ACK was sent after all.
    pub fn on_sent(&mut self, config: &FlowConfig, s: &Segment, now_us: u64) {
        // SAFETY: every pointer is to a live value of the type C expects.
        unsafe { sys::aw_shim_flow_on_sent(&mut self.0, &config.0, &s.0, now_us) };
    }

    /// The longest hold that the contract allows now.
    pub fn hold_us(&self, config: &FlowConfig) -> u32 {
        // SAFETY: both pointers are to live values of the types C expects.
        unsafe { sys::aw_shim_flow_hold_us(&self.0, &config.0) }
    }

    /// The smoothed round-trip time, once it is known.
    pub fn srtt_us(&self) -> Option<u32> {
        // SAFETY: the pointer is to a live flow.
        Some(unsafe { sys::aw_shim_flow_srtt(&self.0) }).filter(|us| *us > 0)
    }

    /// The recent minimum round-trip time, once it is known.
    pub fn min_rtt_us(&self) -> Option<u32> {
        // SAFETY: the pointer is to a live flow.
        Some(unsafe { sys::aw_shim_flow_min_rtt(&self.0) }).filter(|us| *us > 0)
    }

    /// Sets whether other traffic fills the link that the ACKs leave by, as [`Uplink::look`]
    /// returns it.
    pub fn set_shared(&mut self, shared: u32) {
        self.0.shared = shared;
    }

    /// The C structure of the flow's state.
    pub fn raw(&self) -> &sys::aw_flow {
        &self.0
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow")
            .field("min_rtt_us", &self.min_rtt_us())
            .field("srtt_us", &self.srtt_us())
            .finish_non_exhaustive()
    }
}

/// Time between two calls of [`Uplink::look`], in µs.
pub const UPLINK_LOOK_US: u64 = sys::AW_UPLINK_LOOK_US as u64;

/// A packet of at least this many bytes is full-sized: senders of such packets may fill a link.
pub const UPLINK_FULL_BYTES: u32 = sys::AW_UPLINK_FULL_BYTES;

/// Finds out whether other traffic fills the link that the ACKs leave by.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uplink(sys::aw_uplink);

impl Uplink {
    /// How many bytes of a packet count as other traffic; it is no pure ACK of a tracked flow.
    #[must_use]
    pub fn others(bytes: u32, is_tcp: bool) -> u32 {
        // SAFETY: it takes and returns numbers.
        unsafe { sys::aw_shim_uplink_others(bytes, u32::from(is_tcp)) }
    }

    /// Takes the totals that have left by the interface, [`UPLINK_LOOK_US`] after the last call:
    /// `others` is the bytes of other traffic, by [`Self::others`], `rest` all other bytes. Returns
    /// whether other traffic fills the link.
    pub fn look(&mut self, rest: u64, others: u64) -> u32 {
        // SAFETY: the pointer is to a live value of the type C expects.
        unsafe { sys::aw_shim_uplink_look(&mut self.0, rest, others) }
    }
}
