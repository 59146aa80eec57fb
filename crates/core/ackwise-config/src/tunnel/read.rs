//! Reads and checks the configuration of a tunnel.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::write::wildcard;
use super::{Encoding, OtherPackets, Peer, Prefix, Tunnel, key_from_base64};
use crate::diagnostic::Collector;
use crate::section::{Section, Word};
use crate::tree::Table;

/// The longest name of a network interface in bytes (`IFNAMSIZ` − 1).
const MAX_NAME: usize = 15;
/// The maximum number of peers of one tunnel.
const MAX_PEERS: usize = 32;
const MIN_PERIOD: Duration = Duration::from_micros(500);
const MAX_PERIOD: Duration = Duration::from_secs(1);
/// The minimum of `max_datagram`, the UDP payload in bytes.
const MIN_DATAGRAM: u32 = 800;
/// The maximum of `max_datagram`: the UDP payload of a jumbo frame with IPv6.
const MAX_DATAGRAM: u32 = 8952;
/// The default of `memory` in bytes, unless the flows of the peers need more.
const MEMORY: u64 = 64 << 20;
/// The default of `fwmark`.
const FWMARK: u32 = 0x6177;

const KEYS: [&str; 18] = [
    "device",
    "listen_port",
    "listen",
    "private_key",
    "interface",
    "period",
    "follow_rtt",
    "encoding",
    "other_packets",
    "respace",
    "encryption",
    "max_datagram",
    "flows",
    "memory",
    "user",
    "metrics",
    "fwmark",
    "peer",
];

pub(super) fn tunnel(tree: &Table, errors: &RefCell<Collector>) -> Option<Tunnel> {
    let top = Section::open(tree, &(0..0), "a tunnel", &KEYS, errors);
    let device = match top.word("device") {
        Some(word) => device_name(&top, &word),
        None => Some("awtun0".to_owned()),
    };
    let interface = top.word("interface");
    if let Some(word) = &interface {
        device_name(&top, word);
        if Some(&word.text) == device.as_ref() {
            top.error(
                &word.span,
                "this is the tunnel's own device; name the interface that ACKs leave by",
            );
        }
    }
    let encrypted = top.flag("encryption").unwrap_or(true);
    let private_key = private_key(&top, encrypted);
    let listen = listen(&top);
    let encodings = [
        ("aligned", Encoding::Aligned),
        ("entropy", Encoding::Entropy),
    ];
    let other_packets = [
        ("bypass", OtherPackets::Bypass),
        ("carry", OtherPackets::Carry),
    ];
    let max_datagram = if top.has("max_datagram") {
        top.size_within("max_datagram", MIN_DATAGRAM, MAX_DATAGRAM)
    } else {
        Some(1452)
    };
    let flows = top.whole("flows", 1, 65_535).unwrap_or(1024) as u16;
    let peers = peers(&top, encrypted, listen.as_deref());
    let tunnel = Tunnel {
        private_key,
        interface: interface.map(|word| word.text),
        period: top
            .time("period", MIN_PERIOD, MAX_PERIOD)
            .unwrap_or(Duration::from_millis(10)),
        follow_rtt: top.flag("follow_rtt").unwrap_or(true),
        encoding: top.choice("encoding", &encodings).unwrap_or_default(),
        other_packets: top
            .choice("other_packets", &other_packets)
            .unwrap_or_default(),
        respace: top.flag("respace").unwrap_or(false),
        memory: memory(&top, flows, peers.len()),
        flows,
        user: top.word("user").map(|word| word.text),
        metrics: top.socket_address("metrics"),
        fwmark: top.whole("fwmark", 1, u32::MAX).unwrap_or(FWMARK),
        peers,
        max_datagram: max_datagram?,
        device: device?,
        listen: listen?,
    };
    Some(tunnel)
}

fn device_name(top: &Section<'_>, word: &Word) -> Option<String> {
    let fine = (1..=MAX_NAME).contains(&word.text.len())
        && !matches!(word.text.as_str(), "." | "..")
        && !word
            .text
            .contains(|c: char| matches!(c, '/' | '%' | ':') || c.is_whitespace());
    if !fine {
        let message = format!("'{}' is not a valid interface name", word.text);
        top.error(&word.span, message);
    }
    fine.then(|| word.text.clone())
}

/// Reads the bytes that flow states may take.
fn memory(top: &Section<'_>, flows: u16, peers: usize) -> u64 {
    let least = Tunnel::least_memory(flows, peers);
    let memory = top.size("memory");
    if let Some(memory) = memory.filter(|memory| *memory < least) {
        let kib = least.div_ceil(1 << 10);
        let message = format!(
            "{memory} B are too few for {flows} flows of each of {peers} peers: write at least \
             memory = \"{kib} KiB\", or lower 'flows'"
        );
        top.error(&top.span_of("memory"), message);
    }
    memory.unwrap_or(MEMORY.max(least))
}

/// Reads the path of the file with the private key.
fn private_key(top: &Section<'_>, encrypted: bool) -> Option<PathBuf> {
    if encrypted {
        let example = "\"tunnel.key\" (`ackwise tunnel keygen` makes the file)";
        let word = top.required_word("private_key", example)?;
        if word.text.is_empty() {
            top.error(&word.span, "'private_key' is the name of a file");
        }
        if key_from_base64(&word.text).is_some() {
            let message = "'private_key' is the name of a file: write the key to a file that \
                           only its owner may read, and name that file";
            top.error(&word.span, message);
        }
        return Some(word.text.into());
    }
    if top.has("private_key") {
        let message = "a tunnel without encryption has no 'private_key'; remove it, or remove \
                       'encryption'";
        top.error(&top.span_of("private_key"), message);
    }
    None
}

/// Reads `listen_port`, which listens on all addresses, or the addresses of `listen`.
fn listen(top: &Section<'_>) -> Option<Vec<SocketAddr>> {
    match (top.has("listen_port"), top.entry("listen")) {
        (false, None) => {
            let message = "a tunnel has no 'listen_port'; add listen_port = 51830";
            top.error(&top.span, message);
            None
        }
        (true, Some(entry)) => {
            let message = "'listen_port' listens on all addresses, 'listen' on some; leave one out";
            top.error(&entry.key_span, message);
            None
        }
        (true, None) => {
            let port = top.whole("listen_port", 1, 65_535)? as u16;
            Some(wildcard(port).to_vec())
        }
        (false, Some(_)) => listen_addresses(top),
    }
}

fn listen_addresses(top: &Section<'_>) -> Option<Vec<SocketAddr>> {
    let mut all: Vec<SocketAddr> = Vec::new();
    for word in top.words("listen")? {
        match word.text.parse::<SocketAddr>() {
            Ok(address) if address.port() == 0 => {
                top.error(&word.span, "a port must be between 1 and 65535");
            }
            Ok(address) if all.iter().any(|other| other.is_ipv4() == address.is_ipv4()) => {
                let message = "'listen' has at most one address of each family";
                top.error(&word.span, message);
            }
            Ok(address) => all.push(address),
            Err(_) => top.error(
                &word.span,
                format!(
                    "'{}' is not an address with a port: write \"192.0.2.1:51830\" or \
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
        if count == MAX_PEERS {
            top.error(span, format!("a tunnel has at most {MAX_PEERS} peers"));
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
    section.only(&["name", "public_key", "endpoint", "allowed_ips"]);
    let name = section.required_name("\"office\"");
    if let Some(word) = &name
        && before.iter().any(|peer| peer.name == word.text)
    {
        let message = format!("another peer has the name '{}'", word.text);
        section.error(&word.span, message);
    }
    let public_key = public_key(section, encrypted, before);
    let endpoint = endpoint(section, listen);
    if !encrypted && !section.has("endpoint") {
        let message = "without encryption a peer is identified by its address; add \
                       endpoint = \"192.0.2.2:51830\"";
        section.error(&section.span, message);
    }
    let allowed_ips = allowed_ips(section, before);
    Some(Peer {
        name: name?.text,
        public_key,
        endpoint,
        allowed_ips: allowed_ips?,
    })
}

fn public_key(section: &Section<'_>, encrypted: bool, before: &[Peer]) -> Option<[u8; 32]> {
    if !encrypted {
        if section.has("public_key") {
            let message = "a tunnel without encryption has no keys; remove 'public_key'";
            section.error(&section.span_of("public_key"), message);
        }
        return None;
    }
    let example = "\"…\", as `ackwise tunnel keygen` or `wg pubkey` printed it";
    let word = section.required_word("public_key", example)?;
    let Some(key) = key_from_base64(&word.text) else {
        let message = "a key has 44 characters of base64, as `ackwise tunnel keygen` or \
                       `wg pubkey` printed it";
        section.error(&word.span, message);
        return None;
    };
    if let Some(other) = before.iter().find(|peer| peer.public_key == Some(key)) {
        let message = format!(
            "peer '{}' has the same key: each peer needs its own",
            other.name
        );
        section.error(&word.span, message);
    }
    Some(key)
}

/// Reads `host:port`. The host is looked up when the tunnel starts.
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
            "'{}' is not a host with a port: write e.g. \"192.0.2.2:51830\", \
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
        let message =
            format!("'listen' has no IPv{family} address, so this peer cannot be reached");
        section.error(&word.span, message);
    }
    Some(word.text)
}

fn allowed_ips(section: &Section<'_>, before: &[Peer]) -> Option<Vec<Prefix>> {
    if !section.has("allowed_ips") {
        let message = "a peer has no 'allowed_ips'; add allowed_ips = [\"198.51.100.0/24\"], or \
                       [\"0.0.0.0/0\", \"::/0\"] for all addresses";
        section.error(&section.span, message);
        return None;
    }
    let mut prefixes = Vec::new();
    for word in section.words("allowed_ips")? {
        match word.text.parse::<Prefix>() {
            Ok(prefix) => {
                let mut others = before.iter();
                if let Some(other) = others.find(|peer| peer.allowed_ips.contains(&prefix)) {
                    let message = format!("peer '{}' has {prefix} already", other.name);
                    section.error(&word.span, message);
                }
                prefixes.push(prefix);
            }
            Err(message) => section.error(&word.span, message),
        }
    }
    Some(prefixes)
}
