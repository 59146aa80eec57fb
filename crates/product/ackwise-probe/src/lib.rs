//! Finds out what a path does to ACKs.
//!
//! Two programs play TCP flows on raw sockets, following a script that both know: the [`Client`],
//! which was asked to probe, and the [`Server`], its partner. Each records what it sent and saw.
//! The client compares what left one end with what arrived at the other.

mod boxes;
mod changes;
mod compare;
mod connection;
mod engine;
mod error;
mod findings;
mod pairs;
pub mod protocol;
mod record;
mod report;
mod script;
mod segment;
mod session;
mod signs;
mod socket;
mod stats;

pub use boxes::{BoxKind, IdentifiedBox, boxes};
pub use changes::Changes;
pub use compare::Direction;
pub use engine::Records;
pub use error::{Error, PeerText};
pub use record::{Record, Role};
pub use report::{Counts, Fact, Report, Side};
pub use script::{End, INTERVALS, Phase, Script, Stage};
pub use session::{Client, Server, StageRecords};
pub use signs::Signs;
