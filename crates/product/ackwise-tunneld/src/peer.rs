//! One peer: its end of the tunnel, and where it is.

use std::net::{SocketAddr, ToSocketAddrs};

use ackwise_config::tunnel::{Encoding, OtherPackets, Peer as Described, Prefix, Tunnel as Config};
use ackwise_tunnel::{
    Actions, DatagramError, Heard, KeyPair, OpenError, Security, Tunnel, TunnelConfig, Variant,
};

use crate::Error;
use crate::entrance::Entrance;
use crate::exit::{Exit, source};
use crate::stats::{Amount, Failures, PeerStats};
use crate::udp::{Sent, Sockets};

/// Headers of IP and UDP.
const V4: u64 = 28;
const V6: u64 = 48;

/// Once so many packets wait, it is known that they come quickly: to be woken by each of
/// those that follow costs more than all else that is done for it.
const NAP_FROM: usize = 8;
/// Naps in a period: each is as long as news waits in any case.
const NAPS: u64 = 4;

/// Where packets and datagrams of peers go.
pub(crate) struct Ways<'a> {
    pub sockets: &'a Sockets,
    pub link: &'a Entrance,
    pub exit: &'a mut Exit,
}

/// What is known of the other end.
#[derive(Debug)]
pub(crate) struct Peer {
    name: String,
    allowed_ips: Vec<Prefix>,
    endpoint: Option<SocketAddr>,
    /// Without keys a peer is known by its address, so that does not change.
    fixed: bool,
    tunnel: Tunnel,
    actions: Actions,
    /// Bytes of IP and UDP headers of what was sent; of these, of bundles; and of what came.
    headers: [u64; 3],
    bundles: u64,
    failures: Failures,
    /// What was known of the peer when this side ended: that is not the peer's end.
    at_end: Option<PeerStats>,
}

/// Whether a peer took a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Yes,
    /// It is not of this peer.
    No,
}

impl Peer {
    pub fn new(
        described: &Described,
        config: &Config,
        keys: Option<&KeyPair>,
    ) -> Result<Self, Error> {
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
        let endpoint = resolve(described, config)?;
        let settings = TunnelConfig {
            variant: match config.encoding {
                Encoding::Aligned => Variant::Aligned,
                Encoding::Entropy => Variant::Entropy,
            },
            max_flows: config.flows,
            period: config.period.as_nanos() as u64,
            follow_rtt: config.follow_rtt,
            space: config.respace,
            others: match config.other_packets {
                OtherPackets::Bypass => ackwise_tunnel::Others::Outside,
                OtherPackets::Carry => ackwise_tunnel::Others::Carried,
            },
            max_datagram: config.max_datagram as usize,
            begins: endpoint.is_some(),
            ..TunnelConfig::new(security)
        };
        Ok(Self {
            name: described.name.clone(),
            allowed_ips: described.allowed_ips.clone(),
            endpoint,
            fixed: keys.is_none(),
            tunnel: Tunnel::new(settings),
            actions: Actions::default(),
            headers: [0; 3],
            bundles: 0,
            failures: Failures::default(),
            at_end: None,
        })
    }

    pub fn is_at(&self, address: SocketAddr) -> bool {
        self.endpoint == Some(address)
    }

    /// Whether it may have moved to an address that is not known.
    pub fn may_move(&self) -> bool {
        !self.fixed
    }

    pub fn is_up(&self) -> bool {
        self.tunnel.is_up()
    }

    pub fn wake(&self, now: u64) -> u64 {
        self.tunnel.wake(now)
    }

    /// Until when packets for it need not be read, if that is so: they leave with those that
    /// wait. Which of them are news shall be seen in time.
    pub fn nap(&mut self, now: u64) -> Option<u64> {
        let soonest = self.tunnel.soonest();
        if now < soonest {
            return Some(soonest);
        }
        let (packets, due) = self.tunnel.waiting()?;
        (packets >= NAP_FROM).then(|| due.min(self.next_nap(now)))
    }

    /// Until when packets for it may wait where others' do.
    pub fn next_nap(&self, now: u64) -> u64 {
        now + self.tunnel.period() / NAPS
    }

    /// A packet for it.
    pub fn packet(&mut self, packet: &[u8], now: u64, ways: &mut Ways<'_>) {
        self.tunnel.packet(packet, now, &mut self.actions);
        let actions = &self.actions;
        // Most wait, and nothing is to be done.
        if !actions.datagrams.is_empty() || !actions.outside.is_empty() {
            self.act(None, ways);
        }
    }

    /// A datagram that may be of it.
    pub fn datagram(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        now: u64,
        ways: &mut Ways<'_>,
    ) -> Taken {
        match self.tunnel.datagram(datagram, now, &mut self.actions) {
            Ok(Heard::Answered) => self.act(Some(from), ways),
            Ok(Heard::Peer) => {
                self.headers[2] += header(from);
                if self.endpoint != Some(from) {
                    tracing::info!("peer '{}' is at {from}", self.name);
                    self.endpoint = Some(from);
                }
                self.act(None, ways);
            }
            Err(DatagramError::Decode(_)) => self.act(None, ways),
            Err(DatagramError::Open(OpenError::Replayed | OpenError::Flood)) => {}
            Err(DatagramError::Open(_)) => return Taken::No,
        }
        Taken::Yes
    }

    /// Does what is due.
    pub fn tick(&mut self, now: u64, ways: &mut Ways<'_>) {
        self.tunnel.tick(now, &mut self.actions);
        self.act(None, ways);
    }

    fn act(&mut self, answer_to: Option<SocketAddr>, ways: &mut Ways<'_>) {
        for datagram in &self.actions.datagrams {
            let Some(to) = answer_to.or(self.endpoint) else {
                self.failures.not_sent += 1;
                continue;
            };
            self.headers[0] += header(to);
            match ways.sockets.send(datagram, to) {
                Sent::Whole => {}
                Sent::InFragments => {
                    self.failures.fragmented += 1;
                    self.tunnel.too_long(datagram.len());
                }
                Sent::Failed => self.failures.not_sent += 1,
            }
        }
        let bundles = self.tunnel.counters().bundles_out;
        self.headers[1] += (bundles - self.bundles) * self.endpoint.map_or(0, header);
        self.bundles = bundles;
        for packet in self.actions.packets.iter() {
            let allowed = source(packet)
                .is_some_and(|from| self.allowed_ips.iter().any(|prefix| prefix.contains(from)));
            if allowed {
                ways.link.put(packet);
            } else {
                self.failures.not_behind += 1;
            }
        }
        self.failures.not_put += ways.link.flush();
        for packet in self.actions.outside.iter() {
            ways.exit.put(packet);
        }
        self.actions.clear();
    }

    /// What still waits goes its way: ACKs by the ordinary path, restored ones at once.
    pub fn end(&mut self, now: u64, ways: &mut Ways<'_>) {
        self.at_end = Some(self.stats(now));
        self.tunnel.end(&mut self.actions);
        self.act(None, ways);
    }

    pub fn stats(&mut self, now: u64) -> PeerStats {
        let stats = self.counted(now);
        let Some(before) = &self.at_end else {
            return stats;
        };
        PeerStats {
            up: before.up,
            session_age_s: before.session_age_s,
            failures: Failures {
                deaths: before.failures.deaths,
                ..stats.failures
            },
            ..stats
        }
    }

    fn counted(&mut self, now: u64) -> PeerStats {
        let ms = |ns: u64| ns as f64 / 1e6;
        let counters = *self.tunnel.counters();
        let bundles = counters.bundle_bytes_out + self.headers[1];
        let carried = counters.packets_in.max(1) as f64;
        PeerStats {
            name: self.name.clone(),
            endpoint: self.endpoint,
            up: self.tunnel.is_up(),
            session_age_s: self.tunnel.session_age(now).map(|age| ms(age) / 1e3),
            rtt_ms: self.tunnel.rtt().map(ms),
            period_ms: ms(self.tunnel.period()),
            datagram_size: self.tunnel.datagram_size() as u64,
            packets_in: Amount {
                packets: counters.packets_in,
                bytes: counters.bytes_in,
            },
            news: counters.news,
            outside: counters.outside,
            bundles_out: Amount {
                packets: counters.bundles_out,
                bytes: bundles,
            },
            datagrams_out: Amount {
                packets: counters.datagrams_out,
                bytes: counters.bytes_out + self.headers[0],
            },
            bundles_in: counters.bundles_in,
            datagrams_in: Amount {
                packets: counters.datagrams_in,
                bytes: counters.bytes_from + self.headers[2],
            },
            packets_out: Amount {
                packets: counters.packets_out,
                bytes: counters.restored_bytes,
            },
            bytes_per_ack: (counters.bundles_out > 0).then(|| bundles as f64 / carried),
            failures: Failures {
                forged: counters.forged,
                replayed: counters.replayed,
                foreign: counters.foreign,
                flood: counters.flood,
                undecodable: counters.undecodable,
                deaths: counters.deaths,
                ..self.failures
            },
        }
    }
}

fn header(address: SocketAddr) -> u64 {
    if address.is_ipv4() { V4 } else { V6 }
}

/// The first address of a family that is listened to.
fn resolve(peer: &Described, config: &Config) -> Result<Option<SocketAddr>, Error> {
    let Some(endpoint) = &peer.endpoint else {
        return Ok(None);
    };
    let not_found = |why: String| Error::Endpoint {
        peer: peer.name.clone(),
        endpoint: endpoint.clone(),
        why,
    };
    let all = endpoint.to_socket_addrs();
    let found = all
        .map_err(|error| not_found(error.to_string()))?
        .find(|address| {
            let mut own = config.listen.iter();
            own.any(|own| own.is_ipv4() == address.is_ipv4())
        });
    let none = || not_found("it has no address of a family that 'listen' has".to_owned());
    found.map(Some).ok_or_else(none)
}
