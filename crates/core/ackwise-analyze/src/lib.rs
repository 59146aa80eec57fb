//! What the ACKs in a capture cost, and what each policy would have withheld.
//!
//! [`read`] takes packets from a capture file, [`Analyzer`] analyses them, and [`Analysis`] holds
//! the findings. The analysis takes one pass, and a fixed amount of memory per connection. The
//! policies and the contract are those of `policy/`, so the verdicts are those of the datapath's
//! dry run.
//!
//! ```no_run
//! use ackwise_analyze::{Analyzer, Options, read};
//!
//! let mut analyzer = Analyzer::new(Options::default());
//! read(std::fs::File::open("downloads.pcap")?, &mut |packet| analyzer.packet(packet))?;
//! let analysis = analyzer.finish();
//! println!("{:.1} % of the packets are ACKs", analysis.tcp.ack_share_of_packets * 100.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod advice;
mod airtime;
mod analysis;
mod analyzer;
mod capture;
mod data_direction;
mod dry_run;
mod error;
mod finish;
mod link;
mod options;
mod segment_size;
mod unpack;

pub use airtime::Channel;
pub use analysis::*;
pub use analyzer::Analyzer;
pub use capture::{Packet, ReadSummary, read};
pub use dry_run::Counters;
pub use error::CaptureError;
pub use link::{Inner, LinkType, NoPacket};
pub use options::{Options, default_policies};
