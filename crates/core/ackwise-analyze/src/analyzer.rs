//! The analysis itself: one pass over the packets, with a fixed amount of memory per connection.

use std::collections::HashMap;

use ackwise_policy::{FlowConfig, ParseError, Segment, TcpFlags, parse_part};

use crate::airtime::Channel;
use crate::capture::Packet;
use crate::data_direction::{DataDirection, Policies, is_pure_ack};
use crate::dry_run::Counters;
use crate::link::{Inner, LinkType, NoPacket};
use crate::options::Options;

/// A connection that is silent for this long has ended; only its totals are kept.
const IDLE_NS: u64 = 120_000_000_000;
/// The interval at which ended connections are looked for.
const SWEEP_NS: u64 = 30_000_000_000;

/// The size of [`Analyzer::recent`], a power of two.
const RECENT_SLOTS: usize = 256;

/// One end of a connection.
pub type Endpoint = (std::net::IpAddr, u16);

/// The connection that a segment belongs to; it is the same for both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    low: ([u32; 4], u16),
    high: ([u32; 4], u16),
    /// The interface's number in the file, and the one that the frame names.
    interface: (u32, u32),
    /// The offset of the IP header, which differs with VLAN tags.
    l3_offset: u16,
}

impl Key {
    /// Its index in [`Analyzer::recent`].
    fn slot(&self) -> usize {
        let words = self.low.0.iter().chain(&self.high.0);
        let ports = u32::from(self.low.1) << 16 | u32::from(self.high.1);
        let mixed = words.fold(ports, |mixed, word| mixed ^ word);
        mixed.wrapping_mul(0x9e37_79b1) as usize >> (32 - RECENT_SLOTS.ilog2())
    }
}

/// A connection. `directions[0]` is the data of the first end, `directions[1]` that of the second.
pub(crate) struct Connection {
    key: Key,
    pub ends: [Endpoint; 2],
    pub directions: [DataDirection; 2],
    pub first_ns: u64,
    pub last_ns: u64,
    /// A reset, or the FINs of both ends.
    ended: bool,
    /// Whether each end has sent a FIN.
    fins: [bool; 2],
    /// The initial sequence number of each end, if its SYN without ACK was seen.
    initial: [Option<u32>; 2],
}

impl Connection {
    fn new(key: Key, ends: [Endpoint; 2], now_ns: u64) -> Self {
        Connection {
            key,
            ends,
            directions: Default::default(),
            first_ns: now_ns,
            last_ns: now_ns,
            ended: false,
            fins: [false; 2],
            initial: [None; 2],
        }
    }

    /// Drops all state but the totals.
    fn end(&mut self, policies: &mut Policies, now_ns: u64) {
        for direction in &mut self.directions {
            direction.expire(policies, now_ns);
            direction.end_flow();
        }
    }

    /// Whether a SYN begins another connection between the same ports: this one has ended or had
    /// data or ACKs, and the SYN is no repetition. A capture of one direction may have only ACKs.
    fn is_before(&self, s: &Segment, from: usize) -> bool {
        let is_used = |it: &DataDirection| it.counts.data_packets > 0 || it.counts.acks > 0;
        let used = self.ended || self.directions.iter().any(is_used);
        used && opens(s) && self.initial[from] != Some(s.seq())
    }
}

/// Whether a segment asks for a new connection.
fn opens(s: &Segment) -> bool {
    s.flags() & (TcpFlags::SYN | TcpFlags::ACK) == TcpFlags::SYN
}

/// Counts over all packets of a capture.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub packets: u64,
    pub bytes: u64,
    pub first_ns: Option<u64>,
    pub last_ns: u64,
    pub tcp_packets: u64,
    pub acks: u64,
    pub ack_bytes: u64,
    /// Bytes of the frames that carry the pure ACKs.
    pub ack_frame_bytes: u64,
    pub not_tcp: u64,
    pub fragments: u64,
    pub cut: u64,
    pub malformed: u64,
    pub encrypted: u64,
    pub unsupported: Option<(LinkType, u64)>,
    pub backwards: u64,
    pub untimed: u64,
}

/// Takes packets and works out what their ACKs cost.
pub struct Analyzer {
    pub(crate) options: Options,
    pub(crate) policies: Policies,
    pub(crate) totals: Totals,
    pub(crate) channel: Option<Channel>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) peak: Peak,
    index: HashMap<Key, usize>,
    /// Recently seen connections, so that most packets find theirs without the index. The index has
    /// a slower hash, so that no crafted capture can slow it down.
    recent: [usize; RECENT_SLOTS],
    swept_ns: u64,
}

impl Analyzer {
    /// Creates an analyzer that has seen no packet.
    #[must_use]
    pub fn new(options: Options) -> Analyzer {
        let configs: Vec<_> = options.policies.iter().map(FlowConfig::new).collect();
        Analyzer {
            policies: Policies {
                counters: vec![Counters::default(); configs.len()],
                configs,
                no_flow: 0,
                flows: 0,
            },
            totals: Totals::default(),
            channel: options.wifi_bps.map(Channel::new),
            options,
            connections: Vec::new(),
            peak: Peak::default(),
            index: HashMap::new(),
            recent: [0; RECENT_SLOTS],
            swept_ns: 0,
        }
    }

    /// Takes the next packet of a capture. If its time goes back, no time passes.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        let t = &mut self.totals;
        t.packets += 1;
        t.bytes += u64::from(packet.wire_len);
        t.first_ns.get_or_insert(packet.at_ns);
        t.backwards += u64::from(packet.at_ns < t.last_ns);
        t.untimed += u64::from(!packet.timed);
        t.last_ns = t.last_ns.max(packet.at_ns);
        // A flow takes a time below one microsecond to be unknown.
        let now_ns = t.last_ns.max(1000);
        let acks = t.acks;
        // If a frame holds one packet, all bytes of the frame count as the packet's.
        let (mut packets, mut link_bytes) = (0, 0);
        let found = packet
            .link
            .packets(packet.bytes, packet.wire_len, &mut |inner| {
                packets += 1;
                link_bytes = packet.wire_len.saturating_sub(inner.len);
                self.inner(&inner, packet.interface, now_ns);
            });
        let t = &mut self.totals;
        if packets == 1 && t.acks > acks {
            t.ack_frame_bytes += u64::from(link_bytes);
        }
        match found {
            Ok(()) => {}
            Err(NoPacket::NotIp) => t.not_tcp += 1,
            Err(NoPacket::Truncated) => t.cut += 1,
            Err(NoPacket::Encrypted) => t.encrypted += 1,
            Err(NoPacket::Unsupported) => {
                t.unsupported.get_or_insert((packet.link, 0)).1 += 1;
            }
        }
        if now_ns.saturating_sub(self.swept_ns) > SWEEP_NS {
            self.sweep(now_ns);
        }
    }

    fn inner(&mut self, inner: &Inner<'_>, interface: u32, now_ns: u64) {
        let t = &mut self.totals;
        match parse_part(inner.bytes, inner.kind, inner.len as usize) {
            Ok(s) => {
                t.tcp_packets += 1;
                let is_ack = is_pure_ack(&s);
                if is_ack {
                    t.acks += 1;
                    t.ack_bytes += u64::from(s.ip_len());
                    t.ack_frame_bytes += u64::from(inner.len);
                    self.peak.ack(s.ip_len(), now_ns);
                }
                if let Some(channel) = &mut self.channel {
                    channel.packet(is_ack, s.ip_len(), now_ns);
                }
                self.segment(&s, inner, interface, now_ns);
            }
            Err(error) => {
                match error {
                    ParseError::NotTcp => t.not_tcp += 1,
                    ParseError::Fragment => t.fragments += 1,
                    ParseError::Truncated => t.cut += 1,
                    ParseError::Malformed => t.malformed += 1,
                }
                if let Some(channel) = &mut self.channel {
                    channel.packet(false, inner.len, now_ns);
                }
            }
        }
    }

    fn segment(&mut self, s: &Segment, inner: &Inner<'_>, interface: u32, now_ns: u64) {
        let interface = (interface, inner.interface);
        let (mut at, from) = self.connection(s, interface, now_ns);
        if self.connections[at].is_before(s, from) {
            at = self.succeed(at, now_ns);
        }
        let connection = &mut self.connections[at];
        connection.last_ns = now_ns;
        if connection.ended && s.flags().contains(TcpFlags::SYN) {
            connection.ended = false;
        }
        if opens(s) {
            connection.initial[from] = Some(s.seq());
            connection.fins = [false; 2];
        }
        let [first, second] = &mut connection.directions;
        let (mine, theirs) = if from == 0 {
            (first, second)
        } else {
            (second, first)
        };
        let segments = mine.on_data(s, &self.policies, now_ns);
        theirs.on_ack(s, &mut self.policies, now_ns);
        if let Some(id) = ip_id(s, inner.bytes) {
            theirs
                .ip_ids
                .packet(id, if s.payload() > 0 { segments } else { 1 });
        }
        connection.fins[from] |= s.flags().contains(TcpFlags::FIN);
        if s.flags().intersects(TcpFlags::RST) || connection.fins == [true; 2] {
            connection.ended = true;
        }
    }

    /// Ends a connection, and creates the next one between the same ports.
    fn succeed(&mut self, at: usize, now_ns: u64) -> usize {
        let before = &mut self.connections[at];
        let (key, ends) = (before.key, before.ends);
        before.end(&mut self.policies, now_ns);
        let next = self.connections.len();
        self.connections.push(Connection::new(key, ends, now_ns));
        self.index.insert(key, next);
        self.recent[key.slot()] = next;
        next
    }

    /// Finds or creates the connection of a segment, and tells which of its ends sent it.
    fn connection(&mut self, s: &Segment, interface: (u32, u32), now_ns: u64) -> (usize, usize) {
        let raw = s.raw();
        let (src, dst) = ((raw.src.w, raw.sport), (raw.dst.w, raw.dport));
        let swapped = src > dst;
        let key = Key {
            low: if swapped { dst } else { src },
            high: if swapped { src } else { dst },
            interface,
            l3_offset: raw.l3_off,
        };
        let connections = &mut self.connections;
        let recent = &mut self.recent[key.slot()];
        if connections.get(*recent).is_some_and(|it| it.key == key) {
            return (*recent, usize::from(swapped));
        }
        let at = *self.index.entry(key).or_insert_with(|| {
            let (a, b) = (s.src(), s.dst());
            let mut ends = [(a.ip(), a.port()), (b.ip(), b.port())];
            if swapped {
                ends.swap(0, 1);
            }
            connections.push(Connection::new(key, ends, now_ns));
            connections.len() - 1
        });
        *recent = at;
        (at, usize::from(swapped))
    }

    /// Drops the state of connections that have ended.
    fn sweep(&mut self, now_ns: u64) {
        self.swept_ns = now_ns;
        for connection in &mut self.connections {
            let idle = now_ns.saturating_sub(connection.last_ns) > IDLE_NS;
            if !idle && !connection.ended {
                continue;
            }
            connection.end(&mut self.policies, now_ns);
        }
    }

    /// Releases the withheld ACKs whose deadlines have passed in the capture.
    pub(crate) fn expire(&mut self) {
        for connection in &mut self.connections {
            for direction in &mut connection.directions {
                direction.expire(&mut self.policies, self.totals.last_ns);
            }
        }
    }
}

/// The IP ID of an IPv4 packet with DF set.
fn ip_id(s: &Segment, bytes: &[u8]) -> Option<u16> {
    let raw = s.raw();
    if raw.ip_version != 4 {
        return None;
    }
    let header = bytes.get(usize::from(raw.l3_off)..)?.first_chunk::<8>()?;
    (header[6] & 0x40 != 0).then(|| u16::from_be_bytes([header[4], header[5]]))
}

/// The highest rate of ACKs over a tenth of a second.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Peak {
    window: u64,
    bytes: u64,
    max_bytes: u64,
}

impl Peak {
    const WINDOW_NS: u64 = 100_000_000;

    fn ack(&mut self, bytes: u32, now_ns: u64) {
        let window = now_ns / Self::WINDOW_NS;
        if window != self.window {
            (self.window, self.bytes) = (window, 0);
        }
        self.bytes += u64::from(bytes);
        self.max_bytes = self.max_bytes.max(self.bytes);
    }

    /// The rate in bit/s.
    pub fn bps(&self) -> u64 {
        self.max_bytes * 8 * 1_000_000_000 / Self::WINDOW_NS
    }
}
