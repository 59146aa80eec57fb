//! The state of a policy in the kernel, from the tracepoint that our kernel patches add.

use std::fs;
use std::mem::offset_of;

use ackwise_policy::{Config, sys};

use crate::error::LabError;

/// Where tracefs is mounted.
pub const DIRECTORY: &str = "/sys/kernel/tracing";

/// The values that Statkus 2021 logs for each ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// `ack_rate_val`: an ACK covers more than this many segments.
    pub value: u32,
    /// `ack_rate_max`: the upper bound of `ack_rate_val`.
    pub max: u32,
}

/// Active tracing.
pub struct Trace {
    /// The parameter `r_max` of `rate-limit`; `rate-limit-literal` keeps its own bound.
    r_max: Option<u32>,
}

impl Trace {
    /// Starts tracing for a receiver with this policy. Only the newest events are kept, because
    /// only the last one is read.
    ///
    /// # Errors
    /// The kernel lacks the tracepoint: it has no ACK policies.
    pub fn start(policy: &str) -> Result<Self, LabError> {
        for (file, value) in [
            ("buffer_size_kb", "4"),
            ("events/tcp/tcp_ack_policy/enable", "1"),
            ("tracing_on", "1"),
        ] {
            let path = format!("{DIRECTORY}/{file}");
            fs::write(&path, value).map_err(LabError::os(format!("cannot write {path}")))?;
        }
        let r_max = policy.parse::<Config>().ok();
        let r_max = r_max.and_then(|config| config.get("r_max").ok());
        Ok(Self { r_max })
    }

    /// The values of the last event; `None` before the first.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn last(&self) -> Result<Option<Rates>, LabError> {
        let path = format!("{DIRECTORY}/trace");
        let text =
            fs::read_to_string(&path).map_err(LabError::os(format!("cannot read {path}")))?;
        Ok(text.lines().rev().find_map(|line| parse(line, self.r_max)))
    }
}

/// Parses an event. Returns `None` if it is incomplete or its policy is not one of the two that
/// have a rate.
fn parse(line: &str, r_max: Option<u32>) -> Option<Rates> {
    let (_, event) = line.split_once(" tcp_ack_policy: ")?;
    let field = |name: &str| {
        event
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    };
    let number = |name: &str| field(name)?.parse::<u32>().ok();
    let state = field("state")?.strip_prefix('{')?.strip_suffix('}')?;
    let word = |offset: usize| {
        let word = state.split(',').nth(offset / 4)?;
        u32::from_str_radix(word.strip_prefix("0x")?, 16).ok()
    };
    match field("policy")? {
        "rate-limit" => {
            let segments = number("mss")?.checked_mul(3);
            let window = number("rcv_wnd")?.checked_div(segments?).unwrap_or(0);
            Some(Rates {
                value: word(offset_of!(sys::aw_rate_limit_state, r))?,
                max: window.min(r_max?),
            })
        }
        "rate-limit-literal" => Some(Rates {
            value: word(offset_of!(sys::aw_rate_limit_literal_state, r))?,
            max: word(offset_of!(sys::aw_rate_limit_literal_state, r_max))?,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(policy: &str) -> String {
        format!(
            " napi/eth1-2-70 [000] ..s2. 1.5: tcp_ack_policy: family=AF_INET \
             src=10.0.0.2:5001 dest=10.0.0.1:4 policy={policy} held=1 reason=held \
             unacked=8688 mss=1448 rcv_wnd=173760 srtt_us=9 min_rtt_us=8 hold_us=4 \
             state={{0x1,0x2,0x3,0xb,0x28,0x7,0x0,0x0,0x0,0x0,0x0,0x0,0x0,0x0,0x0,0x0}} \
             sock_cookie=1"
        )
    }

    #[test]
    fn an_event_is_read() {
        let rates = |value, max| Some(Rates { value, max });
        assert_eq!(parse(&event("rate-limit"), Some(64)), rates(7, 40));
        assert_eq!(parse(&event("rate-limit"), Some(16)), rates(7, 16));
        assert_eq!(parse(&event("rate-limit-literal"), None), rates(11, 40));
    }

    #[test]
    fn what_is_no_event_of_such_a_policy_is_passed_over() {
        assert_eq!(parse(&event("every-n"), None), None);
        assert_eq!(parse("# tracer: nop", Some(64)), None);
        assert_eq!(
            parse("x: tcp_ack_policy: policy=rate-limit mss=1", Some(64)),
            None
        );
        let short = event("rate-limit-literal").replace(",0x28,0x7", "");
        let short = short.replace(",0x0", "");
        assert_eq!(parse(&short, None), None);
    }
}
