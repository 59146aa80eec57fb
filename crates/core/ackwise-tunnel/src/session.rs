//! Sessions with one peer: handshakes, numbers, what may be opened.
//!
//! A session has keys, numbers and codecs of its own, so nothing of one can be taken for
//! something of another. It is replaced after a while (two minutes, or so many bytes); the
//! one before is still opened for a few seconds. State is bounded: one handshake of our
//! own, [`MAX_SESSIONS`] sessions.

use crate::codec_pair::Codecs;
use crate::seal::{Agreed, Handshake, SealError, Sealer, Security, mark};
use crate::window::Window;
use crate::{HEADER, Variant};

/// Kinds of datagrams: the upper two bits of the first byte. Below is the receiver's number
/// of the session.
const FIRST: u8 = 1 << 6;
const ANSWER: u8 = 2 << 6;
const DATA: u8 = 3 << 6;
const SESSION: u8 = 0x3f;
/// The version that handshakes state.
const VERSION: u8 = 1;
/// Current, last, and those of which the other side has yet to prove that it has the keys.
const MAX_SESSIONS: usize = 6;

const SECOND: u64 = 1_000_000_000;
/// When a session is replaced by the side that began it; the other waits a little longer.
const REKEY_AFTER: u64 = 120 * SECOND;
const REKEY_AFTER_OTHER: u64 = 150 * SECOND;
/// When it is not used any more.
const EXPIRES_AFTER: u64 = 360 * SECOND;
/// How long the last one is opened after it was replaced.
const GRACE: u64 = 10 * SECOND;
/// Sessions that begin within this time began at the same time.
const CROSSING: u64 = 2 * SECOND;
/// Bytes after which a session is replaced.
const REKEY_BYTES: u64 = 1 << 36;
/// How long to wait for an answer to a handshake.
const RETRY: u64 = SECOND;
/// First messages that are answered in a second: each costs a fraction of a millisecond.
const ANSWERS_PER_SECOND: u32 = 50;

/// Why a datagram was not opened. None of it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum OpenError {
    /// Not of this protocol.
    #[error("it is too short, or of no known kind")]
    Kind,
    /// Of no session at hand.
    #[error("it belongs to no session")]
    Session,
    /// Forged, damaged, or sealed with other keys.
    #[error("it is not authentic")]
    Authentic,
    /// It came before, or is too old to tell.
    #[error("its number has come before, or is too old")]
    Replayed,
    /// There were more handshakes than are answered.
    #[error("too many handshakes")]
    Flood,
}

/// What came in a datagram.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// To be sent back.
    Answer(Vec<u8>),
    /// A session is there: the other side is to be told by any datagram.
    Established,
    /// What was sealed is in the buffer.
    Data { session: u8, number: u64 },
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    /// By which the other side calls it here.
    pub id: u8,
    /// By which it is called there.
    theirs: u8,
    sealer: Sealer,
    rank: u64,
    initiator: bool,
    since: u64,
    /// When it was replaced.
    replaced: Option<u64>,
    /// The other side did not answer in it.
    silent: bool,
    /// The other side has the keys.
    confirmed: bool,
    sent: u64,
    bytes: u64,
    window: Window,
    pub codecs: Codecs,
}

/// What sessions are made of.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub security: Security,
    pub variant: Variant,
    pub max_flows: u16,
}

/// All sessions with a peer.
#[derive(Debug)]
pub(crate) struct Sessions {
    terms: Terms,
    /// Our handshake: number of the session, when it was sent.
    begun: Option<(u8, Handshake, u64)>,
    sessions: Vec<Session>,
    current: Option<u8>,
    next_id: u8,
    /// Answers in the second that began at this time.
    answers: (u64, u32),
}

impl Sessions {
    pub fn new(terms: Terms) -> Sessions {
        Sessions {
            terms,
            begun: None,
            sessions: Vec::new(),
            current: None,
            next_id: 0,
            answers: (0, 0),
        }
    }

    /// The session to send in.
    pub fn current(&mut self) -> Option<&mut Session> {
        let id = self.current?;
        self.sessions.iter_mut().find(|session| session.id == id)
    }

    /// The session of a datagram that was opened.
    pub fn get(&mut self, id: u8) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| session.id == id)
    }

    /// Whether a handshake has to be begun, or begun again.
    pub fn handshake_due(&self, now: u64) -> bool {
        self.handshake_at(now) <= now
    }

    /// When that will be.
    pub fn handshake_at(&self, now: u64) -> u64 {
        let retry = self.begun.as_ref().map_or(0, |(_, _, at)| at + RETRY);
        let current = self.sessions.iter().find(|s| Some(s.id) == self.current);
        current.map_or(retry.max(now), |session| session.rekey_at().max(retry))
    }

    /// Whether the last handshake was given its time.
    pub fn may_begin(&self, now: u64) -> bool {
        self.begun
            .as_ref()
            .is_none_or(|(_, _, at)| at + RETRY <= now)
    }

    /// Begins a handshake; the datagram to send.
    ///
    /// # Errors
    /// The system has no random numbers, or the peer's key is none.
    pub fn begin(&mut self, now: u64) -> Result<Vec<u8>, SealError> {
        let id = self.new_id();
        let (handshake, message) = Handshake::begin(&self.terms.security, &self.says(id))?;
        self.begun = Some((id, handshake, now));
        let mut datagram = vec![FIRST, 0, 0, 0];
        datagram.extend(message);
        let mark = mark(&self.terms.security, false, &datagram);
        datagram.extend(mark);
        Ok(datagram)
    }

    fn says(&self, id: u8) -> [u8; 4] {
        let [high, low] = self.terms.max_flows.to_be_bytes();
        [VERSION, id, high, low]
    }

    /// A number that no session has.
    fn new_id(&mut self) -> u8 {
        loop {
            self.next_id = (self.next_id + 1) & SESSION;
            let begun = self.begun.as_ref().is_some_and(|b| b.0 == self.next_id);
            if !begun && self.sessions.iter().all(|s| s.id != self.next_id) {
                return self.next_id;
            }
        }
    }

    /// Opens a datagram; what was sealed in it is put into `plain`.
    ///
    /// # Errors
    /// It cannot be opened; then nothing has changed.
    pub fn open(
        &mut self,
        datagram: &[u8],
        now: u64,
        plain: &mut Vec<u8>,
    ) -> Result<Opened, OpenError> {
        let (header, rest) = datagram
            .split_first_chunk::<HEADER>()
            .ok_or(OpenError::Kind)?;
        let id = header[0] & SESSION;
        match header[0] & !SESSION {
            FIRST => self.answer(datagram, now).map(Opened::Answer),
            ANSWER => {
                self.end(id, rest, now)?;
                Ok(Opened::Established)
            }
            DATA => {
                let low = u32::from_be_bytes([0, header[1], header[2], header[3]]);
                let number = self.open_data(id, low, rest, now, plain)?;
                Ok(Opened::Data {
                    session: id,
                    number,
                })
            }
            _ => Err(OpenError::Kind),
        }
    }

    fn open_data(
        &mut self,
        id: u8,
        low: u32,
        sealed: &[u8],
        now: u64,
        plain: &mut Vec<u8>,
    ) -> Result<u64, OpenError> {
        let session = self.get(id).ok_or(OpenError::Session)?;
        if session.expired(now) {
            return Err(OpenError::Session);
        }
        let number = session.window.complete(low).ok_or(OpenError::Replayed)?;
        if !session.window.is_new(number) {
            return Err(OpenError::Replayed);
        }
        let opened = session.sealer.open(number, sealed, plain);
        opened.map_err(|_| OpenError::Authentic)?;
        session.window.add(number);
        session.silent = false;
        let first = !std::mem::replace(&mut session.confirmed, true);
        // The other side sends in this one: it need not have heard of a silent one.
        if first || self.current().is_some_and(|current| current.silent) {
            self.use_from_now(id, now);
        }
        Ok(number)
    }

    fn answer(&mut self, datagram: &[u8], now: u64) -> Result<Vec<u8>, OpenError> {
        let (message, given) = datagram.split_last_chunk::<8>().ok_or(OpenError::Kind)?;
        if *given != mark(&self.terms.security, true, message) {
            return Err(OpenError::Authentic);
        }
        if now >= self.answers.0 + SECOND {
            self.answers = (now, 0);
        }
        if self.answers.1 >= ANSWERS_PER_SECOND {
            return Err(OpenError::Flood);
        }
        self.answers.1 += 1;
        let message = message.get(HEADER..).ok_or(OpenError::Kind)?;
        let id = self.new_id();
        let answer = Handshake::answer(&self.terms.security, message, &self.says(id));
        let (agreed, answer) = answer.map_err(|_| OpenError::Authentic)?;
        let theirs = self.add(id, agreed, false, now)?;
        let mut datagram = vec![ANSWER | theirs, 0, 0, 0];
        datagram.extend(answer);
        Ok(datagram)
    }

    fn end(&mut self, id: u8, message: &[u8], now: u64) -> Result<(), OpenError> {
        let begun = self.begun.as_mut().filter(|begun| begun.0 == id);
        let (_, handshake, _) = begun.ok_or(OpenError::Session)?;
        let agreed = handshake.end(message).map_err(|_| OpenError::Authentic)?;
        self.begun = None;
        self.add(id, agreed, true, now)?;
        self.use_from_now(id, now);
        Ok(())
    }

    /// Adds a session; returns the other side's number of it.
    fn add(&mut self, id: u8, agreed: Agreed, initiator: bool, now: u64) -> Result<u8, OpenError> {
        let (theirs, flows) = read_said(&agreed.said).ok_or(OpenError::Kind)?;
        let current = self.current;
        self.sessions.retain(|session| !session.expired(now));
        if self.sessions.len() == MAX_SESSIONS {
            // The oldest that is not in use: unconfirmed ones come and go.
            let oldest = self.sessions.iter().position(|s| Some(s.id) != current);
            oldest.map(|at| self.sessions.remove(at));
        }
        let terms = &self.terms;
        self.sessions.push(Session {
            id,
            theirs,
            sealer: agreed.sealer,
            rank: agreed.rank,
            initiator,
            since: now,
            replaced: None,
            silent: false,
            confirmed: initiator,
            sent: 0,
            bytes: 0,
            window: Window::default(),
            codecs: Codecs::new(terms.variant, terms.max_flows, flows),
        });
        Ok(theirs)
    }

    /// Changes to a session, unless each side began one at the same time: then both take
    /// that of the lower rank. If the same side began both, it has forgotten the first.
    fn use_from_now(&mut self, id: u8, now: u64) {
        let Some(session) = self.get(id) else {
            return;
        };
        session.replaced = None;
        let (rank, initiator) = (session.rank, session.initiator);
        let crossed = self.current().is_some_and(|current| {
            let same_time = now < current.since + CROSSING && current.initiator != initiator;
            !current.silent && same_time && current.rank < rank
        });
        let replaced = if crossed {
            Some(id)
        } else {
            self.current.replace(id)
        };
        if let Some(replaced) = replaced.and_then(|replaced| self.get(replaced)) {
            replaced.replaced = Some(now);
        }
    }

    /// The other side does not answer: any session is better than this.
    pub fn give_up_current(&mut self) {
        if let Some(current) = self.current() {
            current.silent = true;
        }
    }

    /// Forgets what is over.
    pub fn expire(&mut self, now: u64) {
        self.sessions.retain(|session| !session.expired(now));
        if self.current().is_none() {
            self.current = None;
        }
    }
}

/// What the other side said: its number of the session, and the flows that it keeps.
fn read_said(said: &[u8]) -> Option<(u8, u16)> {
    match *said {
        [VERSION, id @ ..=SESSION, high, low] => Some((id, u16::from_be_bytes([high, low]))),
        _ => None,
    }
}

impl Session {
    /// Since it was agreed on.
    pub fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.since)
    }

    fn rekey_at(&self) -> u64 {
        if self.bytes >= REKEY_BYTES {
            return 0;
        }
        self.since
            + if self.initiator {
                REKEY_AFTER
            } else {
                REKEY_AFTER_OTHER
            }
    }

    fn expired(&self, now: u64) -> bool {
        now >= self.since + EXPIRES_AFTER || self.replaced.is_some_and(|at| now >= at + GRACE)
    }

    /// The number of the next datagram.
    pub fn next_number(&self) -> u64 {
        self.sent
    }

    /// Seals that datagram.
    ///
    /// # Errors
    /// It is too long for any datagram.
    pub fn seal(&mut self, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut datagram = Vec::with_capacity(HEADER + plain.len() + crate::TAG);
        datagram.extend((self.sent as u32).to_be_bytes());
        datagram[0] = DATA | self.theirs;
        self.sealer.seal(self.sent, plain, &mut datagram)?;
        self.sent += 1;
        self.bytes += datagram.len() as u64;
        Ok(datagram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyPair;

    const S: u64 = SECOND;

    fn keys() -> [KeyPair; 2] {
        [(); 2].map(|()| KeyPair::generate().expect("random numbers"))
    }

    fn sessions(mine: &KeyPair, peer: &KeyPair) -> Sessions {
        Sessions::new(Terms {
            security: Security::Noise {
                secret: mine.secret,
                public: mine.public,
                peer: peer.public,
            },
            variant: Variant::Entropy,
            max_flows: 8,
        })
    }

    fn plain() -> Sessions {
        Sessions::new(Terms {
            security: Security::Plain,
            variant: Variant::Entropy,
            max_flows: 8,
        })
    }

    fn pair() -> [Sessions; 2] {
        let [a, b] = keys();
        [sessions(&a, &b), sessions(&b, &a)]
    }

    fn shake(a: &mut Sessions, b: &mut Sessions, now: u64) {
        let first = a.begin(now).expect("random numbers");
        let Opened::Answer(answer) = b.open(&first, now, &mut Vec::new()).expect("answered") else {
            panic!("no answer");
        };
        assert_eq!(
            a.open(&answer, now, &mut Vec::new()),
            Ok(Opened::Established)
        );
    }

    fn send(from: &mut Sessions, text: &[u8]) -> Vec<u8> {
        from.current()
            .expect("a session")
            .seal(text)
            .expect("short")
    }

    fn receive(to: &mut Sessions, datagram: &[u8], now: u64) -> Result<Vec<u8>, OpenError> {
        let mut text = Vec::new();
        match to.open(datagram, now, &mut text)? {
            Opened::Data { .. } => Ok(text),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_sides_talk_with_keys_and_without() {
        for [mut a, mut b] in [pair(), [plain(), plain()]] {
            shake(&mut a, &mut b, 0);
            // The side that answered knows the other by its first datagram only.
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
    fn nothing_forged_is_opened() {
        for [mut a, mut b] in [pair(), [plain(), plain()]] {
            shake(&mut a, &mut b, 0);
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
            // Not its own mirror image either.
            assert!(a.open(&good, 0, &mut Vec::new()).is_err());
            assert_eq!(receive(&mut b, &good, 0).as_deref(), Ok(&b"some bytes"[..]));
        }
    }

    #[test]
    fn handshakes_are_not_forged_or_taken_from_strangers() {
        let [a, b] = keys();
        let [stranger, _] = keys();
        let mut responder = sessions(&b, &a);
        let first = sessions(&stranger, &b).begin(0).expect("random numbers");
        assert_eq!(
            responder.open(&first, 0, &mut Vec::new()),
            Err(OpenError::Authentic)
        );
        let mut initiator = sessions(&a, &b);
        let first = initiator.begin(0).expect("random numbers");
        for bit in 0..8 * first.len() {
            let mut bad = first.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(
                responder.open(&bad, 0, &mut Vec::new()).is_err(),
                "bit {bit}"
            );
        }
        assert!(responder.sessions.is_empty());
        let Ok(Opened::Answer(answer)) = responder.open(&first, 0, &mut Vec::new()) else {
            panic!("no answer");
        };
        for bit in (8..8 * answer.len()).filter(|bit| *bit >= 32) {
            let mut bad = answer.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(
                initiator.open(&bad, 0, &mut Vec::new()).is_err(),
                "bit {bit}"
            );
        }
        // What was tampered with on the way does not spoil what arrives.
        let opened = initiator.open(&answer, 0, &mut Vec::new());
        assert_eq!(opened, Ok(Opened::Established));
    }

    #[test]
    fn an_old_first_message_replaces_nothing() {
        let [mut a, mut b] = pair();
        let old = a.begin(0).expect("random numbers");
        shake(&mut a, &mut b, S);
        let text = send(&mut a, b"1");
        receive(&mut b, &text, S).expect("authentic");
        let before = b.current;
        for i in 0..40 {
            let answered = b.open(&old, (2 + i) * S, &mut Vec::new());
            assert!(matches!(answered, Ok(Opened::Answer(_))));
        }
        assert_eq!(b.current, before);
        assert!(b.sessions.len() <= MAX_SESSIONS);
        let text = send(&mut a, b"2");
        receive(&mut b, &text, 50 * S).expect("the session is still there");
    }

    #[test]
    fn a_flood_of_handshakes_is_not_answered() {
        let [mut a, mut b] = pair();
        let first = a.begin(0).expect("random numbers");
        let answers = (0..200)
            .filter(|_| b.open(&first, S, &mut Vec::new()).is_ok())
            .count();
        assert_eq!(answers, ANSWERS_PER_SECOND as usize);
        assert!(b.open(&first, 2 * S, &mut Vec::new()).is_ok());
    }

    #[test]
    fn sessions_are_replaced_and_expire() {
        let [mut a, mut b] = pair();
        assert!(a.handshake_due(0));
        shake(&mut a, &mut b, 0);
        let text = send(&mut a, b"1");
        receive(&mut b, &text, 0).expect("authentic");
        assert!(!a.handshake_due(119 * S) && a.handshake_due(120 * S));
        assert!(!b.handshake_due(149 * S) && b.handshake_due(150 * S));
        let under_way = send(&mut a, b"2");
        let too_late = send(&mut a, b"3");
        shake(&mut a, &mut b, 120 * S);
        assert!(!a.handshake_due(239 * S));
        let text = send(&mut a, b"4");
        receive(&mut b, &text, 120 * S).expect("authentic");
        receive(&mut b, &under_way, 129 * S).expect("within the grace");
        assert_eq!(receive(&mut b, &too_late, 130 * S), Err(OpenError::Session));
        a.expire(481 * S);
        assert!(a.current().is_none() && a.handshake_due(481 * S));
    }

    #[test]
    fn a_restarted_peer_is_heard() {
        // At once or later, and whatever the ranks are, which are random.
        for now in [S / 2; 16].into_iter().chain([3 * S]) {
            let [ka, kb] = keys();
            let [mut a, mut b] = [sessions(&ka, &kb), sessions(&kb, &ka)];
            shake(&mut a, &mut b, 0);
            let text = send(&mut a, b"1");
            receive(&mut b, &text, 0).expect("authentic");
            // Forgets everything, and begins anew.
            let mut a = sessions(&ka, &kb);
            shake(&mut a, &mut b, now);
            let text = send(&mut a, b"2");
            assert_eq!(receive(&mut b, &text, now).as_deref(), Ok(&b"2"[..]));
            let text = send(&mut b, b"3");
            assert_eq!(receive(&mut a, &text, now).as_deref(), Ok(&b"3"[..]));
        }
    }

    #[test]
    fn a_peer_that_lost_the_session_that_it_answered_is_followed() {
        for _ in 0..16 {
            let [ka, kb] = keys();
            let [mut a, mut b] = [sessions(&ka, &kb), sessions(&kb, &ka)];
            shake(&mut b, &mut a, 0);
            let text = send(&mut b, b"1");
            receive(&mut a, &text, 0).expect("authentic");
            // To the other side it looks as if both had begun at the same time.
            let mut a = sessions(&ka, &kb);
            shake(&mut a, &mut b, S / 2);
            let text = send(&mut a, b"2");
            receive(&mut b, &text, S / 2).expect("authentic");
            // By lot it may stay with what was lost, until that does not answer.
            b.give_up_current();
            let text = send(&mut a, b"3");
            receive(&mut b, &text, S).expect("authentic");
            let text = send(&mut b, b"4");
            assert_eq!(receive(&mut a, &text, S).as_deref(), Ok(&b"4"[..]));
            b.expire(20 * S);
            assert!(b.current().is_some());
        }
    }
}
