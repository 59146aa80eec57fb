//! All sessions with one peer: which one is used, and how datagrams are handled.
//!
//! A session is replaced after two minutes or after a number of bytes. The session before it still
//! receives for a few seconds. The memory is bounded: at most one handshake that this end
//! initiated, and at most [`MAX_SESSIONS`] sessions.

use crate::codec_pair::Codecs;
use crate::handshake::{Established, Handshake};
use crate::initiation::{Initiation, Payload};
use crate::keys::{CryptoError, KeyPair, Security};
use crate::mac::{self, Cookie, MAC_LEN, Parts, open_cookie, responder_key};
use crate::open_error::OpenError;
use crate::session::{
    COOKIE_REPLY, HANDSHAKE_INITIATION, HANDSHAKE_RESPONSE, INDEX_MASK, Session, TRANSPORT_DATA,
};
use crate::timers::{
    COOKIE_LIFETIME, FIRST_REKEY_TIMEOUT, REKEY_TIMEOUT, Timers, UNCONFIRMED_GRACE,
};
use crate::{HEADER_LEN, Variant};

/// The current session, the last one, and those in which the peer has yet to prove that it
/// has the keys.
pub(crate) const MAX_SESSIONS: usize = 6;

/// The content of a datagram.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// An initiation; this is the response to send back.
    Response(Vec<u8>),
    /// A response. The session is established; the next datagram tells the peer.
    Established,
    /// A cookie, which the next initiation will carry.
    Cookie,
    /// A bundle, which is in the caller's buffer.
    Data { session: u8, number: u64 },
}

/// What all sessions with a peer share.
#[derive(Debug, Clone)]
pub(crate) struct SessionConfig {
    pub security: Security,
    pub variant: Variant,
    pub max_flows: u16,
    /// The maximum size of all codecs together in bytes.
    pub max_memory: usize,
}

/// A handshake that this end initiated.
#[derive(Debug)]
struct Initiated {
    index: u8,
    handshake: Handshake,
    mac1: [u8; MAC_LEN],
    at: u64,
}

/// All sessions with one peer.
#[derive(Debug)]
pub(crate) struct SessionTable {
    config: SessionConfig,
    /// The keys of this end, if there is encryption.
    keys: Option<KeyPair>,
    initiated: Option<Initiated>,
    /// How often this end has initiated a handshake since a session was established.
    attempts: u32,
    /// The cookie of the responder, and its time of arrival.
    cookie: Option<(Cookie, u64)>,
    /// The time in nanoseconds since 1970 at which the clock of this end is 0.
    unix_offset: u64,
    /// The timestamp of the last initiation that this end made.
    last_timestamp: u64,
    /// The timestamp of the last initiation that was answered. With encryption, only newer ones are
    /// accepted.
    peer_timestamp: Option<u64>,
    sessions: Vec<Session>,
    /// The index of the session that datagrams are sent in.
    current: Option<u8>,
    last_index: u8,
}

impl SessionTable {
    pub fn new(config: SessionConfig) -> SessionTable {
        SessionTable {
            keys: config.security.keys(),
            config,
            initiated: None,
            attempts: 0,
            cookie: None,
            unix_offset: 0,
            last_timestamp: 0,
            peer_timestamp: None,
            sessions: Vec::new(),
            current: None,
            last_index: 0,
        }
    }

    /// Sets the time in nanoseconds since 1970 at which the clock of this end is 0.
    pub fn set_unix_offset(&mut self, offset: u64) {
        self.unix_offset = offset;
    }

    /// The session that datagrams are sent in.
    pub fn current(&mut self) -> Option<&mut Session> {
        let index = self.current?;
        self.get(index)
    }

    /// The session with an index.
    pub fn get(&mut self, index: u8) -> Option<&mut Session> {
        self.sessions
            .iter_mut()
            .find(|session| session.index == index)
    }

    /// Whether a handshake has to be initiated now.
    pub fn handshake_due(&self, now: u64) -> bool {
        self.handshake_at(now) <= now
    }

    /// The time at which the next handshake has to be initiated.
    pub fn handshake_at(&self, now: u64) -> u64 {
        let retry_at = self.retry_at();
        let current = self.sessions.iter().find(|s| Some(s.index) == self.current);
        current.map_or(retry_at.max(now), |session| {
            session.rekey_at().max(retry_at)
        })
    }

    /// Whether the last initiation has had enough time for a response.
    pub fn may_initiate(&self, now: u64) -> bool {
        self.retry_at() <= now
    }

    fn retry_at(&self) -> u64 {
        let doubled = FIRST_REKEY_TIMEOUT << self.attempts.saturating_sub(1).min(8);
        let initiated = self.initiated.as_ref();
        initiated.map_or(0, |initiated| initiated.at + doubled.min(REKEY_TIMEOUT))
    }

    /// Initiates a handshake and returns the datagram to send.
    ///
    /// # Errors
    /// The system has no random numbers, or the peer's key is not valid.
    pub fn initiate(&mut self, now: u64) -> Result<Vec<u8>, CryptoError> {
        let index = self.new_index();
        // After a clock was set back, the peer must not take this initiation for a replay.
        self.last_timestamp = (self.last_timestamp + 1).max(now.saturating_add(self.unix_offset));
        let payload = self.payload(index, self.last_timestamp).to_bytes();
        let (handshake, message) = Handshake::initiate(&self.config.security, &payload)?;
        let mut datagram = vec![HANDSHAKE_INITIATION, 0, 0, 0];
        datagram.extend(message);
        let cookie = self.cookie.filter(|(_, at)| now < at + COOKIE_LIFETIME);
        let responder = responder_key(&self.config.security, false);
        let cookie = cookie.as_ref().map(|(cookie, _)| cookie);
        let mac1 = mac::append(&responder, cookie, &mut datagram);
        self.attempts = self.attempts.saturating_add(1);
        self.initiated = Some(Initiated {
            index,
            handshake,
            mac1,
            at: now,
        });
        Ok(datagram)
    }

    fn payload(&self, index: u8, timestamp: u64) -> Payload {
        Payload {
            index,
            max_flows: self.config.max_flows,
            timestamp,
        }
    }

    /// An index that no session has.
    fn new_index(&mut self) -> u8 {
        loop {
            self.last_index = (self.last_index + 1) & INDEX_MASK;
            let index = self.last_index;
            let initiated = self.initiated.as_ref().is_some_and(|i| i.index == index);
            if !initiated && self.sessions.iter().all(|s| s.index != index) {
                return index;
            }
        }
    }

    /// Opens a datagram. A bundle in it is appended to `plain`.
    ///
    /// # Errors
    /// The datagram cannot be opened; then nothing has changed.
    pub fn open(
        &mut self,
        datagram: &[u8],
        now: u64,
        plain: &mut Vec<u8>,
    ) -> Result<Opened, OpenError> {
        let (header, rest) = datagram
            .split_first_chunk::<HEADER_LEN>()
            .ok_or(OpenError::UnknownType)?;
        let index = header[0] & INDEX_MASK;
        match header[0] & !INDEX_MASK {
            HANDSHAKE_INITIATION => self.respond(datagram, now).map(Opened::Response),
            COOKIE_REPLY if index == 0 => {
                self.take_cookie(rest, now)?;
                Ok(Opened::Cookie)
            }
            HANDSHAKE_RESPONSE => {
                self.complete(index, rest, now)?;
                Ok(Opened::Established)
            }
            TRANSPORT_DATA => {
                let low = u32::from_be_bytes([0, header[1], header[2], header[3]]);
                let number = self.open_data(index, low, rest, now, plain)?;
                Ok(Opened::Data {
                    session: index,
                    number,
                })
            }
            _ => Err(OpenError::UnknownType),
        }
    }

    /// Opens a data message; `low` holds the lower 24 bits of its number.
    fn open_data(
        &mut self,
        index: u8,
        low: u32,
        sealed: &[u8],
        now: u64,
        plain: &mut Vec<u8>,
    ) -> Result<u64, OpenError> {
        let session = self.get(index).ok_or(OpenError::UnknownSession)?;
        if session.timers.is_expired(now) {
            return Err(OpenError::UnknownSession);
        }
        let window = &session.replay_window;
        // No datagram has a negative number.
        let number = window.expand(low).ok_or(OpenError::NotAuthentic)?;
        // Authenticate first: this may be a datagram of another peer, whose session has the same
        // index.
        let start = plain.len();
        let opened = session.cipher.open(number, sealed, plain);
        opened.map_err(|_| OpenError::NotAuthentic)?;
        if !window.is_new(number) {
            plain.truncate(start);
            return Err(OpenError::Replayed);
        }
        session.replay_window.mark_received(number);
        session.silent = false;
        let first = !std::mem::replace(&mut session.confirmed, true);
        // The peer sends in this session. It may not have the current one if that is silent.
        if first || self.current().is_some_and(|current| current.silent) {
            self.make_current(index, now);
        }
        Ok(number)
    }

    /// Reads and answers an initiation, and returns the response.
    fn respond(&mut self, datagram: &[u8], now: u64) -> Result<Vec<u8>, OpenError> {
        let parts = Parts::of(datagram).ok_or(OpenError::UnknownType)?;
        if !parts.has_valid_mac1(&responder_key(&self.config.security, true)) {
            return Err(OpenError::NotAuthentic);
        }
        let initiation = Initiation::read(self.keys.as_ref(), datagram)?;
        self.answer(initiation, now)
    }

    /// Answers an initiation and returns the response.
    ///
    /// # Errors
    /// It is not the peer's, is a replay, or finds no room; then nothing has changed.
    pub fn answer(&mut self, initiation: Initiation, now: u64) -> Result<Vec<u8>, OpenError> {
        let theirs = initiation.payload;
        if let Security::Noise { peer, .. } = &self.config.security {
            if initiation.peer() != Some(peer.as_slice()) {
                return Err(OpenError::NotAuthentic);
            }
            if self
                .peer_timestamp
                .is_some_and(|last| theirs.timestamp <= last)
            {
                return Err(OpenError::Replayed);
            }
        }
        if !self.make_room(false, now) {
            return Err(OpenError::RateLimited);
        }
        let index = self.new_index();
        let response = initiation.respond(self.payload(index, 0));
        let response = response.map_err(|_| OpenError::NotAuthentic)?;
        self.peer_timestamp = Some(theirs.timestamp);
        self.add(index, theirs, response.established, false, now);
        let mut datagram = vec![HANDSHAKE_RESPONSE | theirs.index, 0, 0, 0];
        datagram.extend(response.message);
        Ok(datagram)
    }

    fn take_cookie(&mut self, reply: &[u8], now: u64) -> Result<(), OpenError> {
        let initiated = self.initiated.as_ref().ok_or(OpenError::UnknownSession)?;
        let responder = responder_key(&self.config.security, false);
        let cookie = open_cookie(&responder, &initiated.mac1, reply);
        self.cookie = Some((cookie.map_err(|_| OpenError::NotAuthentic)?, now));
        Ok(())
    }

    /// Completes the handshake that this end initiated.
    fn complete(&mut self, index: u8, response: &[u8], now: u64) -> Result<(), OpenError> {
        let initiated = self.initiated.as_mut().filter(|i| i.index == index);
        let handshake = &mut initiated.ok_or(OpenError::UnknownSession)?.handshake;
        let established = handshake.complete(response);
        let established = established.map_err(|_| OpenError::NotAuthentic)?;
        let theirs = Payload::from_bytes(&established.payload).ok_or(OpenError::UnknownType)?;
        self.initiated = None;
        self.attempts = 0;
        self.make_room(true, now);
        self.add(index, theirs, established, true, now);
        self.make_current(index, now);
        Ok(())
    }

    /// Makes room for one more session, and returns whether there is any. A session that the peer
    /// has not confirmed yet keeps its place for some seconds, unless this end initiated the new
    /// one.
    fn make_room(&mut self, initiator: bool, now: u64) -> bool {
        let current = self.current;
        self.sessions
            .retain(|session| !session.timers.is_expired(now));
        if self.sessions.len() < MAX_SESSIONS {
            return true;
        }
        let oldest = self.sessions.iter().position(|session| {
            let young = !session.confirmed && session.timers.age(now) < UNCONFIRMED_GRACE;
            Some(session.index) != current && (initiator || !young)
        });
        oldest.map(|at| self.sessions.remove(at)).is_some()
    }

    /// Adds a session.
    fn add(
        &mut self,
        index: u8,
        theirs: Payload,
        established: Established,
        initiator: bool,
        now: u64,
    ) {
        let config = &self.config;
        self.sessions.push(Session::new(
            index,
            theirs.index,
            established.cipher,
            established.tie_break,
            Timers::new(now, initiator),
            Codecs::new(config.variant, config.max_flows, theirs.max_flows),
        ));
    }

    /// Makes a session the current one, unless both ends initiated one at the same time: then both
    /// use the one with the lower tie-break. If the same end initiated both, it has forgotten the
    /// first, and the second is used.
    fn make_current(&mut self, index: u8, now: u64) {
        let Some(session) = self.get(index) else {
            return;
        };
        session.timers.keep();
        let (tie_break, initiator) = (session.tie_break, session.timers.is_initiator());
        let loses = self.current().is_some_and(|current| {
            let simultaneous =
                current.timers.is_simultaneous(now) && current.timers.is_initiator() != initiator;
            !current.silent && simultaneous && current.tie_break < tie_break
        });
        let replaced = if loses {
            Some(index)
        } else {
            self.current.replace(index)
        };
        if let Some(replaced) = replaced.and_then(|replaced| self.get(replaced)) {
            replaced.timers.replace(now);
        }
    }

    /// Returns the bytes that the codecs of all sessions take.
    pub fn memory(&self) -> usize {
        let all = self.sessions.iter();
        all.map(|session| session.codecs.memory()).sum()
    }

    /// Frees memory if the codecs take too much. The current session loses least.
    pub fn enforce_memory_limit(&mut self) {
        if self.memory() <= self.config.max_memory {
            return;
        }
        // Searching for what to forget takes time, so free enough for a while.
        let goal = self.config.max_memory / 8 * 7;
        let current = self.current;
        // Sessions are in the order in which they were made.
        let mut order: Vec<usize> = (0..self.sessions.len()).collect();
        order.sort_by_key(|at| Some(self.sessions[*at].index) == current);
        let steps: [fn(&mut Session, usize, bool); 4] = [
            |session, _, _| session.codecs.decoder.forget_old_versions(),
            |session, over, _| session.codecs.encoder.forget_flows(over),
            |session, over, _| session.codecs.decoder.forget_flows(over),
            |session, _, is_current| {
                if !is_current {
                    session.codecs.forget_all();
                }
            },
        ];
        for step in steps {
            for &at in &order {
                let over = self.memory().saturating_sub(goal);
                if over == 0 {
                    return;
                }
                let session = &mut self.sessions[at];
                let is_current = Some(session.index) == current;
                step(session, over, is_current);
            }
        }
    }

    /// Notes that the peer does not answer in the current session, so that any other session is
    /// better.
    pub fn mark_silent(&mut self) {
        if let Some(current) = self.current() {
            current.silent = true;
        }
    }

    /// Removes the sessions that have expired.
    pub fn expire(&mut self, now: u64) {
        self.sessions
            .retain(|session| !session.timers.is_expired(now));
        if self.current().is_none() {
            self.current = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timers::SECOND;

    const S: u64 = SECOND;

    fn keys() -> [KeyPair; 2] {
        [(); 2].map(|()| KeyPair::generate().expect("random numbers"))
    }

    fn sessions(mine: &KeyPair, peer: &KeyPair) -> SessionTable {
        SessionTable::new(SessionConfig {
            security: Security::Noise {
                secret: mine.secret,
                public: mine.public,
                peer: peer.public,
            },
            variant: Variant::Entropy,
            max_flows: 8,
            max_memory: usize::MAX,
        })
    }

    fn plain() -> SessionTable {
        SessionTable::new(SessionConfig {
            security: Security::Plain,
            variant: Variant::Entropy,
            max_flows: 8,
            max_memory: usize::MAX,
        })
    }

    fn pair() -> [SessionTable; 2] {
        let [a, b] = keys();
        [sessions(&a, &b), sessions(&b, &a)]
    }

    fn handshake(a: &mut SessionTable, b: &mut SessionTable, now: u64) {
        let initiation = a.initiate(now).expect("random numbers");
        let Opened::Response(response) = b
            .open(&initiation, now, &mut Vec::new())
            .expect("a response")
        else {
            panic!("no response");
        };
        assert_eq!(
            a.open(&response, now, &mut Vec::new()),
            Ok(Opened::Established)
        );
    }

    fn send(from: &mut SessionTable, text: &[u8]) -> Vec<u8> {
        from.current()
            .expect("a session")
            .seal(text)
            .expect("short")
    }

    fn receive(to: &mut SessionTable, datagram: &[u8], now: u64) -> Result<Vec<u8>, OpenError> {
        let mut text = Vec::new();
        match to.open(datagram, now, &mut text)? {
            Opened::Data { .. } => Ok(text),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_sides_talk_with_keys_and_without() {
        for [mut a, mut b] in [pair(), [plain(), plain()]] {
            handshake(&mut a, &mut b, 0);
            // The responder uses the session once the initiator has sent a datagram in it.
            assert!(b.current().is_none());
            let there = send(&mut a, b"there");
            assert_eq!(receive(&mut b, &there, 0).as_deref(), Ok(&b"there"[..]));
            let back = send(&mut b, b"back");
            assert_eq!(receive(&mut a, &back, 0).as_deref(), Ok(&b"back"[..]));
            assert_eq!(receive(&mut b, &there, 0), Err(OpenError::Replayed));
            assert_eq!(receive(&mut a, &back, 0), Err(OpenError::Replayed));
        }
    }

    #[test]
    fn a_damaged_datagram_is_not_opened() {
        for [mut a, mut b] in [pair(), [plain(), plain()]] {
            handshake(&mut a, &mut b, 0);
            let good = send(&mut a, b"some bytes");
            for bit in 0..8 * good.len() {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                let mut text = Vec::new();
                assert!(b.open(&bad, 0, &mut text).is_err(), "bit {bit}");
                assert!(text.is_empty());
            }
            for len in 0..good.len() {
                assert!(b.open(&good[..len], 0, &mut Vec::new()).is_err());
            }
            // An end does not accept its own datagrams.
            assert!(a.open(&good, 0, &mut Vec::new()).is_err());
            assert_eq!(receive(&mut b, &good, 0).as_deref(), Ok(&b"some bytes"[..]));
        }
    }

    #[test]
    fn handshakes_are_neither_forged_nor_taken_from_unknown_keys() {
        let [a, b] = keys();
        let [unknown, _] = keys();
        let mut responder = sessions(&b, &a);
        let initiation = sessions(&unknown, &b).initiate(0).expect("random numbers");
        assert_eq!(
            responder.open(&initiation, 0, &mut Vec::new()),
            Err(OpenError::NotAuthentic)
        );
        let mut initiator = sessions(&a, &b);
        let initiation = initiator.initiate(0).expect("random numbers");
        // mac2 at the end is not checked: without a cookie it is left zero.
        for bit in 0..8 * (initiation.len() - MAC_LEN) {
            let mut bad = initiation.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(
                responder.open(&bad, 0, &mut Vec::new()).is_err(),
                "bit {bit}"
            );
        }
        assert!(responder.sessions.is_empty());
        let Ok(Opened::Response(response)) = responder.open(&initiation, 0, &mut Vec::new()) else {
            panic!("no response");
        };
        for bit in (8..8 * response.len()).filter(|bit| *bit >= 32) {
            let mut bad = response.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(
                initiator.open(&bad, 0, &mut Vec::new()).is_err(),
                "bit {bit}"
            );
        }
        // The damaged copies did not disturb the handshake.
        let opened = initiator.open(&response, 0, &mut Vec::new());
        assert_eq!(opened, Ok(Opened::Established));
    }

    /// Two peers of one end have sessions with the same index: a datagram of one is not taken for a
    /// replay by the other's session, however much that has received.
    #[test]
    fn h1_a_datagram_of_another_peer_is_no_replay() {
        let [far, near] = keys();
        let [other, _] = keys();
        let [mut to_near, mut to_other] = [sessions(&far, &near), sessions(&far, &other)];
        let [mut near, mut other] = [sessions(&near, &far), sessions(&other, &far)];
        handshake(&mut near, &mut to_near, 0);
        handshake(&mut other, &mut to_other, 0);
        for _ in 0..100 {
            let text = send(&mut near, b"near");
            receive(&mut to_near, &text, 0).expect("authentic");
        }
        let indices = [&mut to_near, &mut to_other].map(|table| table.sessions[0].index);
        assert_eq!(indices[0], indices[1]);
        for _ in 0..100 {
            let text = send(&mut other, b"other");
            assert_eq!(
                receive(&mut to_near, &text, 0),
                Err(OpenError::NotAuthentic)
            );
            receive(&mut to_other, &text, 0).expect("authentic");
            assert_eq!(receive(&mut to_other, &text, 0), Err(OpenError::Replayed));
        }
    }

    #[test]
    fn m2_a_replayed_initiation_is_refused() {
        let [mut a, mut b] = pair();
        let old = a.initiate(0).expect("random numbers");
        let lost = b.open(&old, 0, &mut Vec::new());
        assert!(matches!(lost, Ok(Opened::Response(_))));
        handshake(&mut a, &mut b, S);
        let text = send(&mut a, b"1");
        receive(&mut b, &text, S).expect("authentic");
        let before = b.sessions.len();
        for i in 0..40 {
            let opened = b.open(&old, (2 + i) * S, &mut Vec::new());
            assert_eq!(opened, Err(OpenError::Replayed));
        }
        assert_eq!(b.sessions.len(), before);
        let text = send(&mut a, b"2");
        receive(&mut b, &text, 50 * S).expect("the session is still there");
    }

    /// A peer that has lost its memory, but whose clock has advanced, is answered.
    #[test]
    fn m2_a_restarted_peer_is_answered_if_its_clock_has_gone_on() {
        let [ka, kb] = keys();
        let [mut a, mut b] = [sessions(&ka, &kb), sessions(&kb, &ka)];
        a.set_unix_offset(1000 * S);
        handshake(&mut a, &mut b, 500 * S);
        // Its monotonic clock restarts.
        let mut again = sessions(&ka, &kb);
        again.set_unix_offset(1501 * S);
        let initiation = again.initiate(0).expect("random numbers");
        let opened = b.open(&initiation, 501 * S, &mut Vec::new());
        assert!(matches!(opened, Ok(Opened::Response(_))), "{opened:?}");
        // A clock that is set back while running makes no timestamp twice.
        again.set_unix_offset(0);
        let initiation = again.initiate(S).expect("random numbers");
        let opened = b.open(&initiation, 502 * S, &mut Vec::new());
        assert!(matches!(opened, Ok(Opened::Response(_))), "{opened:?}");
    }

    /// Newer sessions do not displace those that wait for the peer's first datagram.
    #[test]
    fn m2_a_young_session_keeps_its_place() {
        let [mut a, mut b] = pair();
        let initiations: Vec<Vec<u8>> = (0..=MAX_SESSIONS)
            .map(|_| a.initiate(0).expect("random numbers"))
            .collect();
        let (last, rest) = initiations.split_last().expect("some");
        for initiation in rest {
            b.open(initiation, 0, &mut Vec::new()).expect("room");
        }
        let refused = b.open(last, 4 * S, &mut Vec::new());
        assert_eq!(refused, Err(OpenError::RateLimited));
        // It was refused, not processed: the same message later is not a replay.
        b.open(last, 5 * S, &mut Vec::new()).expect("room");
        assert_eq!(b.sessions.len(), MAX_SESSIONS);
    }

    /// The peer's response takes longer than the first timeout; a later timeout is long enough.
    #[test]
    fn a_handshake_completes_over_a_long_round_trip() {
        for round_trip in [11 * S / 10, 3 * S, 4 * S] {
            let [mut a, mut b] = pair();
            let mut on_the_way: Vec<(u64, Vec<u8>)> = Vec::new();
            let ends = 30 * S;
            let mut now = 0;
            while a.current().is_none() && now < ends {
                if a.handshake_due(now) {
                    let initiation = a.initiate(now).expect("random numbers");
                    let answered = b.open(&initiation, now + round_trip / 2, &mut Vec::new());
                    if let Ok(Opened::Response(response)) = answered {
                        on_the_way.push((now + round_trip, response));
                    }
                }
                for (_, response) in on_the_way.extract_if(.., |(at, _)| *at <= now) {
                    let _ = a.open(&response, now, &mut Vec::new());
                }
                now += S / 20;
            }
            assert!(a.current().is_some(), "none over {round_trip} ns");
        }
    }

    /// A peer that stays silent is asked every five seconds.
    #[test]
    fn initiations_become_rarer() {
        let mut a = plain();
        let times = (0..40 * S).step_by(S as usize / 10);
        let at: Vec<u64> = times
            .filter(|now| a.handshake_due(*now) && a.initiate(*now).is_ok())
            .map(|now| now / S)
            .collect();
        assert_eq!(at, [0, 1, 3, 7, 12, 17, 22, 27, 32, 37]);
    }

    #[test]
    fn sessions_are_replaced_and_expire() {
        let [mut a, mut b] = pair();
        assert!(a.handshake_due(0));
        handshake(&mut a, &mut b, 0);
        let text = send(&mut a, b"1");
        receive(&mut b, &text, 0).expect("authentic");
        assert!(!a.handshake_due(119 * S) && a.handshake_due(120 * S));
        assert!(!b.handshake_due(149 * S) && b.handshake_due(150 * S));
        let in_flight = send(&mut a, b"2");
        let too_late = send(&mut a, b"3");
        handshake(&mut a, &mut b, 120 * S);
        assert!(!a.handshake_due(239 * S));
        let text = send(&mut a, b"4");
        receive(&mut b, &text, 120 * S).expect("authentic");
        receive(&mut b, &in_flight, 129 * S).expect("within the grace");
        assert_eq!(
            receive(&mut b, &too_late, 130 * S),
            Err(OpenError::UnknownSession)
        );
        a.expire(481 * S);
        assert!(a.current().is_none() && a.handshake_due(481 * S));
    }

    #[test]
    fn a_restarted_peer_is_heard() {
        // At once or later, and whatever the random tie-breaks are.
        for now in [S / 2; 16].into_iter().chain([3 * S]) {
            let [ka, kb] = keys();
            let [mut a, mut b] = [sessions(&ka, &kb), sessions(&kb, &ka)];
            handshake(&mut a, &mut b, 0);
            let text = send(&mut a, b"1");
            receive(&mut b, &text, 0).expect("authentic");
            // The peer restarts without its old session.
            let mut a = sessions(&ka, &kb);
            handshake(&mut a, &mut b, now);
            let text = send(&mut a, b"2");
            assert_eq!(receive(&mut b, &text, now).as_deref(), Ok(&b"2"[..]));
            let text = send(&mut b, b"3");
            assert_eq!(receive(&mut a, &text, now).as_deref(), Ok(&b"3"[..]));
        }
    }

    #[test]
    fn a_responder_that_lost_its_session_is_followed() {
        for _ in 0..16 {
            let [ka, kb] = keys();
            let [mut a, mut b] = [sessions(&ka, &kb), sessions(&kb, &ka)];
            handshake(&mut b, &mut a, 0);
            let text = send(&mut b, b"1");
            receive(&mut a, &text, 0).expect("authentic");
            // To the peer it looks as if both ends had initiated at the same time.
            let mut a = sessions(&ka, &kb);
            handshake(&mut a, &mut b, S / 2);
            let text = send(&mut a, b"2");
            receive(&mut b, &text, S / 2).expect("authentic");
            // The tie-break may favour the lost session, until the peer is found silent in it.
            b.mark_silent();
            let text = send(&mut a, b"3");
            receive(&mut b, &text, S).expect("authentic");
            let text = send(&mut b, b"4");
            assert_eq!(receive(&mut a, &text, S).as_deref(), Ok(&b"4"[..]));
            b.expire(20 * S);
            assert!(b.current().is_some());
        }
    }
}
