//! `ackwise-lab trace`.

use std::time::Duration;

use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, text};
use ackwise_scenario::trace::{Generator, Recipe};

use crate::cli::{TraceArgs, TraceFormat, TraceKind};

/// The longest trace; a step takes 20 ms.
const MAX_SPAN: Duration = Duration::from_secs(86_400);
/// The largest mean rate, bits per second; peaks are twice as high.
const MAX_MEAN_BPS: u64 = 400_000_000_000;
/// Maximum number of lines of a trace in mahimahi's format.
const MAX_LINES: u128 = 30_000_000;

/// Prints a generated trace.
pub fn trace(args: &TraceArgs, format: Format) -> anyhow::Result<()> {
    let bad = |what: String, hint: &str| Err(BadInput::new(what).hint(hint).into());
    if format == Format::Json {
        let what = "--format json: a trace has a format of its own".to_owned();
        return bad(what, "leave it out, or write --as mahimahi");
    }
    let span = args.duration;
    if span.is_zero() || span > MAX_SPAN || !span.subsec_nanos().is_multiple_of(1_000_000) {
        let what = format!("--duration {span:?} is not a span of a trace");
        return bad(what, "give whole milliseconds, up to a day");
    }
    if args.mean > MAX_MEAN_BPS {
        let what = format!("--mean {} bit/s is too much", args.mean);
        return bad(what, "give at most 400 Gbit/s: the peaks are twice as high");
    }
    let recipe = Recipe {
        generator: match args.kind {
            TraceKind::Lte => Generator::Lte,
            TraceKind::Nr => Generator::Nr,
            TraceKind::Leo => Generator::Leo,
        },
        mean_bps: args.mean,
        seed: u64::from(args.seed),
    };
    let lines = u128::from(args.mean) * span.as_millis() / 12_000_000;
    if args.shape == TraceFormat::Mahimahi && lines > MAX_LINES {
        let what = format!("this trace would have some {lines} lines");
        return bad(
            what,
            "make it shorter or slower, or leave out --as mahimahi",
        );
    }
    let made = recipe.make(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    let made = match args.shape {
        TraceFormat::Steps => made,
        TraceFormat::Mahimahi => match made.opportunities() {
            Some(chances) => chances,
            None => {
                let what = format!("nothing of 1500 bytes fits into {span:?} of this trace");
                return bad(what, "make it longer or faster, or leave out --as mahimahi");
            }
        },
    };
    text::print(&made.text())
}
