//! A caller's policy is called as the built-in ones are, and the contract around it holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ackwise_policy::{
    Capabilities, Config, Event, EventFlags, EventKind, HostedPolicy, Policy, PolicyState, Verdict,
};
use ackwise_scenario::Scenario;
use ackwise_scenario::record::{Report, Run};
use ackwise_sim::{OwnPolicy, RunOptions, SimError, run};

/// Two flows with loss and reordering, and an uplink that ACKs fill, so that every branch is taken.
fn scenario(policy: &str) -> Scenario {
    let text = format!(
        r#"
[scenario]
name = "own"
duration = "4 s"
[[node]]
name = "server"
[[node]]
name = "client"
[[link]]
name = "wan"
between = ["server", "client"]
forward = {{ rate = "10 Mbit/s", delay = "15 ms", queue = "40 packets", loss = "0.5 %", jitter = "1 ms" }}
reverse = {{ rate = "200 kbit/s", delay = "15 ms", queue = "30 packets" }}
[[flow]]
name = "bulk"
from = "server"
to = "client"
app = "bulk"
[[flow]]
name = "short"
from = "server"
to = "client"
app = "short-flows"
sizes = ["20 kB"]
[[arm]]
name = "mine"
policy = "{policy}"
at = "client"
link = "wan"
[sweep]
cc = ["newreno", "bbr"]
"#
    );
    Scenario::parse("own.toml", &text).unwrap_or_else(|e| panic!("{e}"))
}

/// A built-in policy, called from outside.
#[derive(Debug)]
struct Listed(Policy);

struct OfFlow {
    config: Config,
    state: PolicyState,
}

impl OwnPolicy for Listed {
    fn name(&self) -> String {
        self.0.name().to_owned()
    }

    fn for_flow(&self) -> Box<dyn HostedPolicy> {
        Box::new(OfFlow {
            config: Config::new(self.0),
            state: PolicyState::default(),
        })
    }
}

impl HostedPolicy for OfFlow {
    fn reads_time(&self) -> bool {
        self.config.policy().reads_time()
    }

    fn step(&mut self, event: &Event) -> Verdict {
        let sees = (self.config.policy().needs()).contains(Capabilities::SEE_DATA);
        if event.kind == EventKind::Data && !sees {
            return Verdict::Send;
        }
        assert!(event.now_us > 0 || !self.reads_time());
        self.state.step(&self.config, event)
    }
}

fn report(scenario: &Scenario, own: Option<Arc<dyn OwnPolicy>>) -> Report {
    let options = RunOptions {
        jobs: 1,
        policies: own
            .into_iter()
            .map(|own| ("mine".to_owned(), own))
            .collect(),
        ..RunOptions::default()
    };
    run(scenario, &options, &mut |_| {}).unwrap_or_else(|e| panic!("{e}"))
}

fn counter(run: &Run, name: &str) -> u64 {
    let place = run.datapath.as_ref().and_then(|it| it.get("client/wan"));
    let place = place.unwrap_or_else(|| panic!("{:?}", run.datapath));
    place[name]
        .as_u64()
        .or_else(|| place["reasons"][name].as_u64())
        .unwrap_or(0)
}

#[test]
fn policies_of_the_list_called_from_outside_give_the_same_records() {
    let can = Capabilities::DATAPATH;
    let mut withheld = 0;
    for policy in Policy::all().filter(|policy| policy.check(can).is_ok()) {
        let scenario = scenario(policy.name());
        let inside = report(&scenario, None);
        let outside = report(&scenario, Some(Arc::new(Listed(policy))));
        assert_eq!(outside.runs, inside.runs, "{policy}");
        let is_named = |it: &String| it.contains("the caller's policy") && it.contains("'mine'");
        assert!(outside.notes.iter().any(is_named), "{:?}", outside.notes);
        withheld += u64::from(counter(&inside.runs[0], "withheld") > 0);
    }
    assert!(withheld >= 8, "{withheld} policies withheld ACKs");
}

/// A policy that would withhold every ACK for as long as possible.
#[derive(Debug, Default)]
struct Greedy {
    asked: Arc<AtomicU64>,
    longest: Arc<AtomicU64>,
}

impl OwnPolicy for Greedy {
    fn name(&self) -> String {
        "greedy".to_owned()
    }

    fn for_flow(&self) -> Box<dyn HostedPolicy> {
        Box::new(Greedy {
            asked: Arc::clone(&self.asked),
            longest: Arc::clone(&self.longest),
        })
    }
}

impl HostedPolicy for Greedy {
    fn reads_time(&self) -> bool {
        true
    }

    fn step(&mut self, event: &Event) -> Verdict {
        if event.kind == EventKind::Ack && !event.flags.contains(EventFlags::MUST_SEND) {
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
        self.longest
            .fetch_max(u64::from(event.hold_us), Ordering::Relaxed);
        Verdict::Hold { us: u32::MAX }
    }
}

#[test]
fn what_carries_news_leaves_whatever_it_says() {
    let greedy = Greedy::default();
    let (asked, longest) = (Arc::clone(&greedy.asked), Arc::clone(&greedy.longest));
    let report = report(&scenario("none"), Some(Arc::new(greedy)));
    let (mut withheld, mut sack) = (0, 0);
    for run in &report.runs {
        assert!(run.errors.is_empty(), "{:?}", run.errors);
        for flow in &run.flows {
            assert!(flow.traffic.content.as_ref().is_some_and(|it| it.ok));
        }
        assert_eq!(
            run.datapath.as_ref().unwrap()["client/wan"]["policy"],
            "greedy"
        );
        for reason in ["first", "start", "recovery"] {
            assert!(counter(run, reason) > 0, "{reason}: {:?}", run.datapath);
        }
        assert_eq!(counter(run, "policy"), 0, "the policy let no ACK out");
        assert_eq!(counter(run, "held"), counter(run, "withheld"));
        assert!(counter(run, "reemitted") > 0, "{:?}", run.datapath);
        withheld += counter(run, "withheld");
        sack += counter(run, "sack");
    }
    assert!(sack > 0, "of the flows that have SACK");
    assert_eq!(asked.load(Ordering::Relaxed), withheld);
    assert!(longest.load(Ordering::Relaxed) <= 25_000);
}

#[test]
fn an_arm_without_a_place_for_it_is_refused() {
    let refused = |scenario: &Scenario, arm: &str| {
        let own: Arc<dyn OwnPolicy> = Arc::new(Greedy::default());
        let options = RunOptions {
            policies: BTreeMap::from([(arm.to_owned(), own)]),
            ..RunOptions::default()
        };
        run(scenario, &options, &mut |_| {})
            .map(|_| ())
            .unwrap_err()
    };
    let known = scenario("none");
    let error = refused(&known, "yours");
    assert!(matches!(error, SimError::NoSuchArm { .. }), "{error}");
    assert!(error.to_string().contains("there are mine"), "{error}");
    let bare = known.source.text.replace(
        "[[arm]]",
        "[[arm]]\nname = \"baseline\"\n[[arm]]\nname = \"stack\"\npolicy = \"tack\"\n\
         at = \"client\"\nlink = \"wan\"\nenvironment = \"stack\"\n[[arm]]",
    );
    let bare = Scenario::parse("own.toml", &bare).unwrap_or_else(|e| panic!("{e}"));
    for arm in ["baseline", "stack"] {
        let error = refused(&bare, arm).to_string();
        assert!(error.contains("no interface at which"), "{error}");
        assert!(error.contains("own.toml:"), "{error}");
    }
}
