//! Carries the ACKs of many flows in few, small, authenticated packets.
//!
//! Everything here is sans-IO: packets and the time come in as arguments, packets and
//! the next wake-up come out. `docs/tunnel-format.md` has the bytes.
//!
//! - [`Encoder`] and [`Decoder`]: ACKs to bundles and back, byte for byte. A bundle is
//!   written against bundles that the other side acknowledged, never against one that
//!   may be lost: loss and reordering cost the lost bundle and nothing else.
#![forbid(unsafe_code)]

mod ack;
mod aligned;
mod bundle;
mod checksum;
mod codec_pair;
mod decoder;
mod delta;
mod encoder;
mod entropy;
mod key;
mod news;
mod pmtu;
mod range;
pub mod replay;
mod rtt;
mod sack;
mod seal;
mod session;
mod shape;
pub mod trace;
mod tunnel;
mod window;
mod write;

pub use bundle::{Feedback, Variant};
pub use decoder::{DecodeError, Decoded, Decoder, Packets};
pub use encoder::{Encoder, LONGEST_CARRIED, MIN_BUNDLE, Made, Pushed};
pub use seal::{KeyPair, SealError, Security, key_from_text, key_to_text};
pub use session::OpenError;
pub use tunnel::{Actions, Counters, DatagramError, Heard, Others, Tunnel, TunnelConfig};

/// Bytes before the sealed part of a datagram.
pub const HEADER: usize = 4;
/// Bytes that sealing adds behind it.
pub const TAG: usize = 16;
