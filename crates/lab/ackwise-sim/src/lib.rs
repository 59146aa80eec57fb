//! A discrete-event simulator of TCP and its acknowledgments.
//!
//! Time is integer nanoseconds and has one owner, the engine. Everything else is
//! a state machine without I/O: packets and the time go in, packets and the next
//! wake-up come out. A run is a function of its scenario and seed, bit for bit.
#![forbid(unsafe_code)]

pub mod app;
pub mod build;
pub mod channel;
pub mod connection;
pub mod count;
pub mod endpoint;
pub mod ends;
pub mod engine;
mod error;
mod estimate;
pub mod interface_policy;
pub mod line;
mod options;
mod own_policy;
pub mod packet;
pub mod packet_handle;
pub mod quic_endpoint;
mod record;
mod recorder;
mod run;
pub mod schedule;
mod segment;
pub mod switchback;
pub mod tcp;
mod tcp_endpoint;
mod time;

pub use ackwise_queue::Nanos;
pub use ackwise_scenario::Progress;
pub use error::SimError;
pub use options::RunOptions;
pub use own_policy::{OwnPolicies, OwnPolicy};
pub use run::{Observer, check, run, run_these};
