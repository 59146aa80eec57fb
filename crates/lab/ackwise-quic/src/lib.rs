//! QUIC (RFC 9000) in simulated time: the ends of a connection that carries one stream of data.
//!
//! The protocol is quinn-proto's, which does no I/O: it takes datagrams and the time, and returns
//! both. [`Client`] opens the connection and sends, [`Server`] receives and acknowledges.
//! Everything that would differ from run to run is replaced: ciphers by ones that change only
//! lengths (`plain_crypto`), random numbers by a seed, and clocks by the caller's. A run is thus a
//! function of its configuration.
//!
//! Times are nanoseconds since the start of the run. A datagram is the payload of a UDP packet.

mod config;
mod end;
mod plain_crypto;

pub use config::{AckFrequency, Config, ConfigError, Congestion};
pub use end::{Client, Datagram, Server, Stats};
