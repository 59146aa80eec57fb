//! Writes the configuration of a tunnel as TOML.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use serde::Serialize;

use super::{Encoding, OtherPackets, Peer, Tunnel, key_to_base64};
use crate::diagnostic::ConfigError;

/// The file, key by key. `docs/tunnel.md` describes the keys.
#[derive(Serialize)]
struct File<'a> {
    device: &'a str,
    listen_port: Option<u16>,
    listen: Option<Vec<String>>,
    private_key: Option<&'a str>,
    interface: Option<&'a str>,
    period: String,
    follow_rtt: bool,
    encoding: &'a str,
    other_packets: &'a str,
    respace: bool,
    encryption: bool,
    max_datagram: String,
    flows: u16,
    memory: String,
    user: Option<&'a str>,
    metrics: Option<SocketAddr>,
    fwmark: u32,
    peer: Vec<PeerTable<'a>>,
}

/// A `[[peer]]` table of the file.
#[derive(Serialize)]
struct PeerTable<'a> {
    name: &'a str,
    public_key: Option<String>,
    endpoint: Option<&'a str>,
    allowed_ips: Vec<String>,
}

pub(super) fn to_toml(tunnel: &Tunnel) -> Result<String, ConfigError> {
    let private_key = tunnel.private_key.as_deref().map(|path| {
        path.to_str()
            .ok_or_else(|| ConfigError::NotUtf8(path.to_owned()))
    });
    let listen_port = wildcard_port(&tunnel.listen);
    let addresses = || tunnel.listen.iter().map(SocketAddr::to_string).collect();
    let file = File {
        device: &tunnel.device,
        listen_port,
        listen: listen_port.is_none().then(addresses),
        private_key: private_key.transpose()?,
        interface: tunnel.interface.as_deref(),
        period: duration(tunnel.period),
        follow_rtt: tunnel.follow_rtt,
        encoding: match tunnel.encoding {
            Encoding::Aligned => "aligned",
            Encoding::Entropy => "entropy",
        },
        other_packets: match tunnel.other_packets {
            OtherPackets::Bypass => "bypass",
            OtherPackets::Carry => "carry",
        },
        respace: tunnel.respace,
        encryption: tunnel.private_key.is_some(),
        max_datagram: format!("{} B", tunnel.max_datagram),
        flows: tunnel.flows,
        memory: format!("{} B", tunnel.memory),
        user: tunnel.user.as_deref(),
        metrics: tunnel.metrics,
        fwmark: tunnel.fwmark,
        peer: tunnel.peers.iter().map(peer).collect(),
    };
    toml::to_string(&file).map_err(|error| ConfigError::Write(error.to_string()))
}

fn peer(peer: &Peer) -> PeerTable<'_> {
    PeerTable {
        name: &peer.name,
        public_key: peer.public_key.as_ref().map(key_to_base64),
        endpoint: peer.endpoint.as_deref(),
        allowed_ips: peer.allowed_ips.iter().map(ToString::to_string).collect(),
    }
}

/// Returns the port if the addresses are those that `listen_port` stands for.
fn wildcard_port(listen: &[SocketAddr]) -> Option<u16> {
    let port = listen.first()?.port();
    (listen == wildcard(port)).then_some(port)
}

/// The addresses that `listen_port` stands for.
pub(super) fn wildcard(port: u16) -> [SocketAddr; 2] {
    [
        (Ipv4Addr::UNSPECIFIED, port).into(),
        (Ipv6Addr::UNSPECIFIED, port).into(),
    ]
}

/// Writes a time in the largest unit in which it is a whole number.
fn duration(time: Duration) -> String {
    let nanos = time.as_nanos();
    let units = [(1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let (factor, unit) = units
        .into_iter()
        .find(|(factor, _)| nanos.is_multiple_of(*factor))
        .unwrap_or((1, "ns"));
    format!("{} {unit}", nanos / factor)
}
