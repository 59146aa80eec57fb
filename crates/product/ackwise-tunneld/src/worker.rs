//! The thread that moves packets.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ackwise_config::tunnel::Tunnel as Config;
use ackwise_netdev::TunDevice;
use ackwise_netdev::clock::{monotonic_ns, thread_cpu_ns};
use ackwise_netdev::daemon::Ended;
use ackwise_tunnel::{Admission, HandshakeGuard, OpenError, is_initiation, is_response};

use crate::bypass::{Bypass, destination};
use crate::handshake_budget::HandshakeBudget;
use crate::peer::{Accepted, Outputs, Peer};
use crate::poller::{Poller, Source};
use crate::priority;
use crate::redirect::{Frame, Redirect};
use crate::resolver::{Resolver, resolve};
use crate::shared::{Shared, lock};
use crate::tun_injector::TunInjector;
use crate::udp::{Endpoint, Sockets};

/// The number of packets read from one source before the others get their turn.
const MAX_READS: usize = 256;
/// The number of ACK copies read before the others get their turn. They take no system calls; this
/// is more than arrive during a nap.
const MAX_COPIES: usize = 2048;
/// How often the thread checks its devices and publishes its statistics, in nanoseconds.
const PUBLISH_INTERVAL: u64 = 50_000_000;
/// The number of publications between two reads of a device's drops, each of which reads a table of
/// all devices.
const OVERRUN_INTERVAL: u32 = 20;
/// More than the length of any packet.
const BUFFER: usize = 1 << 16;

/// The peer for the last destination.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastRoute {
    destination: IpAddr,
    peer: Option<usize>,
}

/// How a packet reached the tunnel.
#[derive(Debug, Clone, Copy)]
enum Origin {
    /// Through the program at the interface, with that link's header.
    Program,
    /// Through a route to the tunnel's device.
    Route,
}

/// Everything that the thread owns.
#[derive(Debug)]
pub(crate) struct Worker {
    pub config: Config,
    pub peers: Vec<Peer>,
    pub guard: HandshakeGuard,
    /// The time for initiations of others.
    pub handshake_budget: HandshakeBudget,
    /// The time for responses to initiations of this end.
    pub response_budget: HandshakeBudget,
    pub sockets: Sockets,
    /// `Some` while the thread runs, if an endpoint is a name.
    pub resolver: Option<Resolver>,
    /// The tunnel's device.
    pub link: TunInjector,
    pub redirect: Option<Redirect>,
    pub bypass: Bypass,
    pub buffer: Vec<u8>,
    pub last_route: Option<LastRoute>,
    pub poller: Poller,
    /// The last state announced to the program and the devices for each peer.
    pub announced_up: Vec<bool>,
    pub unknown_sources: u64,
    pub handshakes_limited: u64,
    pub cookies_sent: u64,
    pub publications: u32,
    pub overrun: u64,
}

impl Worker {
    pub fn new_buffer() -> Vec<u8> {
        vec![0; BUFFER]
    }

    /// Moves packets until the tunnel ends, and returns why it has. Everything is cleaned up then.
    pub fn run(mut self, shared: &Shared) -> Ended {
        // The default, 50 µs, is a tenth of the shortest period.
        // SAFETY: no pointers.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
        priority::raise();
        self.link.begin();
        self.follow_clock(monotonic_ns());
        self.start_resolver();
        let why = self.work(shared);
        if let Some(redirect) = &mut self.redirect {
            redirect.hook.remove();
        }
        self.bypass_rest();
        self.publications = 0;
        self.publish(shared);
        why
    }

    fn work(&mut self, shared: &Shared) -> Ended {
        let mut next_publication = 0;
        if self.redirect.is_none() {
            self.set_carrier();
        }
        loop {
            if shared.lifecycle.should_stop() {
                return Ended::Requested;
            }
            while shared.lifecycle.is_frozen() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let Ok(more_packets) = self.take_packets() else {
                return self.why_gone();
            };
            let busy = more_packets | self.take_datagrams();
            let now = monotonic_ns();
            self.tick(now);
            self.bypass.flush();
            self.announce_peers();
            if now >= next_publication {
                next_publication = now + PUBLISH_INTERVAL;
                if let Some(why) = self.check_devices() {
                    return why;
                }
                self.look_up_silent_peers(now);
                self.publish(shared);
            }
            if busy {
                self.poller.expect_all();
            } else {
                self.wait(next_publication);
            }
        }
    }

    fn start_resolver(&mut self) {
        let endpoints = self.config.peers.iter().map(|peer| peer.endpoint.clone());
        let listen = self.config.listen.clone();
        let lookup = move |name: &str| resolve(name, &listen);
        match Resolver::start(endpoints.collect(), monotonic_ns(), lookup) {
            Ok(resolver) => self.resolver = resolver,
            Err(error) => tracing::warn!("names of peers are not resolved again: {error}"),
        }
    }

    /// Looks up the names of peers that do not answer: their addresses may have changed.
    fn look_up_silent_peers(&mut self, now: u64) {
        let Some(resolver) = &mut self.resolver else {
            return;
        };
        for (index, peer) in self.peers.iter().enumerate() {
            resolver.watch(index, peer.is_up(), now);
        }
        while let Some(found) = resolver.found() {
            if let Some(peer) = self.peers.get_mut(found.peer) {
                peer.is_found_at(found.address);
            }
        }
    }

    fn why_gone(&self) -> Ended {
        match &self.redirect {
            Some(redirect) if !redirect.interface.exists() => Ended::InterfaceGone,
            _ => Ended::DeviceGone,
        }
    }

    /// Reads packets from the program and from the tunnel's device. Returns whether there
    /// may be more.
    fn take_packets(&mut self) -> io::Result<bool> {
        let mut busy = false;
        let now = monotonic_ns();
        if let Some(mut redirect) = self.redirect.take() {
            let taken = self.take_redirected(&mut redirect, now);
            if matches!(taken, Ok(false)) {
                redirect.state.all_read();
            }
            self.redirect = Some(redirect);
            busy |= taken?;
        }
        if !self.poller.may_have(Source::Link) {
            return Ok(busy);
        }
        for _ in 0..MAX_READS {
            let Some(len) = self.link.recv(&mut self.buffer)? else {
                return Ok(busy);
            };
            self.packet(&Frame { ip: 0, len }, Origin::Route, now);
        }
        Ok(true)
    }

    fn take_redirected(&mut self, redirect: &mut Redirect, now: u64) -> io::Result<bool> {
        let at_device = self.poller.may_have(Source::Redirected);
        for _ in 0..MAX_COPIES {
            let Some(frame) = redirect.take(&mut self.buffer, at_device)? else {
                return Ok(false);
            };
            self.packet(&frame, Origin::Program, now);
        }
        Ok(true)
    }

    /// Passes a packet in the buffer to its peer.
    fn packet(&mut self, frame: &Frame, via: Origin, now: u64) {
        let (header, packet) = self.buffer[..frame.len].split_at(frame.ip);
        let Some(to) = destination(packet) else {
            return;
        };
        match via {
            // On a link without headers this one is empty, which records that `to` was routed
            // there.
            Origin::Program => self.bypass.headers.learn(to, header),
            // The kernel sends to the link of each of its devices, by MLD for example.
            Origin::Route if is_link_local(to) => return,
            Origin::Route => {}
        }
        let peer = match self.last_route {
            Some(last) if last.destination == to => last.peer,
            _ => self.config.peer_of(to),
        };
        self.last_route = Some(LastRoute {
            destination: to,
            peer,
        });
        let Some(peer) = peer.and_then(|peer| self.peers.get_mut(peer)) else {
            // The packet was routed here, but no peer has its address.
            if !is_link_scoped(to) {
                self.bypass.put(packet);
            }
            return;
        };
        let mut outputs = Outputs {
            config: &self.config,
            sockets: &self.sockets,
            link: &self.link,
            bypass: &mut self.bypass,
        };
        peer.packet(packet, now, &mut outputs);
    }

    /// Reads datagrams. Returns whether there may be more.
    fn take_datagrams(&mut self) -> bool {
        let mut busy = false;
        for socket in 0..self.sockets.len() {
            if !self.poller.may_have(Source::Socket(socket)) {
                continue;
            }
            for n in 0..MAX_READS {
                let Some((len, from)) = self.sockets.receive(socket, &mut self.buffer) else {
                    break;
                };
                self.datagram(len, from);
                busy |= n == MAX_READS - 1;
            }
        }
        busy
    }

    /// Processes a datagram. Handshakes get only a share of the time, since anybody can send them.
    fn datagram(&mut self, len: usize, from: Endpoint) {
        let datagram = &self.buffer[..len];
        let now = monotonic_ns();
        if is_initiation(datagram) {
            self.initiation(len, from, now);
            return;
        }
        if !is_response(datagram) {
            self.offer(len, from, now);
        } else if self.response_budget.has_time(now) {
            let began = thread_cpu_ns();
            self.offer(len, from, now);
            self.response_budget
                .spend(thread_cpu_ns().saturating_sub(began));
        } else {
            self.handshakes_limited += 1;
        }
    }

    /// Offers a datagram to the peer at its source address, then to those that may have
    /// moved there.
    fn offer(&mut self, len: usize, from: Endpoint, now: u64) {
        let datagram = &self.buffer[..len];
        let mut outputs = Outputs {
            config: &self.config,
            sockets: &self.sockets,
            link: &self.link,
            bypass: &mut self.bypass,
        };
        for known in [true, false] {
            for peer in &mut self.peers {
                let candidate = peer.is_at(from.remote) == known && (known || peer.may_roam());
                if candidate && peer.datagram(datagram, from, now, &mut outputs) == Accepted::Yes {
                    return;
                }
            }
        }
        self.unknown_sources += 1;
    }

    /// Processes an initiation, if there is time for one.
    fn initiation(&mut self, len: usize, from: Endpoint, now: u64) {
        if !self.handshake_budget.has_time(now) {
            self.handshakes_limited += 1;
            return;
        }
        let began = thread_cpu_ns();
        self.admit(len, from, now);
        let cost = thread_cpu_ns().saturating_sub(began);
        self.handshake_budget.spend(cost);
    }

    /// Passes an initiation to the peer that made it, unless there are too many of them.
    fn admit(&mut self, len: usize, from: Endpoint, now: u64) {
        let source = source_bytes(from.remote);
        match self.guard.admit(&self.buffer[..len], &source, now) {
            Ok(Admission::Handshake(initiation)) => {
                let mut peers = self.peers.iter_mut();
                let Some(peer) = peers.find(|peer| peer.has_sent(&initiation, from.remote)) else {
                    self.unknown_sources += 1;
                    return;
                };
                let mut outputs = Outputs {
                    config: &self.config,
                    sockets: &self.sockets,
                    link: &self.link,
                    bypass: &mut self.bypass,
                };
                peer.initiation(*initiation, from, now, &mut outputs);
            }
            Ok(Admission::Cookie(reply)) => {
                self.cookies_sent += 1;
                self.sockets.send(&reply, from);
            }
            Err(OpenError::RateLimited) => self.handshakes_limited += 1,
            Err(_) => self.unknown_sources += 1,
        }
    }

    fn tick(&mut self, now: u64) {
        let mut outputs = Outputs {
            config: &self.config,
            sockets: &self.sockets,
            link: &self.link,
            bypass: &mut self.bypass,
        };
        for peer in &mut self.peers {
            if peer.next_tick(now) <= now {
                peer.tick(now, &mut outputs);
            }
        }
    }

    /// Tells the program and the devices which peers are up, if that has changed.
    fn announce_peers(&mut self) {
        let mut changed = false;
        let peers = self.peers.iter().zip(&mut self.announced_up);
        for (index, (peer, announced)) in peers.enumerate() {
            if peer.is_up() != *announced {
                *announced = peer.is_up();
                changed = true;
                if let Some(redirect) = &self.redirect {
                    redirect.state.set_up(index, *announced);
                }
            }
        }
        if changed && self.redirect.is_none() {
            self.set_carrier();
        }
    }

    /// Sets the carrier of the tunnel's device. Routes to a device without carrier are not
    /// used, so packets take the next route.
    fn set_carrier(&self) {
        if let Err(error) = self.link.set_carrier(self.announced_up.contains(&true)) {
            tracing::debug!("carrier of {}: {error}", self.link.name);
        }
    }

    /// Returns why the tunnel has to end, if a device or the interface is gone.
    fn check_devices(&self) -> Option<Ended> {
        self.link.check_batching();
        if let Some(redirect) = &self.redirect {
            if !redirect.interface.exists() {
                return Some(Ended::InterfaceGone);
            }
            if !redirect.device.is_up() {
                return Some(Ended::DeviceGone);
            }
        }
        (!self.link.is_up()).then_some(Ended::DeviceGone)
    }

    /// Sends waiting packets, and those redirected before the program was removed, along the
    /// ordinary path.
    fn bypass_rest(&mut self) {
        let mut outputs = Outputs {
            config: &self.config,
            sockets: &self.sockets,
            link: &self.link,
            bypass: &mut self.bypass,
        };
        let now = monotonic_ns();
        for peer in &mut self.peers {
            peer.close(now, &mut outputs);
        }
        if let Some(mut redirect) = self.redirect.take() {
            while let Ok(Some(frame)) = redirect.take(&mut self.buffer, true) {
                let (header, packet) = self.buffer[..frame.len].split_at(frame.ip);
                if let Some(to) = destination(packet) {
                    self.bypass.headers.learn(to, header);
                    self.bypass.put(packet);
                }
            }
            self.redirect = Some(redirect);
        }
        self.bypass.flush();
    }

    fn publish(&mut self, shared: &Shared) {
        let now = monotonic_ns();
        self.follow_clock(now);
        let redirect = self.redirect.as_ref();
        let program = redirect.map(|redirect| redirect.state.counters());
        let program = program.unwrap_or_default();
        if self.publications.is_multiple_of(OVERRUN_INTERVAL) {
            let device: &TunDevice = redirect.map_or(&self.link, |redirect| &redirect.device);
            self.overrun = device.tx_dropped();
        }
        self.publications = self.publications.wrapping_add(1);
        let peers = self.peers.iter_mut().map(|peer| peer.stats(now)).collect();
        let mut stats = lock(&shared.stats);
        stats.cpu_s = thread_cpu_ns() as f64 / 1e9;
        stats.taken = program.taken;
        stats.unattended = program.unattended;
        stats.overrun = self.overrun;
        stats.bypassed = self.bypass.sent;
        stats.bypass_failed = self.bypass.failed;
        stats.unknown_sources = self.unknown_sources;
        stats.handshakes_limited = self.handshakes_limited;
        stats.cookies_sent = self.cookies_sent;
        stats.restored = self.link.stats();
        stats.peers = peers;
    }

    /// Tells the peers the time of day, which may be set while the daemon runs.
    fn follow_clock(&mut self, now: u64) {
        let today = SystemTime::now().duration_since(UNIX_EPOCH);
        let today = today.map_or(0, |since| since.as_nanos() as u64);
        for peer in &mut self.peers {
            peer.set_unix_offset(today.saturating_sub(now));
        }
    }

    /// Returns the time until which no packet needs to be read, if any peer permits a nap. The
    /// other peers limit it.
    fn nap(&mut self, now: u64) -> Option<u64> {
        let (mut any, mut until) = (false, u64::MAX);
        for peer in self.peers.iter_mut().filter(|peer| peer.is_up()) {
            let nap = peer.nap(now);
            any |= nap.is_some();
            until = until.min(nap.unwrap_or_else(|| peer.max_nap(now)));
        }
        any.then_some(until)
    }

    /// Sleeps until something arrives or is due. While packets arrive quickly, it sleeps
    /// until several can be read together.
    fn wait(&mut self, next_publication: u64) {
        let now = monotonic_ns();
        let nap = self.nap(now);
        let due = self
            .peers
            .iter()
            .map(|peer| peer.next_tick(now))
            .fold(nap.unwrap_or(u64::MAX).min(next_publication), u64::min);
        let span = due.saturating_sub(now);
        if span == 0 {
            self.poller.expect_all();
            return;
        }
        self.poller.sleep(Duration::from_nanos(span), nap.is_some());
    }
}

/// The bytes of an address and a port, to which a cookie is bound.
fn source_bytes(from: SocketAddr) -> Vec<u8> {
    let mut bytes = match from.ip() {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    bytes.extend(from.port().to_be_bytes());
    bytes
}

/// Returns whether an address is valid only on a link.
fn is_link_local(address: IpAddr) -> bool {
    match address {
        // The local network control block (RFC 5771 §4).
        IpAddr::V4(v4) => {
            v4.is_link_local() || v4.is_broadcast() || v4.octets()[..3] == [224, 0, 0]
        }
        // Multicast of at most the link's scope (RFC 4291 §2.7).
        IpAddr::V6(v6) => {
            v6.is_unicast_link_local() || (v6.is_multicast() && v6.octets()[1] & 15 <= 2)
        }
    }
}

/// Returns whether an address is multicast, or valid only on a link.
fn is_link_scoped(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_multicast() || v6.is_unicast_link_local(),
    }
}
