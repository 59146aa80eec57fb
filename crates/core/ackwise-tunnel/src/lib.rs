//! Carries the ACKs of many TCP flows in few, small, authenticated datagrams.
//!
//! Everything here is sans-I/O: packets and the time come in as arguments; packets,
//! datagrams and the next wake-up time come out. `docs/tunnel-format.md` describes the
//! bytes.
//!
//! - [`Tunnel`] is one end of a tunnel with one peer: handshakes and sessions, the
//!   multiplexing period, feedback, path MTU discovery.
//! - [`Encoder`] and [`Decoder`] turn ACKs into bundles and back, byte for byte. A bundle
//!   refers only to bundles that the peer has acknowledged, never to one that may be lost.
//!   Loss and reordering therefore cost the lost bundle and nothing else.
//!
//! The feature `traces` adds recorded ACKs and their replay through both codecs. Tests,
//! benchmarks and the laboratory use it; the daemon does not.
#![forbid(unsafe_code)]

mod ack;
mod aligned;
mod bundle;
mod cipher;
mod classifier;
mod codec_pair;
mod decoder;
mod delta;
mod encoder;
mod entropy;
mod flow_key;
mod flow_state;
mod handshake;
mod handshake_guard;
mod initiation;
mod keys;
mod mac;
mod memory;
mod open_error;
mod options;
mod packets;
mod pmtu;
mod range;
mod replay_window;
mod rtt;
mod sack;
mod session;
mod session_table;
mod timers;
#[cfg(any(test, feature = "traces"))]
pub mod trace;
#[cfg(any(test, feature = "traces"))]
pub mod trace_replay;
mod tunnel;

pub use bundle::{Feedback, Variant};
pub use decoder::{DecodeError, Decoded, Decoder};
pub use encoder::{Bundled, Encoder, MAX_UNCOMPRESSED, MIN_BUNDLE, Pushed};
pub use handshake_guard::{Admission, HandshakeGuard};
pub use initiation::{Initiation, is_initiation, is_response};
pub use keys::{CryptoError, KeyPair, Security, key_from_base64, key_to_base64};
pub use open_error::OpenError;
pub use packets::Packets;
pub use tunnel::{Actions, Counters, DatagramError, OtherPackets, Source, Tunnel, TunnelConfig};

/// The bytes before the sealed part of a datagram.
pub const HEADER_LEN: usize = 4;
/// The bytes that encryption adds after it.
pub const TAG_LEN: usize = 16;
/// The bytes of the check of a session without encryption.
const PLAIN_TAG_LEN: usize = 8;
