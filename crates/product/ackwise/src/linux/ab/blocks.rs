//! Pairs of blocks, with the policy on and off.

use std::time::{Duration, Instant};

use ackwise_netdev::daemon::{Outcome as Ended, Supervisor};
use ackwise_switchback::{Block, Design, Outcome};

use super::outcome::BlockMeter;
use super::subject::Subject;

/// How often values without a counter are sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

/// The durations of a block and of its parts.
#[derive(Debug, Clone, Copy)]
pub struct Lengths {
    pub block: Duration,
    /// How much of the beginning of a block does not count.
    pub wash_out: Duration,
}

/// Runs blocks, and keeps the measurements.
pub struct Blocks<'a, S> {
    supervisor: &'a Supervisor,
    subject: &'a S,
    meter: BlockMeter,
    lengths: Lengths,
    began: Instant,
    pub outcomes: Vec<Outcome>,
}

impl<'a, S: Subject> Blocks<'a, S> {
    pub fn new(
        supervisor: &'a Supervisor,
        subject: &'a S,
        meter: BlockMeter,
        lengths: Lengths,
    ) -> Self {
        Self {
            supervisor,
            subject,
            meter,
            lengths,
            began: Instant::now(),
            outcomes: Vec::new(),
        }
    }

    /// Measures a pair of blocks. Returns what ended it early, if anything.
    pub fn pair(&mut self, design: &mut Design) -> anyhow::Result<Option<Ended>> {
        for block in design.take(2) {
            if let Some(ended) = self.one(block)? {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }

    fn one(&mut self, block: Block) -> anyhow::Result<Option<Ended>> {
        let start = Instant::now();
        self.subject.pause(block == Block::Off)?;
        if let Some(ended) = self.wait(start + self.lengths.wash_out)? {
            return Ok(Some(ended));
        }
        let mut measuring = self.meter.begin(self.subject)?;
        let end = start + self.lengths.block;
        while Instant::now() < end {
            if let Some(ended) = self.wait(end.min(Instant::now() + SAMPLE_INTERVAL))? {
                return Ok(Some(ended));
            }
            self.meter.sample(self.subject, &mut measuring)?;
        }
        let outcome = self.meter.end(self.subject, measuring, block, self.began)?;
        self.outcomes.push(outcome);
        Ok(None)
    }

    fn wait(&self, until: Instant) -> anyhow::Result<Option<Ended>> {
        let describe = |_: &_, _: &_, _| "compares with and without the policy".to_owned();
        let ended = self
            .supervisor
            .run(self.subject, Some(until), describe, None)?;
        Ok(match ended {
            Ended::Deadline => None,
            other => Some(other),
        })
    }
}
