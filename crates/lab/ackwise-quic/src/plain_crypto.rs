//! A handshake and ciphers for quinn-proto that change only lengths, which are those of TLS 1.3
//! with a certificate of about a kilobyte. Every run has the same bytes, and no time is spent on
//! ciphers.
//!
//! Messages have fixed lengths: client hello, server hello, the server's parameters with its
//! certificate, and the client's finish. Messages with transport parameters state their length.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{
    AeadKey, ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey,
    HmacKey, KeyPair, Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};

const CLIENT_HELLO: usize = 300;
const SERVER_HELLO: usize = 90;
const SERVER_CERTIFICATE: usize = 1200;
const CLIENT_FINISHED: usize = 36;
/// Length of the tag, as in AES-GCM.
const TAG: usize = 16;

/// Every key.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

fn pair() -> KeyPair<Box<dyn PacketKey>> {
    KeyPair {
        local: Box::new(Plain),
        remote: Box::new(Plain),
    }
}

fn keys() -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(Plain),
            remote: Box::new(Plain),
        },
        packet: pair(),
    }
}

impl HeaderKey for Plain {
    fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        16
    }
}

impl PacketKey for Plain {
    fn encrypt(&self, _packet: u64, _buf: &mut [u8], _header_len: usize) {}

    fn decrypt(
        &self,
        _packet: u64,
        _header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        let len = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
        payload.truncate(len);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

/// Distinguishes connection identifiers, as stateless reset tokens must.
impl HmacKey for Plain {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        signature_out.fill(0);
        let len = signature_out.len();
        for (i, byte) in data.iter().enumerate() {
            signature_out[i % len] ^= byte;
        }
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut own = [0; 32];
        self.sign(data, &mut own);
        (own == signature).then_some(()).ok_or(CryptoError)
    }
}

impl HandshakeTokenKey for Plain {
    fn aead_from_hkdf(&self, _random_bytes: &[u8]) -> Box<dyn AeadKey> {
        Box::new(Plain)
    }
}

impl AeadKey for Plain {
    fn seal(&self, data: &mut Vec<u8>, _additional_data: &[u8]) -> Result<(), CryptoError> {
        data.extend([0; TAG]);
        Ok(())
    }

    fn open<'a>(
        &self,
        data: &'a mut [u8],
        _additional_data: &[u8],
    ) -> Result<&'a mut [u8], CryptoError> {
        let len = data.len().checked_sub(TAG).ok_or(CryptoError)?;
        Ok(&mut data[..len])
    }
}

impl ClientConfig for Plain {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        _server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(Handshake::new(Side::Client, params)))
    }
}

impl ServerConfig for Plain {
    fn initial_keys(
        &self,
        _version: u32,
        _dst_cid: &ConnectionId,
    ) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }

    fn retry_tag(&self, _version: u32, _orig_dst_cid: &ConnectionId, _packet: &[u8]) -> [u8; 16] {
        [0; 16]
    }

    fn start_session(
        self: Arc<Self>,
        _version: u32,
        params: &TransportParameters,
    ) -> Box<dyn Session> {
        Box::new(Handshake::new(Side::Server, params))
    }
}

/// What an end waits for, or must write next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    WriteHello,
    AwaitHello,
    WriteServerHello,
    TakeHandshakeKeys,
    WriteCertificate,
    AwaitCertificate,
    WriteFinished,
    AwaitFinished,
    Done,
}

struct Handshake {
    side: Side,
    step: Step,
    /// Own transport parameters, encoded.
    own: Vec<u8>,
    peer: Option<TransportParameters>,
    /// The bytes of the awaited message read so far.
    read: Vec<u8>,
    is_reported: bool,
}

impl Handshake {
    fn new(side: Side, params: &TransportParameters) -> Handshake {
        let mut own = Vec::new();
        params.write(&mut own);
        Handshake {
            side,
            step: match side {
                Side::Client => Step::WriteHello,
                Side::Server => Step::AwaitHello,
            },
            own,
            peer: None,
            read: Vec::new(),
            is_reported: false,
        }
    }

    /// Length of the awaited message.
    fn awaited(&self) -> Option<usize> {
        match (self.side, self.step) {
            (Side::Server, Step::AwaitHello) => Some(CLIENT_HELLO),
            (Side::Client, Step::AwaitHello) => Some(SERVER_HELLO),
            (_, Step::AwaitCertificate) => Some(SERVER_CERTIFICATE),
            (_, Step::AwaitFinished) => Some(CLIENT_FINISHED),
            _ => None,
        }
    }

    /// Writes the transport parameters after their length, padded to `len`.
    fn write_parameters(&self, buf: &mut Vec<u8>, len: usize) {
        let own = self.own.len() as u32;
        let end = buf.len() + len;
        buf.extend(own.to_be_bytes());
        buf.extend(&self.own);
        buf.resize(end, 0);
    }

    fn read_parameters(&mut self) -> Result<(), TransportError> {
        let wrong = || TransportError::from(TransportErrorCode::PROTOCOL_VIOLATION);
        let (len, rest) = self.read.split_first_chunk().ok_or_else(wrong)?;
        let len = u32::from_be_bytes(*len) as usize;
        let mut params = rest.get(..len).ok_or_else(wrong)?;
        let read = TransportParameters::read(self.side, &mut params).map_err(|_| wrong())?;
        self.peer = Some(read);
        Ok(())
    }
}

impl Session for Handshake {
    fn initial_keys(&self, _dst_cid: &ConnectionId, _side: Side) -> Keys {
        keys()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.step != Step::Done
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.read.extend(buf);
        while let Some(len) = self.awaited().filter(|len| *len <= self.read.len()) {
            let next = match (self.side, self.step) {
                (Side::Server, Step::AwaitHello) => {
                    self.read_parameters()?;
                    Step::WriteServerHello
                }
                (Side::Client, Step::AwaitHello) => Step::TakeHandshakeKeys,
                (_, Step::AwaitCertificate) => {
                    self.read_parameters()?;
                    Step::WriteFinished
                }
                _ => Step::Done,
            };
            self.read.drain(..len);
            self.step = next;
        }
        let ready = self.peer.is_some() && !self.is_reported;
        self.is_reported |= ready;
        Ok(ready)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.peer)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let (next, keys) = match self.step {
            Step::WriteHello => {
                self.write_parameters(buf, CLIENT_HELLO);
                (Step::AwaitHello, None)
            }
            Step::WriteServerHello => {
                buf.resize(buf.len() + SERVER_HELLO, 0);
                (Step::WriteCertificate, Some(keys()))
            }
            Step::TakeHandshakeKeys => (Step::AwaitCertificate, Some(keys())),
            Step::WriteCertificate => {
                self.write_parameters(buf, SERVER_CERTIFICATE);
                (Step::AwaitFinished, Some(keys()))
            }
            Step::WriteFinished => {
                buf.resize(buf.len() + CLIENT_FINISHED, 0);
                (Step::Done, Some(keys()))
            }
            _ => return None,
        };
        self.step = next;
        keys
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(pair())
    }

    fn is_valid_retry(
        &self,
        _orig_dst_cid: &ConnectionId,
        _header: &[u8],
        _payload: &[u8],
    ) -> bool {
        false
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}
