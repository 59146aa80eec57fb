//! All sessions with one peer: which is used, and what comes of a datagram.
//!
//! A session is replaced after two minutes or after so many bytes. The session before it
//! still receives for a few seconds. The memory is bounded: at most one handshake that this
//! end initiated, and at most [`MAX_SESSIONS`] sessions.

use crate::codec_pair::Codecs;
use crate::handshake::{Established, Handshake, mac1};
use crate::keys::{CryptoError, Security};
use crate::rate_limiter::RateLimiter;
use crate::session::{
    HANDSHAKE_INITIATION, HANDSHAKE_RESPONSE, INDEX_MASK, Session, TRANSPORT_DATA,
};
use crate::timers::{REKEY_TIMEOUT, Timers};
use crate::{HEADER, Variant};

/// The version in the payload of handshakes.
const VERSION: u8 = 1;
/// The current session, the last one, and those in which the peer has yet to prove that it
/// has the keys.
pub(crate) const MAX_SESSIONS: usize = 6;

/// Why a datagram was not opened. Nothing has changed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum OpenError {
    /// The datagram does not belong to this protocol.
    #[error("the datagram is too short, or of an unknown type")]
    UnknownType,
    /// The datagram belongs to no session of this end.
    #[error("the datagram belongs to no known session")]
    UnknownSession,
    /// The datagram was forged, damaged, or sealed with other keys.
    #[error("the datagram is not authentic")]
    NotAuthentic,
    /// The datagram was received before, or is too old to tell.
    #[error("the datagram was received before, or is too old")]
    Replayed,
    /// More handshakes arrived than are answered.
    #[error("too many handshakes")]
    RateLimited,
}

/// The content of a datagram.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// An initiation; this is the response to send back.
    Response(Vec<u8>),
    /// A response. The session is established; the peer learns it by the next datagram.
    Established,
    /// A bundle, which is in the buffer of the caller.
    Data { session: u8, number: u64 },
}

/// What all sessions with a peer have in common.
#[derive(Debug, Clone)]
pub(crate) struct SessionConfig {
    pub security: Security,
    pub variant: Variant,
    pub max_flows: u16,
}

/// A handshake that this end initiated.
#[derive(Debug)]
struct Initiated {
    index: u8,
    handshake: Handshake,
    at: u64,
}

/// The payload of a handshake message.
struct Payload {
    /// The sender's index of the session.
    index: u8,
    /// The flows whose state the sender keeps.
    max_flows: u16,
}

impl Payload {
    fn to_bytes(&self) -> [u8; 4] {
        let [high, low] = self.max_flows.to_be_bytes();
        [VERSION, self.index, high, low]
    }

    fn from_bytes(bytes: &[u8]) -> Option<Payload> {
        match *bytes {
            [VERSION, index @ ..=INDEX_MASK, high, low] => Some(Payload {
                index,
                max_flows: u16::from_be_bytes([high, low]),
            }),
            _ => None,
        }
    }
}

/// All sessions with one peer.
#[derive(Debug)]
pub(crate) struct SessionTable {
    config: SessionConfig,
    initiated: Option<Initiated>,
    sessions: Vec<Session>,
    /// The index of the session that datagrams are sent in.
    current: Option<u8>,
    last_index: u8,
    rate_limiter: RateLimiter,
}

impl SessionTable {
    pub fn new(config: SessionConfig) -> SessionTable {
        SessionTable {
            config,
            initiated: None,
            sessions: Vec::new(),
            current: None,
            last_index: 0,
            rate_limiter: RateLimiter::default(),
        }
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

    /// When the next handshake has to be initiated.
    pub fn handshake_at(&self, now: u64) -> u64 {
        let retry_at = self.retry_at();
        let current = self.sessions.iter().find(|s| Some(s.index) == self.current);
        current.map_or(retry_at.max(now), |session| {
            session.rekey_at().max(retry_at)
        })
    }

    /// Whether the last initiation has had its time for a response.
    pub fn may_initiate(&self, now: u64) -> bool {
        self.retry_at() <= now
    }

    fn retry_at(&self) -> u64 {
        let initiated = self.initiated.as_ref();
        initiated.map_or(0, |initiated| initiated.at + REKEY_TIMEOUT)
    }

    /// Initiates a handshake and returns the datagram to send.
    ///
    /// # Errors
    /// The system has no random numbers, or the peer's key is not valid.
    pub fn initiate(&mut self, now: u64) -> Result<Vec<u8>, CryptoError> {
        let index = self.new_index();
        let payload = self.payload(index).to_bytes();
        let (handshake, message) = Handshake::initiate(&self.config.security, &payload)?;
        self.initiated = Some(Initiated {
            index,
            handshake,
            at: now,
        });
        let mut datagram = vec![HANDSHAKE_INITIATION, 0, 0, 0];
        datagram.extend(message);
        let mac = mac1(&self.config.security, false, &datagram);
        datagram.extend(mac);
        Ok(datagram)
    }

    fn payload(&self, index: u8) -> Payload {
        Payload {
            index,
            max_flows: self.config.max_flows,
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

    /// Opens a datagram. A bundle in it is put into `plain`.
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
            .split_first_chunk::<HEADER>()
            .ok_or(OpenError::UnknownType)?;
        let index = header[0] & INDEX_MASK;
        match header[0] & !INDEX_MASK {
            HANDSHAKE_INITIATION => self.respond(datagram, now).map(Opened::Response),
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

    /// Opens a data message; `low` are the lower 24 bits of its number.
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
        let number = window.expand(low).ok_or(OpenError::Replayed)?;
        if !window.is_new(number) {
            return Err(OpenError::Replayed);
        }
        let opened = session.cipher.open(number, sealed, plain);
        opened.map_err(|_| OpenError::NotAuthentic)?;
        session.replay_window.mark_received(number);
        session.silent = false;
        let first = !std::mem::replace(&mut session.confirmed, true);
        // The peer sends in this session. It may not have the current one, if that is silent.
        if first || self.current().is_some_and(|current| current.silent) {
            self.use_from_now(index, now);
        }
        Ok(number)
    }

    /// Answers an initiation and returns the response.
    fn respond(&mut self, datagram: &[u8], now: u64) -> Result<Vec<u8>, OpenError> {
        let (message, mac) = datagram
            .split_last_chunk::<8>()
            .ok_or(OpenError::UnknownType)?;
        if *mac != mac1(&self.config.security, true, message) {
            return Err(OpenError::NotAuthentic);
        }
        if !self.rate_limiter.allow(now) {
            return Err(OpenError::RateLimited);
        }
        let initiation = message.get(HEADER..).ok_or(OpenError::UnknownType)?;
        let index = self.new_index();
        let payload = self.payload(index).to_bytes();
        let response = Handshake::respond(&self.config.security, initiation, &payload)
            .map_err(|_| OpenError::NotAuthentic)?;
        let peer_index = self.add(index, response.established, false, now)?;
        let mut datagram = vec![HANDSHAKE_RESPONSE | peer_index, 0, 0, 0];
        datagram.extend(response.message);
        Ok(datagram)
    }

    /// Completes the handshake that this end initiated.
    fn complete(&mut self, index: u8, response: &[u8], now: u64) -> Result<(), OpenError> {
        let initiated = self.initiated.as_mut().filter(|i| i.index == index);
        let handshake = &mut initiated.ok_or(OpenError::UnknownSession)?.handshake;
        let established = handshake.complete(response);
        let established = established.map_err(|_| OpenError::NotAuthentic)?;
        self.initiated = None;
        self.add(index, established, true, now)?;
        self.use_from_now(index, now);
        Ok(())
    }

    /// Adds a session and returns the peer's index of it.
    fn add(
        &mut self,
        index: u8,
        established: Established,
        initiator: bool,
        now: u64,
    ) -> Result<u8, OpenError> {
        let peer = Payload::from_bytes(&established.payload).ok_or(OpenError::UnknownType)?;
        let current = self.current;
        self.sessions
            .retain(|session| !session.timers.is_expired(now));
        if self.sessions.len() == MAX_SESSIONS {
            // Drop the oldest session that is not in use; most were never confirmed.
            let oldest = self.sessions.iter().position(|s| Some(s.index) != current);
            oldest.map(|at| self.sessions.remove(at));
        }
        let config = &self.config;
        self.sessions.push(Session::new(
            index,
            peer.index,
            established.cipher,
            established.tie_break,
            Timers::new(now, initiator),
            Codecs::new(config.variant, config.max_flows, peer.max_flows),
        ));
        Ok(peer.index)
    }

    /// Makes a session the current one, unless both ends initiated one at the same time:
    /// then both use the one with the lower tie-break. If the same end initiated both, it
    /// has forgotten the first, and the second is used.
    fn use_from_now(&mut self, index: u8, now: u64) {
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

    /// Notes that the peer does not answer in the current session, so that any other session
    /// is better.
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
    use crate::KeyPair;
    use crate::rate_limiter::MAX_RESPONSES_PER_SECOND;
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
        })
    }

    fn plain() -> SessionTable {
        SessionTable::new(SessionConfig {
            security: Security::Plain,
            variant: Variant::Entropy,
            max_flows: 8,
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
        for bit in 0..8 * initiation.len() {
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
        // The damaged copies did not spoil the handshake.
        let opened = initiator.open(&response, 0, &mut Vec::new());
        assert_eq!(opened, Ok(Opened::Established));
    }

    #[test]
    fn a_replayed_initiation_replaces_no_session() {
        let [mut a, mut b] = pair();
        let old = a.initiate(0).expect("random numbers");
        handshake(&mut a, &mut b, S);
        let text = send(&mut a, b"1");
        receive(&mut b, &text, S).expect("authentic");
        let before = b.current;
        for i in 0..40 {
            let opened = b.open(&old, (2 + i) * S, &mut Vec::new());
            assert!(matches!(opened, Ok(Opened::Response(_))));
        }
        assert_eq!(b.current, before);
        assert!(b.sessions.len() <= MAX_SESSIONS);
        let text = send(&mut a, b"2");
        receive(&mut b, &text, 50 * S).expect("the session is still there");
    }

    #[test]
    fn a_flood_of_handshakes_is_not_answered() {
        let [mut a, mut b] = pair();
        let initiation = a.initiate(0).expect("random numbers");
        let responses = (0..200)
            .filter(|_| b.open(&initiation, S, &mut Vec::new()).is_ok())
            .count();
        assert_eq!(responses, MAX_RESPONSES_PER_SECOND as usize);
        assert!(b.open(&initiation, 2 * S, &mut Vec::new()).is_ok());
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
        // At once or later, and whatever the tie-breaks are, which are random.
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
            // The tie-break may favour the lost session, until the peer falls silent in it.
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
