//! Static keys, and the choice whether to encrypt.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use zeroize::{Zeroize, Zeroizing};

use crate::{HEADER_LEN, PLAIN_TAG_LEN, TAG_LEN};

/// A static X25519 key pair, as WireGuard uses them. The private key is overwritten with
/// zeros when this is dropped.
#[derive(Clone)]
pub struct KeyPair {
    /// The private key.
    pub secret: [u8; 32],
    /// The public key, which the peer needs.
    pub public: [u8; 32],
}

impl Drop for KeyPair {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").finish_non_exhaustive()
    }
}

impl KeyPair {
    /// Makes a new key pair from the system's random numbers.
    ///
    /// # Errors
    /// Returns [`CryptoError::Random`] if the system has no random numbers.
    pub fn generate() -> Result<KeyPair, CryptoError> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(CryptoError::Random)?;
        // Like `wg genkey` (RFC 7748 §5). X25519 ignores these bits in any case.
        secret[0] &= 248;
        secret[31] = secret[31] & 127 | 64;
        KeyPair::from_secret(secret)
    }

    /// Computes the public key of a private key.
    ///
    /// # Errors
    /// Returns [`CryptoError::Key`] if X25519 is not built in, which does not happen.
    pub fn from_secret(secret: [u8; 32]) -> Result<KeyPair, CryptoError> {
        let dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519);
        let mut dh = dh.ok_or(CryptoError::Key)?;
        dh.set(&secret);
        let public = dh.pubkey().try_into().map_err(|_| CryptoError::Key)?;
        Ok(KeyPair { secret, public })
    }
}

/// Writes a key as base64, as `wg` prints it: 44 characters.
pub fn key_to_base64(key: &[u8; 32]) -> String {
    STANDARD.encode(key)
}

/// Reads a key that [`key_to_base64`] or `wg` wrote. White space around it is ignored.
///
/// # Errors
/// Returns [`CryptoError::Key`] if the text is not the base64 of 32 bytes.
pub fn key_from_base64(text: &str) -> Result<[u8; 32], CryptoError> {
    let bytes = STANDARD.decode(text.trim()).map_err(|_| CryptoError::Key)?;
    let bytes = Zeroizing::new(bytes);
    bytes.as_slice().try_into().map_err(|_| CryptoError::Key)
}

/// How the datagrams of a tunnel are protected. The private key is overwritten with zeros when
/// this is dropped.
#[derive(Clone)]
pub enum Security {
    /// Datagrams are encrypted and authenticated.
    Noise {
        /// The private key of this end.
        secret: [u8; 32],
        /// The public key of this end.
        public: [u8; 32],
        /// The public key of the peer.
        peer: [u8; 32],
    },
    /// Datagrams are neither encrypted nor authenticated, for use inside another tunnel
    /// that does both, such as WireGuard. A keyed check still rejects datagrams of other
    /// sessions.
    Plain,
}

impl Drop for Security {
    fn drop(&mut self) {
        if let Security::Noise { secret, .. } = self {
            secret.zeroize();
        }
    }
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Security::Noise { .. } => "Noise",
            Security::Plain => "Plain",
        })
    }
}

impl Security {
    /// The keys of this end, if there is encryption.
    pub fn keys(&self) -> Option<KeyPair> {
        match self {
            Security::Noise { secret, public, .. } => Some(KeyPair {
                secret: *secret,
                public: *public,
            }),
            Security::Plain => None,
        }
    }

    /// The number of bytes by which the UDP payload exceeds its bundle.
    pub fn overhead(&self) -> usize {
        match self {
            Security::Noise { .. } => HEADER_LEN + TAG_LEN,
            Security::Plain => HEADER_LEN + PLAIN_TAG_LEN,
        }
    }
}

/// Why a key could not be made, or a message could not be processed.
#[derive(Debug, thiserror::Error)]
pub enum CryptoError {
    /// The Noise protocol failed.
    #[error("the Noise protocol failed: {0}")]
    Noise(#[from] snow::Error),
    /// The key is not valid.
    #[error("a key has 32 bytes, written as 44 characters of base64")]
    Key,
    /// The system has no random numbers.
    #[error("the system has no random numbers: {0}")]
    Random(getrandom::Error),
    /// The message does not belong to this version of this protocol.
    #[error("this is not a message of this protocol and version")]
    Message,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_as_base64() {
        let pair = KeyPair::generate().expect("random numbers");
        let text = key_to_base64(&pair.secret);
        let again = key_from_base64(&format!(" {text}\n")).expect("a key");
        assert_eq!(again, pair.secret);
        let same = KeyPair::from_secret(again).expect("a key");
        assert_eq!(same.public, pair.public);
        for wrong in [
            "",
            "AAAA",
            &text[1..],
            &text.replace('=', ""),
            &"ä".repeat(22),
        ] {
            assert!(key_from_base64(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_public_key_is_that_of_rfc_7748() {
        let secret = key_from_base64("dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=");
        let pair = KeyPair::from_secret(secret.expect("a key")).expect("a key");
        let public = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
        assert_eq!(key_to_base64(&pair.public), public);
    }
}
