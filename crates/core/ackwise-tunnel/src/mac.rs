//! The two MACs at the end of an initiation, and the cookie that the second one needs.
//!
//! They are those of WireGuard. `mac1` is keyed by the responder's public key: initiations from
//! senders that do not know it are dropped before any expensive work. `mac2` is keyed by a cookie,
//! which a responder under load sends to the source address of an initiation: a sender that does
//! not receive at that address cannot have it.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};
use snow::params::{CipherChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};

use crate::cipher::sip_check;
use crate::keys::{CryptoError, Security};
use crate::session::COOKIE_REPLY;
use crate::{HEADER_LEN, TAG_LEN};

/// The bytes of a MAC.
pub(crate) const MAC_LEN: usize = 8;
/// The bytes of a cookie.
pub(crate) const COOKIE_LEN: usize = 16;
/// The random bytes that the key of a cookie reply is made from.
const NONCE_LEN: usize = 24;
/// Separates the key of a cookie reply from other uses of the public key.
const LABEL: &[u8] = b"ackwise cookie 1";

pub(crate) type Cookie = [u8; COOKIE_LEN];

/// The public key that `mac1` of an initiation is keyed by. Without encryption it is zero.
pub(crate) fn responder_key(security: &Security, received: bool) -> [u8; 32] {
    match security {
        Security::Noise { public, .. } if received => *public,
        Security::Noise { peer, .. } => *peer,
        Security::Plain => [0; 32],
    }
}

/// An initiation, split into its message and its MACs.
pub(crate) struct Parts<'a> {
    /// The header and the message of the handshake.
    pub message: &'a [u8],
    pub mac1: [u8; MAC_LEN],
    pub mac2: [u8; MAC_LEN],
    /// Everything before `mac2`.
    before_mac2: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Splits an initiation. Returns `None` if it is too short.
    pub fn of(datagram: &'a [u8]) -> Option<Parts<'a>> {
        let (before_mac2, mac2) = datagram.split_last_chunk::<MAC_LEN>()?;
        let (message, mac1) = before_mac2.split_last_chunk::<MAC_LEN>()?;
        (message.len() > HEADER_LEN).then_some(Parts {
            message,
            mac1: *mac1,
            mac2: *mac2,
            before_mac2,
        })
    }

    /// Whether `mac1` is correct.
    pub fn has_valid_mac1(&self, responder: &[u8; 32]) -> bool {
        self.mac1 == mac1(responder, self.message)
    }

    /// Whether `mac2` was made with this cookie.
    pub fn has_valid_mac2(&self, cookie: &Cookie) -> bool {
        self.mac2 == mac2(cookie, self.before_mac2)
    }
}

/// Appends both MACs to an initiation, and returns the first. Without a cookie, the second is zero.
pub(crate) fn append(
    responder: &[u8; 32],
    cookie: Option<&Cookie>,
    datagram: &mut Vec<u8>,
) -> [u8; MAC_LEN] {
    let first = mac1(responder, datagram);
    datagram.extend(first);
    let second = cookie.map_or([0; MAC_LEN], |cookie| mac2(cookie, datagram));
    datagram.extend(second);
    first
}

fn mac1(responder: &[u8; 32], message: &[u8]) -> [u8; MAC_LEN] {
    let mut key = [[0; 8]; 2];
    key[0].copy_from_slice(&responder[..8]);
    key[1].copy_from_slice(&responder[8..16]);
    sip_check(&key, true, 0, message)
}

fn mac2(cookie: &Cookie, before: &[u8]) -> [u8; MAC_LEN] {
    let mut key = [[0; 8]; 2];
    key[0].copy_from_slice(&cookie[..8]);
    key[1].copy_from_slice(&cookie[8..]);
    sip_check(&key, true, 0, before)
}

/// The cookie of a source address under a secret of the responder.
pub(crate) fn cookie_of(secret: &[u8; 16], source: &[u8]) -> Cookie {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write(source);
    hasher.finish128().as_bytes()
}

/// Makes the reply that carries a cookie. Only the sender of this `mac1` can read it.
pub(crate) fn seal_cookie(
    responder: &[u8; 32],
    mac1: &[u8; MAC_LEN],
    cookie: &Cookie,
) -> Result<Vec<u8>, CryptoError> {
    let mut nonce = [0; NONCE_LEN];
    getrandom::fill(&mut nonce).map_err(CryptoError::Random)?;
    let cipher = cipher(responder, &nonce)?;
    let mut reply = vec![COOKIE_REPLY, 0, 0, 0];
    reply.extend(nonce);
    let start = reply.len();
    reply.resize(start + COOKIE_LEN + TAG_LEN, 0);
    let sealed = cipher.encrypt(0, mac1, cookie, &mut reply[start..]);
    reply.truncate(start + sealed);
    Ok(reply)
}

/// Reads the cookie of a reply, without its header.
pub(crate) fn open_cookie(
    responder: &[u8; 32],
    mac1: &[u8; MAC_LEN],
    reply: &[u8],
) -> Result<Cookie, CryptoError> {
    let (nonce, sealed) = reply
        .split_first_chunk::<NONCE_LEN>()
        .ok_or(CryptoError::Message)?;
    if sealed.len() != COOKIE_LEN + TAG_LEN {
        return Err(CryptoError::Message);
    }
    let mut cookie = [0; COOKIE_LEN];
    cipher(responder, nonce)?.decrypt(0, mac1, sealed, &mut cookie)?;
    Ok(cookie)
}

/// The cipher of one reply: its key is a hash with fresh random bytes, so its nonce is 0.
fn cipher(
    responder: &[u8; 32],
    nonce: &[u8; NONCE_LEN],
) -> Result<Box<dyn snow::types::Cipher>, CryptoError> {
    let hash = DefaultResolver.resolve_hash(&HashChoice::Blake2s);
    let cipher = DefaultResolver.resolve_cipher(&CipherChoice::ChaChaPoly);
    let (mut hash, mut cipher) = hash.zip(cipher).ok_or(CryptoError::Key)?;
    let mut key = [0; 32];
    hash.reset();
    hash.input(LABEL);
    hash.input(responder);
    hash.input(nonce);
    hash.result(&mut key);
    cipher.set(&key);
    Ok(cipher)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_read_only_with_the_mac_that_it_answers() {
        let (responder, mac1, cookie) = ([7; 32], [1; MAC_LEN], [9; COOKIE_LEN]);
        let reply = seal_cookie(&responder, &mac1, &cookie).expect("random numbers");
        let sealed = &reply[HEADER_LEN..];
        assert_eq!(open_cookie(&responder, &mac1, sealed).ok(), Some(cookie));
        assert!(open_cookie(&responder, &[2; MAC_LEN], sealed).is_err());
        assert!(open_cookie(&[8; 32], &mac1, sealed).is_err());
        for len in 0..sealed.len() {
            assert!(open_cookie(&responder, &mac1, &sealed[..len]).is_err());
        }
        for bit in 0..8 * sealed.len() {
            let mut bad = sealed.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(open_cookie(&responder, &mac1, &bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_reply_is_shorter_than_what_it_answers() {
        let reply = seal_cookie(&[7; 32], &[1; MAC_LEN], &[9; COOKIE_LEN]).expect("random numbers");
        // The shortest initiation: a Noise IK message without payload, header and MACs.
        assert!(reply.len() < HEADER_LEN + 96 + 2 * MAC_LEN);
    }
}
