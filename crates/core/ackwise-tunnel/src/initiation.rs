//! An initiation that was received and read, before its peer is known.

use crate::HEADER_LEN;
use crate::handshake::{Received, Response};
use crate::keys::{CryptoError, KeyPair};
use crate::mac::Parts;
use crate::open_error::OpenError;
use crate::session::{HANDSHAKE_INITIATION, HANDSHAKE_RESPONSE, INDEX_MASK};

/// The version in the payload of handshakes.
const VERSION: u8 = 1;

/// The payload of a handshake message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payload {
    /// The sender's index of the session.
    pub index: u8,
    /// The number of flows whose state the sender keeps.
    pub max_flows: u16,
    /// The time at which it was made, in nanoseconds since 1970: it increases with each initiation
    /// of a peer. In a response it is 0.
    pub timestamp: u64,
}

impl Payload {
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![VERSION, self.index];
        bytes.extend(self.max_flows.to_be_bytes());
        bytes.extend(self.timestamp.to_be_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Payload> {
        let (head, timestamp) = bytes.split_last_chunk::<8>()?;
        match *head {
            [VERSION, index @ ..=INDEX_MASK, high, low] => Some(Payload {
                index,
                max_flows: u16::from_be_bytes([high, low]),
                timestamp: u64::from_be_bytes(*timestamp),
            }),
            _ => None,
        }
    }
}

/// An initiation. With encryption it is authentic, but it may be a replay.
#[derive(Debug)]
pub struct Initiation {
    received: Received,
    pub(crate) payload: Payload,
}

impl Initiation {
    /// Reads an initiation with a correct `mac1`.
    pub(crate) fn read(keys: Option<&KeyPair>, datagram: &[u8]) -> Result<Initiation, OpenError> {
        let parts = Parts::of(datagram).ok_or(OpenError::UnknownType)?;
        let message = &parts.message[HEADER_LEN..];
        let received = Received::read(keys, message).map_err(|_| OpenError::NotAuthentic)?;
        let payload = Payload::from_bytes(&received.payload).ok_or(OpenError::UnknownType)?;
        Ok(Initiation { received, payload })
    }

    /// Returns the static public key of the initiator, with encryption.
    pub fn peer(&self) -> Option<&[u8]> {
        self.received.peer()
    }

    /// Makes the response.
    pub(crate) fn respond(self, payload: Payload) -> Result<Response, CryptoError> {
        self.received.respond(&payload.to_bytes())
    }
}

/// Whether a datagram is an initiation, according to its first byte.
#[must_use]
pub fn is_initiation(datagram: &[u8]) -> bool {
    is_of_type(datagram, HANDSHAKE_INITIATION)
}

/// Whether a datagram is a response to an initiation, according to its first byte.
#[must_use]
pub fn is_response(datagram: &[u8]) -> bool {
    is_of_type(datagram, HANDSHAKE_RESPONSE)
}

fn is_of_type(datagram: &[u8], kind: u8) -> bool {
    datagram.first().map(|first| first & !INDEX_MASK) == Some(kind)
}
