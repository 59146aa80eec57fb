//! One run, from an empty machine to a record.

use std::fs;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ackwise_datapath::Stats;
use ackwise_rng::Rng;
use ackwise_scenario::{App, Arm, Flow, RunSpec, Scenario};

use super::assemble::{self, FlowPaths, Measured};
use super::daemon::{self, Daemon};
use super::host_counters::{dropped_by_interfaces, lost_before_links, softirq_seconds};
use super::incidents::Incidents;
use super::sampler::{self, Foreign, Seen, Subject};
use super::tunnels::{self, Tunnel};
use super::up::{self, Up};
use super::wires::{self, Wires};
use super::{Clock, Observer, Progress, RunOptions, datapath, preflight, stack};
use crate::clock::{nanos, now_ns};
use crate::error::LabError;
use crate::plan::{FIRST_PORT, Hop};
use crate::tcpinfo::SockDiag;
use crate::topology::{LinkBackend, Topology};
use crate::traffic::socket::Limits;
use crate::traffic::{self, Job, Live, Outcome, Prepared};

/// Time between the end of the preparation and the first packet.
const LEAD_NS: u64 = 100_000_000;
/// In virtual time, the first packet leaves at a multiple of this after boot: at the first one
/// unless building took longer.
const VIRTUAL_START_NS: u64 = 10_000_000_000;
/// Minimum time for flows to end after the scenario's duration; four times the duration if that is
/// longer. Full queues drain slowly, and retransmission timers back off further the longer a flow
/// was starved.
const DRAIN_NS: u64 = 30_000_000_000;
/// Interval at which the main thread checks on the run while flows run.
const TICK: Duration = Duration::from_millis(20);
/// Interval at which an observer is told of the progress.
const PROGRESS_INTERVAL_NS: u64 = 200_000_000;

/// A run, and how to do it.
pub(super) struct Request<'a> {
    pub scenario: &'a Scenario,
    pub spec: &'a RunSpec,
    pub options: &'a RunOptions,
    /// The backend of the links.
    pub backend: LinkBackend,
    pub clock: Clock,
    /// The run's number, for the observer.
    pub index: usize,
}

/// Does one run of a scenario.
pub(super) fn run_one(
    request: &Request<'_>,
    observe: Observer<'_>,
) -> Result<assemble::Done, LabError> {
    let scenario = request.scenario.at(request.spec)?;
    let own_links = scenario.links.len();
    let scenario = &up::with_routers(&scenario);
    let arm = arm_of(scenario, request.spec)?;
    let clock = request.clock;
    preflight::check_means(scenario, clock)?;
    let links = &daemon::without_daemons(scenario);
    let mut topology = Topology::with_seed(links, request.backend, request.spec.seed)?;
    let paths = paths(scenario, arm, own_links, &topology)?;
    if clock == Clock::Virtual {
        // From here on only this program runs: the time that `ip` and `tc` took, which depends on
        // their version, is over.
        sleep_until(now_ns().next_multiple_of(VIRTUAL_START_NS / 2));
    }
    stack::set(scenario, &arm.placements, &topology)?;
    let mut daemons = daemon::start(scenario, arm, request.spec.seed, &topology)?;
    let program = request.options.ackwise.as_deref();
    let ups = up::start(scenario, program, &topology)?;
    let mut attached = datapath::attach(scenario, &arm.placements, &topology)?;

    let span = Span::of(scenario, clock);
    let setup = wires::Setup {
        scenario: links,
        spec: request.spec,
        options: request.options,
        paths: &paths,
        start_ns: span.start_ns,
        clock,
    };
    let wires = Wires::start(&setup, &mut topology)?;
    let mut tunnels = tunnels::start(scenario, &topology, span.start_ns - LEAD_NS)?;
    let traffic = Traffic::prepare(request, scenario, &topology, &paths, span)?;

    let dropped_before = dropped_by_interfaces(&topology);
    let softirq_before = softirq_seconds();
    let incidents = Incidents::new(scenario, request.options, &topology, span.start_ns);
    let interval_ns = nanos(scenario.record.interval).max(1);
    for daemon in &mut daemons {
        let interval = scenario.record.series.then_some(interval_ns);
        daemon.record_from(span.start_ns, interval.unwrap_or(0));
    }
    if clock == Clock::Virtual {
        reseed_kernel(span.start_ns);
    }
    let mut run_state = RunState {
        wires: &wires,
        tunnels: &mut tunnels,
        daemons: &mut daemons,
        incidents,
    };
    let carried = traffic.run_flows(request, scenario, &mut run_state, observe)?;
    let mut errors = run_state.incidents.errors;
    let softirq_s = softirq_seconds() - softirq_before;
    if request.options.cancel.load(Ordering::Relaxed) {
        return Err(LabError::Cancelled);
    }

    let mut statistics = detach(&mut attached, &mut errors)?;
    statistics.extend(collect_ok(ups.into_iter().map(Up::finish), &mut errors));
    let served = collect_ok(daemons.into_iter().map(Daemon::finish), &mut errors);
    let ended = tunnels.into_iter().map(|tunnel| tunnel.finish(&topology));
    let tunnelled = collect_ok(ended, &mut errors);
    errors.extend(lost_before_links(scenario, &topology, &dropped_before));
    let wired = wires.finish()?;
    drop(topology);
    Ok(assemble::record(Measured {
        scenario,
        spec: request.spec,
        backend: request.backend,
        clock,
        paths,
        wired,
        outcomes: carried.outcomes,
        seen: carried.seen,
        statistics,
        served,
        tunnelled,
        softirq_s,
        start_ns: span.start_ns,
        interval_ns,
        errors,
    }))
}

/// The arm of a run.
fn arm_of<'a>(scenario: &'a Scenario, spec: &RunSpec) -> Result<&'a Arm, LabError> {
    if scenario.flows.len() > usize::from(u16::MAX - FIRST_PORT) {
        return Err(LabError::Scenario("too many flows".to_owned()));
    }
    let mut arms = scenario.arms.iter();
    arms.find(|arm| arm.name == spec.arm)
        .ok_or_else(|| LabError::Scenario(format!("there is no arm `{}`", spec.arm)))
}

/// Detaches the datapath everywhere, and returns its counters by place.
fn detach(
    attached: &mut [datapath::Attached],
    errors: &mut Vec<String>,
) -> Result<Vec<(String, Stats)>, LabError> {
    let mut statistics = Vec::new();
    for attached in attached {
        match attached.finish()? {
            Ok(stats) => statistics.push((attached.place.clone(), stats)),
            Err(error) => errors.push(format!("the datapath on {}: {error}", attached.place)),
        }
    }
    Ok(statistics)
}

/// Keeps the successful results, and adds the errors of the others.
fn collect_ok<T>(
    ended: impl Iterator<Item = Result<T, String>>,
    errors: &mut Vec<String>,
) -> Vec<T> {
    let mut done = Vec::new();
    for one in ended {
        match one {
            Ok(one) => done.push(one),
            Err(error) => errors.push(error),
        }
    }
    done
}

/// When traffic starts, and when it should stop.
#[derive(Debug, Clone, Copy)]
struct Span {
    start_ns: u64,
    stop_ns: u64,
}

impl Span {
    fn of(scenario: &Scenario, clock: Clock) -> Self {
        let start_ns = start_of(clock, now_ns() + tunnels::lead_ns(scenario));
        Self {
            start_ns,
            stop_ns: start_ns + nanos(scenario.duration),
        }
    }
}

/// What the main thread looks after while flows run.
struct RunState<'a> {
    wires: &'a Wires,
    tunnels: &'a mut [Tunnel],
    daemons: &'a mut [Daemon],
    incidents: Incidents<'a>,
}

impl RunState<'_> {
    fn update(&mut self, now_ns: u64) {
        self.incidents
            .due(now_ns, &self.wires.emulators, self.tunnels);
        self.daemons
            .iter_mut()
            .for_each(|daemon| daemon.sample_queue(now_ns));
    }
}

/// All flows, ready to start.
struct Traffic {
    prepared: Vec<Prepared>,
    flow_states: Vec<Arc<Live>>,
    subjects: Vec<Subject>,
    limits: Limits,
    span: Span,
}

/// The results of the flows, and the samples taken meanwhile.
struct FlowResults {
    outcomes: Vec<Outcome>,
    seen: Vec<Seen>,
}

impl Traffic {
    fn prepare(
        request: &Request<'_>,
        scenario: &Scenario,
        topology: &Topology,
        paths: &[FlowPaths],
        span: Span,
    ) -> Result<Self, LabError> {
        let flows = scenario.flows.iter().zip(paths).enumerate();
        let prepared = flows
            .map(|(index, (flow, paths))| {
                traffic::prepare(job(request, topology, index, flow, paths, span)?)
            })
            .collect::<Result<Vec<Prepared>, LabError>>()?;
        let flow_states: Vec<Arc<Live>> = prepared.iter().map(|_| Arc::default()).collect();
        Ok(Self {
            subjects: subjects(scenario, topology, paths, &flow_states)?,
            prepared,
            flow_states,
            limits: Limits {
                cancel: Arc::clone(&request.options.cancel),
                abort: Arc::default(),
                failed: None,
                deadline_ns: span.stop_ns + DRAIN_NS.max(4 * nanos(scenario.duration)),
            },
            span,
        })
    }

    /// Runs all flows to their end.
    fn run_flows(
        self,
        request: &Request<'_>,
        scenario: &Scenario,
        run_state: &mut RunState<'_>,
        observe: Observer<'_>,
    ) -> Result<FlowResults, LabError> {
        let Self {
            prepared,
            flow_states,
            subjects,
            limits,
            span,
        } = self;
        let start_ns = span.start_ns;
        let interval_ns = nanos(scenario.record.interval).max(1);
        let sampling_done = AtomicBool::new(false);
        thread::scope(|scope| {
            // If the observer panics, the threads below must end all the same.
            let release = Release {
                abort: &limits.abort,
                sampling_done: &sampling_done,
            };
            let sampler =
                scope.spawn(|| sampler::sample(subjects, start_ns, interval_ns, &sampling_done));
            let flows: Vec<_> = prepared
                .into_iter()
                .zip(&flow_states)
                .map(|(flow, live)| {
                    let limits = &limits;
                    scope.spawn(move || flow.run(live, limits))
                })
                .collect();
            let mut next_news = start_ns;
            while flows.iter().any(|flow| !flow.is_finished()) {
                thread::sleep(TICK);
                let now = now_ns();
                run_state.update(now);
                if now >= next_news && !request.options.cancel.load(Ordering::Relaxed) {
                    next_news = now + PROGRESS_INTERVAL_NS;
                    observe(Progress::Running {
                        index: request.index,
                        elapsed: Duration::from_nanos(now.saturating_sub(start_ns)),
                        duration: scenario.duration,
                    });
                }
            }
            drop(release);
            let outcomes = flows
                .into_iter()
                .map(|flow| flow.join().unwrap_or_else(|_| panicked()))
                .collect();
            let seen = sampler
                .join()
                .map_err(|_| LabError::Panicked("the sampler"))?;
            Ok(FlowResults { outcomes, seen })
        })
    }
}

/// When traffic starts. In virtual time this is always at the same distance from boot and from the
/// kernel's ticks, however many clock readings building took.
fn start_of(clock: Clock, now: u64) -> u64 {
    match clock {
        Clock::Real => now + LEAD_NS,
        Clock::Virtual => (now + LEAD_NS).next_multiple_of(VIRTUAL_START_NS),
    }
}

fn sleep_until(at_ns: u64) {
    thread::sleep(Duration::from_nanos(at_ns.saturating_sub(now_ns())));
}

/// Makes what follows independent of what came before: at a fixed moment, the kernel's random
/// numbers restart from the run's seed. How many were drawn until then depends on the host's libc
/// and iproute2.
fn reseed_kernel(start_ns: u64) {
    sleep_until(start_ns - LEAD_NS / 2);
    // `RNDCLEARPOOL` of linux/random.h; see kernel/uml. Without the patch, a kernel is still
    // reproducible on the same host.
    const RNDCLEARPOOL: libc::Ioctl = 0x5206;
    if let Ok(random) = fs::File::open("/dev/urandom") {
        // SAFETY: the request takes no argument.
        unsafe { libc::ioctl(random.as_raw_fd(), RNDCLEARPOOL) };
    }
}

/// Ends the threads of a run on every exit path.
struct Release<'a> {
    abort: &'a AtomicBool,
    sampling_done: &'a AtomicBool,
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.abort.store(true, Ordering::Relaxed);
        self.sampling_done.store(true, Ordering::Relaxed);
    }
}

fn panicked() -> Outcome {
    Outcome {
        errors: vec!["a flow's thread panicked; this is a bug in ackwise".to_owned()],
        ..Outcome::default()
    }
}

/// The paths of each flow's data and ACKs, and where they are counted: on one of the first
/// `own_links` links, which are those of the file.
fn paths(
    scenario: &Scenario,
    arm: &Arm,
    own_links: usize,
    topology: &Topology,
) -> Result<Vec<FlowPaths>, LabError> {
    let index = |name: &str| {
        scenario
            .nodes
            .iter()
            .position(|node| node.name == name)
            .ok_or_else(|| LabError::Scenario(format!("there is no node `{name}`")))
    };
    scenario
        .flows
        .iter()
        .enumerate()
        .map(|(flow_index, flow)| {
            let (from, to) = (index(&flow.from)?, index(&flow.to)?);
            let data = topology.plan.path(from, to)?;
            let acks = topology.plan.path(to, from)?;
            // Counts on the link of this arm's datapath. Arms without a datapath use the link of
            // the first arm that has one, so that both count the same wire.
            let placed = std::iter::once(arm)
                .chain(&scenario.arms)
                .flat_map(|arm| &arm.placements)
                .filter_map(|placement| {
                    scenario
                        .links
                        .iter()
                        .position(|link| link.name == placement.link)
                })
                .find(|&link| acks.iter().any(|hop| hop.link == link));
            let own = |hop: &&Hop| hop.link < own_links;
            let last = data.iter().rfind(own).ok_or_else(|| {
                LabError::Scenario(format!("flow `{}` crosses no link", flow.name))
            })?;
            Ok(FlowPaths {
                from,
                to,
                counted_on: placed.unwrap_or(last.link),
                port: FIRST_PORT + flow_index as u16,
                data,
                acks,
            })
        })
        .collect()
}

fn job(
    request: &Request<'_>,
    topology: &Topology,
    index: usize,
    flow: &Flow,
    paths: &FlowPaths,
    span: Span,
) -> Result<Job, LabError> {
    let (spec, options) = (request.spec, request.options);
    let towards_listener = match flow.app {
        App::RequestResponse { .. } => &paths.acks,
        _ => &paths.data,
    };
    let address = topology
        .plan
        .address_at_end(towards_listener, flow.socket.ip)?;
    let late = Rng::stream(spec.seed, 2000 + index as u64)
        .below(nanos(flow.start_within).saturating_add(1));
    Ok(Job {
        name: flow.name.clone(),
        app: flow.app.clone(),
        cc: flow.cc(spec).to_owned(),
        options: flow.socket.clone(),
        server: (address, paths.port).into(),
        from: topology.entrance(paths.from)?,
        to: topology.entrance(paths.to)?,
        connections: flow.connections,
        seed: Rng::stream(spec.seed, 1000 + index as u64).next_u64(),
        start_ns: span.start_ns + nanos(flow.start) + late,
        stop_ns: span.stop_ns,
        behaviour: options
            .behaviour
            .iter()
            .filter(|(name, _)| *name == flow.name)
            .map(|&(_, behaviour)| behaviour)
            .collect(),
    })
}

fn subjects(
    scenario: &Scenario,
    topology: &Topology,
    paths: &[FlowPaths],
    flow_states: &[Arc<Live>],
) -> Result<Vec<Subject>, LabError> {
    scenario
        .flows
        .iter()
        .zip(paths)
        .zip(flow_states)
        .map(|((flow, paths), live)| {
            let foreign = if matches!(flow.app, App::Iperf3 { .. }) {
                let diag = topology.namespaces[paths.from].inside(SockDiag::open)?;
                Some(Foreign {
                    diag,
                    port: paths.port,
                    version: flow.socket.ip,
                })
            } else {
                None
            };
            Ok(Subject {
                live: Arc::clone(live),
                foreign,
            })
        })
        .collect()
}
