//! The two ends of a connection, as state machines without I/O.
//!
//! A [`Sender`] sends the data that it is supplied with, and a [`Receiver`]
//! acknowledges them. Both take packets and the time, and return packets and the time at
//! which they must be called next. Their details are in a
//! [`SenderConfig`] and a [`ReceiverConfig`], which [`configure`] makes from the
//! options of a flow; flows with the same options share them.

mod ack_rate;
mod ack_ratio;
mod config;
mod configure;
mod congestion;
mod congestion_window;
mod control;
mod cwnd_validation;
mod delack;
mod delivery_rate;
mod hystart;
mod loss_recovery;
mod pacing;
mod reassembly;
mod receive_window;
mod receiver;
mod recovery_state;
mod rtt;
mod scoreboard;
mod sender;
mod stack;
mod stats;
mod tcb;

pub use config::{ReceiverConfig, SenderConfig};
pub use configure::{ConfigError, configure};
pub use congestion::congestion_controls;
pub use receiver::Receiver;
pub use rtt::RtoConfig;
pub use sender::Sender;
pub use stack::StackPolicy;
pub use stats::{ReceiverStats, SenderStats};
