//! Low-power radio: IEEE 802.15.4 without beacons, AODV or static routes, energy, and
//! TCP over it.
//!
//! Nodes do not move. Each has a MAC (unslotted CSMA/CA), a queue, a router and an
//! energy meter, and may sleep; one medium determines who hears whom. Time is integer
//! nanoseconds. A run is a function of its scenario and seed, bit for bit. TCP is that of
//! `ackwise-sim`. `docs/radio.md` says what is modelled and what is not.
//!
//! [`scenario::RadioScenario`] reads a scenario file with a table `[radio]`, [`run()`]
//! turns its runs into a [`scenario::RadioReport`], and [`table()`] and [`html`] show it.
#![forbid(unsafe_code)]

mod air;
mod aodv;
mod energy;
mod frame;
mod mac;
mod page;
mod report;
mod routes;
mod run;
#[cfg(test)]
mod saturation;
pub mod scenario;
mod table;
#[cfg(test)]
mod tests;
pub mod timing;
mod world;

pub use energy::{Meter, Power};
pub use frame::NodeId;
pub use page::html;
pub use report::{RadioOptions, run};
pub use routes::shortest;
pub use run::{Point, check, run_point, run_points};
pub use table::table;
pub use world::{FlowResult, FlowSetup, NodeCounts, RadioResult, World};
