//! `ackwise ask`: runs in the foreground until it is told to stop.

use std::time::Instant;

use ackwise_cli::{Format, text};
use ackwise_datapath::{AckRateAsker, AckRateCounters, AckRateWish, Error};
use ackwise_netdev::daemon::{Daemon, Ended, Supervisor};
use serde_json::json;

use crate::linux::cli::ask::AskArgs;
use crate::linux::watch::{reason, watch};

struct Asking(AckRateAsker);

impl Daemon for Asking {
    type Stats = AckRateCounters;
    type Error = Error;

    fn stats(&self) -> Result<AckRateCounters, Error> {
        self.0.counters()
    }

    fn ended(&self) -> Option<Ended> {
        None
    }
}

/// Attaches, waits, detaches.
pub fn ask(args: &AskArgs, format: Format) -> anyhow::Result<()> {
    let supervisor = Supervisor::new()?;
    let started = Instant::now();
    let cgroup = match &args.cgroup {
        Some(cgroup) => cgroup.clone(),
        None => AckRateAsker::root()?,
    };
    let (wish, what) = match (args.segments, args.per_window) {
        _ if args.ack_congestion_control => (
            AckRateWish::CongestionControl,
            "as many ACKs as the return path carries".to_owned(),
        ),
        (Some(segments), _) => (
            AckRateWish::Segments(segments),
            format!("one ACK per {segments} segments"),
        ),
        (None, Some(acks)) => (
            AckRateWish::PerWindow(acks),
            format!("{acks} ACKs per congestion window"),
        ),
        (None, None) => (AckRateWish::Nothing, "nothing; peers may ask".to_owned()),
    };
    let asking = Asking(AckRateAsker::attach(&cgroup, wish)?);
    supervisor.ready(&what);
    let place = cgroup.display().to_string();
    match format {
        Format::Json => text::print(&format!(
            "{}\n",
            json!({ "event": "asking", "cgroup": place, "segments": args.segments,
                    "per_window": args.per_window,
                    "ack_congestion_control": args.ack_congestion_control })
        ))?,
        _ => text::print(&format!("asks on {place}: {what}\n"))?,
    }
    let until = args.duration.map(|duration| started + duration);
    let line = if args.ack_congestion_control {
        control_line
    } else {
        line
    };
    let outcome = watch(&supervisor, &asking, until, format, |_, now, _| line(now))?;
    let why = reason(outcome, "ackwise ask");
    supervisor.stopping();
    let counters = asking.stats()?;
    match format {
        Format::Json => text::print(&format!(
            "{}\n",
            json!({ "event": "ended", "why": why, "counters": counters })
        )),
        _ => text::print(&format!("ended ({why}): {}\n", line(&counters))),
    }
}

fn line(counters: &AckRateCounters) -> String {
    format!(
        "{} SYNs announced the option, {} peers know it; asked {} times",
        counters.offered, counters.agreed, counters.asked
    )
}

fn control_line(counters: &AckRateCounters) -> String {
    format!(
        "{}; {} of {} ACKs received say that none is missing, {} were lost",
        line(counters),
        counters.skipped,
        counters.acks,
        counters.lost
    )
}
