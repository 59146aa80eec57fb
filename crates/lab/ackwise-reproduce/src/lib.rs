//! The papers' experiments, run again: published beside measured.
//!
//! A [`Paper`] is a module that runs scenario files of `scenarios/papers/` on an engine and
//! derives [`Experiment`](ackwise_report::Experiment)s and
//! [`Figure`](ackwise_report::Figure)s from what came out. The [`Lab`] that it is given runs
//! scenarios, tells of progress, and knows whether a short version will do. [`reproduce`] does
//! one paper; [`papers`] lists them.
//!
//! Measured numbers are never set by hand. A row beside a published value has a tolerance and a
//! verdict, or says why the two cannot be compared; a [`Claim`] of a paper that no row answers
//! becomes a row that says why it was not run. Where a paper leaves something open, it is varied,
//! and the spread is reported. Some of what a paper does not print was inferred from what it
//! does (packet and queue of Saldana, delays of Marhoon); its page says so.

mod ayadi;
mod catalog;
mod claim;
mod conclusions;
mod error;
mod lab;
mod marhoon;
mod paper;
mod pavilanskas;
mod saldana;
mod series;
mod statkus;
mod tolerances;

pub use ackwise_scenario::Engine;
pub use catalog::{by_name, papers, reproduce, tolerances_table};
pub use claim::Claim;
pub use error::Error;
pub use lab::{Lab, Outcome, Progress, RunScenario};
pub use paper::{Paper, Reproduced};
pub use tolerances::{Held, unlisted};
