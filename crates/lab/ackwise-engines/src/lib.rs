//! Runs a scenario on the real Linux TCP stack.
//!
//! The [`live`] engine builds the scenario's nodes as network namespaces of the
//! running kernel, joins them by veth pairs or by an emulated link, sends real
//! traffic, attaches the datapath where an arm says so, counts every segment
//! and ACK where it crosses the wire, and returns a
//! [`Report`](ackwise_scenario::record::Report).
//!
//! The [`virt`] engine does the same inside a kernel of its own, in virtual
//! time.
//!
//! The engine touches nothing outside the namespaces that it creates. They are removed on every
//! exit path, and [`netns::remove_leftovers`] cleans up after a process that was killed.

pub mod clock;
pub mod command;
pub mod count;
pub mod emulated;
pub mod emulator;
mod error;
pub mod frame;
pub mod kernel_link;
pub mod live;
pub mod netns;
pub mod pcap;
pub mod plan;
pub mod police;
mod priority;
pub mod queue_lengths;
pub mod sniffer;
pub mod tap;
pub mod tcpinfo;
pub mod topology;
pub mod traffic;
pub mod virt;

pub use error::LabError;
