//! What a tunnel did.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use ackwise_netdev::Attach;

/// Packets and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// How many.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
}

/// What did not go as it should, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// Datagrams that are not authentic.
    pub forged: u64,
    /// Datagrams that came before.
    pub replayed: u64,
    /// Datagrams of no session at hand: after a restart, for one.
    pub foreign: u64,
    /// Handshakes beyond those that are answered.
    pub flood: u64,
    /// Bundles that were authentic and not understood.
    pub undecodable: u64,
    /// Restored packets whose source is not behind the peer; dropped.
    pub not_behind: u64,
    /// Restored packets that the kernel would not take.
    pub not_put: u64,
    /// Datagrams that could not be sent.
    pub not_sent: u64,
    /// Datagrams that were longer than the interface takes, and left in fragments.
    pub fragmented: u64,
    /// Times that the peer stopped answering.
    pub deaths: u64,
}

/// The other end, seen from here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerStats {
    /// Its name in the configuration.
    pub name: String,
    /// Where it is, as far as it is known.
    pub endpoint: Option<SocketAddr>,
    /// Whether it answers.
    pub up: bool,
    /// How long the present session has been there, seconds.
    pub session_age_s: Option<f64>,
    /// The tunnel's round trip, milliseconds.
    pub rtt_ms: Option<f64>,
    /// The multiplexing period in force, milliseconds.
    pub period_ms: f64,
    /// The longest datagram known to pass, bytes of UDP payload.
    pub datagram_size: u64,
    /// ACKs, and what else is carried, that were taken into bundles.
    pub packets_in: Amount,
    /// Of these, ACKs that carried news.
    pub news: u64,
    /// Packets for this peer that took the ordinary path after they had come here.
    pub outside: u64,
    /// Bundles with packets that were sent, with IP and UDP headers.
    pub bundles_out: Amount,
    /// All datagrams that were sent, with IP and UDP headers.
    pub datagrams_out: Amount,
    /// Bundles with packets that came.
    pub bundles_in: u64,
    /// All datagrams that came and were opened, with IP and UDP headers.
    pub datagrams_in: Amount,
    /// Packets that were restored.
    pub packets_out: Amount,
    /// Bytes of bundles, all headers included, for each packet in them.
    pub bytes_per_ack: Option<f64>,
    /// By cause.
    pub failures: Failures,
}

/// How restored packets are given to the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Each is written to the device.
    #[default]
    OneByOne,
    /// Those of a bundle by one system call, if they are not few.
    Together,
}

/// Packets that were restored, on their way into the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// How they are given to it.
    pub arrivals: Arrivals,
    /// Why not together.
    pub why: Option<String>,
    /// Those that were given to it together.
    pub together: u64,
    /// System calls for these.
    pub calls: u64,
    /// Of these, those that the kernel ended early; the others were written one by one.
    pub interrupted: u64,
}

/// The counters of a tunnel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Its device.
    pub device: String,
    /// Its process.
    pub pid: u32,
    /// The interface whose outgoing ACKs are taken; without one they are routed here.
    pub interface: Option<String>,
    /// How the hook is attached.
    pub attach: Option<Attach>,
    /// Where datagrams come in.
    pub listen: Vec<SocketAddr>,
    /// This side's public key; without encryption there is none.
    pub public_key: Option<String>,
    /// Seconds since it began.
    pub uptime_s: f64,
    /// CPU seconds of the thread that moves packets.
    pub cpu_s: f64,
    /// Sent here by the hook.
    pub taken: u64,
    /// Let pass by the hook because nobody read what it had sent before.
    pub unattended: u64,
    /// Dropped because they were not read in time.
    pub overrun: u64,
    /// Sent by the ordinary path after they had come here.
    pub outside: u64,
    /// Of those that had to go there, lost on the way.
    pub outside_failed: u64,
    /// Datagrams that no peer sent.
    pub strangers: u64,
    /// How restored packets come in.
    pub restored: Restored,
    /// The peers, as configured.
    pub peers: Vec<PeerStats>,
}
