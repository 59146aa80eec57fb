//! The statistics of a tunnel, as `ackwise tunnel status --format json` prints them.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use ackwise_netdev::AttachMode;

/// A number of packets and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// The number of packets.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
}

/// Failures at one peer, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// Datagrams that are not authentic.
    pub auth_failures: u64,
    /// Datagrams that were received before.
    pub replayed: u64,
    /// Datagrams of no known session, for example after a restart.
    pub unknown_session: u64,
    /// Handshake initiations for which there was no room among the sessions with the peer.
    pub handshakes_limited: u64,
    /// Authentic bundles that could not be decoded.
    pub undecodable: u64,
    /// Packets from the peer that are not pure ACKs, and were dropped because this end does
    /// not carry others.
    pub refused: u64,
    /// Restored packets that were dropped because their source is not in `allowed_ips`.
    pub not_allowed: u64,
    /// Restored packets that the kernel refused.
    pub not_delivered: u64,
    /// Datagrams that could not be sent.
    pub not_sent: u64,
    /// Datagrams that exceeded the interface's MTU and were sent in fragments.
    pub fragmented: u64,
    /// How often the peer stopped answering.
    pub peer_timeouts: u64,
}

/// The statistics of one peer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerStats {
    /// The name in the configuration.
    pub name: String,
    /// The current UDP address, if it is known.
    pub endpoint: Option<SocketAddr>,
    /// Whether the peer answers.
    pub up: bool,
    /// The age of the current session in seconds.
    pub session_age_s: Option<f64>,
    /// The smoothed round-trip time of the tunnel in milliseconds.
    pub rtt_ms: Option<f64>,
    /// The current multiplexing period in milliseconds.
    pub period_ms: f64,
    /// The longest UDP payload that is known to pass, in bytes.
    pub datagram_size: u64,
    /// The memory of the peer's flow states, in bytes.
    #[serde(default)]
    pub memory: u64,
    /// The packets that were taken into bundles: ACKs, and other packets that are carried.
    pub packets_in: Amount,
    /// The expedited ACKs in `packets_in`: their sender acts on each.
    pub expedited: u64,
    /// The packets for this peer that bypassed the tunnel after they had been taken.
    pub bypassed: u64,
    /// The bundles with packets that were sent, with IP and UDP headers.
    pub bundles_out: Amount,
    /// All datagrams that were sent, with IP and UDP headers.
    pub datagrams_out: Amount,
    /// The bundles with packets that were received.
    pub bundles_in: u64,
    /// All datagrams that were received and opened, with IP and UDP headers.
    pub datagrams_in: Amount,
    /// The packets that were restored.
    pub packets_out: Amount,
    /// The bytes of bundles per packet in them, with all headers.
    pub bytes_per_ack: Option<f64>,
    /// The failures by cause.
    pub failures: Failures,
}

/// How restored packets are delivered to the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Each packet is written to the device.
    #[default]
    Single,
    /// The packets of a bundle are delivered with one system call, if there are enough.
    Batched,
}

/// Statistics of the delivery of restored packets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// How packets are delivered.
    pub delivery: Delivery,
    /// Why packets are not delivered in batches.
    pub reason: Option<String>,
    /// The packets that were delivered in batches.
    pub batched: u64,
    /// The system calls that delivered the packets in `batched`.
    pub calls: u64,
    /// The system calls that the kernel ended early. Their remaining packets were written one by
    /// one.
    pub interrupted: u64,
}

/// The statistics of a tunnel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// The name of the tunnel's device.
    pub device: String,
    /// The id of the tunnel's process.
    pub pid: u32,
    /// The interface whose outgoing ACKs are taken. `None` if ACKs are routed to the device.
    pub interface: Option<String>,
    /// How the BPF program is attached to the interface.
    pub attach: Option<AttachMode>,
    /// The UDP addresses that are listened on.
    pub listen: Vec<SocketAddr>,
    /// The public key of this end in base64. `None` without encryption.
    pub public_key: Option<String>,
    /// The maximum memory for the flow states of one peer, in bytes.
    #[serde(default)]
    pub memory_of_peer: u64,
    /// The seconds since the start.
    pub uptime_s: f64,
    /// The CPU seconds of the thread that moves packets.
    pub cpu_s: f64,
    /// The packets that the BPF program took.
    pub taken: u64,
    /// The packets that the BPF program let pass because earlier ones were not read in time.
    pub unattended: u64,
    /// The packets that were dropped because they were not read in time.
    pub overrun: u64,
    /// The packets that bypassed the tunnel after they had been taken.
    pub bypassed: u64,
    /// The packets that should have bypassed the tunnel but could not be sent.
    pub bypass_failed: u64,
    /// The datagrams that are from no peer.
    pub unknown_sources: u64,
    /// The handshake initiations that were dropped because there were too many.
    pub handshakes_limited: u64,
    /// The cookies that were sent to initiators while there were many of them.
    pub cookies_sent: u64,
    /// The delivery of restored packets.
    pub restored: Restored,
    /// The peers, in the order of the configuration.
    pub peers: Vec<PeerStats>,
}
