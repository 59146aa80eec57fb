//! The protection of a session's data messages.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use snow::StatelessTransportState;

use crate::keys::CryptoError;
use crate::{PLAIN_TAG_LEN, TAG_LEN};

/// Seals and opens the data messages of one session.
pub(crate) enum Cipher {
    /// ChaCha20-Poly1305 with the keys of a Noise handshake.
    Noise(Box<StatelessTransportState>),
    /// A SipHash-2-4 check, without encryption.
    Plain {
        /// The two halves of the key: the initiator's, then the responder's.
        key: [[u8; 8]; 2],
        initiator: bool,
    },
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher")
    }
}

impl Cipher {
    /// Appends the sealed form of `plain` to `out`. `number` is the nonce.
    pub fn seal(&self, number: u64, plain: &[u8], out: &mut Vec<u8>) -> Result<(), CryptoError> {
        match self {
            Cipher::Noise(state) => {
                let start = out.len();
                out.resize(start + plain.len() + TAG_LEN, 0);
                state.write_message(number, plain, &mut out[start..])?;
            }
            Cipher::Plain { key, initiator } => {
                out.extend(plain);
                out.extend(sip_check(key, *initiator, number, plain));
            }
        }
        Ok(())
    }

    /// Appends the content of `sealed` to `out` if it is authentic. Otherwise `out` stays
    /// as it was.
    pub fn open(&self, number: u64, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), CryptoError> {
        let start = out.len();
        match self {
            Cipher::Noise(state) => {
                out.resize(start + sealed.len(), 0);
                let len = state.read_message(number, sealed, &mut out[start..]);
                out.truncate(start + len.as_ref().copied().unwrap_or(0));
                len?;
            }
            Cipher::Plain { key, initiator } => {
                let (plain, tag) = sealed
                    .split_last_chunk::<PLAIN_TAG_LEN>()
                    .ok_or(CryptoError::Message)?;
                if *tag != sip_check(key, !initiator, number, plain) {
                    return Err(CryptoError::Message);
                }
                out.extend(plain);
            }
        }
        Ok(())
    }
}

/// SipHash-2-4 over the direction, the datagram number and the content.
pub(crate) fn sip_check(
    key: &[[u8; 8]; 2],
    initiator: bool,
    number: u64,
    content: &[u8],
) -> [u8; 8] {
    let [low, high] = key.map(u64::from_le_bytes);
    let mut hasher = SipHasher24::new_with_keys(low, high);
    hasher.write(&[u8::from(initiator)]);
    hasher.write(&number.to_be_bytes());
    hasher.write(content);
    hasher.finish().to_be_bytes()
}
