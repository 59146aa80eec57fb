//! The configuration of a connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, ConnectionId, ConnectionIdGenerator, EndpointConfig,
    ServerConfig, TransportConfig, VarInt,
};

use crate::plain_crypto::Plain;

/// Minimum payload of a datagram for QUIC, bytes (RFC 9000 §14).
pub const MIN_DATAGRAM: u16 = 1200;

/// The congestion controls of quinn-proto.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC (RFC 9438).
    Cubic,
    /// NewReno (RFC 9002 §7).
    NewReno,
    /// BBR version 1, which quinn-proto calls experimental.
    Bbr,
}

/// What the sender requests of the receiver's ACKs (draft-ietf-quic-ack-frequency).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckFrequency {
    /// Packets that may arrive without an ACK. 1 means an ACK for every second packet, as without
    /// the extension.
    pub packets: u32,
    /// Maximum delay of an ACK; `None` means 25 ms, as without the extension. quinn-proto requests
    /// no more than the larger of the round-trip time and 25 ms.
    pub max_ack_delay: Option<Duration>,
}

/// A connection's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The congestion control, which limits the bytes in flight.
    pub congestion: Congestion,
    /// Payload of a full datagram, bytes.
    pub datagram: u16,
    /// The receiver's limit for outstanding data, bytes.
    pub window: u64,
    /// The extension, if the sender uses it.
    pub ack_frequency: Option<AckFrequency>,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// Why a configuration is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigError {
    /// A datagram is shorter than QUIC allows.
    Datagram(u16),
    /// A value is larger than QUIC can encode.
    TooLarge(u64),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Datagram(bytes) => write!(
                f,
                "QUIC needs datagrams of {MIN_DATAGRAM} bytes (RFC 9000 §14), not {bytes}"
            ),
            ConfigError::TooLarge(value) => write!(f, "{value} is more than QUIC can encode"),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Checks the configuration.
    ///
    /// # Errors
    /// A value is outside the range that QUIC allows.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.datagram < MIN_DATAGRAM {
            return Err(ConfigError::Datagram(self.datagram));
        }
        self.transport().map(drop)
    }

    fn transport(&self) -> Result<TransportConfig, ConfigError> {
        let window =
            VarInt::from_u64(self.window).map_err(|_| ConfigError::TooLarge(self.window))?;
        let mut transport = TransportConfig::default();
        transport
            .stream_receive_window(window)
            .receive_window(window)
            .send_window(self.window)
            .initial_mtu(self.datagram)
            .mtu_discovery_config(None)
            .max_idle_timeout(None)
            .enable_segmentation_offload(false)
            .congestion_controller_factory(self.factory());
        if let Some(asked) = &self.ack_frequency {
            let mut extension = AckFrequencyConfig::default();
            extension
                .ack_eliciting_threshold(VarInt::from_u32(asked.packets))
                .max_ack_delay(asked.max_ack_delay);
            transport.ack_frequency_config(Some(extension));
        }
        Ok(transport)
    }

    fn factory(&self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self.congestion {
            Congestion::Cubic => Arc::new(CubicConfig::default()),
            Congestion::NewReno => Arc::new(NewRenoConfig::default()),
            Congestion::Bbr => Arc::new(BbrConfig::default()),
        }
    }

    pub(crate) fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new(Arc::new(Plain));
        let transport = self.transport().unwrap_or_default();
        client
            .transport_config(Arc::new(transport))
            .initial_dst_cid_provider(Arc::new(|| ConnectionId::new(&[0x5a; 20])));
        client
    }

    pub(crate) fn server(&self) -> ServerConfig {
        let mut server = ServerConfig::new(Arc::new(Plain), Arc::new(Plain));
        let transport = self.transport().unwrap_or_default();
        server
            .transport_config(Arc::new(transport))
            .migration(false);
        server
    }

    /// The configuration of an endpoint. The two ends of a connection draw different random
    /// numbers.
    pub(crate) fn endpoint(&self, number: u8) -> EndpointConfig {
        let mut endpoint = EndpointConfig::new(Arc::new(Plain));
        let mut seed = [number; 32];
        seed[..8].copy_from_slice(&self.seed.to_be_bytes());
        endpoint
            .rng_seed(Some(seed))
            .grease_quic_bit(false)
            .cid_generator(move || Box::new(Counted { number, next: 0 }));
        endpoint
    }
}

/// Generates consecutive connection identifiers of eight bytes.
#[derive(Debug)]
struct Counted {
    number: u8,
    next: u32,
}

impl ConnectionIdGenerator for Counted {
    fn generate_cid(&mut self) -> ConnectionId {
        self.next += 1;
        let mut bytes = [self.number; 8];
        bytes[4..].copy_from_slice(&self.next.to_be_bytes());
        ConnectionId::new(&bytes)
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
