//! `ackwise up` on a router before a link, for scenarios with `by = "up"`.
//!
//! The router is in no scenario file: it is put between the node and the link, and the operator's
//! command runs there as a user would start it.

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use ackwise_datapath::Stats;
use ackwise_scenario::{By, Direction, Link, Node, NodeKind, RunSpec, Scenario};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use tempfile::NamedTempFile;

use super::preflight::missing;
use crate::command;
use crate::error::LabError;
use crate::kernel_link;
use crate::netns::Namespace;
use crate::topology::{BuiltLink, Topology};

/// The operator's command.
const PROGRAM: &str = "ackwise";
/// How long it may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval at which it is checked whether it has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Beyond the time of the traffic and of its end, which is at most five times the scenario's.
const MAX_PREPARATION: Duration = Duration::from_secs(600);
/// Names of a link's directions, by the end at which packets enter them.
const DIRECTIONS: [&str; 2] = ["forward", "reverse"];

fn directions(link: &Link) -> [&Direction; 2] {
    [&link.forward, &link.reverse]
}

/// The ends of links at which `ackwise up` runs.
fn places(scenario: &Scenario) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    for (index, link) in scenario.links.iter().enumerate() {
        for (end, direction) in directions(link).into_iter().enumerate() {
            if direction.by == By::Up {
                places.push((index, end));
            }
        }
    }
    places
}

/// The scenario with a router wherever `ackwise up` runs, and a link between it and the node. They
/// come last, so that all others keep their numbers.
pub(super) fn with_routers(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    for (index, end) in places(&scenario) {
        let link = &mut scenario.links[index];
        // No name in a file has a dot.
        let name = format!("{}.{}", link.name, DIRECTIONS[end]);
        let router = format!("{name}.router");
        let node = std::mem::replace(&mut link.between[end], router.clone());
        let lan = Link {
            name: format!("{name}.lan"),
            between: [router.clone(), node],
            forward: Direction::default(),
            reverse: Direction::default(),
            duplex: Default::default(),
            wifi: None,
            offload: link.offload,
            mtu: link.mtu,
            overhead: link.overhead,
        };
        scenario.links.push(lan);
        scenario.nodes.push(Node {
            name: router,
            kind: NodeKind::Router,
            sysctl: Default::default(),
        });
    }
    scenario
}

/// Checks the runs of a scenario before the first of them, and returns the operator's command if one
/// needs it: `given`, or [`program`].
///
/// # Errors
/// There is no such program, or a policy is on an interface that a router takes over.
pub(crate) fn check_runs(
    scenario: &Scenario,
    runs: &[RunSpec],
    given: Option<&Path>,
) -> Result<Option<PathBuf>, LabError> {
    let mut is_needed = false;
    for run in runs {
        let scenario = scenario.at(run)?;
        check_placements(&scenario, run)?;
        is_needed |= !places(&scenario).is_empty();
    }
    match given {
        _ if !is_needed => Ok(None),
        None => program().map(Some),
        Some(path) if path.is_file() => Ok(Some(path.to_owned())),
        Some(path) => Err(no_program(&format!("{} is none", path.display()))),
    }
}

fn check_placements(scenario: &Scenario, run: &RunSpec) -> Result<(), LabError> {
    let places = places(scenario);
    let arms = scenario.arms.iter().filter(|arm| arm.name == run.arm);
    for placement in arms.flat_map(|arm| &arm.placements) {
        let is_there = |&(index, end): &(usize, usize)| {
            let link = &scenario.links[index];
            placement.link == link.name && placement.node == link.between[end]
        };
        if places.iter().any(is_there) {
            let why = format!(
                "by = \"up\" puts a router between '{}' and '{}', which thins ACKs itself; \
                 leave out this policy, or 'by'",
                placement.node, placement.link
            );
            let error = scenario.error_at(&placement.policy_span, why);
            return Err(LabError::Invalid(error));
        }
    }
    Ok(())
}

/// The operator's command: beside this program, or in `PATH`.
fn program() -> Result<PathBuf, LabError> {
    let own = env::current_exe().map_err(LabError::os("cannot find the path of this program"))?;
    // Programs of tests are in a directory below.
    let beside = own.ancestors().skip(1).take(2).map(|it| it.join(PROGRAM));
    let mut found = beside.filter(|it| it.is_file());
    found
        .next()
        .or_else(|| command::find(PROGRAM))
        .ok_or_else(|| no_program("it is neither beside this one nor in PATH"))
}

fn no_program(why: &str) -> LabError {
    missing(
        format!("by = \"up\" runs the program `ackwise`, but {why}"),
        "install it (`make install`), or build it (`cargo build --release -p ackwise`)",
    )
}

/// The error that there is no cake: with another queue it would not be what is measured elsewhere.
pub(super) fn no_cake(what: &str) -> LabError {
    missing(
        format!("by = \"up\" is for a kernel with cake: {what}"),
        "modprobe sch_cake, or use `--on virtual`",
    )
}

/// A line that `ackwise up --format json` prints.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Event {
    Up {
        plan: Plan,
    },
    Down {
        stats: Box<Stats>,
    },
    QueueReplaced,
    /// It goes on: its guard has found that the policy harms, for instance.
    #[serde(other)]
    Other,
}

/// The part of its decision that matters here.
#[derive(Debug, Deserialize)]
struct Plan {
    queue: serde_json::Value,
}

/// A running `ackwise up`, which ends on drop.
#[derive(Debug)]
pub(super) struct Up {
    /// `node/interface`, as in the record.
    place: String,
    child: Child,
    lines: Receiver<String>,
    errors: File,
    _config: NamedTempFile,
}

/// Starts `ackwise up` on each router of a scenario that [`with_routers`] has made.
///
/// # Errors
/// One could not be started, or refused; those started before it are ended.
pub(super) fn start(
    scenario: &Scenario,
    program: Option<&Path>,
    topology: &Topology,
) -> Result<Vec<Up>, LabError> {
    let start = |&(index, end): &(usize, usize)| {
        let link = &scenario.links[index];
        let interface = topology.plan.interface(index, end);
        let place = format!("{}/{}", link.between[end], interface.name);
        let (Some(program), Some(rate_bps)) = (program, directions(link)[end].rate_bps) else {
            let what = format!("`ackwise up` on {place} has no program or no rate");
            return Err(LabError::Scenario(what));
        };
        let at = &topology.namespaces[interface.node];
        // At the ends of such links, a discipline lets packets leave their sockets at once. The
        // router has no sockets.
        if matches!(topology.links[index], BuiltLink::Kernel(_)) {
            at.inside(|| kernel_link::remove_root(&interface.name))?;
        }
        let asked = Asked {
            interface: &interface.name,
            rate_bps,
            // Longer than any run takes: it ends by itself only if this program is killed.
            duration: 5 * scenario.duration + MAX_PREPARATION,
        };
        Up::start(program, place, &asked, at)
    };
    places(scenario).iter().map(start).collect()
}

/// What `ackwise up` is asked for.
struct Asked<'a> {
    interface: &'a str,
    rate_bps: u64,
    duration: Duration,
}

impl Up {
    fn start(
        program: &Path,
        place: String,
        asked: &Asked<'_>,
        at: &Namespace,
    ) -> Result<Self, LabError> {
        let failed = "cannot write the files of `ackwise up`";
        // Instead of the machine's own file.
        let mut config = NamedTempFile::new().map_err(LabError::os(failed))?;
        let text = format!(
            "[[interface]]\nname = \"{}\"\nup = \"{} bit/s\"\nrouter = true\n",
            asked.interface, asked.rate_bps
        );
        let written = config.write_all(text.as_bytes());
        written.map_err(LabError::os(failed))?;
        let errors = tempfile::tempfile().map_err(LabError::os(failed))?;
        let its_errors = errors.try_clone().map_err(LabError::os(failed))?;
        let mut child = at.inside(|| {
            Command::new(program)
                .args(["up", asked.interface, "--format", "json", "--duration"])
                .arg(format!("{}s", asked.duration.as_secs()))
                .arg("--config")
                .arg(config.path())
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(its_errors)
                .spawn()
                .map_err(LabError::os("cannot start `ackwise up`"))
        })?;
        let (sender, lines) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            // It ends with the child, or when nobody listens any more.
            thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                lines.map(|line| sender.send(line)).find(Result::is_err)
            });
        }
        let mut up = Self {
            place,
            child,
            lines,
            errors,
            _config: config,
        };
        match up.event() {
            Ok(Event::Up { plan }) if plan.queue.get("cake").is_some() => Ok(up),
            Ok(Event::Up { .. }) => Err(no_cake(&up.failed("shapes without cake"))),
            Ok(_) => Err(LabError::Run(up.failed("has ended at once"))),
            Err(why) => Err(LabError::Run(up.failed(&why))),
        }
    }

    /// Waits for the next line of output.
    fn event(&mut self) -> Result<Event, String> {
        let line = self.lines.recv_timeout(PATIENCE);
        let line = line.map_err(|error| match error {
            RecvTimeoutError::Timeout => "does not answer".to_owned(),
            RecvTimeoutError::Disconnected => "has ended".to_owned(),
        })?;
        serde_json::from_str(&line).map_err(|error| format!("printed `{line}`: {error}"))
    }

    /// Ends it, and says what failed and what it wrote.
    fn failed(&mut self, what: &str) -> String {
        self.stop();
        let mut said = String::new();
        let _ = self.errors.rewind();
        let _ = self.errors.read_to_string(&mut said);
        format!("`ackwise up` on {} {what}: {}", self.place, said.trim())
    }

    /// Ends it, and returns the place and its counters.
    ///
    /// # Errors
    /// It had ended before, its queue was replaced, or it could not restore the one before.
    pub fn finish(mut self) -> Result<(String, Stats), String> {
        self.signal();
        let stats = loop {
            match self.event() {
                Ok(Event::Down { stats }) => break *stats,
                Ok(Event::QueueReplaced) => return Err(self.failed("lost its queue")),
                Ok(Event::Up { .. } | Event::Other) => {}
                Err(why) => return Err(self.failed(&why)),
            }
        };
        match self.child.wait() {
            Ok(status) if status.success() => Ok((self.place.clone(), stats)),
            Ok(status) => Err(self.failed(&format!("ended with {status}"))),
            Err(error) => Err(self.failed(&error.to_string())),
        }
    }

    fn signal(&self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
    }

    /// Ends it, by force if it does not end when asked.
    fn stop(&mut self) {
        let has_ended = |child: &mut Child| matches!(child.try_wait(), Ok(Some(_)));
        if has_ended(&mut self.child) {
            return;
        }
        self.signal();
        let asked = Instant::now();
        while !has_ended(&mut self.child) {
            if asked.elapsed() > PATIENCE {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::testing::{link, node, scenario};
    use crate::plan::Plan;

    #[test]
    fn a_router_is_put_before_the_link() {
        let mut before = scenario(
            vec![node("a", NodeKind::Host), node("b", NodeKind::Host)],
            vec![link("ab", "a", "b")],
        );
        assert_eq!(with_routers(&before).links, before.links);
        (before.links[0].reverse.by, before.links[0].mtu) = (By::Up, 900);
        let after = with_routers(&before);
        // What was there keeps its number, and the node's end is now the router's.
        assert_eq!(after.nodes[..2], before.nodes);
        assert_eq!(after.links[0].between, ["a", "ab.reverse.router"]);
        assert_eq!(after.links[1].between, ["ab.reverse.router", "b"]);
        assert_eq!(after.links[1].mtu, 900);
        let plan = Plan::new(&after).unwrap();
        let links = |path: Vec<crate::plan::Hop>| path.into_iter().map(|it| it.link);
        assert!(links(plan.path(0, 1).unwrap()).eq([0, 1]));
        assert!(links(plan.path(1, 0).unwrap()).eq([1, 0]));
        assert_eq!(places(&after), [(0, 1)]);

        before.links[0].forward.by = By::Up;
        let both = with_routers(&before);
        assert_eq!(
            both.links[0].between,
            ["ab.forward.router", "ab.reverse.router"]
        );
        let plan = Plan::new(&both).unwrap();
        assert!(links(plan.path(0, 1).unwrap()).eq([1, 0, 2]));
        assert!(links(plan.path(1, 0).unwrap()).eq([2, 0, 1]));
    }
}
