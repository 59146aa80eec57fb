//! The texts that `ackwise up` prints for a person.

use ackwise_cli::text::columns;
use ackwise_netdev::qdisc::{Cake, CakeFilter};

use super::decision::{Plan, Queue};
use super::facts::{Facts, Forwards, Owner};
use crate::linux::rates::rate;

/// What is done, why, and how to undo it, on one line each.
pub fn summary_lines(facts: &Facts, plan: &Plan, policy: &str) -> String {
    let interface = &facts.interface;
    let reasons = [&plan.why[..], &plan.notes[..]].concat();
    format!(
        "{interface}: {}\nwhy: {}\nundo: Ctrl-C, or `ackwise down {interface}`{}\n",
        what(facts, plan, policy),
        reasons.join("; "),
        undo(facts, plan),
    )
}

fn what(facts: &Facts, plan: &Plan, policy: &str) -> String {
    let queue = &facts.queue;
    match plan.queue {
        Queue::Keep if is_none(policy) => {
            format!("every ACK passes (policy none); the queue stays: {queue}")
        }
        Queue::Keep => format!("{policy} thins the ACKs that leave; the queue stays: {queue}"),
        Queue::Cake(cake) => format!(
            "{} replaces {queue}; beside an upload ACKs go first in it, with at most half of the rate{}",
            describe(&cake, plan.min_bps),
            match is_none(policy) {
                true => "; all of them reach it (policy none)".to_owned(),
                false => format!(", after {policy} has thinned them"),
            }
        ),
        Queue::Gateway { rate_bps, .. } => format!(
            "the gateway's queue with its ACK filter at {} before {queue}",
            shaped(rate_bps, plan.min_bps)
        ),
    }
}

fn is_none(policy: &str) -> bool {
    policy == "none"
}

/// A fixed rate, or the bounds of a measured one.
pub fn shaped(rate_bps: u64, min_bps: Option<u64>) -> String {
    match min_bps {
        None => rate(rate_bps),
        Some(min_bps) => format!(
            "a measured rate from {} to {}",
            rate(min_bps),
            rate(rate_bps)
        ),
    }
}

fn describe(cake: &Cake, min_bps: Option<u64>) -> String {
    let filter = match cake.filter {
        CakeFilter::None => "",
        CakeFilter::Filter => " with ack-filter",
        CakeFilter::Aggressive => " with ack-filter-aggressive",
    };
    format!("cake at {}{filter}", shaped(cake.rate_bps, min_bps))
}

fn undo(facts: &Facts, plan: &Plan) -> String {
    match plan.queue {
        Queue::Cake(_) => format!("; {} is then restored, also after kill -9", facts.queue),
        Queue::Gateway { .. } | Queue::Keep => String::new(),
    }
}

/// The facts, and the decision or why nothing is done.
pub fn explain(facts: &Facts, plan: Result<&Plan, &str>, policy: &str) -> String {
    let mut rows = vec![
        ("interface", interface(facts)),
        ("default route", default_route(facts)),
        ("forwards", forwards(facts.forwards)),
        ("queue", queue(facts)),
        ("ackwise", at_work(facts)),
        ("kernel", kernel(facts)),
    ];
    match plan {
        Ok(plan) => {
            rows.push(("decision", what(facts, plan, policy)));
            let reasons = plan.why.iter().map(|why| ("why", why.clone()));
            rows.extend(reasons);
            let notes = plan.notes.iter().map(|note| ("note", note.clone()));
            rows.extend(notes);
        }
        Err(refused) => {
            let what = refused.lines().next().unwrap_or_default();
            rows.push(("decision", format!("nothing: {what}")));
        }
    }
    let rows: Vec<_> = rows
        .into_iter()
        .map(|(what, value)| vec![what.to_owned(), value])
        .collect();
    columns(&rows, &[false, false])
}

fn interface(facts: &Facts) -> String {
    let mut parts = vec![facts.interface.clone()];
    parts.push(if facts.link.up { "up" } else { "down" }.to_owned());
    parts.extend(facts.link.kind.clone());
    let port_of = facts.link.port_of.as_ref();
    parts.extend(port_of.map(|of| format!("port of {of}")));
    match facts.device {
        None => parts.push("speed and Wi-Fi: not known".to_owned()),
        Some(device) => {
            parts.extend(device.wifi.then(|| "Wi-Fi".to_owned()));
            parts.push(match device.speed_mbps {
                Some(speed) => format!("{speed} Mbit/s"),
                None => "speed not known".to_owned(),
            });
        }
    }
    parts.join(", ")
}

fn default_route(facts: &Facts) -> String {
    let route = &facts.default_route;
    let here = match (route.v4, route.v6) {
        (true, true) => "here (IPv4, IPv6)",
        (true, false) => "here (IPv4)",
        (false, true) => "here (IPv6)",
        (false, false) if route.elsewhere.is_empty() => "none",
        (false, false) => "not here",
    };
    match &route.elsewhere[..] {
        [] => here.to_owned(),
        others => format!("{here}; on {}", others.join(", ")),
    }
}

fn forwards(forwards: Forwards) -> String {
    let describe = |answer| match answer {
        Some(true) => "yes",
        Some(false) => "no",
        None => "not known",
    };
    format!(
        "IPv4 {}, IPv6 {}",
        describe(forwards.v4),
        describe(forwards.v6)
    )
}

fn queue(facts: &Facts) -> String {
    let queue = &facts.queue;
    let whose = match queue.owner {
        Owner::Kernel => "the kernel's own",
        Owner::Ackwise => "put there by `ackwise up`",
        Owner::SomebodyPlain => "set by someone else, does not shape",
        Owner::Somebody if queue.sqm => "set by sqm-scripts",
        Owner::Somebody => "set by someone else, may shape",
    };
    let Some(root) = &queue.root else {
        return queue.to_string();
    };
    let shaped = root.rate_bps.map(|bps| format!(" at {}", rate(bps)));
    format!(
        "{} {}{}, {whose}",
        root.kind,
        root.handle,
        shaped.unwrap_or_default()
    )
}

fn at_work(facts: &Facts) -> String {
    match facts.at_work.as_deref() {
        None => "not known without root".to_owned(),
        Some([]) => "not running here".to_owned(),
        Some(all) => {
            let all = all
                .iter()
                .map(|it| format!("{}, process {}", it.what, it.pid));
            all.collect::<Vec<_>>().join("; ")
        }
    }
}

fn kernel(facts: &Facts) -> String {
    let kernel = &facts.kernel;
    let tcx = if kernel.tcx { "tcx" } else { "no tcx (clsact)" };
    let cake = match kernel.cake {
        Some(true) => "cake",
        Some(false) => "no cake",
        None => "cake not known without root",
    };
    format!("Linux {}: {tcx}, {cake}", kernel.release)
}
