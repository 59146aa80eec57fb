//! One run, from nothing to a record.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ackwise_rng::Rng;
use ackwise_scenario::{App, Arm, Duplex, Flow, RunSpec, Scenario};

use super::assemble::{self, FlowPaths, Measured, Wired};
use super::sampler::{self, Subject};
use super::tunnels::Tunnel;
use super::{
    Clock, Event, Observer, Progress, RunOptions, daemon, datapath, preflight, stack, tunnels,
};
use crate::clock::{nanos, now_ns};
use crate::command::ip_batch;
use crate::count::{FlowPort, WireCounter};
use crate::emulator::{Emulator, EmulatorConfig};
use crate::error::LabError;
use crate::kernel_link::{KernelLink, Watching};
use crate::pcap::Pcap;
use crate::police::Policer;
use crate::sniffer::Sniffer;
use crate::tcpinfo::SockDiag;
use crate::topology::{BuiltLink, Shaper, Topology, emulated};
use crate::traffic::socket::Limits;
use crate::traffic::{self, Job, Live, Outcome, Prepared};

/// Port of the first flow's listening side.
pub(super) const FIRST_PORT: u16 = 5001;
/// Between the last preparation and the first packet.
const LEAD_NS: u64 = 100_000_000;
/// In virtual time the first packet leaves at a multiple of this after boot:
/// the first, unless building took longer.
const VIRTUAL_START_NS: u64 = 10_000_000_000;
/// How long flows may take to end after the scenario's duration, at least; four
/// times the duration if that is longer. Full queues drain slowly, and retransmission
/// timers back off, the further the longer a flow was starved.
const DRAIN_NS: u64 = 30_000_000_000;
/// How often the world is looked at while flows run.
const TICK: Duration = Duration::from_millis(20);
/// How often an observer hears that time has passed.
const NEWS_NS: u64 = 200_000_000;
/// Spun before a frame is due: the wake-up of a sleeping thread costs as much.
const SPIN_NS: u64 = 20_000;
/// Captures keep this much of a frame.
const CAPTURE_SNAP: usize = 256;

/// The links of a run at work.
struct Wires {
    emulators: Vec<(usize, Emulator)>,
    kernel: Vec<(usize, KernelLink)>,
    sniffers: Vec<(usize, Sniffer)>,
}

/// Runs one run of a scenario.
pub(super) fn run_one(
    scenario: &Scenario,
    spec: &RunSpec,
    (shaper, clock, index): (Shaper, Clock, usize),
    options: &RunOptions,
    observe: Observer<'_>,
) -> Result<assemble::Done, LabError> {
    let scenario = &scenario.at(spec)?;
    let arm = scenario
        .arms
        .iter()
        .find(|arm| arm.name == spec.arm)
        .ok_or_else(|| LabError::Scenario(format!("there is no arm `{}`", spec.arm)))?;
    if scenario.flows.len() > usize::from(u16::MAX - FIRST_PORT) {
        return Err(LabError::Scenario("too many flows".to_owned()));
    }
    preflight::check_means(scenario, clock)?;
    let links = &daemon::without_daemons(scenario);
    let topology = Topology::with_seed(links, shaper, spec.seed)?;
    let paths = paths(scenario, arm, &topology)?;
    if clock == Clock::Virtual {
        // From here on nothing runs that is not of this program: what `ip` and
        // `tc` took is over, whichever release of them it was.
        sleep_until(now_ns().next_multiple_of(VIRTUAL_START_NS / 2));
    }
    stack::set(scenario, &arm.placements, &topology)?;
    let mut daemons = daemon::start(scenario, arm, spec.seed, &topology)?;
    let mut attached = datapath::attach(scenario, &arm.placements, &topology)?;

    let start_ns = start_of(clock, now_ns() + tunnels::lead_ns(scenario));
    let (wires, topology) = start_wires(links, spec, options, topology, &paths, start_ns, clock)?;
    let mut tunnels = tunnels::start(scenario, &topology, start_ns - LEAD_NS)?;
    let stop_ns = start_ns + nanos(scenario.duration);
    let limits = Limits {
        cancel: Arc::clone(&options.cancel),
        abort: Arc::default(),
        failed: None,
        deadline_ns: stop_ns + DRAIN_NS.max(4 * nanos(scenario.duration)),
    };
    let prepared = scenario
        .flows
        .iter()
        .zip(&paths)
        .enumerate()
        .map(|(index, (flow, paths))| {
            traffic::prepare(job(
                scenario,
                spec,
                options,
                &topology,
                index,
                flow,
                paths,
                (start_ns, stop_ns),
            )?)
        })
        .collect::<Result<Vec<Prepared>, LabError>>()?;
    let lives: Vec<Arc<Live>> = prepared.iter().map(|_| Arc::default()).collect();
    let subjects = subjects(scenario, &topology, &paths, &lives)?;

    let dropped_before = dropped_by_interfaces(&topology);
    let softirq_before = softirq_seconds();
    let incidents = Incidents::new(scenario, options, &topology, start_ns);
    let interval_ns = nanos(scenario.record.interval).max(1);
    let sampling_done = AtomicBool::new(false);
    for daemon in &mut daemons {
        daemon.note_from(
            start_ns,
            if scenario.record.series {
                interval_ns
            } else {
                0
            },
        );
    }
    if clock == Clock::Virtual {
        draw_a_line(start_ns);
    }
    let (outcomes, seen, incident_errors) = thread::scope(|scope| {
        // If the observer panics, the threads below must end all the same.
        let release = Release {
            abort: &limits.abort,
            sampling_done: &sampling_done,
        };
        let sampler =
            scope.spawn(|| sampler::sample(subjects, start_ns, interval_ns, &sampling_done));
        let flows: Vec<_> = prepared
            .into_iter()
            .zip(&lives)
            .map(|(flow, live)| {
                let limits = &limits;
                scope.spawn(move || flow.run(live, limits))
            })
            .collect();
        let mut incidents = incidents;
        let mut next_news = start_ns;
        while flows.iter().any(|flow| !flow.is_finished()) {
            thread::sleep(TICK);
            let now = now_ns();
            incidents.due(now, &wires.emulators, &mut tunnels);
            daemons.iter_mut().for_each(|daemon| daemon.look(now));
            if now >= next_news && !options.cancel.load(Ordering::Relaxed) {
                next_news = now + NEWS_NS;
                observe(Progress::Running {
                    index,
                    elapsed: Duration::from_nanos(now.saturating_sub(start_ns)),
                    duration: scenario.duration,
                });
            }
        }
        drop(release);
        let outcomes: Vec<Outcome> = flows
            .into_iter()
            .map(|flow| flow.join().unwrap_or_else(|_| panicked()))
            .collect();
        let seen = sampler
            .join()
            .map_err(|_| LabError::Panicked("the sampler"))?;
        Ok::<_, LabError>((outcomes, seen, incidents.errors))
    })?;
    let softirq_s = softirq_seconds() - softirq_before;
    if options.cancel.load(Ordering::Relaxed) {
        return Err(LabError::Cancelled);
    }

    let mut errors = incident_errors;
    let mut statistics = Vec::new();
    for attached in &mut attached {
        match attached.finish()? {
            Ok(stats) => statistics.push((attached.place.clone(), stats)),
            Err(error) => errors.push(format!("the datapath on {}: {error}", attached.place)),
        }
    }
    let mut served = Vec::new();
    for daemon in daemons {
        match daemon.finish() {
            Ok(done) => served.push(done),
            Err(error) => errors.push(error),
        }
    }
    let mut tunnelled = Vec::new();
    for tunnel in tunnels {
        match tunnel.finish(&topology) {
            Ok(done) => tunnelled.push(done),
            Err(error) => errors.push(error),
        }
    }
    errors.extend(lost_before_links(scenario, &topology, &dropped_before));
    let wired = finish_wires(wires)?;
    drop(topology);
    Ok(assemble::record(Measured {
        scenario,
        spec,
        shaper,
        clock,
        paths,
        wired,
        outcomes,
        seen,
        statistics,
        served,
        tunnelled,
        softirq_s,
        start_ns,
        interval_ns,
        errors,
    }))
}

/// When traffic starts. In virtual time always at the same distance from boot
/// and from the kernel's ticks, however many clock readings building took.
fn start_of(clock: Clock, now: u64) -> u64 {
    match clock {
        Clock::Real => now + LEAD_NS,
        Clock::Virtual => (now + LEAD_NS).next_multiple_of(VIRTUAL_START_NS),
    }
}

fn sleep_until(at_ns: u64) {
    thread::sleep(Duration::from_nanos(at_ns.saturating_sub(now_ns())));
}

/// What follows depends on nothing that came before: at a fixed moment, the
/// kernel's random numbers start from the run's seed again. How many were drawn
/// until now is up to the host's libc and iproute2.
fn draw_a_line(start_ns: u64) {
    sleep_until(start_ns - LEAD_NS / 2);
    // `RNDCLEARPOOL` of linux/random.h; see kernel/uml. A kernel without the
    // patch repeats itself on the same host all the same.
    const RNDCLEARPOOL: libc::c_ulong = 0x5206;
    if let Ok(random) = fs::File::open("/dev/urandom") {
        // SAFETY: the request takes no argument.
        unsafe { libc::ioctl(random.as_raw_fd(), RNDCLEARPOOL) };
    }
}

/// Lets the threads of a run end, on every way out.
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

/// The way of each flow's data and of its ACKs, and where they are counted.
fn paths(scenario: &Scenario, arm: &Arm, topology: &Topology) -> Result<Vec<FlowPaths>, LabError> {
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
            // On the link of this arm's datapath; for arms without one on that
            // of the first arm that has one, so that both count the same wire.
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
            let last = data
                .last()
                .ok_or_else(|| LabError::Scenario(format!("flow `{}` goes nowhere", flow.name)))?;
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

fn counter(scenario: &Scenario, paths: &[FlowPaths], start_ns: u64) -> WireCounter {
    let ports = scenario
        .flows
        .iter()
        .zip(paths)
        .map(|(flow, paths)| FlowPort {
            port: paths.port,
            data_to_port: !matches!(flow.app, App::RequestResponse { .. }),
        })
        .collect();
    WireCounter::new(ports, start_ns, nanos(scenario.record.interval))
}

/// Starts emulators on links that need one, and sniffers on other links where
/// something is counted.
fn start_wires(
    scenario: &Scenario,
    spec: &RunSpec,
    options: &RunOptions,
    mut topology: Topology,
    paths: &[FlowPaths],
    start_ns: u64,
    clock: Clock,
) -> Result<(Wires, Topology), LabError> {
    let mut wires = Wires {
        emulators: Vec::new(),
        kernel: Vec::new(),
        sniffers: Vec::new(),
    };
    let sample_ns = if scenario.record.series {
        nanos(scenario.record.interval)
    } else {
        0
    };
    let built = std::mem::take(&mut topology.links);
    for (index, (link, built)) in scenario.links.iter().zip(built).enumerate() {
        let counter = counter(scenario, paths, start_ns);
        match built {
            BuiltLink::Taps(taps) => {
                let config = EmulatorConfig {
                    name: link.name.clone(),
                    taps,
                    directions: [
                        emulated(&link.forward, spec.seed, 2 * index as u64),
                        emulated(&link.reverse, spec.seed, 2 * index as u64 + 1),
                    ],
                    half_duplex: link.duplex == Duplex::Half,
                    police: [&link.forward, &link.reverse].map(|direction| {
                        let police = direction.police.as_ref()?;
                        Some(Policer::new(
                            police,
                            |name| port_of(scenario, paths, name),
                            spec.seed,
                        ))
                    }),
                    mtu: link.mtu,
                    counter,
                    captures: [
                        capture(scenario, spec, options, &topology, index, 0)?,
                        capture(scenario, spec, options, &topology, index, 1)?,
                    ],
                    spin_ns: match clock {
                        Clock::Real => SPIN_NS,
                        // Sleepers wake in time, and to spin is what costs.
                        Clock::Virtual => 0,
                    },
                    sample_ns,
                    start_ns,
                };
                wires.emulators.push((index, Emulator::start(config)?));
            }
            BuiltLink::Kernel(space) => {
                let watching = Watching {
                    name: link.name.clone(),
                    counter,
                    captures: [
                        capture(scenario, spec, options, &topology, index, 0)?,
                        capture(scenario, spec, options, &topology, index, 1)?,
                    ],
                    police: [&link.forward, &link.reverse].map(|direction| {
                        let police = direction.police.clone()?;
                        let flows = police.what.flows.iter();
                        let ports = flows.filter_map(|name| port_of(scenario, paths, name));
                        let ports = ports.collect();
                        Some((police, ports))
                    }),
                    sample_ns,
                    start_ns,
                };
                wires
                    .kernel
                    .push((index, KernelLink::start(space, watching)?));
            }
            BuiltLink::Veth => {
                let counted = paths.iter().any(|flow| flow.counted_on == index);
                if !counted && !scenario.record.capture {
                    continue;
                }
                let end = topology.plan.interface(index, 0);
                let entrance = topology.namespaces[end.node].entrance()?;
                let capture = capture(scenario, spec, options, &topology, index, 0)?;
                let sniffer = Sniffer::start(entrance, &end.name, counter, capture)?;
                wires.sniffers.push((index, sniffer));
            }
        }
    }
    Ok((wires, topology))
}

/// The listening port of a flow.
fn port_of(scenario: &Scenario, paths: &[FlowPaths], name: &str) -> Option<u16> {
    let flow = scenario.flows.iter().position(|flow| flow.name == name)?;
    Some(paths[flow].port)
}

/// The capture file of one end of a link, if the scenario wants any.
fn capture(
    scenario: &Scenario,
    spec: &RunSpec,
    options: &RunOptions,
    topology: &Topology,
    link: usize,
    end: usize,
) -> Result<Option<Pcap>, LabError> {
    if !scenario.record.capture {
        return Ok(None);
    }
    let node = &scenario.nodes[topology.plan.interface(link, end).node].name;
    let stem: String = format!(
        "{}-{}-{}-{node}",
        scenario.name, spec.id, scenario.links[link].name
    )
    .chars()
    .map(|letter| {
        if letter.is_ascii_alphanumeric() || ".-=_".contains(letter) {
            letter
        } else {
            '-'
        }
    })
    .collect();
    let directory = options
        .capture_dir
        .clone()
        .unwrap_or_else(|| PathBuf::from("."));
    fs::create_dir_all(&directory).map_err(LabError::os(format!(
        "cannot make the directory {}",
        directory.display()
    )))?;
    Pcap::create(&directory.join(format!("{stem}.pcap")), CAPTURE_SNAP).map(Some)
}

fn finish_wires(wires: Wires) -> Result<Vec<Wired>, LabError> {
    let mut wired = Vec::new();
    for (link, emulator) in wires.emulators {
        wired.push(Wired::emulated(link, emulator.finish()?));
    }
    for (link, kernel) in wires.kernel {
        wired.push(Wired::kernel(link, kernel.finish()?));
    }
    for (link, sniffer) in wires.sniffers {
        wired.push(Wired::sniffed(link, sniffer.finish()?));
    }
    Ok(wired)
}

#[allow(clippy::too_many_arguments)]
fn job(
    scenario: &Scenario,
    spec: &RunSpec,
    options: &RunOptions,
    topology: &Topology,
    index: usize,
    flow: &Flow,
    paths: &FlowPaths,
    (start_ns, stop_ns): (u64, u64),
) -> Result<Job, LabError> {
    debug_assert!(index < scenario.flows.len());
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
        start_ns: start_ns + nanos(flow.start) + late,
        stop_ns,
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
    lives: &[Arc<Live>],
) -> Result<Vec<Subject>, LabError> {
    scenario
        .flows
        .iter()
        .zip(paths)
        .zip(lives)
        .map(|((flow, paths), live)| {
            let foreign = if matches!(flow.app, App::Iperf3 { .. }) {
                let diag = topology.namespaces[paths.from].inside(SockDiag::open)?;
                Some((diag, paths.port, flow.socket.ip))
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

/// What still has to happen to the network.
struct Incidents<'a> {
    scenario: &'a Scenario,
    topology: &'a Topology,
    /// (when, what), the next one last.
    waiting: Vec<(u64, Event)>,
    errors: Vec<String>,
}

impl<'a> Incidents<'a> {
    fn new(
        scenario: &'a Scenario,
        options: &RunOptions,
        topology: &'a Topology,
        start_ns: u64,
    ) -> Self {
        let mut waiting: Vec<(u64, Event)> = options
            .incidents
            .iter()
            .map(|incident| (start_ns + nanos(incident.after), incident.what.clone()))
            .collect();
        waiting.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        Self {
            scenario,
            topology,
            waiting,
            errors: Vec::new(),
        }
    }

    fn due(&mut self, now: u64, emulators: &[(usize, Emulator)], tunnels: &mut [Tunnel]) {
        while let Some((_, what)) = self.waiting.pop_if(|(at, _)| *at <= now) {
            if let Err(error) = self.happen(&what, emulators, tunnels) {
                self.errors.push(error.to_string());
            }
        }
    }

    fn happen(
        &self,
        what: &Event,
        emulators: &[(usize, Emulator)],
        tunnels: &mut [Tunnel],
    ) -> Result<(), LabError> {
        let unknown = |what: &str, name: &str| {
            LabError::Scenario(format!("an incident speaks of an unknown {what} `{name}`"))
        };
        match what {
            Event::PathMtu { link, mtu } => {
                let (_, emulator) = emulators
                    .iter()
                    .find(|(_, emulator)| emulator.name() == link)
                    .ok_or_else(|| unknown("emulated link", link))?;
                emulator.lose_larger_than(*mtu);
                Ok(())
            }
            Event::Tunnel { link, node, turn } => {
                let nodes = &self.scenario.nodes;
                let at = nodes.iter().position(|one| one.name == *node);
                let at = at.ok_or_else(|| unknown("node", node))?;
                for tunnel in tunnels {
                    if tunnel.turn(link, at, *turn, self.topology)? {
                        return Ok(());
                    }
                }
                Err(unknown("tunnel over the link", link))
            }
            Event::DeleteInterface { link, node } => {
                let index = self
                    .scenario
                    .links
                    .iter()
                    .position(|one| one.name == *link)
                    .ok_or_else(|| unknown("link", link))?;
                let interface = [0, 1]
                    .map(|end| self.topology.plan.interface(index, end))
                    .into_iter()
                    .find(|one| self.scenario.nodes[one.node].name == *node)
                    .ok_or_else(|| unknown("node", node))?;
                ip_batch(
                    Some(self.topology.namespaces[interface.node].name()),
                    &[format!("link delete {}", interface.name)],
                )
            }
        }
    }
}

/// How many packets each interface, by its index in the plan, has dropped
/// instead of sending them.
fn dropped_by_interfaces(topology: &Topology) -> Vec<u64> {
    let mut dropped = vec![0; topology.plan.interfaces.len()];
    for (node, namespace) in topology.namespaces.iter().enumerate() {
        // A thread's own view: this file is of its namespace.
        let table = namespace.inside(|| {
            fs::read_to_string("/proc/thread-self/net/dev")
                .map_err(LabError::os("cannot read /proc/thread-self/net/dev"))
        });
        for line in table.unwrap_or_default().lines() {
            let Some((name, numbers)) = line.split_once(':') else {
                continue;
            };
            let interface = topology
                .plan
                .interfaces_of(node)
                .find(|(_, interface)| interface.name == name.trim());
            let count = numbers
                .split_whitespace()
                .nth(11)
                .and_then(|number| number.parse().ok());
            if let (Some((index, _)), Some(count)) = (interface, count) {
                dropped[index] = count;
            }
        }
    }
    dropped
}

/// Packets that an interface dropped during the run: an emulator did not fetch
/// them in time, or the other end of a veth was full. They were lost on no
/// link of the scenario.
fn lost_before_links(scenario: &Scenario, topology: &Topology, before: &[u64]) -> Vec<String> {
    dropped_by_interfaces(topology)
        .iter()
        .zip(before)
        .zip(&topology.plan.interfaces)
        .filter(|((now, before), _)| now > before)
        .map(|((now, before), interface)| {
            format!(
                "{} packets were dropped by the interface {} of {} before the link",
                now - before,
                interface.name,
                scenario.nodes[interface.node].name
            )
        })
        .collect()
}

/// Seconds of softirq of the whole machine.
fn softirq_seconds() -> f64 {
    let ticks = fs::read_to_string("/proc/stat").ok().and_then(|stat| {
        stat.lines()
            .next()?
            .split_whitespace()
            .nth(7)?
            .parse::<f64>()
            .ok()
    });
    // SAFETY: sysconf takes no pointers.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    ticks.unwrap_or(0.0) / (per_second.max(1) as f64)
}
