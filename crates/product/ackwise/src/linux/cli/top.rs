//! The arguments of `ackwise top`.

use std::time::Duration;

use ackwise_cli::time::duration;
use clap::Args;

pub const HELP: &str = "\
Keys:
  up, down      another attachment, gateway or tunnel
  left, right   another column by which flows are sorted; r turns the order round
  space         hold the picture still
  ?             help
  q             end

Colours are left out where NO_COLOR is set. For a program: ackwise status --format json.";

/// `ackwise top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Only what runs on this interface, or the tunnel of this name
    pub interface: Option<String>,

    /// How often the counters are read
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,

    /// Use bold and inverse text only
    #[arg(long)]
    pub no_color: bool,
}

/// Reading faster than this costs more than it shows.
const SHORTEST: Duration = Duration::from_millis(100);
/// Above this most of the picture is out of date.
const LONGEST: Duration = Duration::from_secs(60);

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if !(SHORTEST..=LONGEST).contains(&interval) {
        return Err("must lie between 100ms and 60s".to_owned());
    }
    Ok(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_bounded() {
        assert_eq!(interval("500ms"), Ok(Duration::from_millis(500)));
        for bad in ["0s", "10ms", "2m", "soon", ""] {
            assert!(interval(bad).is_err(), "{bad}");
        }
    }
}
