//! Loads, attaches, feeds and observes the eBPF datapath.
//!
//! ```no_run
//! use ackwise_datapath::{Attachment, Options};
//!
//! let policy = "adaptive".parse()?;
//! let attachment = Attachment::attach(Options::new("eth0", policy))?;
//! std::thread::sleep(std::time::Duration::from_secs(10));
//! println!("{} ACKs never left", attachment.stats()?.packets_saved);
//! attachment.detach()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What the programs do, and why so, is told at the top of
//! `bpf/ackwise.bpf.c`. The crate `ackwise-bpf` compiles them; this one gives them their
//! constants, hooks them in, and sends on its way what they have held long
//! enough ([`Attachment`]). [`control`] is how one process finds and asks
//! another that is attached.

mod attach;
pub mod control;
mod emit;
mod error;
mod hooks;
mod net;
mod options;
mod programs;
#[cfg(feature = "selftest")]
mod selftest;
mod stats;
pub mod sys;

pub use ackwise_netdev::Attach;
pub use attach::{Attachment, Ended};
pub use error::Error;
pub use options::{Matches, Options, Position, Prefix};
pub use programs::Programs;
#[cfg(feature = "selftest")]
#[doc(hidden)]
pub use selftest::LockContention;
pub use stats::{FlowStats, HoldBucket, HoldTimes, Lateness, Release, Stats};
