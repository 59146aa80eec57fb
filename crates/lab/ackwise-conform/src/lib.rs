//! A conformance suite for what touches ACKs.
//!
//! Two scripted endpoints send what RFCs call news through a device under test: a queue
//! discipline, a rule set, a middlebox, a datapath. What comes out is judged: lost news, late
//! news, wrong bytes. `docs/conformance.md` publishes what was found.
//!
//! A [`Case`] is data: steps, and what must come out of them. A [`Device`] takes a
//! [`Schedule`] of packets and returns those that arrived. [`judge`] compares.

mod case;
mod cases;
mod device;
mod in_process;
mod judge;
mod packet;
mod schedule;
mod script;

pub use case::{Case, Expect, Level, Script, Step, Variant};
pub use cases::{cases, chosen};
pub use device::{Arrival, Device, Error};
pub use in_process::{InProcess, Queue, QueueFilter};
pub use judge::{CaseReport, DeviceReport, Failure, Outcome, judge};
pub use packet::{Flow, Protocol, Segment, Side, flag, read, without_hops};
pub use schedule::{Departure, Schedule, Shaper};
