//! The configuration of one end of a tunnel, in WireGuard's vocabulary.
//!
//! ```toml
//! listen_port = 51830
//! private_key = "tunnel.key"
//! interface = "wan0"
//!
//! [[peer]]
//! name = "office"
//! public_key = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="
//! endpoint = "192.0.2.2:51830"
//! allowed_ips = ["198.51.100.0/24", "2001:db8:2::/48"]
//! ```
//!
//! [`Tunnel::load`] reads a file, [`Tunnel::to_toml`] writes one.

mod key;
mod prefix;
mod read;
mod write;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::diagnostic::ConfigError;
use crate::source::Source;

pub use key::{key_from_base64, key_to_base64};
pub use prefix::Prefix;

/// The encoding of ACKs in bundles (`docs/tunnel-format.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// Fields fill whole bytes.
    Aligned,
    /// A range coder writes the fields: it is shorter, but takes more CPU time.
    #[default]
    Entropy,
}

/// What happens to packets that are not pure ACKs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OtherPackets {
    /// They bypass the tunnel and take the ordinary path.
    #[default]
    Bypass,
    /// The tunnel carries short ones unchanged.
    Carry,
}

/// A peer: the other end of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its name in messages and statistics.
    pub name: String,
    /// Its static X25519 public key. `None` if the tunnel is not encrypted.
    pub public_key: Option<[u8; 32]>,
    /// Its UDP address as `host:port`. `None` if the peer will contact this end first.
    pub endpoint: Option<String>,
    /// The address ranges routed to this peer. ACKs to these destinations are sent to it,
    /// and packets from it must have these sources.
    pub allowed_ips: Vec<Prefix>,
}

/// The configuration of one end of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnel {
    /// The name of the tunnel's network device.
    pub device: String,
    /// The UDP addresses to listen on, at most one per address family. The key `listen_port` stands
    /// for the wildcard addresses of both families.
    pub listen: Vec<SocketAddr>,
    /// The file that holds the private key. `None` if the tunnel is not encrypted.
    pub private_key: Option<PathBuf>,
    /// The interface whose outgoing ACKs are redirected into the tunnel. `None` if ACKs
    /// are routed to the tunnel's device instead.
    pub interface: Option<String>,
    /// The longest time for which ACKs wait to be bundled.
    pub period: Duration,
    /// Whether the period is limited to an eighth of the tunnel's round-trip time.
    pub follow_rtt: bool,
    /// The encoding of ACKs.
    pub encoding: Encoding,
    /// What happens to packets that are not pure ACKs.
    pub other_packets: OtherPackets,
    /// Whether restored ACKs are spread evenly over a period.
    pub respace: bool,
    /// The largest UDP payload that path MTU discovery tries, in bytes.
    pub max_datagram: u32,
    /// The number of flows whose state is kept for each peer.
    pub flows: u16,
    /// The bytes that flow states may take, for all peers together. Each peer has an equal share.
    pub memory: u64,
    /// The user that the process runs as once the tunnel is set up.
    pub user: Option<String>,
    /// The address that metrics are served on.
    pub metrics: Option<SocketAddr>,
    /// The firewall mark of packets that were routed to the device and bypass the tunnel.
    pub fwmark: u32,
    /// The peers, in the order of the file.
    pub peers: Vec<Peer>,
}

impl Tunnel {
    /// Reads and checks a configuration file. A relative path of the private key is
    /// resolved against the directory of the file.
    ///
    /// # Errors
    /// Returns [`ConfigError::Read`] if the file cannot be read, and
    /// [`ConfigError::Invalid`] with all mistakes if the configuration is wrong.
    pub fn load(path: impl AsRef<Path>) -> Result<Tunnel, ConfigError> {
        let path = path.as_ref();
        let mut tunnel = Source::read(path)?.check(read::tunnel)?;
        if let (Some(key), Some(directory)) = (&mut tunnel.private_key, path.parent()) {
            *key = directory.join(&*key);
        }
        Ok(tunnel)
    }

    /// Checks the text of a configuration. `name` stands for the file in messages.
    ///
    /// # Errors
    /// Returns [`ConfigError::Invalid`] with all mistakes if the configuration is wrong.
    pub fn parse(name: impl AsRef<Path>, text: &str) -> Result<Tunnel, ConfigError> {
        let source = Source {
            path: name.as_ref().to_owned(),
            text: text.to_owned(),
        };
        source.check(read::tunnel)
    }

    /// Returns the minimum of `memory`, with which no honest peer loses a flow: 8 KiB per flow and
    /// 8 MiB per peer.
    #[must_use]
    pub fn least_memory(flows: u16, peers: usize) -> u64 {
        peers as u64 * (u64::from(flows) * (8 << 10) + (8 << 20))
    }

    /// Returns the bytes that the flow states of one peer may take.
    #[must_use]
    pub fn memory_of_peer(&self) -> u64 {
        self.memory / self.peers.len().max(1) as u64
    }

    /// Writes the configuration as TOML. [`Tunnel::parse`] reads the same configuration
    /// from it.
    ///
    /// # Errors
    /// Returns [`ConfigError::NotUtf8`] if the path of the private key is not UTF-8,
    /// because a TOML file cannot hold it.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        write::to_toml(self)
    }

    /// Returns the index of the peer that an address is routed to: the one with the
    /// longest matching prefix.
    #[must_use]
    pub fn peer_of(&self, address: IpAddr) -> Option<usize> {
        let all = self.peers.iter().enumerate();
        all.flat_map(|(index, peer)| peer.allowed_ips.iter().map(move |prefix| (index, prefix)))
            .filter(|(_, prefix)| prefix.contains(address))
            .max_by_key(|(_, prefix)| prefix.len)
            .map(|(index, _)| index)
    }
}
