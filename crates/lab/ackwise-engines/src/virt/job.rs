//! Messages between host and guest, as files in the job's directory.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ackwise_scenario::record::{Run, RunContext};
use serde::{Deserialize, Serialize};

use crate::live::Incident;
use crate::topology::LinkBackend;
use crate::traffic::Behaviour;

/// Host → guest: what to run ([`Job`]).
pub(super) const JOB_FILE: &str = "job.json";
/// Host → guest: a link to the operator's command, if the job needs it.
pub(super) const ACKWISE_FILE: &str = "ackwise";
/// Guest → host: the result ([`Answer`]).
pub(super) const RESULT_FILE: &str = "answer.json";
/// Guest → host: nanoseconds of traffic so far, in decimal.
pub(super) const PROGRESS_FILE: &str = "progress";
/// Guest → host: captures.
pub(super) const CAPTURE_DIRECTORY: &str = "captures";

/// One run of a scenario.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    /// Name of the scenario file.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// The traces that it names, because the guest does not see every directory of the host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub traces: BTreeMap<String, String>,
    /// `RunSpec::id`.
    pub run: String,
    /// The backend of the links.
    pub backend: LinkBackend,
    /// Misbehaviour of applications.
    pub behaviour: Vec<(String, Behaviour)>,
    /// See `VirtualOptions::disturbance`.
    pub disturbance: u32,
    /// Network events.
    pub incidents: Vec<Incident>,
}

/// The final answer of a guest.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The run was made; it may have errors of its own.
    Done(Box<RecordedRun>),
    /// The run was not made.
    Failed {
        /// The reason.
        why: String,
        /// Whether other runs of the scenario would fail for the same reason.
        fatal: bool,
    },
}

/// A run's record, and how it was made.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RecordedRun {
    pub run: Run,
    pub context: RunContext,
}
