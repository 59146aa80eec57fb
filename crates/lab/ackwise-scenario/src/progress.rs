//! Progress reports while a scenario runs.

use std::time::Duration;

use crate::model::RunSpec;
use crate::record::{Run, RunContext};

/// What an observer is told. Reports of concurrent runs come in any order.
#[derive(Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// A run begins.
    Started {
        /// The run.
        run: &'a RunSpec,
        /// Its index among all runs, from 0.
        index: usize,
        /// Number of runs.
        total: usize,
    },
    /// Time has passed, by the clock of the run's engine.
    Running {
        /// The run's index among all runs, from 0.
        index: usize,
        /// Time since traffic began.
        elapsed: Duration,
        /// The scenario's duration.
        duration: Duration,
    },
    /// A run has ended.
    Finished {
        /// Its result.
        run: &'a Run,
        /// How it was made.
        context: &'a RunContext,
        /// Its index among all runs, from 0.
        index: usize,
        /// Number of runs.
        total: usize,
    },
}
