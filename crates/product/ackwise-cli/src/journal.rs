//! Lines for the journal. Each begins with its priority (sd-daemon(3)), by which `journalctl -p`
//! filters.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// `LOG_ERR` of syslog(3).
const ERR: u8 = 3;

/// Returns whether standard error is connected to the journal: the service manager identifies that
/// stream by device and inode (systemd.exec(5), `$JOURNAL_STREAM`).
#[cfg(unix)]
pub fn is_stderr() -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;

    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let stderr = std::io::stderr().as_fd().try_clone_to_owned();
    let about = stderr.and_then(|stderr| std::fs::File::from(stderr).metadata());
    about.is_ok_and(|about| named == format!("{}:{}", about.dev(), about.ino()))
}

/// This system has no journal.
#[cfg(not(unix))]
pub fn is_stderr() -> bool {
    false
}

/// Prefixes each line of a text with a priority.
fn prefixed(priority: u8, text: &str) -> String {
    let lines = text.lines().map(|line| format!("<{priority}>{line}\n"));
    lines.collect()
}

/// The text of an error as it is printed.
pub fn error(text: &str) -> String {
    match is_stderr() {
        true => prefixed(ERR, text),
        false => format!("{text}\n"),
    }
}

fn priority(level: &Level) -> u8 {
    match *level {
        Level::ERROR => ERR,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// A formatter that puts the priority before each line of another formatter's output.
pub struct Prefixed<F>(pub F);

impl<S, N, F> FormatEvent<S, N> for Prefixed<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut text = String::new();
        self.0
            .format_event(context, Writer::new(&mut text), event)?;
        writer.write_str(&prefixed(priority(event.metadata().level()), &text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_its_priority() {
        assert_eq!(prefixed(4, "one\n  two\n"), "<4>one\n<4>  two\n");
        assert_eq!(priority(&Level::WARN), 4);
    }
}
