//! The arguments of `ackwise top`.

use std::time::Duration;

use ackwise_cli::time::duration;
use clap::Args;

pub const HELP: &str = "\
Keys:
  up, down      select another attachment, gateway or tunnel
  left, right   sort the flows by another column; r reverses the order
  space         freeze the display
  ?             help
  q             quit

If NO_COLOR is set, no colours are used. For scripts: ackwise status --format json.";

/// `ackwise top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Show only what runs on this interface, or the tunnel of this name
    pub interface: Option<String>,

    /// How often the counters are read
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,

    /// Use no colours, only bold and inverse text
    #[arg(long)]
    pub no_color: bool,
}

/// Reading faster than this costs more than it shows.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// Above this most of the picture is out of date.
const MAX_INTERVAL: Duration = Duration::from_secs(60);

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if !(MIN_INTERVAL..=MAX_INTERVAL).contains(&interval) {
        return Err("must be between 100ms and 60s".to_owned());
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
