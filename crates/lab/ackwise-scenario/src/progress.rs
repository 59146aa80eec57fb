//! What whoever runs a scenario is told meanwhile.

use std::time::Duration;

use crate::model::RunSpec;
use crate::record::{Run, RunContext};

/// What an observer is told; of several runs at a time, in any order.
#[derive(Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// A run begins.
    Started {
        /// The run.
        run: &'a RunSpec,
        /// Its place among all, from 0.
        index: usize,
        /// How many there are.
        total: usize,
    },
    /// Time has passed, by the clock of the run's engine.
    Running {
        /// The run's place among all, from 0.
        index: usize,
        /// Since traffic began.
        elapsed: Duration,
        /// The scenario's duration.
        duration: Duration,
    },
    /// A run has ended.
    Finished {
        /// What it gave.
        run: &'a Run,
        /// How it was made.
        context: &'a RunContext,
        /// Its place among all, from 0.
        index: usize,
        /// How many there are.
        total: usize,
    },
}
