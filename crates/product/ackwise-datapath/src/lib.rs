//! Loads, attaches, feeds and observes the eBPF datapath.
//!
//! ```no_run
//! use ackwise_datapath::{Datapath, Options};
//!
//! let policy = "adaptive".parse()?;
//! let datapath = Datapath::attach(Options::new("eth0", policy))?;
//! std::thread::sleep(std::time::Duration::from_secs(10));
//! println!("{} ACKs never left", datapath.stats()?.packets_saved);
//! datapath.detach()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The top of `bpf/ackwise.bpf.c` says what the programs do, and why. This crate sets their
//! constants, attaches them, and re-emits the ACKs that they have held long enough ([`Datapath`]).
//! [`control`] finds other attached processes and sends them requests.

mod ack_rate;
pub mod control;
mod cpu;
mod datapath;
mod egress;
mod emit;
mod error;
mod hooks;
mod options;
mod programs;
mod renewal;
mod silence;
mod stats;
pub mod sys;

pub use ack_rate::{AckRateCounters, AckRateRequest, AckRateRequester};
pub use ackwise_netdev::AttachMode;
pub use ackwise_netdev::daemon::Ended;
pub use datapath::{Datapath, Prepared, Renewer};
pub use error::Error;
pub use options::{Matches, Options, Position, Prefix};
pub use programs::Programs;
#[cfg(feature = "selftest")]
#[doc(hidden)]
pub use programs::scripted::{Context, Outcome, Scripted, Tag};
#[cfg(feature = "selftest")]
#[doc(hidden)]
pub use programs::selftest::{
    AckBox, AckBoxCounts, AckBoxRules, AckCounter, LockContention, Recycled,
};
pub use silence::check_silent_drop;
pub use stats::{FlowStats, HoldBucket, HoldTimes, Lateness, Release, Stats};
