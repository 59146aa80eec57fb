//! Attaches the datapath where an arm asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ackwise_datapath::{Datapath, Matches, Options, Stats};
use ackwise_policy::{Capabilities, Config, ConfigError};
use ackwise_scenario::{App, Environment, Flow, Placement, Position, Scenario};

use crate::error::LabError;
use crate::plan::FIRST_PORT;
use crate::topology::Topology;

/// Checks that a placement's policy exists, accepts its parameters and fits the datapath.
///
/// # Errors
/// It does not; the error names the place in the file.
pub(super) fn check(scenario: &Scenario, placement: &Placement) -> Result<(), LabError> {
    config(scenario, placement)?;
    if placement.obey_ack_rate {
        let why = "only the simulator has 'obey_ack_rate'; use `--on sim`".to_owned();
        return Err(LabError::Invalid(
            scenario.error_at(&placement.policy_span, why),
        ));
    }
    matches(scenario, placement).map(drop)
}

/// The ports by which the datapath selects flows: a range at one side, the listening one. Flows
/// listen at [`FIRST_PORT`] and up, in the order of the file.
fn matches(scenario: &Scenario, placement: &Placement) -> Result<Matches, LabError> {
    let invalid = |why: String| LabError::Invalid(scenario.error_at(&placement.policy_span, why));
    let wanted = |flow: &Flow| placement.flows.contains(&flow.name);
    let listens_at_data = |flow: &Flow| matches!(flow.app, App::RequestResponse { .. });
    let Some(first) = scenario.flows.iter().position(wanted) else {
        return Ok(Matches::default());
    };
    let last = scenario.flows.iter().rposition(wanted).unwrap_or(first);
    let at_data = listens_at_data(&scenario.flows[first]);
    for flow in &scenario.flows[first..=last] {
        if !wanted(flow) && listens_at_data(flow) == at_data {
            return Err(invalid(format!(
                "'flows' must name flows that follow one another in the file, and '{}' is \
                 between them: the datapath selects them by a range of ports; move it, or give \
                 the arm two places",
                flow.name
            )));
        }
        if wanted(flow) && listens_at_data(flow) != at_data {
            return Err(invalid(format!(
                "'flows' has '{}' and '{}', one of which listens at the sender of the data and one \
                 at the receiver: the datapath selects flows by the ports of one side; name one \
                 kind",
                scenario.flows[first].name, flow.name
            )));
        }
    }
    let port = |flow: usize| FIRST_PORT.saturating_add(u16::try_from(flow).unwrap_or(u16::MAX));
    let ports = Some(port(first)..=port(last));
    // At the data's sender, the local side is the one with the data; elsewhere it is the other.
    let near = (placement.position == Position::Sender) == at_data;
    Ok(Matches {
        local_ports: ports.clone().filter(|_| near),
        remote_ports: ports.filter(|_| !near),
        ..Matches::default()
    })
}

fn config(scenario: &Scenario, placement: &Placement) -> Result<Config, LabError> {
    let at_policy =
        |error: String| LabError::Invalid(scenario.error_at(&placement.policy_span, error));
    let policy = ackwise_policy::Policy::by_name(&placement.policy)
        .map_err(|error| at_policy(error.to_string()))?;
    let mut means = Capabilities::DATAPATH;
    if placement.environment == Environment::Stack {
        means |= Capabilities::MAKE_ACKS;
    }
    policy
        .check(means)
        .map_err(|error| at_policy(error.to_string()))?;
    let mut config = Config::new(policy);
    for setting in &placement.set {
        config
            .set(&setting.name, &setting.value.to_string())
            .map_err(|error| {
                let span = match error {
                    ConfigError::UnknownParam { .. } => &setting.name_span,
                    _ => &setting.value_span,
                };
                LabError::Invalid(scenario.error_at(span, error.to_string()))
            })?;
    }
    Ok(config)
}

/// A datapath on an interface, run by a thread in the interface's namespace; detached on drop.
#[derive(Debug)]
pub(super) struct Attached {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Stats, ackwise_datapath::Error>>>,
    /// `node/interface`, as in the record.
    pub place: String,
}

/// Attaches the policies of an arm.
///
/// # Errors
/// One of them could not be attached; those attached before it are detached.
pub(super) fn attach(
    scenario: &Scenario,
    placements: &[Placement],
    topology: &Topology,
) -> Result<Vec<Attached>, LabError> {
    placements
        .iter()
        .filter(|placement| placement.environment == Environment::Datapath)
        .map(|placement| attach_one(scenario, placement, topology))
        .collect()
}

fn attach_one(
    scenario: &Scenario,
    placement: &Placement,
    topology: &Topology,
) -> Result<Attached, LabError> {
    let unknown = |what: &str| LabError::Scenario(format!("an arm names an unknown {what}"));
    let node = scenario
        .nodes
        .iter()
        .position(|node| node.name == placement.node)
        .ok_or_else(|| unknown("node"))?;
    let link = scenario
        .links
        .iter()
        .position(|link| link.name == placement.link)
        .ok_or_else(|| unknown("link"))?;
    let (_, interface) = topology
        .plan
        .interfaces_of(node)
        .find(|(_, interface)| interface.link == link)
        .ok_or_else(|| unknown("interface"))?;
    let mut options = Options::new(&interface.name, config(scenario, placement)?);
    options.position = match placement.position {
        Position::Receiver => ackwise_datapath::Position::Receiver,
        Position::Router => ackwise_datapath::Position::Router,
        Position::Sender => ackwise_datapath::Position::Sender,
    };
    if let Some(hold) = placement.hold {
        options.hold_max = hold;
    }
    if let Some(least) = placement.hold_min {
        options.hold_min = least;
    }
    options.cwnd_hint = placement.cwnd_hint;
    // The queue is on the wire; the datapath would only see the queue length of its own interface.
    options.fair_queue = scenario.links[link].separates_flows_of(&placement.node);
    options.matches = matches(scenario, placement)?;
    let entrance = topology.entrance(node)?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let (ready, attached) = mpsc::sync_channel(1);
    let thread = thread::Builder::new()
        .name(format!("datapath {}", placement.node))
        .spawn(move || {
            let attachment = match entrance.enter() {
                Ok(()) => Datapath::attach(options)?,
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return Ok(Stats::default());
                }
            };
            let _ = ready.send(Ok(()));
            while !stopped.load(Ordering::Relaxed) {
                thread::park_timeout(Duration::from_millis(100));
            }
            attachment.detach()
        })
        .map_err(LabError::os("cannot start a thread for the datapath"))?;
    let mut started = Attached {
        stop,
        thread: Some(thread),
        place: format!("{}/{}", placement.node, interface.name),
    };
    let failed = |source| LabError::Datapath {
        node: placement.node.clone(),
        interface: interface.name.clone(),
        source: Box::new(source),
    };
    match attached.recv() {
        Ok(Ok(())) => Ok(started),
        Ok(Err(error)) => Err(error),
        // The thread ended before it was ready.
        Err(_) => match started.finish() {
            Ok(Err(error)) => Err(failed(error)),
            Ok(Ok(_)) | Err(_) => Err(LabError::Panicked("the datapath's thread")),
        },
    }
}

impl Attached {
    /// Detaches the datapath and returns its final counters.
    pub fn finish(&mut self) -> Result<Result<Stats, ackwise_datapath::Error>, LabError> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take() {
            Some(thread) => {
                thread.thread().unpark();
                thread
                    .join()
                    .map_err(|_| LabError::Panicked("the datapath's thread"))
            }
            None => Ok(Ok(Stats::default())),
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.thread.is_some()
            && let Ok(Err(error)) = self.finish()
        {
            tracing::warn!("the datapath on {}: {error}", self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three flows from `a`, the last a request; a policy at `at` for `flows`.
    fn matched(at: &str, flows: &str) -> Result<Matches, LabError> {
        let flow = |name: &str, rest: &str| {
            format!("[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\n{rest}\n")
        };
        let text = [
            "[scenario]\nname = \"x\"\nduration = \"1 s\"\n\
             [[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n\
             [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n"
                .to_owned(),
            flow("one", "app = \"bulk\""),
            flow("two", "app = \"bulk\""),
            flow(
                "three",
                "app = \"request-response\"\nrequest = \"1 kB\"\nresponse = \"1 kB\"\ncount = 1000",
            ),
            flow("four", "app = \"bulk\""),
            format!(
                "[[arm]]\nname = \"baseline\"\n[[arm]]\nname = \"thin\"\npolicy = \"every-n\"\n\
                 at = \"{at}\"\nlink = \"l\"\nflows = {flows}\n"
            ),
        ];
        let scenario = Scenario::parse("x", &text.concat()).unwrap();
        matches(&scenario, &scenario.arms[1].placements[0])
    }

    #[test]
    fn flows_are_told_by_where_they_listen() {
        let ports = |at, flows| {
            let found = matched(at, flows).unwrap();
            (found.local_ports, found.remote_ports)
        };
        assert_eq!(ports("b", "[\"one\", \"two\"]"), (Some(5001..=5002), None));
        assert_eq!(ports("a", "[\"two\"]"), (None, Some(5002..=5002)));
        assert_eq!(ports("b", "[\"three\"]"), (None, Some(5003..=5003)));
        assert_eq!(ports("a", "[\"three\"]"), (Some(5003..=5003), None));
        // The port of the flow between them is at the other side.
        assert_eq!(ports("b", "[\"two\", \"four\"]"), (Some(5002..=5004), None));
    }

    #[test]
    fn flows_that_ports_cannot_tell_apart_are_refused() {
        let why = |flows| matched("b", flows).unwrap_err().to_string();
        let between = why("[\"one\", \"four\"]");
        assert!(between.contains("'two' is between them"), "{between}");
        let kinds = why("[\"two\", \"three\"]");
        assert!(kinds.contains("'two' and 'three'"), "{kinds}");
    }
}
