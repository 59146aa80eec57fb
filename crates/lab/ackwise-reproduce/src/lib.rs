//! Reproduces the papers' experiments: published numbers beside measured ones.
//!
//! A [`Paper`] is a module that runs scenario files of `scenarios/papers/` on an engine and
//! derives [`Experiment`](ackwise_report::Experiment)s and
//! [`Figure`](ackwise_report::Figure)s from the results. The [`Lab`] that it receives runs
//! scenarios, reports progress, and knows whether a short version is enough. [`reproduce`]
//! reproduces one paper; [`papers`] lists them.
//!
//! Measured numbers are never set by hand. A row beside a published value has a tolerance and a
//! verdict, or says why the two cannot be compared; a [`Claim`] of a paper that no row answers
//! becomes a row that says why it was not run. Where a paper leaves something open, it is varied,
//! and the spread is reported. Some parameters that a paper does not print were chosen because with
//! them ns-2 comes near its results (packet and queue of Saldana; delays, window, queues and bursts
//! of Marhoon): a fit, and no derivation. The paper's page says which.

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
