//! Switchback experiments on simulated traffic, like those that `ackwise ab` makes on live traffic:
//! the policy of an interface is paused and resumed in blocks, in an order drawn by a coin. The
//! product's code computes the outcomes from the interface's counters.

use std::ops::ControlFlow;

use ackwise_queue::Nanos;
use ackwise_scenario::{RunSpec, Scenario};
use ackwise_switchback::{Block, Counters, Design, IDLE_MS, Outcome, Samples, Span, median_rtt_us};

use crate::build::{self, Simulation};
use crate::error::SimError;

/// The interval at which values without a counter are sampled, as in `ackwise ab`.
const SAMPLE: Nanos = 500_000_000;

/// Parameters of an experiment. Times are nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// The seed for the order of blocks.
    pub seed: u64,
    /// The maximum number of pairs of blocks.
    pub pairs: usize,
    /// When the first block begins.
    pub start: Nanos,
    /// Length of a block.
    pub block: Nanos,
    /// The part at the beginning of a block that does not count.
    pub wash_out: Nanos,
}

impl Experiment {
    /// When the last block ends.
    #[must_use]
    pub fn end(&self) -> Nanos {
        self.start + 2 * self.pairs as Nanos * self.block
    }
}

/// One experiment in progress.
struct Progress<'a, T, J> {
    experiment: Experiment,
    design: Design,
    treat: T,
    judge: J,
    outcomes: &'a mut Vec<Outcome>,
    now: Block,
    block_start: Nanos,
    /// The counters at the end of the wash-out, and when that was.
    measured: Option<(Nanos, Counters)>,
    samples: Samples,
    started: bool,
}

/// Simulates a run of a scenario in which the first policy at an interface is on and off in blocks.
/// `treat` is called at the beginning of each block and at each sample within, and may change the
/// network further: tests use it to plant harm or to let the load drift. `judge` is called after each
/// pair with all blocks so far, and may end the experiment. Returns the blocks.
///
/// # Errors
/// The scenario has no model here, or the arm has no policy at an interface.
pub fn run(
    scenario: &Scenario,
    spec: &RunSpec,
    experiment: &Experiment,
    treat: impl FnMut(&mut Simulation, Block),
    judge: impl FnMut(&[Outcome]) -> ControlFlow<()>,
) -> Result<Vec<Outcome>, SimError> {
    let scenario = scenario.at(spec)?;
    let mut network = build::build(&scenario, spec)?.network;
    if network.interface_policies.is_empty() {
        let message = "has no policy at an interface, so there is nothing to turn on and off; add a \
                       placement with `environment = \"datapath\"`";
        return Err(SimError::about(&scenario, &spec.arm, message));
    }
    let mut outcomes = Vec::new();
    let mut progress = Progress {
        experiment: *experiment,
        design: Design::new(experiment.seed),
        treat,
        judge,
        outcomes: &mut outcomes,
        now: Block::Off,
        block_start: experiment.start,
        measured: None,
        samples: Samples::default(),
        started: false,
    };
    network.sample_at(experiment.start);
    network.run(|network| match progress.sample(network) {
        Some(next) => {
            network.sample_at(next);
            true
        }
        None => false,
    });
    Ok(outcomes)
}

impl<T, J> Progress<'_, T, J>
where
    T: FnMut(&mut Simulation, Block),
    J: FnMut(&[Outcome]) -> ControlFlow<()>,
{
    /// Does what is due now. Returns when to call it next; `None` when the experiment is over.
    fn sample(&mut self, network: &mut Simulation) -> Option<Nanos> {
        let now = network.now;
        let experiment = self.experiment;
        let policy = &network.interface_policies[0];
        match &self.measured {
            None if self.started => {
                // The wash-out is over.
                self.measured = Some((now, policy.counters()));
            }
            None => {
                self.started = true;
                self.begin(network)?;
                return Some(now + experiment.wash_out);
            }
            Some((since, before)) => {
                let rtts = policy.round_trips(now);
                self.samples.rtts_us.extend(median_rtt_us(rtts, IDLE_MS));
                if now >= self.block_start + experiment.block {
                    let span = Span {
                        at_s: (since - experiment.start) as f64 / 1e9,
                        seconds: (now - since) as f64 / 1e9,
                    };
                    let counters = policy.counters();
                    let outcome =
                        Outcome::between(self.now, span, before, &counters, &self.samples);
                    self.outcomes.push(outcome);
                    let whole = self.outcomes.len().is_multiple_of(2);
                    if whole && (self.judge)(self.outcomes).is_break() {
                        return None;
                    }
                    self.begin(network)?;
                    return Some(now + experiment.wash_out);
                }
            }
        }
        (self.treat)(network, self.now);
        Some((now + SAMPLE).min(self.block_start + experiment.block))
    }

    /// Begins the next block, if there is one.
    fn begin(&mut self, network: &mut Simulation) -> Option<()> {
        if self.outcomes.len() >= 2 * self.experiment.pairs {
            return None;
        }
        self.now = self.design.next()?;
        self.block_start = network.now;
        self.measured = None;
        self.samples = Samples::default();
        network.interface_policies[0].pause(self.now == Block::Off);
        (self.treat)(network, self.now);
        Some(())
    }
}
