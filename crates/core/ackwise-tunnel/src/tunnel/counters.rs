//! The counters of one end of a tunnel.

/// Counters of one end since its start. Bytes of datagrams exclude the IP and UDP headers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that were bundled, without those that were returned when the peer stopped answering.
    pub packets_in: u64,
    /// The bytes of these packets.
    pub bytes_in: u64,
    /// Packets that bypassed the tunnel.
    pub bypassed: u64,
    /// Bundles with packets that were sent.
    pub bundles_out: u64,
    /// The bytes of the datagrams with these bundles.
    pub bundle_bytes_out: u64,
    /// All datagrams that were sent.
    pub datagrams_out: u64,
    /// The bytes of these datagrams.
    pub bytes_out: u64,
    /// Data messages that were opened.
    pub datagrams_in: u64,
    /// Bundles with packets that were received.
    pub bundles_in: u64,
    /// The bytes of all data messages that were opened.
    pub datagram_bytes_in: u64,
    /// Packets that were restored.
    pub packets_out: u64,
    /// The bytes of these packets.
    pub packet_bytes_out: u64,
    /// Packets from the peer that are not pure ACKs, dropped because this end carries only pure
    /// ACKs.
    pub refused: u64,
    /// ACKs that shortened a period because their sender waits for them.
    pub expedited: u64,
    /// Datagrams of an unknown type, or of no known session.
    pub unknown_session: u64,
    /// Datagrams that are not authentic.
    pub auth_failures: u64,
    /// Datagrams that were received before.
    pub replayed: u64,
    /// Handshake initiations that were not answered because there were too many.
    pub handshakes_limited: u64,
    /// Bundles that could not be decoded.
    pub undecodable: u64,
    /// The number of times that the peer stopped answering.
    pub peer_timeouts: u64,
}
