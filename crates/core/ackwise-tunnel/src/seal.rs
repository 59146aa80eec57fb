//! Keys, and the sealing of a session's datagrams.

use std::fmt;
use std::hash::Hasher;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use siphasher::sip::SipHasher24;
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::{Builder, HandshakeState, StatelessTransportState};

use crate::{HEADER, TAG};

/// Static keys known to both sides beforehand or sent sealed; X25519, ChaCha20-Poly1305.
const PATTERN: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";
/// Ties handshakes to this protocol and its version.
const PROLOGUE: &[u8] = b"ackwise tunnel 1";
/// Bytes of a check without encryption.
pub(crate) const PLAIN_TAG: usize = 8;

/// A static key pair (X25519).
#[derive(Clone)]
pub struct KeyPair {
    /// To be kept.
    pub secret: [u8; 32],
    /// To be given to the other side.
    pub public: [u8; 32],
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").finish_non_exhaustive()
    }
}

impl KeyPair {
    /// A new pair, from the system's random numbers.
    ///
    /// # Errors
    /// The system has none.
    pub fn generate() -> Result<KeyPair, SealError> {
        let made = builder().generate_keypair()?;
        let key = |bytes: Vec<u8>| <[u8; 32]>::try_from(bytes).map_err(|_| SealError::Key);
        Ok(KeyPair {
            secret: key(made.private)?,
            public: key(made.public)?,
        })
    }
}

impl KeyPair {
    /// The pair of a secret key.
    ///
    /// # Errors
    /// Never with the algorithms that are built in.
    pub fn from_secret(secret: [u8; 32]) -> Result<KeyPair, SealError> {
        let dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519);
        let mut dh = dh.ok_or(SealError::Key)?;
        dh.set(&secret);
        let public = dh.pubkey().try_into().map_err(|_| SealError::Key)?;
        Ok(KeyPair { secret, public })
    }
}

/// Writes a key as base64, as `wg` prints it: 44 characters.
pub fn key_to_text(key: &[u8; 32]) -> String {
    STANDARD.encode(key)
}

/// Reads a key that [`key_to_text`] or `wg` wrote. White space around it is ignored.
///
/// # Errors
/// Returns [`SealError::Key`] if the text is not the base64 of 32 bytes.
pub fn key_from_text(text: &str) -> Result<[u8; 32], SealError> {
    let bytes = STANDARD.decode(text.trim()).map_err(|_| SealError::Key)?;
    bytes.try_into().map_err(|_| SealError::Key)
}

/// How datagrams are protected.
#[derive(Clone)]
pub enum Security {
    /// Encrypted and authenticated.
    Noise {
        /// This side's secret key.
        secret: [u8; 32],
        /// This side's public key.
        public: [u8; 32],
        /// The other side's public key.
        peer: [u8; 32],
    },
    /// Neither; for use inside of something that does both, such as WireGuard. A check
    /// still makes sure that no datagram of another session is taken.
    Plain,
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
    /// Bytes that a bundle costs beside itself, in UDP.
    pub fn overhead(&self) -> usize {
        match self {
            Security::Noise { .. } => HEADER + TAG,
            Security::Plain => HEADER + PLAIN_TAG,
        }
    }
}

/// Why keys could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// By the Noise protocol.
    #[error("the handshake failed: {0}")]
    Noise(#[from] snow::Error),
    /// It is none.
    #[error("a key has 32 bytes, written as 44 characters of base64")]
    Key,
    /// There are no random numbers.
    #[error("the system has no random numbers: {0}")]
    Random(getrandom::Error),
    /// It is no message of this protocol.
    #[error("it is no message of this protocol and version")]
    Message,
}

fn builder() -> Builder<'static> {
    // The pattern is a constant that snow knows: the tests would not pass otherwise.
    #[allow(clippy::expect_used)]
    Builder::new(PATTERN.parse().expect("a pattern that snow knows"))
}

/// A handshake that waits for its answer, or is about to give one.
pub(crate) enum Handshake {
    Noise(Box<HandshakeState>),
    /// Both sides' halves of the key of the check.
    Plain([u8; 8]),
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handshake")
    }
}

/// What a handshake leads to.
pub(crate) struct Agreed {
    pub sealer: Sealer,
    /// What the other side said.
    pub said: Vec<u8>,
    /// The same number on both sides, another for each handshake.
    pub rank: u64,
}

fn rank(state: &HandshakeState) -> u64 {
    let hash = state.get_handshake_hash().first_chunk::<8>();
    hash.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

impl Handshake {
    /// Begins; returns the first message with `says` in it.
    pub fn begin(security: &Security, says: &[u8]) -> Result<(Handshake, Vec<u8>), SealError> {
        match security {
            Security::Noise { secret, peer, .. } => {
                let mut state = builder()
                    .prologue(PROLOGUE)?
                    .local_private_key(secret)?
                    .remote_public_key(peer)?
                    .build_initiator()?;
                let mut message = vec![0; 256];
                let len = state.write_message(says, &mut message)?;
                message.truncate(len);
                Ok((Handshake::Noise(Box::new(state)), message))
            }
            Security::Plain => {
                let half = random()?;
                Ok((Handshake::Plain(half), plain_message(half, says)))
            }
        }
    }

    /// Answers a first message; returns the answer with `says` in it as well.
    pub fn answer(
        security: &Security,
        message: &[u8],
        says: &[u8],
    ) -> Result<(Agreed, Vec<u8>), SealError> {
        match security {
            Security::Noise { secret, peer, .. } => {
                let mut state = builder()
                    .prologue(PROLOGUE)?
                    .local_private_key(secret)?
                    .build_responder()?;
                let mut said = vec![0; message.len()];
                let len = state.read_message(message, &mut said)?;
                said.truncate(len);
                // Authentic, but is it the one we talk to?
                if state.get_remote_static() != Some(peer.as_slice()) {
                    return Err(SealError::Message);
                }
                let mut answer = vec![0; 256];
                let len = state.write_message(says, &mut answer)?;
                answer.truncate(len);
                let agreed = Agreed {
                    rank: rank(&state),
                    sealer: Sealer::Noise(Box::new(state.into_stateless_transport_mode()?)),
                    said,
                };
                Ok((agreed, answer))
            }
            Security::Plain => {
                let (theirs, said) = read_plain(message)?;
                let ours = random()?;
                let agreed = Agreed {
                    rank: u64::from_be_bytes(theirs),
                    sealer: Sealer::Plain {
                        key: (theirs, ours),
                        initiator: false,
                    },
                    said: said.to_vec(),
                };
                // The answer repeats the question's half: it is no answer to another.
                let mut says_more = theirs.to_vec();
                says_more.extend(says);
                Ok((agreed, plain_message(ours, &says_more)))
            }
        }
    }

    /// Reads the answer. The handshake stays as it was if it is none.
    pub fn end(&mut self, message: &[u8]) -> Result<Agreed, SealError> {
        match self {
            Handshake::Noise(state) => {
                let mut said = vec![0; message.len()];
                let len = state.read_message(message, &mut said)?;
                said.truncate(len);
                // Read above; what is left behind is never used again.
                let done = std::mem::replace(state, Box::new(spent()?));
                Ok(Agreed {
                    rank: rank(&done),
                    sealer: Sealer::Noise(Box::new(done.into_stateless_transport_mode()?)),
                    said,
                })
            }
            Handshake::Plain(ours) => {
                let (theirs, said) = read_plain(message)?;
                let (repeated, said) = said.split_at_checked(8).ok_or(SealError::Message)?;
                if repeated != ours {
                    return Err(SealError::Message);
                }
                Ok(Agreed {
                    rank: u64::from_be_bytes(*ours),
                    sealer: Sealer::Plain {
                        key: (*ours, theirs),
                        initiator: true,
                    },
                    said: said.to_vec(),
                })
            }
        }
    }
}

/// A handshake that cannot be used.
fn spent() -> Result<HandshakeState, SealError> {
    let key = [1; 32];
    Ok(builder()
        .local_private_key(&key)?
        .remote_public_key(&key)?
        .build_initiator()?)
}

fn random() -> Result<[u8; 8], SealError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(SealError::Random)?;
    Ok(bytes)
}

fn plain_message(half: [u8; 8], says: &[u8]) -> Vec<u8> {
    [PROLOGUE, &half, says].concat()
}

fn read_plain(message: &[u8]) -> Result<([u8; 8], &[u8]), SealError> {
    let rest = message.strip_prefix(PROLOGUE).ok_or(SealError::Message)?;
    let (half, said) = rest.split_first_chunk::<8>().ok_or(SealError::Message)?;
    Ok((*half, said))
}

/// Seals and opens the datagrams of a session.
pub(crate) enum Sealer {
    Noise(Box<StatelessTransportState>),
    Plain {
        key: ([u8; 8], [u8; 8]),
        initiator: bool,
    },
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

impl Sealer {
    /// Appends what is sealed.
    pub fn seal(&self, number: u64, plain: &[u8], out: &mut Vec<u8>) -> Result<(), SealError> {
        match self {
            Sealer::Noise(state) => {
                let start = out.len();
                out.resize(start + plain.len() + TAG, 0);
                state.write_message(number, plain, &mut out[start..])?;
            }
            Sealer::Plain { key, initiator } => {
                out.extend(plain);
                out.extend(check(key, *initiator, number, plain));
            }
        }
        Ok(())
    }

    /// Appends what was sealed, if it is authentic.
    pub fn open(&self, number: u64, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), SealError> {
        let start = out.len();
        match self {
            Sealer::Noise(state) => {
                out.resize(start + sealed.len(), 0);
                let len = state.read_message(number, sealed, &mut out[start..]);
                out.truncate(start + len.as_ref().copied().unwrap_or(0));
                len?;
            }
            Sealer::Plain { key, initiator } => {
                let (plain, tag) = sealed
                    .split_last_chunk::<PLAIN_TAG>()
                    .ok_or(SealError::Message)?;
                if *tag != check(key, !initiator, number, plain) {
                    return Err(SealError::Message);
                }
                out.extend(plain);
            }
        }
        Ok(())
    }
}

/// SipHash-2-4 under the session's key, of who says it, the number, and what is said.
fn check(key: &([u8; 8], [u8; 8]), initiator: bool, number: u64, plain: &[u8]) -> [u8; 8] {
    let word = u64::from_le_bytes;
    let mut hasher = SipHasher24::new_with_keys(word(key.0), word(key.1));
    hasher.write(&[u8::from(initiator)]);
    hasher.write(&number.to_be_bytes());
    hasher.write(plain);
    hasher.finish().to_be_bytes()
}

/// Keeps out what was not meant for this side before anything dear is done: the hash of a
/// first message under the public key of the one whom it is for.
pub(crate) fn mark(security: &Security, ours: bool, message: &[u8]) -> [u8; 8] {
    let key: [u8; 32] = match security {
        Security::Noise { public, .. } if ours => *public,
        Security::Noise { peer, .. } => *peer,
        Security::Plain => [0; 32],
    };
    let mut half = [[0; 8]; 2];
    half[0].copy_from_slice(&key[..8]);
    half[1].copy_from_slice(&key[8..16]);
    check(&(half[0], half[1]), true, 0, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_as_text() {
        let pair = KeyPair::generate().expect("random numbers");
        let text = key_to_text(&pair.secret);
        let again = key_from_text(&format!(" {text}\n")).expect("a key");
        assert_eq!(again, pair.secret);
        let same = KeyPair::from_secret(again).expect("a key");
        assert_eq!(same.public, pair.public);
        for wrong in [
            "",
            "00",
            &text[1..],
            &text.replace(&text[..2], "zz"),
            &"ä".repeat(32),
        ] {
            assert!(key_from_text(wrong).is_err(), "{wrong}");
        }
    }
}
