//! Watches a daemon that runs in the foreground.

use std::time::{Duration, Instant};

use ackwise_cli::Format;
use ackwise_cli::text;
use ackwise_netdev::daemon::{Daemon, Ended, Outcome, Supervisor};

use crate::linux::summary;

/// How long the process of a daemon that was ended may take to exit.
pub const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits until something ends the daemon. If a person watches, `describe` makes the live line from
/// the previous counters, the current ones and the time between them.
pub fn watch<D: Daemon>(
    supervisor: &Supervisor,
    daemon: &D,
    deadline: Option<Instant>,
    format: Format,
    describe: impl Fn(&D::Stats, &D::Stats, Duration) -> String,
) -> Result<Outcome, D::Error> {
    let line = summary::live_line();
    let show = |text: &str| line.set_message(text.to_owned());
    let show: Option<&dyn Fn(&str)> = match format {
        Format::Text if text::watched() => Some(&show),
        _ => None,
    };
    supervisor.run(daemon, deadline, describe, show)
}

/// Says what ended a daemon. `command` is the one that ends it from elsewhere.
pub fn reason(outcome: Outcome, command: &'static str) -> &'static str {
    match outcome {
        Outcome::Signal(name) => name,
        Outcome::Deadline => "the time is over",
        Outcome::ParentGone => "`ackwise up --all` is gone",
        Outcome::Ended(Ended::Requested | Ended::Renewed) => command,
        Outcome::Ended(Ended::InterfaceGone) => "the interface is gone",
        Outcome::Ended(Ended::DeviceGone) => "its device is gone",
        Outcome::Ended(Ended::FilterGone) => "its filter is gone",
    }
}
