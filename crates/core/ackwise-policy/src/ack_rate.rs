//! TCP ACK Rate Request: the option, and what the sender of a flow has asked for.
//!
//! The encoding is that of `policy/options/ack_rate_request.h`, which the BPF programs also
//! compile.

use std::fmt;
use std::ops::Deref;

use crate::{Flow, FlowConfig, Segment, sys};

/// What a segment's ACK Rate Request option says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckRate {
    /// On a SYN: its sender supports the option.
    Capable,
    /// On data: send one ACK for this many full-sized segments from here on.
    Every(u8),
    /// On data: acknowledge this segment at once. The rate does not change.
    Now,
    /// On a SYN, instead of `Capable`: its sender finds the rate from its lost ACKs (ACK Congestion
    /// Control Permitted, RFC 5690), or answers a peer that does.
    ControlPermitted,
}

/// The option's bytes on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AckRateBytes {
    bytes: [u8; sys::AW_ACK_RATE_REQUEST_LEN as usize],
    len: usize,
}

impl Deref for AckRateBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl fmt::Debug for AckRateBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl AckRate {
    /// The largest number of segments that can be asked for.
    pub const MOST: u8 = sys::AW_ACK_RATE_MAX as u8;

    fn said(self) -> u32 {
        match self {
            AckRate::Capable => sys::AW_ACK_RATE_CAPABLE,
            AckRate::Every(segments) => {
                sys::AW_ACK_RATE_ASKS + u32::from(segments.clamp(1, AckRate::MOST))
            }
            AckRate::Now => sys::AW_ACK_RATE_ASKS + sys::AW_ACK_RATE_NOW,
            AckRate::ControlPermitted => sys::AW_ACK_CONTROL_PERMITTED,
        }
    }

    fn from_said(said: u32) -> Option<AckRate> {
        match said {
            sys::AW_ACK_RATE_CAPABLE => Some(AckRate::Capable),
            sys::AW_ACK_CONTROL_PERMITTED => Some(AckRate::ControlPermitted),
            _ => match said.checked_sub(sys::AW_ACK_RATE_ASKS)? {
                sys::AW_ACK_RATE_NOW => Some(AckRate::Now),
                segments => u8::try_from(segments).ok().map(AckRate::Every),
            },
        }
    }

    /// Encodes the option. A number of segments outside 1 to [`AckRate::MOST`] becomes the nearest
    /// one.
    pub fn bytes(self) -> AckRateBytes {
        let mut bytes = [0; sys::AW_ACK_RATE_REQUEST_LEN as usize];
        // SAFETY: it writes at most AW_ACK_RATE_REQUEST_LEN bytes.
        let len = unsafe { sys::aw_shim_ack_rate_write(bytes.as_mut_ptr(), self.said()) };
        AckRateBytes {
            bytes,
            len: len as usize,
        }
    }

    /// Finds the option among the TCP options of a segment. `None` if it is absent, present twice,
    /// or if the lengths are invalid.
    pub fn find(options: &[u8]) -> Option<AckRate> {
        let n = u32::try_from(options.len()).ok()?;
        // SAFETY: n bytes are readable at the pointer; longer options are not read.
        AckRate::from_said(unsafe { sys::aw_shim_ack_rate_find(options.as_ptr(), n) })
    }
}

/// What the data sender of a flow has asked for. The environment keeps it beside the flow.
#[derive(Clone, Copy, Default)]
pub struct AskedAckRate(sys::aw_ack_rate);

impl AskedAckRate {
    /// Takes the option of a data segment of the flow. Returns whether it counts: a rate of less
    /// than one ACK per window of the receiver does not.
    pub fn on_data(&mut self, flow: &Flow, s: &Segment, said: AckRate) -> bool {
        // SAFETY: every pointer is to a live value of the type C expects.
        unsafe { sys::aw_shim_ack_rate_on_data(&mut self.0, &flow.0, &s.0, said.said()) != 0 }
    }

    /// Takes a data segment of the flow, and notes whether its header has the bit that asks for an
    /// ACK at once ([`TcpFlags::ACK_REQUEST`](crate::TcpFlags::ACK_REQUEST)). Returns whether it
    /// has.
    pub fn on_bit(&mut self, flow: &Flow, s: &Segment) -> bool {
        // SAFETY: every pointer is to a live value of the type C expects.
        unsafe { sys::aw_shim_ack_rate_on_bit(&mut self.0, &flow.0, &s.0) != 0 }
    }

    /// Takes an ACK Ratio (RFC 5690 §4.2) from data of the flow.
    pub fn on_ratio(&mut self, segments: u8) {
        self.0.r = segments;
    }

    /// The number of segments per ACK that was last asked for.
    pub fn segments(&self) -> Option<u8> {
        Some(self.0.r).filter(|segments| *segments > 0)
    }

    /// The configuration for this ACK: with `every-n`, n is what the sender asked for, if it asked
    /// for anything. Other policies are unchanged.
    #[must_use]
    pub fn config(&self, config: &FlowConfig, flow: &Flow, ack: &Segment) -> FlowConfig {
        let mut config = *config;
        // SAFETY: every pointer is to a live value of the type C expects.
        unsafe { sys::aw_shim_ack_rate_cfg(&self.0, &flow.0, &ack.0, &mut config.0) };
        config
    }
}

impl fmt::Debug for AskedAckRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskedAckRate")
            .field("segments", &self.segments())
            .finish_non_exhaustive()
    }
}
