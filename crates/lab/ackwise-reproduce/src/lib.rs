//! The papers' experiments, run again: published beside measured.
//!
//! A [`Paper`] is a module that runs scenario files of `scenarios/papers/` on an engine and
//! derives [`Experiment`](ackwise_report::Experiment)s and
//! [`Figure`](ackwise_report::Figure)s from what came out. The [`Lab`] that it is given runs
//! scenarios, tells of progress, and knows whether a short version will do. [`reproduce`] does
//! one paper; [`papers`] lists them.
//!
//! Measured numbers are never set by hand, and no model is tuned until it matches: where a
//! paper leaves something open, it is varied and the spread is reported.

mod ayadi;
mod catalog;
mod conclusions;
mod error;
mod lab;
mod marhoon;
mod paper;
mod pavilanskas;
mod saldana;
mod series;
mod statkus;

pub use ackwise_scenario::Engine;
pub use catalog::{by_name, papers, reproduce};
pub use error::Error;
pub use lab::{Lab, Outcome, Progress, RunScenario};
pub use paper::{Paper, Reproduced};
