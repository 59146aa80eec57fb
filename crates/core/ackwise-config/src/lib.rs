//! Configuration files: reading them, reporting what is wrong with them, and the values that
//! daemons and scenarios share.
//!
//! A file is TOML. [`Source::check`] parses it to a [`tree::Table`] in which every key and value
//! has its position, passes that to a reader, and reports *all* mistakes with line and column. A
//! [`section::Section`] reads typed values with [`units`]. [`interfaces::Interfaces`],
//! [`gateway::Gateway`] and [`tunnel::Tunnel`] are the files of the daemons. [`queues`] describes
//! the queues and middleboxes that a gateway and a simulated link have in common.
#![forbid(unsafe_code)]

pub mod diagnostic;
mod fq_codel_keys;
pub mod gateway;
pub mod interfaces;
pub mod queue_keys;
pub mod queues;
pub mod section;
pub mod source;
pub mod tree;
pub mod tunnel;
pub mod units;
pub mod uplink;

pub use diagnostic::{ConfigError, Diagnostic, Diagnostics, Span};
pub use source::Source;
