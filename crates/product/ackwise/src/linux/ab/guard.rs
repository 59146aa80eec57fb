//! `--guard`: keeps comparing, and turns the policy off where it harms.

use std::time::{Duration, Instant};

use ackwise_cli::{Format, text};
use ackwise_datapath::{Position, Stats};
use ackwise_netdev::daemon::{Outcome as Ended, Supervisor};
use ackwise_netdev::kernel;
use ackwise_switchback::{Design, Verdict};
use serde_json::json;

use super::blocks::{Blocks, Lengths};
use super::outcome::BlockMeter;
use super::report::{Report, Setup, effects_and_verdict, report, sentence};
use super::seed_of_the_time;
use super::subject::Subject;
use crate::linux::cli::ab::GuardArgs;
use crate::linux::watch::watch;

/// The divisor that gives the part of a block that does not count: its first fifth.
const WASH_OUT: u32 = 5;
/// The number of pairs after which the comparison starts over: a day's worth at one pair in five
/// minutes. What was true yesterday may not be true today.
const MAX_PAIRS: u32 = 288;
/// The smallest loss that matters.
const MIN_DIFFERENCE: f64 = 0.05;
/// The probability of turning the policy off in error, over the whole life of the process.
const ERROR_RATE: f64 = 0.05;

/// The part of [`ERROR_RATE`] that comparison number `n`, counted from 1, may use up: together all
/// comparisons use no more than the whole.
fn error_of(n: u32) -> f64 {
    ERROR_RATE / (f64::from(n) * (f64::from(n) + 1.0))
}

/// What the guard compares.
pub struct Guarded<'a, S> {
    pub supervisor: &'a Supervisor,
    pub subject: &'a S,
    pub interface: &'a str,
    pub policy: String,
    pub position: Position,
}

impl<S: Subject> Guarded<'_, S> {
    /// Waits until something ends the daemon, as [`watch`] does, and compares a pair of blocks now
    /// and then. If the policy harms, it stays paused from then on.
    pub fn watch(
        &self,
        args: &GuardArgs,
        deadline: Option<Instant>,
        format: Format,
        describe: impl Fn(&Stats, &Stats, Duration) -> String + Copy,
    ) -> anyhow::Result<Ended> {
        let watch = |until| watch(self.supervisor, self.subject, until, format, describe);
        let Some(every) = args.guard else {
            return Ok(watch(deadline)?);
        };
        let lengths = Lengths {
            block: args.guard_block,
            wash_out: args.guard_block / WASH_OUT,
        };
        // A pair that would not end before the deadline is not started.
        let longest = every + 2 * lengths.block;
        for n in 1.. {
            let setup = self.setup(lengths, error_of(n));
            let meter = BlockMeter::new(self.position);
            let mut blocks = Blocks::new(self.supervisor, self.subject, meter, lengths);
            let mut design = Design::new(setup.seed);
            for _ in 0..MAX_PAIRS {
                let now = Instant::now();
                if deadline.is_some_and(|deadline| deadline < now + longest) {
                    return Ok(watch(deadline)?);
                }
                match watch(Some(now + every))? {
                    Ended::Deadline => {}
                    ended => return Ok(ended),
                }
                if let Some(ended) = blocks.pair(&mut design)? {
                    return Ok(ended);
                }
                self.subject.pause(false)?;
                let (_, verdict) = effects_and_verdict(&setup, &blocks.outcomes);
                if verdict == Verdict::Harms {
                    self.subject.pause(true)?;
                    let found = report(&setup, &blocks.outcomes, String::new());
                    announce(self.interface, &found, format)?;
                    return Ok(watch(deadline)?);
                }
            }
        }
        unreachable!("there is always another comparison")
    }

    fn setup(&self, lengths: Lengths, error: f64) -> Setup {
        Setup {
            interface: self.interface.to_owned(),
            policy: self.policy.clone(),
            position: text::json_name(&self.position),
            block_s: lengths.block.as_secs_f64(),
            wash_out_s: lengths.wash_out.as_secs_f64(),
            most_pairs: MAX_PAIRS,
            difference: MIN_DIFFERENCE,
            error,
            seed: seed_of_the_time(),
            kernel: kernel::release(),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

fn announce(interface: &str, found: &Report, format: Format) -> anyhow::Result<()> {
    let message = format!(
        "{interface}: {} It stays off; every ACK passes. {} pairs of blocks.",
        sentence(found),
        found.blocks.len() / 2
    );
    tracing::warn!("{message}");
    if format == Format::Json {
        let event = json!({ "event": "harms", "interface": interface, "effects": found.effects });
        text::print(&format!("{event}\n"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_that_of_all_comparisons_together() {
        let sum: f64 = (1..1_000_000).map(error_of).sum();
        assert!(sum < ERROR_RATE && sum > 0.99 * ERROR_RATE, "{sum}");
    }
}
