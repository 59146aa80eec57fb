//! Low-power radio: IEEE 802.15.4 without beacons, AODV or static routes, energy, and
//! TCP over it.
//!
//! Nodes stand still. Each has a MAC (unslotted CSMA/CA), a queue, a router and a meter;
//! one medium says who hears whom. Time is integer nanoseconds. `docs/radio.md` says
//! what is modelled and what is not.

mod air;
mod aodv;
mod energy;
mod frame;
mod mac;
mod report;
mod routes;
mod run;
#[cfg(test)]
mod saturation;
#[cfg(test)]
mod tests;
pub mod timing;
mod world;

pub use energy::{Meter, Power};
pub use frame::NodeId;
pub use report::{RadioOptions, run};
pub use routes::shortest;
pub use run::{Point, check, run_point, run_points};
pub use world::{FlowResult, FlowSetup, NodeCounts, RadioResult, World};
