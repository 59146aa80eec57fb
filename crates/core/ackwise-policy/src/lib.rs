//! A safe Rust interface to `policy/`: the ACK policies and the contract, as the kernel runs them.
//!
//! No algorithm is implemented here. `build.rs` compiles the C headers, and the names of the
//! policies, their parameters and the contract's reasons come from these headers.
//!
//! ```
//! use ackwise_policy::{Config, Event, Policy, PolicyState, Verdict};
//!
//! let mut config = Config::new(Policy::by_name("every-n")?);
//! config.set("n", "4")?;
//! config.set("warm", "0")?;
//! let mut state = PolicyState::default();
//! let ack = |segments| Event { segments, hold_us: 10_000, ..Event::ack(0) };
//! assert_eq!(state.step(&config, &ack(2)), Verdict::Hold { us: 10_000 });
//! assert_eq!(state.step(&config, &ack(4)), Verdict::Send);
//! # Ok::<(), ackwise_policy::ConfigError>(())
//! ```

mod ack_rate;
mod ack_ratio;
mod config;
mod error;
mod event;
mod flow;
mod hosted;
mod meta;
mod segment;
pub mod vectors;
mod write;

pub use ack_rate::{AckRate, AckRateBytes, AskedAckRate};
pub use ack_ratio::{AckRatio, AckSeen};
pub use ackwise_headers::{LinkKind, ParseError};
pub use config::Config;
pub use error::ConfigError;
pub use event::{Event, EventFlags, EventKind, PolicyState, Verdict};
pub use flow::{
    Decision, Flow, FlowConfig, Handshake, Reason, UPLINK_FULL_BYTES, UPLINK_LOOK_US, Uplink,
};
pub use hosted::{HostedFlow, HostedPolicy};
pub use meta::{Capabilities, Param, Policy, Unsupported};
pub use segment::{Options, Segment, TcpFlags, parse, parse_part};

/// The C types, constants and functions of `policy/src/shim.h`, for environments that
/// share memory with C: maps of a BPF program, tables of a kernel test.
///
/// `scripts/bindings` writes this module, and the build fails if it does not fit the
/// headers.
#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks
)]
#[rustfmt::skip]
pub mod sys;
