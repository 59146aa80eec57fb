//! The virtual engine: a Linux kernel of its own for each run, in virtual time.
//!
//! The kernel is User Mode Linux, a program: it runs without privileges, and with
//! `time-travel=inf-cpu` its clock stands still while anything computes and jumps when everything
//! waits. What happens inside depends on the scenario, the seed and the kernel, but not on the
//! host: the same run gives the same record, bit for bit. Inside, the guest's first process runs
//! the [`live`](crate::live) engine's code. See `docs/decisions/0014-virtual-time.md`.

mod guest;
mod job;
mod machine;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use ackwise_rng::Rng;
use ackwise_scenario::record::Report;
use ackwise_scenario::{RunSpec, Scenario};

use crate::error::LabError;
use crate::live::{self, Clock, Observer, Progress, RunOptions};

pub use ackwise_uml::{Kernel, KernelChoice, Release, VARIABLE};
pub use guest::{run_if_guest, serve_if_guest};

use job::{Answer, Job, RecordedRun};
use machine::End;

/// Stream of a run's seed for the guest's random numbers.
const STREAM: u64 = 3000;

/// How to run a scenario in virtual time.
#[derive(Debug, Clone, Default)]
pub struct VirtualOptions {
    /// The options of the live engine.
    pub run: RunOptions,
    /// Number of machines at a time; one per core if `None`.
    pub jobs: Option<usize>,
    /// The kernel; see [`Kernel::find`].
    pub kernel: Option<KernelChoice>,
    /// The guest's first program, which calls [`run_if_guest`] first thing;
    /// this program if `None`.
    pub init: Option<PathBuf>,
    /// How often the clock is read and random bytes are drawn before a run is prepared, as another
    /// release of `ip` or libc might do. It must not change the record; for tests.
    pub disturbance: u32,
}

/// What a worker tells the thread that called [`run`].
enum WorkerMessage {
    Started(usize),
    Running(usize, Duration),
    Finished(usize, Box<Result<RecordedRun, LabError>>),
}

/// Checks whether [`run`] would run a scenario, for callers that do other work first.
///
/// # Errors
/// As [`run`].
pub fn check(scenario: &Scenario, options: &VirtualOptions) -> Result<(), LabError> {
    Checked::new(scenario, options).map(drop)
}

/// What [`run`] needs, once it is known to be there.
struct Checked {
    kernel: Kernel,
    specs: Vec<RunSpec>,
    /// The operator's command, if a run needs it.
    ackwise: Option<PathBuf>,
}

impl Checked {
    fn new(scenario: &Scenario, options: &VirtualOptions) -> Result<Self, LabError> {
        live::check_placements(scenario)?;
        let kernel = Kernel::find(options.kernel.as_ref())?;
        let specs = live::chosen(scenario, &options.run.only);
        for spec in &specs {
            live::check_means(&scenario.at(spec)?, Clock::Virtual)?;
        }
        let ackwise = live::up::check_runs(scenario, &specs, options.run.ackwise.as_deref())?;
        Ok(Self {
            kernel,
            specs,
            ackwise,
        })
    }
}

/// Runs all runs of a scenario, several at a time, each in a separate machine. The report has them
/// in the order of [`Scenario::runs`].
///
/// # Errors
/// There is no kernel, or the scenario cannot be built.
pub fn run(
    scenario: &Scenario,
    options: &VirtualOptions,
    observe: Observer<'_>,
) -> Result<Report, LabError> {
    let Checked {
        kernel,
        specs,
        ackwise,
    } = Checked::new(scenario, options)?;
    ackwise_uml::remove_leftovers();
    let init = match &options.init {
        Some(path) => path.clone(),
        None => {
            std::env::current_exe().map_err(LabError::os("cannot find the path of this program"))?
        }
    };
    let cores = thread::available_parallelism().map_or(1, |count| count.get());
    let workers = options.jobs.unwrap_or(cores).clamp(1, specs.len().max(1));

    let next = AtomicUsize::new(0);
    let give_up = AtomicBool::new(false);
    let (sender, news) = mpsc::channel();
    let mut results = Results {
        scenario,
        specs: &specs,
        give_up: &give_up,
        recorded: BTreeMap::new(),
        fatal: None,
    };
    thread::scope(|scope| {
        // If the observer panics, the machines must end all the same.
        let _end = SetOnDrop(&give_up);
        for _ in 0..workers {
            let sender = sender.clone();
            let (specs, next, give_up) = (&specs, &next, &give_up);
            let (kernel, init, ackwise) = (&kernel, &init, ackwise.as_deref());
            scope.spawn(move || {
                let cancelled = || {
                    give_up.load(Ordering::Relaxed) || options.run.cancel.load(Ordering::Relaxed)
                };
                while !cancelled() {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(spec) = specs.get(index) else { return };
                    let worker = Worker {
                        scenario,
                        options: &options.run,
                        kernel,
                        init,
                        ackwise,
                        sender: &sender,
                        disturbance: options.disturbance,
                    };
                    worker.one(index, spec, &cancelled);
                }
            });
        }
        drop(sender);
        for item in news {
            results.take(item, observe);
        }
    });
    match results.fatal {
        Some(error) => Err(error),
        None => Ok(report(scenario, results.recorded, specs.len())),
    }
}

/// The results from the workers so far.
struct Results<'a> {
    scenario: &'a Scenario,
    specs: &'a [RunSpec],
    /// Set if the scenario cannot be run; no worker then begins another run.
    give_up: &'a AtomicBool,
    /// Finished runs by their index.
    recorded: BTreeMap<usize, RecordedRun>,
    /// The first error that affects the whole scenario.
    fatal: Option<LabError>,
}

impl Results<'_> {
    /// Passes a message to the observer and keeps its result.
    fn take(&mut self, item: WorkerMessage, observe: &mut dyn FnMut(Progress<'_>)) {
        let total = self.specs.len();
        match item {
            WorkerMessage::Started(index) => observe(Progress::Started {
                run: &self.specs[index],
                index,
                total,
            }),
            WorkerMessage::Running(index, elapsed) => observe(Progress::Running {
                index,
                elapsed,
                duration: self.scenario.duration,
            }),
            WorkerMessage::Finished(index, result) => match *result {
                Err(LabError::Cancelled) => {}
                Err(error) if error.is_of_scenario() => {
                    self.give_up.store(true, Ordering::Relaxed);
                    self.fatal.get_or_insert(error);
                }
                Err(error) => {
                    let recorded = RecordedRun {
                        run: live::failed(&self.specs[index], &error),
                        ..RecordedRun::default()
                    };
                    finished(observe, &recorded, index, total);
                    self.recorded.insert(index, recorded);
                }
                Ok(recorded) => {
                    finished(observe, &recorded, index, total);
                    self.recorded.insert(index, recorded);
                }
            },
        }
    }
}

fn finished(
    observe: &mut dyn FnMut(Progress<'_>),
    recorded: &RecordedRun,
    index: usize,
    total: usize,
) {
    observe(Progress::Finished {
        run: &recorded.run,
        context: &recorded.context,
        index,
        total,
    });
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The parts that a worker needs to know.
struct Worker<'a> {
    scenario: &'a Scenario,
    options: &'a RunOptions,
    kernel: &'a Kernel,
    init: &'a Path,
    ackwise: Option<&'a Path>,
    sender: &'a Sender<WorkerMessage>,
    disturbance: u32,
}

impl Worker<'_> {
    fn one(&self, index: usize, spec: &RunSpec, cancelled: &dyn Fn() -> bool) {
        // The send fails only if the caller is already gone.
        let _ = self.sender.send(WorkerMessage::Started(index));
        let result = self.machine(index, spec, cancelled);
        let _ = self
            .sender
            .send(WorkerMessage::Finished(index, Box::new(result)));
    }

    fn machine(
        &self,
        index: usize,
        spec: &RunSpec,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<RecordedRun, LabError> {
        let source = &self.scenario.source;
        let job = Job {
            path: source.path.clone(),
            text: source.text.clone(),
            traces: self.scenario.files.texts(),
            run: spec.id.clone(),
            backend: self.options.backend,
            behaviour: self.options.behaviour.clone(),
            incidents: self.options.incidents.clone(),
            disturbance: self.disturbance,
        };
        let seed = Rng::stream(spec.seed, STREAM).next_u64();
        let machine = machine::boot(self.kernel, self.init, self.ackwise, &job, seed)?;
        let captures = self
            .options
            .capture_dir
            .as_deref()
            .unwrap_or(Path::new("."));
        let end = machine::wait(machine, captures, cancelled, |elapsed| {
            let _ = self.sender.send(WorkerMessage::Running(index, elapsed));
        })?;
        match end {
            End::Cancelled => Err(LabError::Cancelled),
            End::Answered(Answer::Done(mut recorded)) => {
                if let (Some(name), Some(about)) =
                    (&mut recorded.context.environment.kernel, &self.kernel.about)
                {
                    name.push_str(&format!(" ({about})"));
                }
                Ok(*recorded)
            }
            End::Answered(Answer::Failed { why, fatal: true }) => Err(LabError::InGuest(why)),
            End::Answered(Answer::Failed { why, fatal: false }) => Err(LabError::Run(why)),
        }
    }
}

/// Builds the report. It has nothing from the host, so it is the same wherever it was made.
fn report(scenario: &Scenario, recorded: BTreeMap<usize, RecordedRun>, total: usize) -> Report {
    let mut report = Report::new("virtual", scenario);
    for recorded in recorded.into_values() {
        report.add(recorded.run, recorded.context);
    }
    if report.runs.len() < total {
        report.notes.push(format!(
            "Cancelled: {} of {total} runs were finished.",
            report.runs.len()
        ));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that crosses from host to guest must survive the round trip.
    #[test]
    fn a_job_survives_its_file() {
        let job = Job {
            path: "x.toml".into(),
            text: "[scenario]\n".to_owned(),
            traces: [("a.trace".to_owned(), "1\n2\n".to_owned())].into(),
            run: "baseline/cubic/1".to_owned(),
            backend: crate::topology::LinkBackend::Emulator,
            disturbance: 3,
            behaviour: vec![(
                "bulk".to_owned(),
                crate::traffic::Behaviour::ReceiverPause {
                    after: Duration::from_millis(1500),
                    lasting: Duration::from_nanos(7),
                },
            )],
            incidents: vec![crate::live::Incident {
                after: Duration::from_secs(1),
                what: crate::live::Event::PathMtu {
                    link: "wan".to_owned(),
                    mtu: 600,
                },
            }],
        };
        let text = serde_json::to_string(&job).unwrap();
        let back: Job = serde_json::from_str(&text).unwrap();
        assert_eq!(format!("{job:?}"), format!("{back:?}"));
    }
}
