//! The state of a policy in the kernel, by the tracepoint that the series adds.

use std::fs;

use crate::error::LabError;

/// Where tracefs is mounted.
pub const DIRECTORY: &str = "/sys/kernel/tracing";

/// What Statkus 2021 logs of each ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// `ack_rate_val`: an ACK covers more than this many segments.
    pub value: u32,
    /// `ack_rate_max`: its bound.
    pub max: u32,
}

/// Tracing that has been switched on.
pub struct Trace(());

impl Trace {
    /// Switches it on. Only the newest events are kept: only the last is read.
    ///
    /// # Errors
    /// The kernel lacks the tracepoint: it has no ACK policies.
    pub fn start() -> Result<Self, LabError> {
        for (file, value) in [
            ("buffer_size_kb", "4"),
            ("events/tcp/tcp_ack_policy/enable", "1"),
            ("tracing_on", "1"),
        ] {
            let path = format!("{DIRECTORY}/{file}");
            fs::write(&path, value).map_err(LabError::os(format!("cannot write {path}")))?;
        }
        Ok(Self(()))
    }

    /// What the last event said; `None` before the first.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn last(&self) -> Result<Option<Rates>, LabError> {
        let path = format!("{DIRECTORY}/trace");
        let text =
            fs::read_to_string(&path).map_err(LabError::os(format!("cannot read {path}")))?;
        Ok(text.lines().rev().find_map(parse))
    }
}

fn parse(line: &str) -> Option<Rates> {
    let (_, event) = line.split_once(" tcp_ack_policy: ")?;
    let field = |name: &str| {
        event
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?
            .parse()
            .ok()
    };
    Some(Rates {
        value: field("ack_rate_val")?,
        max: field("ack_rate_max")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read() {
        let line = " napi/eth1-2-70 [000] ..s2. 1.5: tcp_ack_policy: family=AF_INET \
            src=10.0.0.2:5001 policy=rate-limit held=1 ack_rate_val=7 ack_rate_max=64 \
            start_ack_lmt=2000";
        assert_eq!(parse(line), Some(Rates { value: 7, max: 64 }));
        assert_eq!(parse("# tracer: nop"), None);
        assert_eq!(parse("x: tcp_ack_policy: ack_rate_val=7"), None);
    }
}
