//! The configuration of one end of a tunnel: a small TOML file.
//!
//! ```toml
//! listen = 51830
//! key = "tunnel.key"
//! interface = "wan0"
//!
//! [[peer]]
//! name = "office"
//! public_key = "…64 hexadecimal digits…"
//! endpoint = "192.0.2.2:51830"
//! behind = ["198.51.100.0/24", "2001:db8:2::/48"]
//! ```

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::diagnostic::Source;
use crate::diagnostic::{Collector, ConfigError};
use crate::section::{Section, Word};
use crate::tree::{Kind, Table};

/// An interface's name has at most so many bytes.
const LONGEST_NAME: usize = 15;
/// Peers of one process.
const MOST_PEERS: usize = 32;
const PERIODS: [Duration; 2] = [Duration::from_micros(500), Duration::from_secs(1)];
/// Payload of UDP.
const DATAGRAMS: [u32; 2] = [800, 8952];

/// How ACKs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// In whole bytes.
    Aligned,
    /// By a range coder: shorter, and dearer.
    #[default]
    Entropy,
}

/// What becomes of packets that are no pure ACKs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Others {
    /// They take the ordinary path.
    #[default]
    Outside,
    /// They are carried as they are, if they are short.
    Carried,
}

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// Its first address.
    pub address: IpAddr,
    /// Bits that count.
    pub len: u8,
}

impl Prefix {
    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(mine), IpAddr::V4(other)) => {
                let differing = u32::from(mine) ^ u32::from(other);
                differing.leading_zeros() >= u32::from(self.len)
            }
            (IpAddr::V6(mine), IpAddr::V6(other)) => {
                let differing = u128::from(mine) ^ u128::from(other);
                differing.leading_zeros() >= u32::from(self.len)
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// Somebody at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// What it is called in messages.
    pub name: String,
    /// Its static key; `None` without encryption.
    pub public_key: Option<[u8; 32]>,
    /// Where it is, `host:port`; `None`: it will say.
    pub endpoint: Option<String>,
    /// What is reached through it: where ACKs go to that it is sent, and where those come
    /// from that it sends.
    pub behind: Vec<Prefix>,
}

/// What one end of a tunnel is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnel {
    /// The name of its own device, which is the tunnel's.
    pub device: String,
    /// Where datagrams come in.
    pub listen: Vec<SocketAddr>,
    /// The file with the secret key; `None` without encryption.
    pub key: Option<PathBuf>,
    /// The interface whose outgoing ACKs are taken; `None`: they are routed to the device.
    pub interface: Option<String>,
    /// The longest multiplexing period.
    pub period: Duration,
    /// Whether it is at most an eighth of the tunnel's round trip.
    pub follow_rtt: bool,
    /// How ACKs are written.
    pub encoding: Encoding,
    /// Packets that are no pure ACKs.
    pub others: Others,
    /// Whether restored ACKs are spaced evenly.
    pub respace: bool,
    /// The longest payload of UDP that is tried.
    pub max_datagram: u32,
    /// Flows that are kept for each peer.
    pub flows: u16,
    /// The user that the process becomes when all is set up.
    pub user: Option<String>,
    /// The mark of packets that take the ordinary path after they were routed here.
    pub mark: u32,
    /// The others.
    pub peers: Vec<Peer>,
}

impl Tunnel {
    /// Reads and checks a file; the key's path is beside it, if it is relative.
    ///
    /// # Errors
    /// It cannot be read, or has mistakes, each with line and column.
    pub fn load(path: impl AsRef<Path>) -> Result<Tunnel, ConfigError> {
        let path = path.as_ref();
        let mut tunnel = Source::read(path)?.check(tunnel)?;
        if let (Some(key), Some(directory)) = (&mut tunnel.key, path.parent()) {
            *key = directory.join(&*key);
        }
        Ok(tunnel)
    }

    /// Checks a text; `name` stands for the file in messages.
    ///
    /// # Errors
    /// It has mistakes, each with line and column.
    pub fn parse(name: impl AsRef<Path>, text: &str) -> Result<Tunnel, ConfigError> {
        let source = Source {
            path: name.as_ref().to_owned(),
            text: text.to_owned(),
        };
        source.check(tunnel)
    }

    /// The peer behind whom an address is, by the longest prefix.
    #[must_use]
    pub fn peer_of(&self, address: IpAddr) -> Option<usize> {
        let all = self.peers.iter().enumerate();
        all.flat_map(|(at, peer)| peer.behind.iter().map(move |prefix| (at, prefix)))
            .filter(|(_, prefix)| prefix.contains(address))
            .max_by_key(|(_, prefix)| prefix.len)
            .map(|(at, _)| at)
    }
}

const KEYS: [&str; 15] = [
    "device",
    "listen",
    "key",
    "interface",
    "period",
    "follow_rtt",
    "encoding",
    "others",
    "respace",
    "encryption",
    "max_datagram",
    "flows",
    "user",
    "mark",
    "peer",
];

fn tunnel(tree: &Table, errors: &RefCell<Collector>) -> Option<Tunnel> {
    let top = Section::open(tree, &(0..0), "a tunnel", &KEYS, errors);
    let device = match top.word("device") {
        Some(word) => device_name(&top, &word),
        None => Some("awtun0".to_owned()),
    };
    let interface = top.word("interface");
    if let Some(word) = &interface {
        device_name(&top, word);
        if Some(&word.text) == device.as_ref() {
            top.error(&word.span, "this is the tunnel's own device");
        }
    }
    let encrypted = top.flag("encryption").unwrap_or(true);
    let key = key_file(&top, encrypted);
    let listen = listen(&top);
    let encodings = [
        ("aligned", Encoding::Aligned),
        ("entropy", Encoding::Entropy),
    ];
    let others = [("outside", Others::Outside), ("carried", Others::Carried)];
    let max_datagram = if top.has("max_datagram") {
        top.size_within("max_datagram", DATAGRAMS[0], DATAGRAMS[1])
    } else {
        Some(1452)
    };
    let tunnel = Tunnel {
        key,
        interface: interface.map(|word| word.text),
        period: top
            .time("period", PERIODS[0], PERIODS[1])
            .unwrap_or(Duration::from_millis(10)),
        follow_rtt: top.flag("follow_rtt").unwrap_or(true),
        encoding: top.choice("encoding", &encodings).unwrap_or_default(),
        others: top.choice("others", &others).unwrap_or_default(),
        respace: top.flag("respace").unwrap_or(false),
        flows: top.whole("flows", 1, 65_535).unwrap_or(1024) as u16,
        user: top.word("user").map(|word| word.text),
        mark: top.whole("mark", 1, u32::MAX).unwrap_or(0x6177),
        peers: peers(&top, encrypted, listen.as_deref()),
        max_datagram: max_datagram?,
        device: device?,
        listen: listen?,
    };
    Some(tunnel)
}

fn device_name(top: &Section<'_>, word: &Word) -> Option<String> {
    let fine = (1..=LONGEST_NAME).contains(&word.text.len())
        && !matches!(word.text.as_str(), "." | "..")
        && !word
            .text
            .contains(|c: char| matches!(c, '/' | '%' | ':') || c.is_whitespace());
    if !fine {
        let message = format!("'{}' is no name of an interface", word.text);
        top.error(&word.span, message);
    }
    fine.then(|| word.text.clone())
}

fn key_file(top: &Section<'_>, encrypted: bool) -> Option<PathBuf> {
    if encrypted {
        let word =
            top.required_word("key", "\"tunnel.key\" (`ackwise tunnel keygen` makes one)")?;
        return Some(word.text.into());
    }
    if top.has("key") {
        let message = "without encryption there is no 'key'; remove it, or 'encryption'";
        top.error(&top.span_of("key"), message);
    }
    None
}

/// A port, for both families, or addresses.
fn listen(top: &Section<'_>) -> Option<Vec<SocketAddr>> {
    if !top.has("listen") {
        top.error(&top.span, "a tunnel has no 'listen'; add listen = 51830");
        return None;
    }
    if matches!(top.value("listen")?.kind, Kind::Integer(_)) {
        let port = top.whole("listen", 1, 65_535)? as u16;
        return Some(vec![
            (Ipv4Addr::UNSPECIFIED, port).into(),
            (Ipv6Addr::UNSPECIFIED, port).into(),
        ]);
    }
    let mut all: Vec<SocketAddr> = Vec::new();
    for word in top.words("listen")? {
        match word.text.parse::<SocketAddr>() {
            Ok(address) if address.port() == 0 => {
                top.error(&word.span, "a port lies between 1 and 65535");
            }
            Ok(address) if all.iter().any(|other| other.is_ipv4() == address.is_ipv4()) => {
                top.error(&word.span, "one address a family is enough");
            }
            Ok(address) => all.push(address),
            Err(_) => top.error(
                &word.span,
                format!(
                    "'{}' is no address with a port: write 51830, \"192.0.2.1:51830\" or \
                     \"[2001:db8::1]:51830\"",
                    word.text
                ),
            ),
        }
    }
    (!all.is_empty()).then_some(all)
}

fn peers(top: &Section<'_>, encrypted: bool, listen: Option<&[SocketAddr]>) -> Vec<Peer> {
    let tables = top.tables("peer");
    if !top.has("peer") {
        top.error(&top.span, "a tunnel has no peer; add [[peer]]");
    }
    let mut peers: Vec<Peer> = Vec::new();
    for (count, (table, span)) in tables.into_iter().enumerate() {
        if count == MOST_PEERS {
            top.error(span, format!("a tunnel has at most {MOST_PEERS} peers"));
            break;
        }
        let section = Section::open_unchecked(table, span, "a peer", top.errors);
        if let Some(peer) = peer(&section, encrypted, listen, &peers) {
            peers.push(peer);
        }
    }
    peers
}

fn peer(
    section: &Section<'_>,
    encrypted: bool,
    listen: Option<&[SocketAddr]>,
    before: &[Peer],
) -> Option<Peer> {
    section.only(&["name", "public_key", "endpoint", "behind"]);
    let name = section.required_name("\"office\"");
    if let Some(word) = &name
        && before.iter().any(|peer| peer.name == word.text)
    {
        let message = format!("another peer is called '{}' already", word.text);
        section.error(&word.span, message);
    }
    let public_key = public_key(section, encrypted, before);
    let endpoint = endpoint(section, listen);
    if !encrypted && !section.has("endpoint") {
        let message = "without encryption a peer is known by its address alone; add \
                       endpoint = \"192.0.2.2:51830\"";
        section.error(&section.span, message);
    }
    let behind = behind(section, before);
    Some(Peer {
        name: name?.text,
        public_key,
        endpoint,
        behind: behind?,
    })
}

fn public_key(section: &Section<'_>, encrypted: bool, before: &[Peer]) -> Option<[u8; 32]> {
    if !encrypted {
        if section.has("public_key") {
            let message = "without encryption there are no keys; remove 'public_key'";
            section.error(&section.span_of("public_key"), message);
        }
        return None;
    }
    let word =
        section.required_word("public_key", "\"…\", which `ackwise tunnel keygen` printed")?;
    let Some(key) = key(&word.text) else {
        let message = "a key is 64 hexadecimal digits, as `ackwise tunnel keygen` printed it";
        section.error(&word.span, message);
        return None;
    };
    if let Some(other) = before.iter().find(|peer| peer.public_key == Some(key)) {
        let message = format!(
            "peer '{}' has this key already: each needs a pair of its own",
            other.name
        );
        section.error(&word.span, message);
    }
    Some(key)
}

fn key(text: &str) -> Option<[u8; 32]> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect();
    let bytes: Vec<u8> = digits?
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |n, d| n << 4 | d))
        .collect();
    bytes.try_into().ok().filter(|_| text.len() == 64)
}

/// Looked up when the tunnel is made.
fn endpoint(section: &Section<'_>, listen: Option<&[SocketAddr]>) -> Option<String> {
    let word = section.word("endpoint")?;
    let port = word
        .text
        .rsplit_once(':')
        .map(|(host, port)| (host, port.parse()));
    let fine = matches!(port, Some((host, Ok(1..=65_535_u16))) if !host.is_empty()
        && (!host.contains(':') || word.text.parse::<SocketAddr>().is_ok()));
    if !fine {
        let message = format!(
            "'{}' is no host with a port: write e.g. \"192.0.2.2:51830\", \
             \"[2001:db8::2]:51830\" or \"gw.example:51830\"",
            word.text
        );
        section.error(&word.span, message);
        return None;
    }
    if let (Ok(address), Some(listen)) = (word.text.parse::<SocketAddr>(), listen)
        && !listen.iter().any(|own| own.is_ipv4() == address.is_ipv4())
    {
        let family = if address.is_ipv4() { 4 } else { 6 };
        let message = format!("'listen' has no address of IPv{family}: this peer is not reached");
        section.error(&word.span, message);
    }
    Some(word.text)
}

fn behind(section: &Section<'_>, before: &[Peer]) -> Option<Vec<Prefix>> {
    if !section.has("behind") {
        let message = "a peer has no 'behind'; add behind = [\"198.51.100.0/24\"], or \
                       [\"0.0.0.0/0\", \"::/0\"] for all addresses";
        section.error(&section.span, message);
        return None;
    }
    let mut prefixes = Vec::new();
    for word in section.words("behind")? {
        match prefix(&word.text) {
            Ok(prefix) => {
                let mut others = before.iter().filter(|peer| peer.behind.contains(&prefix));
                if let Some(other) = others.next() {
                    let message = format!("{prefix} is behind peer '{}' already", other.name);
                    section.error(&word.span, message);
                }
                prefixes.push(prefix);
            }
            Err(message) => section.error(&word.span, message),
        }
    }
    Some(prefixes)
}

fn prefix(text: &str) -> Result<Prefix, String> {
    let wrong = || {
        format!(
            "'{text}' is no range of addresses: write e.g. \"198.51.100.0/24\" or \"2001:db8::/32\""
        )
    };
    let (address, len) = match text.split_once('/') {
        Some((address, len)) => (address, Some(len.parse::<u8>().map_err(|_| wrong())?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let len = len.unwrap_or(bits);
    if len > bits {
        return Err(format!(
            "an address has {bits} bits, so '/{len}' is too many"
        ));
    }
    let first = match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(u32::from(32 - len)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(u32::from(128 - len)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
        }
    };
    if first != address {
        return Err(format!(
            "'{text}' has bits beyond the first {len}: write {first}/{len}"
        ));
    }
    Ok(Prefix { address, len })
}
