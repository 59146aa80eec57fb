//! The live line: what happened since the last read of the counters.

use std::time::Duration;

use ackwise_cli::text;
use ackwise_datapath::Stats;
use indicatif::{ProgressBar, ProgressStyle};

use crate::linux::rates::measured_rate;

/// What happened between two reads of the counters, `elapsed` apart.
pub fn line(before: &Stats, now: &Stats, elapsed: Duration) -> String {
    let grown = |count: fn(&Stats) -> u64| count(now).saturating_sub(count(before));
    let per_s = |n: u64| text::count((n as f64 / elapsed.as_secs_f64().max(1e-3)).round());
    let seen = grown(|s| s.acks);
    let mut line = format!(
        "ACKs/s {} in, {} {}, {} re-emitted; {} saved; {} flows",
        per_s(seen),
        per_s(grown(|s| s.withheld)),
        if now.dry_run { "to hold" } else { "held" },
        per_s(grown(|s| s.reemitted)),
        text::share(grown(|s| s.packets_saved), seen),
        text::count(now.flows_created as f64),
    );
    if now.hold_times.count > 0 {
        line.push_str(&format!(
            "; held p50 {} p99 {}",
            text::micros(now.hold_times.p50_us as f64),
            text::micros(now.hold_times.p99_us as f64),
        ));
    }
    if let Some(measured) = &now.measured_rate {
        line.push_str(&format!(
            "; queue at {}",
            measured_rate(measured.rate_bps, measured.link_bps, measured.state)
        ));
    }
    line
}

/// A line on standard error that is rewritten in place; hidden if nobody watches.
pub fn live_line() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_msg}").expect("a constant template");
    ProgressBar::new_spinner().with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_came_since_counts() {
        let before = Stats {
            acks: 1000,
            withheld: 500,
            packets_saved: 490,
            ..Stats::default()
        };
        let now = Stats {
            acks: 3000,
            withheld: 2100,
            reemitted: 100,
            packets_saved: 1990,
            flows_created: 3,
            ..Stats::default()
        };
        assert_eq!(
            line(&before, &now, Duration::from_secs(2)),
            "ACKs/s 1.00k in, 800 held, 50 re-emitted; 75.0 % saved; 3 flows"
        );
        let dry = Stats {
            dry_run: true,
            ..Stats::default()
        };
        assert_eq!(
            line(&dry, &dry, Duration::from_secs(1)),
            "ACKs/s 0 in, 0 to hold, 0 re-emitted; - saved; 0 flows"
        );
    }
}
