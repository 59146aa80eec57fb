//! The configuration of one end of a tunnel.

use super::MS;
use crate::{Security, Variant, memory};

/// What happens to packets that are not pure ACKs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OtherPackets {
    /// They bypass the tunnel.
    #[default]
    Bypass,
    /// The tunnel carries them unchanged if they are short.
    Carry,
}

/// The configuration of one end of a tunnel.
#[derive(Debug, Clone)]
pub struct TunnelConfig {
    /// The protection of datagrams.
    pub security: Security,
    /// The encoding of ACKs.
    pub variant: Variant,
    /// The number of flows whose state is kept, in each direction.
    pub max_flows: u16,
    /// The maximum size in bytes of the flow states in all sessions. The least recently used flows
    /// are dropped first. It is at least [`TunnelConfig::min_memory`], with which an honest peer
    /// loses none.
    pub max_memory: usize,
    /// The longest multiplexing period, in nanoseconds.
    pub period: u64,
    /// Whether the period is limited to an eighth of the tunnel's round trip.
    pub follow_rtt: bool,
    /// Whether ACKs that the sender waits for shorten a period.
    pub expedite: bool,
    /// Whether restored ACKs are spread evenly over the time between two bundles.
    pub respace: bool,
    /// What happens to packets that are not pure ACKs.
    pub other_packets: OtherPackets,
    /// The largest UDP payload that path MTU discovery tries, in bytes; at least 800.
    pub max_datagram: usize,
    /// Whether this end initiates handshakes. At least one of the ends must, and it must know the
    /// address of the other.
    pub initiates: bool,
    /// The time without a datagram to the peer after which it is probed, in nanoseconds.
    pub keepalive: u64,
}

impl TunnelConfig {
    /// Returns the defaults: a period of 10 ms or an eighth of the round trip, 1024 flows,
    /// entropy coding.
    pub fn new(security: Security) -> TunnelConfig {
        TunnelConfig {
            security,
            variant: Variant::Entropy,
            max_flows: 1024,
            max_memory: 64 << 20,
            period: 10 * MS,
            follow_rtt: true,
            expedite: true,
            respace: false,
            other_packets: OtherPackets::Bypass,
            max_datagram: 1452,
            initiates: true,
            keepalive: 10_000 * MS,
        }
    }

    /// Returns the bytes that this many flows of an honest peer need.
    pub fn min_memory(variant: Variant, max_flows: u16) -> usize {
        memory::needed(variant, max_flows)
    }
}
