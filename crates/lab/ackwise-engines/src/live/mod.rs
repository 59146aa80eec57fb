//! The live engine: the running kernel, in real time.
//!
//! ```no_run
//! use ackwise_engines::live::{self, RunOptions};
//! use ackwise_scenario::Scenario;
//!
//! let scenario = Scenario::load("scenarios/asymmetric.toml")?;
//! let report = live::run(&scenario, &RunOptions::default(), &mut |_| {})?;
//! println!("{}", report.to_json()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod assemble;
mod daemon;
mod datapath;
mod engine;
mod host_counters;
mod incidents;
mod preflight;
mod sampler;
mod signals;
mod stack;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod tunnel_process;
mod tunnels;
pub(crate) mod up;
mod wires;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ackwise_scenario::record::{Report, RunContext};
use ackwise_scenario::{Histogram, RunSpec, Scenario};
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::netns;
use crate::topology::{self, LinkBackend};
use crate::traffic::Behaviour;

pub use ackwise_scenario::Progress;
pub(crate) use assemble::{Done, failed};
pub use preflight::{check, environment};
pub(crate) use preflight::{check_means, check_placements};
pub use signals::cancel_on_signals;

/// How to run a scenario.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Set this to end the runs soon and keep the finished ones in the report; see
    /// [`cancel_on_signals`].
    pub cancel: Arc<AtomicBool>,
    /// The backend of the links.
    pub backend: LinkBackend,
    /// Directory for captures, if the scenario asks for them; the current directory if `None`.
    pub capture_dir: Option<PathBuf>,
    /// The runs to do (by `RunSpec::id`); all if empty.
    pub only: Vec<String>,
    /// Misbehaviour of applications, by name of the flow.
    pub behaviour: Vec<(String, Behaviour)>,
    /// Network events during each run.
    pub incidents: Vec<Incident>,
    /// The operator's command, for `by = "up"`; the one beside this program or in `PATH` if `None`.
    pub ackwise: Option<PathBuf>,
}

/// The kind of time in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Real time.
    Real,
    /// Virtual time, which stands still during computation.
    Virtual,
}

/// A network event while traffic flows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// Time after the start of the run.
    pub after: Duration,
    /// The event.
    pub what: Event,
}

/// The kinds of network events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// An emulated link silently loses IP packets larger than this from now on.
    PathMtu {
        /// The link.
        link: String,
        /// Largest packet that still passes.
        mtu: u32,
    },
    /// A node's interface is deleted.
    DeleteInterface {
        /// The link of the interface.
        link: String,
        /// The node.
        node: String,
    },
    /// An event at a daemon of a tunnel over a link.
    Tunnel {
        /// The link.
        link: String,
        /// The node of the daemon.
        node: String,
        /// The event.
        event: DaemonEvent,
    },
}

/// An event at a daemon of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DaemonEvent {
    /// It shuts down cleanly.
    Ends,
    /// It starts without any earlier state.
    Starts,
    /// It starts as a separate process. The running program must call
    /// [`run_if_guest`](crate::virt::run_if_guest) first thing.
    StartsAsProcess,
    /// Its process is killed by SIGKILL.
    Killed,
}

/// Callback for progress, on the thread that called [`run`].
pub type Observer<'a> = &'a mut dyn FnMut(Progress<'_>);

/// Runs all runs of a scenario, one after another, in the order of
/// [`Scenario::runs`]: arms that are compared run next to each other.
///
/// A failure within a run becomes an error of that run. A cancelled run is left out of the report,
/// which says so in its notes.
///
/// # Errors
/// A precondition is not met ([`check`]), or the scenario cannot be built.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    observe: Observer<'_>,
) -> Result<Report, LabError> {
    check(scenario)?;
    for name in netns::remove_leftovers()? {
        tracing::info!("removed {name}, left by a process that no longer exists");
    }
    let runs = chosen(scenario, &options.only);
    let backend = preflight::choose_for_all(scenario, &runs, options.backend)?;
    let ackwise = up::check_runs(scenario, &runs, options.ackwise.as_deref())?;
    if ackwise.is_some() && !topology::kernel_has_cake()? {
        return Err(up::no_cake("this kernel has no cake"));
    }
    let options = &RunOptions {
        ackwise,
        ..options.clone()
    };
    let mut report = Report::new("live", scenario);
    report.environment = preflight::environment();
    let mut lateness = Histogram::default();
    let total = runs.len();
    for (index, spec) in runs.iter().enumerate() {
        if options.cancel.load(Ordering::Relaxed) {
            break;
        }
        observe(Progress::Started {
            run: spec,
            index,
            total,
        });
        let request = engine::Request {
            scenario,
            spec,
            options,
            backend,
            clock: Clock::Real,
            index,
        };
        match engine::run_one(&request, observe) {
            Ok(done) => {
                lateness.merge(&done.lateness);
                observe(Progress::Finished {
                    run: &done.run,
                    context: &done.context,
                    index,
                    total,
                });
                report.add(done.run, done.context);
            }
            Err(LabError::Cancelled) => break,
            // What one run cannot build, the next one cannot either.
            Err(error) if error.is_of_scenario() => return Err(error),
            Err(error) => {
                let run = assemble::failed(spec, &error);
                observe(Progress::Finished {
                    run: &run,
                    context: &RunContext::default(),
                    index,
                    total,
                });
                report.runs.push(run);
            }
        }
    }
    if report.runs.len() < total {
        report.notes.push(format!(
            "Cancelled: {} of {total} runs were finished.",
            report.runs.len()
        ));
    }
    report.environment.link_lateness_us = lateness.quantiles_us();
    Ok(report)
}

/// The runs with these ids, or all if none is named, in the scenario's order.
pub(crate) fn chosen(scenario: &Scenario, only: &[String]) -> Vec<RunSpec> {
    let mut runs = scenario.runs();
    runs.retain(|run| only.is_empty() || only.contains(&run.id));
    runs
}

/// Does one run inside a machine in virtual time.
///
/// # Errors
/// A precondition is not met, or the run failed.
pub(crate) fn run_virtual(
    scenario: &Scenario,
    spec: &RunSpec,
    options: &RunOptions,
    observe: Observer<'_>,
) -> Result<Done, LabError> {
    let changed = scenario.at(spec)?;
    preflight::check_with(&changed, Clock::Virtual)?;
    // Only the emulator supports a path MTU that shrinks.
    let shrinks = |incident: &Incident| matches!(incident.what, Event::PathMtu { .. });
    let backend = match options.backend {
        LinkBackend::Auto if options.incidents.iter().any(shrinks) => LinkBackend::Emulator,
        wanted => preflight::choose_backend(&daemon::without_daemons(&changed), wanted)?,
    };
    let request = engine::Request {
        scenario,
        spec,
        options,
        backend,
        clock: Clock::Virtual,
        index: 0,
    };
    engine::run_one(&request, observe)
}
