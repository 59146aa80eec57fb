//! How a scenario is run.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::own_policy::OwnPolicies;

/// How to run a scenario.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Set it and the runs end soon, leaving those that are finished in the
    /// report.
    pub cancel: Arc<AtomicBool>,
    /// Only these runs (by `RunSpec::id`); all if empty.
    pub only: Vec<String>,
    /// How many at a time; as many as there are CPUs if 0.
    pub jobs: usize,
    /// A run that would take more events than this is refused.
    pub max_events: u64,
    /// Runs that would take more memory than this together are refused, bytes.
    pub max_memory: u64,
    /// Policies of the caller's.
    pub policies: OwnPolicies,
}

impl RunOptions {
    /// Some ten minutes of a CPU.
    pub const MAX_EVENTS: u64 = 10_000_000_000;
    /// Four GiB.
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
