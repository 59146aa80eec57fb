//! The two ends of a connection, as state machines without I/O.
//!
//! A [`Sender`] has data to send when it was supplied with them, a [`Receiver`]
//! acknowledges. Both take packets and the time, and give packets and the time at
//! which they want to be asked again. What they do in detail is a
//! [`SenderConfig`] and a [`ReceiverConfig`], which [`configure`] makes from the
//! options of a flow; flows that share their options share these.

mod board;
mod classic;
mod config;
mod control;
mod cubic;
mod delack;
mod growth;
mod hystart;
mod offer;
mod rack;
mod reassembly;
mod receiver;
mod rtt;
mod selective;
mod sender;
mod stack;
mod stats;
mod usage;

pub use config::{
    Avoidance, CONGESTION_CONTROLS, ConfigError, ReceiverConfig, SenderConfig, configure,
};
pub use receiver::Receiver;
pub use rtt::RtoConfig;
pub use sender::Sender;
pub use stack::StackPolicy;
pub use stats::{ReceiverStats, SenderStats};
