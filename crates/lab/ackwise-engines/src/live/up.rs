//! `ackwise up` on a router before a link, for scenarios with `by = "up"`.
//!
//! The router is in no scenario file: it is put between the node and the link, and the operator's
//! command runs there as a user would start it.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

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
            offload: false,
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

/// Whether `ackwise up` runs somewhere.
pub(crate) fn is_in(scenario: &Scenario) -> bool {
    !places(scenario).is_empty()
}

/// Checks that no policy of a run is on an interface that a router takes over.
///
/// # Errors
/// One is.
pub(crate) fn check(scenario: &Scenario, spec: &RunSpec) -> Result<(), LabError> {
    let places = places(scenario);
    let arms = scenario.arms.iter().filter(|arm| arm.name == spec.arm);
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
///
/// # Errors
/// It is in neither.
pub(crate) fn program() -> Result<PathBuf, LabError> {
    let own = env::current_exe().map_err(LabError::os("cannot find the path of this program"))?;
    // Programs of tests are in a directory below.
    let beside = own.ancestors().skip(1).take(2).map(|it| it.join(PROGRAM));
    let mut found = beside.filter(|it| it.is_file());
    found
        .next()
        .or_else(|| command::find(PROGRAM))
        .ok_or_else(|| {
            missing(
                "by = \"up\" runs `ackwise up`, but there is no program `ackwise`",
                "install it (`make install`), or build it (`cargo build --release -p ackwise`)",
            )
        })
}

/// What `ackwise up --format json` prints.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Event {
    Up,
    Down { stats: Box<Stats> },
}

/// A running `ackwise up`, which ends on drop.
#[derive(Debug)]
pub(super) struct Up {
    /// `node/interface`, as in the record.
    place: String,
    child: Child,
    output: BufReader<ChildStdout>,
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
    let places = places(scenario);
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let program = program.map_or_else(self::program, |path| Ok(path.to_owned()))?;
    let start = |&(index, end): &(usize, usize)| {
        let link = &scenario.links[index];
        let interface = topology.plan.interface(index, end);
        let place = format!("{}/{}", link.between[end], interface.name);
        let at = &topology.namespaces[interface.node];
        let Some(rate_bps) = directions(link)[end].rate_bps else {
            let what = format!("`ackwise up` on {place} has no rate");
            return Err(LabError::Scenario(what));
        };
        // At the ends of such links, a discipline lets packets leave their sockets at once. The
        // router has no sockets.
        if matches!(topology.links[index], BuiltLink::Kernel(_)) {
            at.inside(|| kernel_link::remove_root(&interface.name))?;
        }
        Up::start(&program, place, rate_bps, &interface.name, at)
    };
    places.iter().map(start).collect()
}

impl Up {
    fn start(
        program: &Path,
        place: String,
        rate_bps: u64,
        interface: &str,
        at: &Namespace,
    ) -> Result<Self, LabError> {
        // Instead of the machine's own file.
        let failed = "cannot write a configuration of `ackwise up`";
        let mut config = NamedTempFile::new().map_err(LabError::os(failed))?;
        let text = format!(
            "[[interface]]\nname = \"{interface}\"\nup = \"{rate_bps} bit/s\"\nrouter = true\n"
        );
        let written = config.write_all(text.as_bytes());
        written.map_err(LabError::os(failed))?;
        let mut child = at.inside(|| {
            Command::new(program)
                .args(["up", interface, "--format", "json", "--config"])
                .arg(config.path())
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(LabError::os("cannot start `ackwise up`"))
        })?;
        let output = child.stdout.take().map(BufReader::new);
        let output = output.ok_or(LabError::Panicked("`ackwise up`"))?;
        let mut up = Self {
            place,
            child,
            output,
            _config: config,
        };
        match up.event() {
            Ok(Event::Up) => Ok(up),
            Ok(Event::Down { .. }) => Err(LabError::Run(up.failed("has ended at once"))),
            Err(why) => Err(LabError::Run(up.failed(&why))),
        }
    }

    /// Waits for the next line of output.
    fn event(&mut self) -> Result<Event, String> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        read.map_err(|error| error.to_string())?;
        if line.is_empty() {
            return Err("has ended".to_owned());
        }
        serde_json::from_str(&line).map_err(|error| format!("printed `{}`: {error}", line.trim()))
    }

    fn failed(&mut self, what: &str) -> String {
        self.stop();
        let mut said = String::new();
        if let Some(errors) = &mut self.child.stderr {
            let _ = errors.read_to_string(&mut said);
        }
        format!("`ackwise up` on {} {what}: {}", self.place, said.trim())
    }

    /// Ends it, and returns the place and its counters.
    ///
    /// # Errors
    /// It had ended before, or could not restore the queue.
    pub fn finish(mut self) -> Result<(String, Stats), String> {
        self.signal();
        let stats = match self.event() {
            Ok(Event::Down { stats }) => *stats,
            Ok(Event::Up) => return Err(self.failed("has started twice")),
            Err(why) => return Err(self.failed(&why)),
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

    fn stop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.signal();
            let _ = self.child.wait();
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
    }
}
