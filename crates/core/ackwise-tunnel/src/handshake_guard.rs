//! Decides which initiations are worth a handshake, for all peers of an end together.
//!
//! A handshake takes Diffie-Hellman operations before anything is known about its sender. So if
//! more than [`MAX_WITHOUT_COOKIE`] initiations arrive in a second, the rest have to prove that
//! they receive at their source address: they get a cookie, and are accepted when they return it
//! (WireGuard, "Denial of Service Mitigation").

use std::collections::HashMap;

use crate::initiation::Initiation;
use crate::keys::{CryptoError, KeyPair};
use crate::mac::{Cookie, Parts, cookie_of, seal_cookie};
use crate::open_error::OpenError;
use crate::timers::SECOND;

/// The number of initiations without a cookie that are accepted per second. Each takes a fraction
/// of a millisecond of CPU time.
const MAX_WITHOUT_COOKIE: u32 = 50;
/// The number of initiations with a cookie that are accepted per second from one source address.
const MAX_FROM_SOURCE: u32 = 10;
/// The number of source addresses with a cookie that are remembered for a second.
const MAX_SOURCES: usize = 1024;
/// The time for which a cookie is sent; it is accepted for at least as long after that.
const SECRET_LIFETIME: u64 = 120 * SECOND;

/// What to do with an initiation.
#[derive(Debug)]
pub enum Admission {
    /// Pass it to the tunnel of the peer that made it.
    Handshake(Box<Initiation>),
    /// Send this to its source address.
    Cookie(Vec<u8>),
}

/// Admits initiations.
#[derive(Debug)]
pub struct HandshakeGuard {
    /// The keys of this end, if there is encryption.
    keys: Option<KeyPair>,
    /// The secrets that cookies are made with: the current one and the previous one.
    secrets: [[u8; 16]; 2],
    secret_since: u64,
    second_began: u64,
    without_cookie: u32,
    from_source: HashMap<Box<[u8]>, u32>,
}

impl HandshakeGuard {
    /// Creates a guard. `keys` are those of this end, if there is encryption.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(keys: Option<KeyPair>) -> Result<HandshakeGuard, CryptoError> {
        Ok(HandshakeGuard {
            keys,
            secrets: [random()?, random()?],
            secret_since: 0,
            second_began: 0,
            without_cookie: 0,
            from_source: HashMap::new(),
        })
    }

    /// Reads an initiation, or asks its sender to prove its address. `source` holds the bytes of
    /// the source address and port.
    ///
    /// # Errors
    /// The initiation is not authentic, or too many have arrived.
    pub fn admit(
        &mut self,
        datagram: &[u8],
        source: &[u8],
        now: u64,
    ) -> Result<Admission, OpenError> {
        let responder = self.keys.as_ref().map_or([0; 32], |keys| keys.public);
        let parts = Parts::of(datagram).ok_or(OpenError::UnknownType)?;
        if !parts.has_valid_mac1(&responder) {
            return Err(OpenError::NotAuthentic);
        }
        self.update_time(now);
        let cookies = self.secrets.map(|secret| cookie_of(&secret, source));
        if cookies.iter().any(|cookie| parts.has_valid_mac2(cookie)) {
            if !self.allows_source(source) {
                return Err(OpenError::RateLimited);
            }
        } else if self.without_cookie >= MAX_WITHOUT_COOKIE {
            return self.reply_with_cookie(&responder, &parts, &cookies[0]);
        } else {
            self.without_cookie += 1;
        }
        let initiation = Initiation::read(self.keys.as_ref(), datagram)?;
        Ok(Admission::Handshake(Box::new(initiation)))
    }

    fn reply_with_cookie(
        &self,
        responder: &[u8; 32],
        parts: &Parts<'_>,
        cookie: &Cookie,
    ) -> Result<Admission, OpenError> {
        // Without encryption no cookie is needed: the path is already protected.
        if self.keys.is_none() {
            return Err(OpenError::RateLimited);
        }
        let reply = seal_cookie(responder, &parts.mac1, cookie);
        reply
            .map(Admission::Cookie)
            .map_err(|_| OpenError::RateLimited)
    }

    /// Whether one more initiation with a cookie is accepted from a source.
    fn allows_source(&mut self, source: &[u8]) -> bool {
        if let Some(count) = self.from_source.get_mut(source) {
            *count += 1;
            return *count <= MAX_FROM_SOURCE;
        }
        let room = self.from_source.len() < MAX_SOURCES;
        if room {
            self.from_source.insert(source.into(), 1);
        }
        room
    }

    fn update_time(&mut self, now: u64) {
        if now >= self.second_began + SECOND {
            self.second_began = now;
            self.without_cookie = 0;
            self.from_source.clear();
        }
        if now >= self.secret_since + SECRET_LIFETIME {
            // Without new random numbers, the old secret stays in use.
            if let Ok(secret) = random() {
                self.secrets = [secret, self.secrets[0]];
                self.secret_since = now;
            }
        }
    }
}

fn random() -> Result<[u8; 16], CryptoError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(CryptoError::Random)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_table::{Opened, SessionConfig, SessionTable};
    use crate::{Security, Variant};

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

    const HERE: &[u8] = b"here";
    const THERE: &[u8] = b"there";

    /// An attacker sends one recorded initiation 200 times a second while the peer needs a new
    /// session. The peer gets it at its second try.
    #[test]
    fn m2_a_flood_does_not_keep_a_peer_from_a_session() {
        let [near, far] = keys();
        let mut initiator = sessions(&near, &far);
        let mut responder = sessions(&far, &near);
        let mut guard = HandshakeGuard::new(Some(far.clone())).expect("random numbers");
        let recorded = initiator.initiate(0).expect("random numbers");
        let mut handshakes = 0;
        let mut answered_at = None;
        for step in 1..1000_u64 {
            let now = step * SECOND / 200;
            match guard.admit(&recorded, THERE, now) {
                Ok(Admission::Handshake(initiation)) => {
                    handshakes += 1;
                    let _ = responder.answer(*initiation, now);
                }
                Ok(Admission::Cookie(reply)) => assert!(reply.len() < recorded.len()),
                Err(error) => panic!("{error}"),
            }
            // The peer tries when the others have used up this second's quota.
            if step % 200 != 199 || answered_at.is_some() {
                continue;
            }
            let initiation = initiator.initiate(now).expect("random numbers");
            match guard.admit(&initiation, HERE, now) {
                Ok(Admission::Handshake(initiation)) => {
                    responder.answer(*initiation, now).expect("fresh");
                    answered_at = Some(step);
                }
                Ok(Admission::Cookie(reply)) => {
                    let opened = initiator.open(&reply, now, &mut Vec::new());
                    assert_eq!(opened, Ok(Opened::Cookie));
                    // Nobody else can use the reply, and it works once.
                    let mut stranger = sessions(&near, &far);
                    stranger.initiate(now).expect("random numbers");
                    assert!(stranger.open(&reply, now, &mut Vec::new()).is_err());
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(answered_at, Some(399));
        assert_eq!(handshakes, 5 * MAX_WITHOUT_COOKIE);
    }

    #[test]
    fn m2_a_cookie_is_good_for_its_address_and_a_time() {
        let [near, far] = keys();
        let mut initiator = sessions(&near, &far);
        let mut guard = HandshakeGuard::new(Some(far.clone())).expect("random numbers");
        let flood = initiator.initiate(0).expect("random numbers");
        let load = |guard: &mut HandshakeGuard, now| {
            for _ in 0..MAX_WITHOUT_COOKIE {
                guard.admit(&flood, THERE, now).expect("a mac1");
            }
        };
        let taken = |admission: &Result<Admission, OpenError>| {
            matches!(admission, Ok(Admission::Handshake(_)))
        };
        load(&mut guard, SECOND);
        let asked = initiator.initiate(SECOND).expect("random numbers");
        let Ok(Admission::Cookie(reply)) = guard.admit(&asked, HERE, SECOND) else {
            panic!("no cookie");
        };
        initiator
            .open(&reply, SECOND, &mut Vec::new())
            .expect("a cookie");
        let with_cookie = initiator.initiate(SECOND).expect("random numbers");
        assert!(!taken(&guard.admit(&with_cookie, THERE, SECOND)));
        for n in 0..2 * MAX_FROM_SOURCE {
            let admission = guard.admit(&with_cookie, HERE, SECOND);
            assert_eq!(taken(&admission), n < MAX_FROM_SOURCE, "{n}");
        }
        // Two secrets later the cookie is no longer valid.
        for lifetimes in 1..=2 {
            let now = SECOND + lifetimes * SECRET_LIFETIME;
            load(&mut guard, now);
            let admission = guard.admit(&with_cookie, HERE, now);
            assert_eq!(taken(&admission), lifetimes == 1);
        }
    }

    #[test]
    fn what_does_not_know_the_key_is_dropped_at_once() {
        let [near, far] = keys();
        let [other, _] = keys();
        let mut guard = HandshakeGuard::new(Some(far.clone())).expect("random numbers");
        let unknown = sessions(&near, &other).initiate(0).expect("random numbers");
        for len in 0..unknown.len() {
            assert!(guard.admit(&unknown[..len], HERE, 0).is_err());
        }
        for _ in 0..2 * MAX_WITHOUT_COOKIE {
            let admission = guard.admit(&unknown, HERE, 0);
            assert!(matches!(admission, Err(OpenError::NotAuthentic)));
        }
        let own = sessions(&near, &far).initiate(0).expect("random numbers");
        let Ok(Admission::Handshake(initiation)) = guard.admit(&own, HERE, 0) else {
            panic!("not taken");
        };
        assert_eq!(initiation.peer(), Some(near.public.as_slice()));
    }
}
