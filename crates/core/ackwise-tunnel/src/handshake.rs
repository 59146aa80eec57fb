//! The handshake of a session: an initiation and a response.
//!
//! With encryption it is Noise IK, as in WireGuard. Without encryption, each message carries half
//! of the key of a check.

use std::fmt;

use snow::{Builder, HandshakeState};

use crate::cipher::Cipher;
use crate::keys::{CryptoError, KeyPair, Security};

/// IK: the initiator knows the responder's static key and sends its own encrypted.
const PATTERN: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";
/// The prologue binds handshakes to this protocol and its version.
const PROLOGUE: &[u8] = b"ackwise tunnel 1";
/// Longer than any handshake message.
const MAX_MESSAGE: usize = 256;

/// The initiator's state while it waits for the response.
pub(crate) enum Handshake {
    Noise(Box<HandshakeState>),
    /// The initiator's half of the key of the check.
    Plain([u8; 8]),
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handshake")
    }
}

/// The result of a handshake.
pub(crate) struct Established {
    pub cipher: Cipher,
    /// The payload of the peer's message.
    pub payload: Vec<u8>,
    /// A number that is the same at both ends and differs between handshakes. If both ends
    /// initiate at the same time, the session with the lower number is used.
    pub tie_break: u64,
}

/// A response, and what the responder knows after it.
pub(crate) struct Response {
    pub established: Established,
    pub message: Vec<u8>,
}

impl Handshake {
    /// Makes an initiation with the given payload.
    pub fn initiate(
        security: &Security,
        payload: &[u8],
    ) -> Result<(Handshake, Vec<u8>), CryptoError> {
        match security {
            Security::Noise { secret, peer, .. } => {
                let mut state = builder()
                    .prologue(PROLOGUE)?
                    .local_private_key(secret)?
                    .remote_public_key(peer)?
                    .build_initiator()?;
                let message = write(&mut state, payload)?;
                Ok((Handshake::Noise(Box::new(state)), message))
            }
            Security::Plain => {
                let half = random()?;
                Ok((Handshake::Plain(half), plain_message(half, payload)))
            }
        }
    }

    /// Reads the response and completes the handshake. A wrong response leaves the
    /// handshake as it was.
    pub fn complete(&mut self, response: &[u8]) -> Result<Established, CryptoError> {
        match self {
            Handshake::Noise(state) => {
                let received = read(state, response)?;
                // The state left behind is never used again.
                let done = std::mem::replace(state, Box::new(unusable_state()?));
                established(*done, received)
            }
            Handshake::Plain(ours) => {
                let (theirs, rest) = read_plain(response)?;
                let (echoed, received) = rest.split_at_checked(8).ok_or(CryptoError::Message)?;
                if echoed != ours {
                    return Err(CryptoError::Message);
                }
                Ok(Established {
                    tie_break: u64::from_be_bytes(*ours),
                    cipher: Cipher::Plain {
                        key: [*ours, theirs],
                        initiator: true,
                    },
                    payload: received.to_vec(),
                })
            }
        }
    }
}

/// The message of an initiation that was received. With encryption it is authentic: it was
/// made by the owner of [`Received::peer`]. It may be a replay.
pub(crate) struct Received {
    state: ReceivedState,
    /// The payload of the initiator.
    pub payload: Vec<u8>,
}

enum ReceivedState {
    Noise(Box<HandshakeState>),
    /// The initiator's half of the key of the check.
    Plain([u8; 8]),
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Received")
    }
}

impl Received {
    /// Reads the message of an initiation. `keys` are those of this end, if there is
    /// encryption. With encryption it takes two Diffie-Hellman operations, and one if the
    /// message is not authentic.
    pub fn read(keys: Option<&KeyPair>, message: &[u8]) -> Result<Received, CryptoError> {
        let Some(keys) = keys else {
            let (half, payload) = read_plain(message)?;
            return Ok(Received {
                state: ReceivedState::Plain(half),
                payload: payload.to_vec(),
            });
        };
        let mut state = builder()
            .prologue(PROLOGUE)?
            .local_private_key(&keys.secret)?
            .build_responder()?;
        let payload = read(&mut state, message)?;
        Ok(Received {
            state: ReceivedState::Noise(Box::new(state)),
            payload,
        })
    }

    /// The static public key of the initiator, with encryption.
    pub fn peer(&self) -> Option<&[u8]> {
        match &self.state {
            ReceivedState::Noise(state) => state.get_remote_static(),
            ReceivedState::Plain(_) => None,
        }
    }

    /// Makes the response, with the given payload.
    pub fn respond(self, payload: &[u8]) -> Result<Response, CryptoError> {
        match self.state {
            ReceivedState::Noise(mut state) => {
                let message = write(&mut state, payload)?;
                Ok(Response {
                    established: established(*state, self.payload)?,
                    message,
                })
            }
            ReceivedState::Plain(theirs) => {
                let ours = random()?;
                let established = Established {
                    tie_break: u64::from_be_bytes(theirs),
                    cipher: Cipher::Plain {
                        key: [theirs, ours],
                        initiator: false,
                    },
                    payload: self.payload,
                };
                // The response repeats the initiator's half, which ties it to this initiation.
                let echoed = [&theirs, payload].concat();
                Ok(Response {
                    established,
                    message: plain_message(ours, &echoed),
                })
            }
        }
    }
}

fn builder() -> Builder<'static> {
    // The pattern is a constant that snow knows: the tests would not pass otherwise.
    #[allow(clippy::expect_used)]
    Builder::new(PATTERN.parse().expect("a pattern that snow knows"))
}

fn write(state: &mut HandshakeState, payload: &[u8]) -> Result<Vec<u8>, CryptoError> {
    let mut message = vec![0; MAX_MESSAGE];
    let len = state.write_message(payload, &mut message)?;
    message.truncate(len);
    Ok(message)
}

/// Reads a handshake message and returns its payload.
fn read(state: &mut HandshakeState, message: &[u8]) -> Result<Vec<u8>, CryptoError> {
    let mut payload = vec![0; message.len()];
    let len = state.read_message(message, &mut payload)?;
    payload.truncate(len);
    Ok(payload)
}

fn established(state: HandshakeState, payload: Vec<u8>) -> Result<Established, CryptoError> {
    let hash = state.get_handshake_hash().first_chunk::<8>();
    Ok(Established {
        tie_break: hash.map_or(0, |bytes| u64::from_be_bytes(*bytes)),
        cipher: Cipher::Noise(Box::new(state.into_stateless_transport_mode()?)),
        payload,
    })
}

/// A placeholder for a handshake state that was taken out.
fn unusable_state() -> Result<HandshakeState, CryptoError> {
    let key = [1; 32];
    Ok(builder()
        .local_private_key(&key)?
        .remote_public_key(&key)?
        .build_initiator()?)
}

fn random() -> Result<[u8; 8], CryptoError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(CryptoError::Random)?;
    Ok(bytes)
}

fn plain_message(half: [u8; 8], payload: &[u8]) -> Vec<u8> {
    [PROLOGUE, &half, payload].concat()
}

fn read_plain(message: &[u8]) -> Result<([u8; 8], &[u8]), CryptoError> {
    let rest = message.strip_prefix(PROLOGUE).ok_or(CryptoError::Message)?;
    let (half, payload) = rest.split_first_chunk::<8>().ok_or(CryptoError::Message)?;
    Ok((*half, payload))
}
