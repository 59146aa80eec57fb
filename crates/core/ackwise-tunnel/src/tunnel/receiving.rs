//! Datagrams from the peer: their content, and what follows from it.

use super::{Actions, DatagramError, OtherPackets, Source, Tunnel};
use crate::classifier::is_pure_ack;
use crate::open_error::OpenError;
use crate::rtt::Fate;
use crate::session_table::Opened;
use crate::{Decoded, Feedback, Initiation, Packets, Pushed, bundle};

impl Tunnel {
    /// Takes a datagram from the peer, or from anyone. The result says where the datagrams in
    /// `actions` have to be sent.
    ///
    /// # Errors
    /// The datagram could not be opened, or its bundle could not be decoded. In this case it had no
    /// effect.
    pub fn datagram(
        &mut self,
        datagram: &[u8],
        now: u64,
        actions: &mut Actions,
    ) -> Result<Source, DatagramError> {
        let mut plain = std::mem::take(&mut self.opened);
        plain.clear();
        let opened = self.sessions.open(datagram, now, &mut plain);
        let opened = opened.inspect_err(|error| self.count_open_error(*error))?;
        match opened {
            Opened::Response(response) => {
                // The initiation may be a replay, so it says nothing about the peer.
                self.dispatch(response, now, actions);
                Ok(Source::Unverified)
            }
            // The next initiation will carry it.
            Opened::Cookie => Ok(Source::Unverified),
            Opened::Established => {
                self.heard_from_peer();
                self.follow_session(actions);
                self.send_empty(true, now, actions);
                Ok(Source::Peer)
            }
            Opened::Data { session, number } => {
                self.counters.datagrams_in += 1;
                self.counters.datagram_bytes_in += datagram.len() as u64;
                self.heard_from_peer();
                self.follow_session(actions);
                let taken = self.take_bundle(session, number, &plain, now, actions);
                self.opened = plain;
                taken?;
                Ok(Source::Peer)
            }
        }
    }

    /// Takes an initiation that a [`HandshakeGuard`](crate::HandshakeGuard) admitted. The
    /// response is in `actions`, for the source address of the initiation, which is not
    /// known to be the peer's: the initiation may be a replay.
    ///
    /// # Errors
    /// The initiation is not the peer's, is a replay, or there is no room for it. In this case it
    /// had no effect.
    pub fn initiation(
        &mut self,
        initiation: Initiation,
        now: u64,
        actions: &mut Actions,
    ) -> Result<(), OpenError> {
        let response = self.sessions.answer(initiation, now);
        let response = response.inspect_err(|error| self.count_open_error(*error))?;
        self.dispatch(response, now, actions);
        Ok(())
    }

    fn count_open_error(&mut self, error: OpenError) {
        let counters = &mut self.counters;
        *match error {
            OpenError::UnknownType | OpenError::UnknownSession => &mut counters.unknown_session,
            OpenError::NotAuthentic => &mut counters.auth_failures,
            OpenError::Replayed => &mut counters.replayed,
            OpenError::RateLimited => &mut counters.handshakes_limited,
        } += 1;
    }

    /// Moves the waiting packets to the current session, if that has changed.
    fn follow_session(&mut self, actions: &mut Actions) {
        let current = self.sessions.current().map(|session| session.index);
        if current == self.session {
            return;
        }
        let last = self.session.and_then(|last| self.sessions.get(last));
        let mut waiting = Packets::default();
        if let Some(last) = last {
            last.codecs.encoder.take_back(&mut waiting);
        }
        self.session = current;
        self.rtt.forget_sent();
        self.pmtu.forget_probe();
        for packet in waiting.iter() {
            let session = self.sessions.current();
            let pushed = session.map(|s| s.codecs.encoder.push(packet));
            if pushed.is_none_or(|pushed| pushed == Pushed::Refused) {
                actions.bypass.push(packet);
            }
        }
    }

    /// Decodes a bundle and acts on its feedback and packets.
    fn take_bundle(
        &mut self,
        index: u8,
        number: u64,
        plain: &[u8],
        now: u64,
        actions: &mut Actions,
    ) -> Result<(), DatagramError> {
        let Some(session) = self.sessions.get(index) else {
            return Ok(());
        };
        self.restored.clear();
        let restored = if self.config.respace {
            &mut self.restored
        } else {
            &mut actions.packets
        };
        let before = (restored.len(), restored.bytes());
        let decoded = session.codecs.decoder.decode(number, plain, restored);
        let mut decoded = decoded.inspect_err(|_| self.counters.undecodable += 1)?;
        if decoded.packets > 0 {
            self.sessions.enforce_memory_limit();
        }
        if self.config.other_packets == OtherPackets::Bypass {
            // A compromised peer must not be able to send anything else through this end.
            let refused = restored.retain_from(before.0, is_pure_ack);
            decoded.packets -= refused;
            self.counters.refused += refused as u64;
        }
        let restored_bytes = (restored.bytes() - before.1) as u64;
        if let Some(feedback) = decoded.feedback
            && let Some(session) = self.sessions.get(index)
        {
            session.codecs.encoder.acknowledge(&feedback);
            if Some(index) == self.session {
                self.take_feedback(&feedback, now);
            }
        }
        if decoded.wants_feedback {
            self.schedule_feedback(index, &decoded, now, actions);
        }
        self.counters.packets_out += decoded.packets as u64;
        self.counters.bundles_in += u64::from(decoded.packets > 0);
        self.counters.packet_bytes_out += restored_bytes;
        let (period, out) = (self.config.period, &mut actions.packets);
        self.pacer.add(&self.restored, period, now, out);
        Ok(())
    }

    fn take_feedback(&mut self, feedback: &Feedback, now: u64) {
        let pmtu = &mut self.pmtu;
        self.rtt.feedback(feedback, now, &mut |fate| match fate {
            Fate::Arrived(number, len) => pmtu.arrived(number, len),
            Fate::Lost(number, len) => pmtu.lost(number, len),
        });
    }

    /// Answers a request for feedback at once, and a bundle of packets with the next bundle of this
    /// end.
    fn schedule_feedback(&mut self, index: u8, decoded: &Decoded, now: u64, actions: &mut Actions) {
        if Some(index) != self.session {
            // The ends are about to change to another session.
            self.send_feedback_in(index, now, actions);
            return;
        }
        let wait = if decoded.packets == 0 {
            0
        } else {
            self.period() / 2
        };
        let due = now + wait;
        self.feedback_due = Some(self.feedback_due.map_or(due, |before| before.min(due)));
    }

    /// Sends feedback in a session that is not the current one.
    fn send_feedback_in(&mut self, index: u8, now: u64, actions: &mut Actions) {
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        let mut plain = Vec::new();
        bundle::write_empty(session.codecs.decoder.feedback(), false, &mut plain);
        if let Ok(datagram) = session.seal(&plain) {
            self.dispatch(datagram, now, actions);
        }
    }
}
