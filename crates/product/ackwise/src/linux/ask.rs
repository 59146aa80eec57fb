//! `ackwise ask`: runs in the foreground until it is told to stop.

use std::time::Instant;

use ackwise_cli::{Format, text};
use ackwise_datapath::{AckRateCounters, AckRateRequest, AckRateRequester, Error};
use ackwise_netdev::daemon::{Daemon, Ended, Supervisor};
use serde_json::json;

use crate::linux::cli::ask::AskArgs;
use crate::linux::watch::{reason, watch};

struct RequesterDaemon(AckRateRequester);

impl Daemon for RequesterDaemon {
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
        None => AckRateRequester::root()?,
    };
    let (request, what) = match (args.segments, args.per_window) {
        _ if args.ack_congestion_control => (
            AckRateRequest::CongestionControl,
            "as many ACKs as the return path carries".to_owned(),
        ),
        (Some(segments), _) => (
            AckRateRequest::Segments(segments),
            format!("one ACK per {segments} segments"),
        ),
        (None, Some(acks)) => (
            AckRateRequest::PerWindow(acks),
            format!("{acks} ACKs per congestion window"),
        ),
        (None, None) => (AckRateRequest::Nothing, "nothing; peers may ask".to_owned()),
    };
    let requester = RequesterDaemon(AckRateRequester::attach(&cgroup, request)?);
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
    let outcome = watch(&supervisor, &requester, until, format, |_, now, _| {
        line(now)
    })?;
    let why = reason(outcome, "ackwise ask");
    supervisor.stopping();
    let counters = requester.stats()?;
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
