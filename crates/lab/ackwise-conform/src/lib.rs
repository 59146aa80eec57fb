//! A conformance suite for devices that drop, delay or change ACKs.
//!
//! Two scripted endpoints send ACKs that carry news, by the RFCs, through a device under test: a
//! queue discipline, a rule set, a middlebox, a datapath. The output is judged for lost news, late
//! news and wrong bytes. `docs/conformance.md` publishes the results.
//!
//! A [`Case`] is data: steps, and what they must lead to. A [`Device`] takes a [`Schedule`] of
//! packets and returns those that arrived. [`judge()`] compares.

mod capture;
mod case;
mod cases;
mod device;
mod devices;
mod in_process;
mod joining;
mod judge;
mod links;
mod netns;
mod packet;
mod report;
mod schedule;
mod script;
mod simplemux;
mod tunnel;
mod virt;
mod wire;

pub use capture::directory as captures_of;
pub use case::{Case, Expect, Level, Script, Step, Variant};
pub use cases::{cases, chosen};
pub use device::{Arrival, Device, Error};
pub use devices::{BUILT_IN, BuiltIn, Place, SIMPLEMUX, by_name, not_run};
pub use in_process::{InProcess, Queue, QueueFilter};
pub use judge::{CaseReport, DeviceReport, Failure, Finding, Outcome, judge};
pub use netns::{Between, Router, Setup, Spec};
pub use packet::{Flow, Protocol, Segment, Side, flag, read, without_hops};
pub use report::{Broken, Document, Failed, Judged, NotRun};
pub use schedule::{Departure, Schedule, Shaper};
pub use virt::{in_virtual_time, run, run_if_guest};
