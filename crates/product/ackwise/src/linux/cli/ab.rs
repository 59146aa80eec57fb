//! The arguments of `ackwise ab`.

use std::path::PathBuf;
use std::time::Duration;

use ackwise_cli::time::duration;
use clap::Args;

use super::ThinArgs;

pub const HELP: &str = "\
Examples:
  ackwise ab eth0                                  adaptive or nothing, up to 20 minutes
  ackwise ab wan0 --position router --block 30s --html report.html
  ackwise ab eth0 --policy none                    an A/A experiment: it should find nothing

The interface needs traffic throughout. The experiment ends as soon as the answer is known, and at
once if the policy harms. docs/ab.md explains what is measured and how sure the answer is.";

/// `ackwise ab`.
#[derive(Debug, Args)]
pub struct AbArgs {
    #[command(flatten)]
    pub thin: ThinArgs,

    /// Length of a block, in which the policy is either on or off
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub block: Duration,

    /// Time at the start of each block that does not count, while the queue and the flows adapt
    /// [default: a fifth of the block]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub wash_out: Option<Duration>,

    /// Maximum number of pairs of blocks
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    pub pairs: u32,

    /// The smallest difference that matters, e.g. `5%` or `0.05`
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub difference: f64,

    /// Accepted probability of a wrong answer, e.g. `5%` or `0.05`
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub error: f64,

    /// Seed of the random order of the blocks [default: the time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Write a self-contained HTML page with the setup, plots, effects and raw blocks
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// How often the guard compares by default.
pub const GUARD_EVERY: Duration = Duration::from_secs(300);

/// `--guard`, of `ackwise attach` and `ackwise up`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct GuardArgs {
    /// At this interval (5m without TIME), compare a block with the policy to one without, and leave
    /// the policy off if it harms
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "5m", value_parser = guard_time)]
    pub guard: Option<Duration>,

    /// Length of a block of --guard
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = guard_time)]
    pub guard_block: Duration,
}

/// A time as `guard` in the configuration file takes it.
fn guard_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time < Duration::from_secs(1) {
        return Err("must be at least 1s".to_owned());
    }
    Ok(time)
}

/// A share between 0 and a half: `5%`, `0.05`.
fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.trim().strip_suffix('%') {
        Some(number) => (number.trim(), 100.0),
        None => (text.trim(), 1.0),
    };
    let share = number.parse::<f64>().map(|number| number / scale);
    match share {
        Ok(share) if share > 0.0 && share <= 0.5 => Ok(share),
        _ => Err("must be above 0 and at most a half, e.g. 5% or 0.05".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_bounded() {
        assert_eq!(share("5%"), Ok(0.05));
        assert_eq!(share("0.1"), Ok(0.1));
        assert_eq!(share("2.5 %"), Ok(0.025));
        for bad in ["0", "-1%", "51%", "NaN", "five", "", "%"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }
}
