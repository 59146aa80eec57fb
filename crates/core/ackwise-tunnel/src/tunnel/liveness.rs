//! Whether the peer answers, and how long datagrams may be.

use super::{Actions, MS, Tunnel};
use crate::bundle;

/// Bounds on the time after which a peer that does not answer counts as down.
const MIN_PEER_TIMEOUT: u64 = 20 * MS;
const MAX_PEER_TIMEOUT: u64 = 1000 * MS;
/// The interval at which a peer that is down is probed.
const PROBE_INTERVAL: u64 = 250 * MS;

/// A datagram that the peer has to answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unanswered {
    since: u64,
    /// Whether the peer was probed since then.
    probed: bool,
}

impl Unanswered {
    pub fn since(now: u64) -> Unanswered {
        Unanswered {
            since: now,
            probed: false,
        }
    }
}

impl Tunnel {
    /// Notes that the peer has answered.
    pub(super) fn heard_from_peer(&mut self) {
        self.peer_up = true;
        self.unanswered = None;
    }

    /// Initiates a handshake.
    pub(super) fn initiate(&mut self, now: u64, actions: &mut Actions) {
        // Without random numbers there is no session, and packets bypass the tunnel.
        if let Ok(initiation) = self.sessions.initiate(now) {
            self.dispatch(initiation, now, actions);
        }
    }

    /// The time that the peer may take to answer.
    fn peer_timeout(&self) -> u64 {
        let answer = self.rtt.rto().unwrap_or(MAX_PEER_TIMEOUT);
        let bundling = 2 * self.config.period;
        (2 * answer + bundling).clamp(MIN_PEER_TIMEOUT, MAX_PEER_TIMEOUT)
    }

    /// Probes a peer that is late to answer, and declares it down if it does not answer.
    pub(super) fn watch_peer(&mut self, now: u64, actions: &mut Actions) {
        let peer_timeout = self.peer_timeout();
        if self.sessions.current().is_none() {
            self.peer_down(actions);
        } else if !self.peer_up {
            if now >= self.probe_peer_at {
                self.probe_peer_at = now + PROBE_INTERVAL;
                self.send_empty(true, now, actions);
                if self.config.initiates && self.sessions.may_initiate(now) {
                    // A peer that was restarted does not have the session.
                    self.initiate(now, actions);
                }
            }
        } else if let Some(Unanswered { since, probed }) = self.unanswered {
            if now >= since + peer_timeout {
                self.peer_down(actions);
                self.probe_peer_at = now;
            } else if !probed && now >= since + peer_timeout / 2 {
                self.unanswered = Some(Unanswered {
                    since,
                    probed: true,
                });
                self.send_empty(true, now, actions);
            }
        }
    }

    /// The time at which [`Tunnel::watch_peer`] has something to do.
    pub(super) fn watch_peer_at(&self) -> u64 {
        if self.session.is_none() {
            return u64::MAX;
        }
        match self.unanswered {
            _ if !self.peer_up => self.probe_peer_at,
            Some(Unanswered {
                since,
                probed: false,
            }) => since + self.peer_timeout() / 2,
            Some(Unanswered { since, .. }) => since + self.peer_timeout(),
            None => u64::MAX,
        }
    }

    /// Handles a peer that does not answer: waiting packets bypass the tunnel, and so do those that
    /// arrive.
    pub(super) fn peer_down(&mut self, actions: &mut Actions) {
        if !std::mem::take(&mut self.peer_up) {
            return;
        }
        self.counters.peer_timeouts += 1;
        self.sessions.mark_silent();
        self.unanswered = None;
        self.bundle_due = None;
        self.next_after_idle = false;
        if let Some(session) = self.session.and_then(|index| self.sessions.get(index)) {
            let before = (actions.bypass.len(), actions.bypass.bytes());
            session.codecs.encoder.take_back(&mut actions.bypass);
            let back = (actions.bypass.len() - before.0) as u64;
            self.counters.bypassed += back;
            self.counters.packets_in -= back;
            self.counters.bytes_in -= (actions.bypass.bytes() - before.1) as u64;
        }
    }

    /// Sends a probe of the path's MTU, if one is due.
    pub(super) fn probe_path(&mut self, now: u64, actions: &mut Actions) {
        let Some(size) = self.pmtu.due(now) else {
            return;
        };
        let Some(session) = self.sessions.current() else {
            return;
        };
        self.plain.clear();
        bundle::write_empty(session.codecs.decoder.feedback(), true, &mut self.plain);
        self.plain.resize(size - self.config.security.overhead(), 0);
        let peer_timeout = self.peer_timeout();
        let unanswered = self.unanswered;
        if let Some(number) = self.send(true, now, actions) {
            self.pmtu.sent(size, number, now, peer_timeout);
        }
        // A probe lost because of its size says nothing about the peer.
        self.unanswered = unanswered;
    }
}
