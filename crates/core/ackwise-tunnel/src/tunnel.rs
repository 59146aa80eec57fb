//! One end of a tunnel, without I/O: packets, datagrams and the time go in; packets,
//! datagrams and the next wake-up time come out.
//!
//! Times are nanoseconds of a monotonic clock. While the peer does not answer, every packet
//! bypasses the tunnel at once.

mod bundling;
mod config;
mod counters;
#[cfg(test)]
mod l12_memory;
mod liveness;
mod pacer;
mod receiving;

use crate::classifier::Classifier;
use crate::open_error::OpenError;
use crate::pmtu::Pmtu;
use crate::rtt::Rtt;
use crate::session_table::{SessionConfig, SessionTable};
use crate::{DecodeError, Packets};

use liveness::Unanswered;
use pacer::Pacer;

pub use config::{OtherPackets, TunnelConfig};
pub use counters::Counters;

const MS: u64 = 1_000_000;
/// The shortest period that `follow_rtt` leads to.
const MIN_PERIOD: u64 = MS / 2;
/// The number of periods per round trip, so that the delay of bundling is small compared to it (see
/// `docs/tunnel-format.md`).
const PERIODS_PER_RTT: u64 = 8;
/// An expedited ACK shortens a period to this fraction of it.
const EXPEDITED_DIVISOR: u64 = 4;
/// The smallest datagram size that a tunnel works with.
const MIN_DATAGRAM: usize = 800;

/// What the caller has to do. The caller clears it.
#[derive(Debug, Default)]
pub struct Actions {
    /// Datagrams to send to the peer, in this order.
    pub datagrams: Vec<Vec<u8>>,
    /// Restored packets to deliver.
    pub packets: Packets,
    /// Packets to send by the ordinary path, as if there were no tunnel.
    pub bypass: Packets,
}

impl Actions {
    /// Removes everything but keeps the memory.
    pub fn clear(&mut self) {
        self.datagrams.clear();
        self.packets.clear();
        self.bypass.clear();
    }
}

/// The sender of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Someone who initiated a handshake, perhaps by replaying a message. The response goes to the
    /// source address, but this address is not known to be the peer's.
    Unverified,
    /// The peer: the datagram came from its address.
    Peer,
}

/// Why a datagram had no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// The datagram could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The datagram is authentic, but its bundle could not be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// One end of a tunnel.
#[derive(Debug)]
pub struct Tunnel {
    config: TunnelConfig,
    sessions: SessionTable,
    /// The session in which round trips are measured and the path is probed.
    session: Option<u8>,
    classifier: Classifier,
    rtt: Rtt,
    pmtu: Pmtu,
    last_bundle_at: u64,
    /// The time at which the waiting packets leave.
    bundle_due: Option<u64>,
    /// Whether the next bundle leaves at once, because none has left for a period.
    next_after_idle: bool,
    /// Whether the last bundle left at once for that reason.
    last_after_idle: bool,
    /// The mean size of a packet in a bundle, in sixteenths of a byte.
    mean_size_x16: usize,
    /// The time at which feedback has to leave.
    feedback_due: Option<u64>,
    last_sent_at: u64,
    unanswered: Option<Unanswered>,
    peer_up: bool,
    /// The time at which a peer that does not answer is probed next.
    probe_peer_at: u64,
    pacer: Pacer,
    /// The bundle that is being made.
    plain: Vec<u8>,
    /// The bundle that was opened.
    opened: Vec<u8>,
    restored: Packets,
    counters: Counters,
}

impl Tunnel {
    /// Creates an end without a session.
    pub fn new(config: TunnelConfig) -> Tunnel {
        let sessions = SessionTable::new(SessionConfig {
            security: config.security.clone(),
            variant: config.variant,
            max_flows: config.max_flows,
            max_memory: config
                .max_memory
                .max(TunnelConfig::min_memory(config.variant, config.max_flows)),
        });
        Tunnel {
            sessions,
            session: None,
            classifier: Classifier::new(config.max_flows),
            rtt: Rtt::default(),
            pmtu: Pmtu::new(config.max_datagram.max(MIN_DATAGRAM)),
            last_bundle_at: 0,
            bundle_due: None,
            next_after_idle: false,
            last_after_idle: false,
            mean_size_x16: 16 * 4,
            feedback_due: None,
            last_sent_at: 0,
            unanswered: None,
            peer_up: false,
            probe_peer_at: 0,
            pacer: Pacer::default(),
            plain: Vec::new(),
            opened: Vec::new(),
            restored: Packets::default(),
            counters: Counters::default(),
            config,
        }
    }

    /// Sets the time in nanoseconds since 1970 at which the clock of the arguments `now` is 0. A
    /// peer accepts a handshake only if it is newer than the last one, so call this before the
    /// first tick, and again when the system's clock may have been set.
    pub fn set_unix_offset(&mut self, offset: u64) {
        self.sessions.set_unix_offset(offset);
    }

    /// Returns whether the peer answers.
    pub fn is_up(&self) -> bool {
        self.peer_up
    }

    /// Returns the counters since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the bytes that the states of flows take, in all sessions.
    pub fn memory(&self) -> usize {
        self.sessions.memory()
    }

    /// Returns the current multiplexing period in nanoseconds.
    pub fn period(&self) -> u64 {
        let by_rtt = self.rtt.srtt().map(|rtt| rtt / PERIODS_PER_RTT);
        match by_rtt.filter(|_| self.config.follow_rtt) {
            Some(by_rtt) => by_rtt.max(MIN_PERIOD).min(self.config.period),
            None => self.config.period,
        }
    }

    /// Returns the number of packets that wait for the next bundle, and the latest time at which it
    /// leaves.
    pub fn waiting(&mut self) -> Option<(usize, u64)> {
        let due = self.bundle_due?;
        let session = self.sessions.current()?;
        Some((session.codecs.encoder.len(), due))
    }

    /// Returns the earliest time at which the next bundle leaves, unless it fills up before.
    pub fn earliest_bundle_at(&self) -> u64 {
        self.last_bundle_at + self.period() / EXPEDITED_DIVISOR
    }

    /// Returns the longest UDP payload that is known to reach the peer, in bytes.
    pub fn datagram_size(&self) -> usize {
        self.pmtu.size()
    }

    /// Returns the smoothed round-trip time of the tunnel in nanoseconds, once it is known.
    pub fn rtt(&self) -> Option<u64> {
        self.rtt.srtt()
    }

    /// Returns the age of the current session in nanoseconds.
    pub fn session_age(&mut self, now: u64) -> Option<u64> {
        let session = self.sessions.current();
        session.map(|session| session.timers.age(now))
    }

    /// Notes that the system refused a datagram of this length as too long.
    pub fn datagram_too_long(&mut self, len: usize) {
        self.pmtu.too_long(len);
    }

    /// Does everything that is due. Call it at the time that [`Tunnel::next_tick`] returned, and
    /// after packets were added.
    pub fn tick(&mut self, now: u64, actions: &mut Actions) {
        self.sessions.expire(now);
        if self.config.initiates && self.sessions.handshake_due(now) {
            self.initiate(now, actions);
        }
        self.watch_peer(now, actions);
        if self.bundle_due.is_some_and(|due| due <= now) {
            self.send_all(now, actions);
        }
        if self.feedback_due.is_some_and(|due| due <= now) {
            self.send_empty(false, now, actions);
        }
        if self.peer_up {
            if now >= self.last_sent_at + self.config.keepalive {
                self.send_empty(true, now, actions);
            }
            self.probe_path(now, actions);
        }
        self.pacer.release(now, &mut actions.packets);
    }

    /// Returns the latest time for the next call of [`Tunnel::tick`].
    pub fn next_tick(&self, now: u64) -> u64 {
        let idle = if self.peer_up {
            (self.last_sent_at + self.config.keepalive).min(self.pmtu.wake(now))
        } else {
            u64::MAX
        };
        let handshake = if self.config.initiates {
            self.sessions.handshake_at(now)
        } else {
            u64::MAX
        };
        let times = [
            self.watch_peer_at(),
            idle,
            self.pacer.next_release(),
            self.bundle_due.unwrap_or(u64::MAX),
            self.feedback_due.unwrap_or(u64::MAX),
            handshake,
        ];
        times.into_iter().fold(u64::MAX, u64::min)
    }

    /// Closes this end: waiting packets bypass the tunnel. The peer will notice.
    pub fn close(&mut self, actions: &mut Actions) {
        self.peer_down(actions);
        self.pacer.release_all(&mut actions.packets);
    }

    /// Hands a datagram to the caller.
    fn dispatch(&mut self, datagram: Vec<u8>, now: u64, actions: &mut Actions) {
        self.last_sent_at = now;
        self.counters.datagrams_out += 1;
        self.counters.bytes_out += datagram.len() as u64;
        actions.datagrams.push(datagram);
    }

    /// Seals and sends the bundle in `plain`. Returns its number.
    fn send(&mut self, wants_feedback: bool, now: u64, actions: &mut Actions) -> Option<u64> {
        let session = self.sessions.current()?;
        let number = session.next_number();
        // Sealing fails only for bundles that are too long, and none is.
        let datagram = session.seal(&self.plain).ok()?;
        if wants_feedback {
            self.rtt.sent(number, now, datagram.len());
            self.unanswered.get_or_insert(Unanswered::since(now));
        }
        self.dispatch(datagram, now, actions);
        Some(number)
    }
}
