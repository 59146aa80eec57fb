//! One session: keys, datagram numbers and codecs that belong together.
//!
//! Nothing of one session can be mistaken for part of another.

use crate::cipher::Cipher;
use crate::codec_pair::Codecs;
use crate::keys::CryptoError;
use crate::replay_window::ReplayWindow;
use crate::timers::Timers;
use crate::{HEADER_LEN, TAG_LEN};

/// The upper two bits of a message's first byte hold its type, the lower six the receiver's index
/// of the session. A cookie reply has no index.
pub(crate) const COOKIE_REPLY: u8 = 0;
pub(crate) const HANDSHAKE_INITIATION: u8 = 1 << 6;
pub(crate) const HANDSHAKE_RESPONSE: u8 = 2 << 6;
pub(crate) const TRANSPORT_DATA: u8 = 3 << 6;
pub(crate) const INDEX_MASK: u8 = 0x3f;

/// A session with the peer.
#[derive(Debug)]
pub(crate) struct Session {
    /// The index in datagrams from the peer.
    pub index: u8,
    /// The index in datagrams to the peer.
    pub peer_index: u8,
    pub cipher: Cipher,
    pub timers: Timers,
    /// Decides between sessions that both ends initiated at the same time.
    pub tie_break: u64,
    /// Whether the peer stopped answering in this session.
    pub silent: bool,
    /// Whether the peer has proved that it has the keys.
    pub confirmed: bool,
    pub replay_window: ReplayWindow,
    pub codecs: Codecs,
    datagrams_sent: u64,
    bytes_sent: u64,
}

impl Session {
    pub fn new(
        index: u8,
        peer_index: u8,
        cipher: Cipher,
        tie_break: u64,
        timers: Timers,
        codecs: Codecs,
    ) -> Session {
        Session {
            index,
            peer_index,
            cipher,
            tie_break,
            silent: false,
            // The responder proved it with its response.
            confirmed: timers.is_initiator(),
            timers,
            replay_window: ReplayWindow::default(),
            codecs,
            datagrams_sent: 0,
            bytes_sent: 0,
        }
    }

    /// The time at which this session has to be replaced.
    pub fn rekey_at(&self) -> u64 {
        self.timers.rekey_at(self.bytes_sent)
    }

    /// The number of the next datagram.
    pub fn next_number(&self) -> u64 {
        self.datagrams_sent
    }

    /// Makes the next data message from a bundle.
    ///
    /// # Errors
    /// The bundle is too long for a datagram.
    pub fn seal(&mut self, bundle: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let mut datagram = Vec::with_capacity(HEADER_LEN + bundle.len() + TAG_LEN);
        datagram.extend((self.datagrams_sent as u32).to_be_bytes());
        datagram[0] = TRANSPORT_DATA | self.peer_index;
        self.cipher
            .seal(self.datagrams_sent, bundle, &mut datagram)?;
        self.datagrams_sent += 1;
        self.bytes_sent += datagram.len() as u64;
        Ok(datagram)
    }
}
