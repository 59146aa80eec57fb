//! One peer: the tunnel with it, and its address.

use std::net::{IpAddr, SocketAddr};

use ackwise_config::tunnel::{Encoding, OtherPackets, Tunnel as Config};
use ackwise_tunnel::{
    Actions, DatagramError, Initiation, KeyPair, OpenError, Security, Source, Tunnel, TunnelConfig,
    Variant, is_initiation,
};

use crate::Error;
use crate::bypass::{Bypass, source};
use crate::resolver::resolve;
use crate::stats::{Amount, Failures, PeerStats};
use crate::tun_injector::TunInjector;
use crate::udp::{Endpoint, Sent, Sockets};

/// The bytes of the IP and UDP headers.
const V4_HEADERS: u64 = 28;
const V6_HEADERS: u64 = 48;

/// If this many packets wait, packets arrive quickly, and the thread naps instead of waking for
/// each: a wake-up takes more CPU time than everything else that is done for a packet.
const MIN_WAITING_FOR_NAP: usize = 8;
/// The number of naps in a period. Expedited ACKs wait for a quarter of a period in any case.
const NAPS_PER_PERIOD: u64 = 4;

/// Where packets and datagrams go, and the configuration that decides it.
pub(crate) struct Outputs<'a> {
    pub config: &'a Config,
    pub sockets: &'a Sockets,
    pub link: &'a TunInjector,
    pub bypass: &'a mut Bypass,
}

/// The bytes of IP and UDP headers.
#[derive(Debug, Clone, Copy, Default)]
struct HeaderBytes {
    /// The header bytes of all datagrams that were sent.
    sent: u64,
    /// The header bytes of the bundles that were sent.
    bundles: u64,
    /// The header bytes of all datagrams that were received.
    received: u64,
}

/// A peer: the other end of the tunnel.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The index in the configuration.
    index: usize,
    name: String,
    public_key: Option<[u8; 32]>,
    endpoint: Option<Endpoint>,
    /// The configured address, which is tried as well while the peer does not answer.
    configured: Option<Endpoint>,
    /// The address where the peer was last heard from, if that is another one.
    moved_to: Option<Endpoint>,
    /// The destination of the last initiation that was sent while the peer did not answer.
    initiated_to: Option<SocketAddr>,
    /// Whether the peer is identified by its key, so that its address may change.
    may_roam: bool,
    tunnel: Tunnel,
    actions: Actions,
    headers: HeaderBytes,
    /// The bundles whose headers were counted.
    bundles: u64,
    failures: Failures,
    /// Whether it was logged that packets of this peer are dropped because they are not ACKs.
    told_refused: bool,
    /// Whether it was logged that packets are dropped because their sources are not allowed.
    told_not_allowed: bool,
    /// The statistics when this end closed, so that closing does not count as a timeout of the
    /// peer.
    at_close: Option<PeerStats>,
}

/// Whether a datagram belonged to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// The datagram was processed.
    Yes,
    /// The datagram does not belong to this peer.
    No,
}

impl Peer {
    pub fn new(index: usize, config: &Config, keys: Option<&KeyPair>) -> Result<Self, Error> {
        let described = &config.peers[index];
        let security = match (keys, described.public_key) {
            (Some(keys), Some(peer)) if keys.public == peer => {
                return Err(Error::OwnKey(described.name.clone()));
            }
            (Some(keys), Some(peer)) => Security::Noise {
                secret: keys.secret,
                public: keys.public,
                peer,
            },
            _ => Security::Plain,
        };
        let endpoint = described.endpoint.as_ref();
        let endpoint = endpoint.map(|endpoint| {
            resolve(endpoint, &config.listen).map_err(|why| Error::Endpoint {
                peer: described.name.clone(),
                endpoint: endpoint.clone(),
                why,
            })
        });
        let endpoint = endpoint.transpose()?.map(Endpoint::from);
        let settings = TunnelConfig {
            variant: match config.encoding {
                Encoding::Aligned => Variant::Aligned,
                Encoding::Entropy => Variant::Entropy,
            },
            max_flows: config.flows,
            max_memory: usize::try_from(config.memory_of_peer()).unwrap_or(usize::MAX),
            period: config.period.as_nanos() as u64,
            follow_rtt: config.follow_rtt,
            respace: config.respace,
            other_packets: match config.other_packets {
                OtherPackets::Bypass => ackwise_tunnel::OtherPackets::Bypass,
                OtherPackets::Carry => ackwise_tunnel::OtherPackets::Carry,
            },
            max_datagram: config.max_datagram as usize,
            initiates: endpoint.is_some(),
            ..TunnelConfig::new(security)
        };
        Ok(Self {
            index,
            name: described.name.clone(),
            public_key: described.public_key,
            endpoint,
            configured: endpoint,
            moved_to: None,
            initiated_to: None,
            may_roam: keys.is_some(),
            tunnel: Tunnel::new(settings),
            actions: Actions::default(),
            headers: HeaderBytes::default(),
            bundles: 0,
            failures: Failures::default(),
            told_refused: false,
            told_not_allowed: false,
            at_close: None,
        })
    }

    pub fn is_at(&self, address: SocketAddr) -> bool {
        self.endpoint
            .is_some_and(|endpoint| endpoint.remote == address)
    }

    /// Returns whether the peer may have moved to an unknown address.
    pub fn may_roam(&self) -> bool {
        self.may_roam
    }

    /// Sets the address that a lookup of the peer's name found.
    pub fn is_found_at(&mut self, address: SocketAddr) {
        if !self.is_up() && !self.is_at(address) {
            tracing::info!("peer '{}' is looked for at {address}", self.name);
            self.endpoint = Some(address.into());
            self.configured = self.endpoint;
        }
    }

    pub fn is_up(&self) -> bool {
        self.tunnel.is_up()
    }

    pub fn next_tick(&self, now: u64) -> u64 {
        self.tunnel.next_tick(now)
    }

    /// Returns the time until which packets for this peer need not be read, because they would
    /// leave with those that wait. Expedited ACKs among them must still be seen in time.
    pub fn nap(&mut self, now: u64) -> Option<u64> {
        let earliest = self.tunnel.earliest_bundle_at();
        if now < earliest {
            return Some(earliest);
        }
        let (packets, due) = self.tunnel.waiting()?;
        (packets >= MIN_WAITING_FOR_NAP).then(|| due.min(self.max_nap(now)))
    }

    /// Returns the latest time until which packets for this peer may stay unread.
    pub fn max_nap(&self, now: u64) -> u64 {
        now + self.tunnel.period() / NAPS_PER_PERIOD
    }

    /// Takes a packet for this peer.
    pub fn packet(&mut self, packet: &[u8], now: u64, outputs: &mut Outputs<'_>) {
        self.tunnel.packet(packet, now, &mut self.actions);
        let actions = &self.actions;
        // Most packets wait, and there is nothing to do.
        if !actions.datagrams.is_empty() || !actions.bypass.is_empty() {
            self.act(None, outputs);
        }
    }

    /// Returns whether an initiation from this address is from this peer. Without keys the address
    /// decides.
    pub fn has_sent(&self, initiation: &Initiation, from: SocketAddr) -> bool {
        match &self.public_key {
            Some(key) => initiation.peer() == Some(key.as_slice()),
            None => self.is_at(from),
        }
    }

    /// Processes an initiation of this peer. The response goes to the source of the initiation.
    pub fn initiation(
        &mut self,
        initiation: Initiation,
        from: Endpoint,
        now: u64,
        outputs: &mut Outputs<'_>,
    ) {
        let taken = self.tunnel.initiation(initiation, now, &mut self.actions);
        if taken.is_ok() {
            self.act(Some(from), outputs);
        }
    }

    /// Sets the time since 1970, in nanoseconds, at which the monotonic clock was 0.
    pub fn set_unix_offset(&mut self, offset: u64) {
        self.tunnel.set_unix_offset(offset);
    }

    /// Processes a datagram that may be from this peer and is not an initiation.
    pub fn datagram(
        &mut self,
        datagram: &[u8],
        from: Endpoint,
        now: u64,
        outputs: &mut Outputs<'_>,
    ) -> Accepted {
        match self.tunnel.datagram(datagram, now, &mut self.actions) {
            Ok(Source::Unverified) => self.act(Some(from), outputs),
            Ok(Source::Peer) => {
                self.headers.received += header(from.remote);
                if !self.is_at(from.remote) {
                    tracing::info!("peer '{}' is at {}", self.name, from.remote);
                }
                // The peer may accept answers only from the address that it sent to.
                self.endpoint = Some(from);
                self.moved_to = None;
                self.act(None, outputs);
            }
            Err(DatagramError::Decode(_)) => self.act(None, outputs),
            // A replay is authentic: no other peer can have sent it.
            Err(DatagramError::Open(OpenError::Replayed)) => {}
            Err(DatagramError::Open(_)) => return Accepted::No,
        }
        Accepted::Yes
    }

    /// Performs what is due.
    pub fn tick(&mut self, now: u64, outputs: &mut Outputs<'_>) {
        if !self.is_up()
            && let Some(endpoint) = &mut self.endpoint
        {
            // The route may have changed, and with it the address of this end.
            endpoint.local = None;
        }
        self.tunnel.tick(now, &mut self.actions);
        if !self.is_up() && !self.actions.datagrams.is_empty() {
            self.try_both_addresses();
        }
        self.act(None, outputs);
    }

    /// Alternates between the configured address and the last one: a peer that had moved may have
    /// come back. Initiations alternate separately, since there is one for an even number of probes
    /// and all would go to the same address.
    fn try_both_addresses(&mut self) {
        self.try_other_address();
        if self.actions.datagrams.iter().any(|d| is_initiation(d)) {
            if self.initiated_to.is_some_and(|to| self.is_at(to)) {
                self.try_other_address();
            }
            self.initiated_to = self.endpoint.map(|endpoint| endpoint.remote);
        }
    }

    fn try_other_address(&mut self) {
        let Some(configured) = self.configured else {
            return;
        };
        let moved = self.endpoint.filter(|at| at.remote != configured.remote);
        self.moved_to = moved.or(self.moved_to);
        self.endpoint = match moved {
            Some(_) => Some(configured),
            None => self.moved_to.or(self.endpoint),
        };
    }

    fn act(&mut self, respond_to: Option<Endpoint>, outputs: &mut Outputs<'_>) {
        for datagram in &self.actions.datagrams {
            let Some(to) = respond_to.or(self.endpoint) else {
                self.failures.not_sent += 1;
                continue;
            };
            self.headers.sent += header(to.remote);
            match outputs.sockets.send(datagram, to) {
                Sent::Whole => {}
                Sent::InFragments => {
                    self.failures.fragmented += 1;
                    self.tunnel.datagram_too_long(datagram.len());
                }
                Sent::Failed => self.failures.not_sent += 1,
            }
        }
        let bundles = self.tunnel.counters().bundles_out;
        let header = self.endpoint.map_or(0, |endpoint| header(endpoint.remote));
        self.headers.bundles += (bundles - self.bundles) * header;
        self.bundles = bundles;
        let mut not_allowed = None;
        // Most packets of a bundle have one source.
        let mut last = (None, None);
        for packet in self.actions.packets.iter() {
            let from = source(packet);
            if last.0 != from {
                last = (from, from.and_then(|from| outputs.config.peer_of(from)));
            }
            if last.1 == Some(self.index) {
                outputs.link.put(packet);
            } else {
                self.failures.not_allowed += 1;
                not_allowed = from;
            }
        }
        self.failures.not_delivered += outputs.link.flush();
        self.warn_of_drops(not_allowed);
        for packet in self.actions.bypass.iter() {
            outputs.bypass.put(packet);
        }
        self.actions.clear();
    }

    /// Warns once about each kind of packet that is dropped. The peer does not know of the drops.
    fn warn_of_drops(&mut self, not_allowed: Option<IpAddr>) {
        let name = &self.name;
        if let Some(source) = not_allowed.filter(|_| !self.told_not_allowed) {
            self.told_not_allowed = true;
            tracing::warn!(
                "packets of peer '{name}' from {source} are dropped: allowed_ips here does not \
                 give it this address"
            );
        }
        if self.tunnel.counters().refused > 0 && !self.told_refused {
            self.told_refused = true;
            tracing::warn!(
                "packets of peer '{name}' that are not ACKs are dropped: other_packets is \
                 \"carry\" there; set it so here as well, or to \"bypass\" there"
            );
        }
    }

    /// Closes this end. Waiting ACKs bypass the tunnel; restored ones are delivered at once.
    pub fn close(&mut self, now: u64, outputs: &mut Outputs<'_>) {
        self.at_close = Some(self.stats(now));
        self.tunnel.close(&mut self.actions);
        self.act(None, outputs);
    }

    pub fn stats(&mut self, now: u64) -> PeerStats {
        let stats = self.counted(now);
        let Some(before) = &self.at_close else {
            return stats;
        };
        PeerStats {
            up: before.up,
            session_age_s: before.session_age_s,
            failures: Failures {
                peer_timeouts: before.failures.peer_timeouts,
                ..stats.failures
            },
            ..stats
        }
    }

    fn counted(&mut self, now: u64) -> PeerStats {
        let ms = |ns: u64| ns as f64 / 1e6;
        let counters = *self.tunnel.counters();
        let bundles = counters.bundle_bytes_out + self.headers.bundles;
        let carried = counters.packets_in.max(1) as f64;
        PeerStats {
            name: self.name.clone(),
            endpoint: self.endpoint.map(|endpoint| endpoint.remote),
            up: self.tunnel.is_up(),
            session_age_s: self.tunnel.session_age(now).map(|age| ms(age) / 1e3),
            rtt_ms: self.tunnel.rtt().map(ms),
            period_ms: ms(self.tunnel.period()),
            datagram_size: self.tunnel.datagram_size() as u64,
            memory: self.tunnel.memory() as u64,
            packets_in: Amount {
                packets: counters.packets_in,
                bytes: counters.bytes_in,
            },
            expedited: counters.expedited,
            bypassed: counters.bypassed,
            bundles_out: Amount {
                packets: counters.bundles_out,
                bytes: bundles,
            },
            datagrams_out: Amount {
                packets: counters.datagrams_out,
                bytes: counters.bytes_out + self.headers.sent,
            },
            bundles_in: counters.bundles_in,
            datagrams_in: Amount {
                packets: counters.datagrams_in,
                bytes: counters.datagram_bytes_in + self.headers.received,
            },
            packets_out: Amount {
                packets: counters.packets_out,
                bytes: counters.packet_bytes_out,
            },
            bytes_per_ack: (counters.bundles_out > 0).then(|| bundles as f64 / carried),
            failures: Failures {
                auth_failures: counters.auth_failures,
                replayed: counters.replayed,
                unknown_session: counters.unknown_session,
                handshakes_limited: counters.handshakes_limited,
                undecodable: counters.undecodable,
                refused: counters.refused,
                peer_timeouts: counters.peer_timeouts,
                ..self.failures
            },
        }
    }
}

fn header(address: SocketAddr) -> u64 {
    if address.is_ipv4() {
        V4_HEADERS
    } else {
        V6_HEADERS
    }
}
