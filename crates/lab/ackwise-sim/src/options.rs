//! Options for running a scenario.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::own_policy::OwnPolicies;

/// Options for running a scenario.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Set to true to end the runs soon; the report then has the finished ones.
    pub cancel: Arc<AtomicBool>,
    /// Only these runs (by `RunSpec::id`); all if empty.
    pub only: Vec<String>,
    /// How many runs at a time; as many as there are CPUs if 0. If it is 1, the calling thread
    /// executes them.
    pub jobs: usize,
    /// A run that would take more events than this is refused.
    pub max_events: u64,
    /// Runs are refused that together would take more memory than this, in bytes.
    pub max_memory: u64,
    /// Policies of the caller.
    pub policies: OwnPolicies,
}

impl RunOptions {
    /// The default of `max_events`: about ten minutes of one CPU.
    pub const MAX_EVENTS: u64 = 10_000_000_000;
    /// The default of `max_memory`: four GiB.
    pub const MAX_MEMORY: u64 = 4 << 30;
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            cancel: Arc::default(),
            only: Vec::new(),
            jobs: 0,
            max_events: Self::MAX_EVENTS,
            max_memory: Self::MAX_MEMORY,
            policies: OwnPolicies::new(),
        }
    }
}
