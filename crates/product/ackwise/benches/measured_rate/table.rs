//! The results of runs as a table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;

use crate::arm::{Arm, Found};
use crate::trace::Trace;

/// A run.
#[derive(Debug, Serialize)]
pub struct Row {
    pub trace: String,
    kind: String,
    pub arm: Arm,
    #[serde(flatten)]
    found: Found,
}

impl Row {
    pub fn new(trace: &Trace, arm: Arm, found: Found) -> Self {
        Self {
            trace: trace.name.clone(),
            kind: trace.kind().to_owned(),
            arm,
            found,
        }
    }
}

/// Each run, the means of each kind, and on how many traces the measured rate is no worse.
pub fn in_text(rows: &[Row]) -> String {
    let mut text = format!(
        "{:16} {:14} {:>11}  {:>24}  {:>24}\n{:43} {:>24}  {:>24}\n",
        "trace",
        "rate",
        "utilisation",
        "modem, ms",
        "sparse, ms",
        "",
        "p50 / p95 / p99",
        "p50 / p95 / p99"
    );
    for row in rows {
        line(&mut text, &row.trace, row.arm, &row.found);
    }
    let mut kinds: BTreeMap<(&str, Arm), Vec<&Found>> = BTreeMap::new();
    for row in rows {
        kinds
            .entry((&row.kind, row.arm))
            .or_default()
            .push(&row.found);
    }
    text.push_str("means\n");
    for ((kind, arm), found) in kinds {
        line(&mut text, kind, arm, &mean(&found));
    }
    text + &beside(rows)
}

fn line(text: &mut String, name: &str, arm: Arm, found: &Found) {
    let three = |[a, b, c]: [f64; 3]| format!("{a:.0} / {b:.0} / {c:.0}");
    let _ = writeln!(
        text,
        "{name:16} {:14} {:11.3}  {:>24}  {:>24}",
        arm.name(),
        found.utilisation,
        three(found.modem_ms),
        three(found.sparse_ms)
    );
}

fn mean(all: &[&Found]) -> Found {
    let of = |value: &dyn Fn(&Found) -> f64| {
        all.iter().map(|found| value(found)).sum::<f64>() / all.len() as f64
    };
    Found {
        utilisation: of(&|found| found.utilisation),
        modem_ms: [0, 1, 2].map(|index| of(&|found| found.modem_ms[index])),
        sparse_ms: [0, 1, 2].map(|index| of(&|found| found.sparse_ms[index])),
        rates: 0,
        cpu: None,
    }
}

/// Compares the measured rate with cake-autorate, trace by trace.
fn beside(rows: &[Row]) -> String {
    let of = |trace: &str, arm| {
        let row = rows.iter().find(|row| row.trace == trace && row.arm == arm);
        row.map(|row| &row.found)
    };
    let traces: BTreeSet<&str> = rows.iter().map(|row| row.trace.as_str()).collect();
    let pairs: Vec<_> = traces
        .iter()
        .filter_map(|trace| of(trace, Arm::Measured).zip(of(trace, Arm::CakeAutorate)))
        .collect();
    if pairs.is_empty() {
        return String::new();
    }
    let count = |holds: &dyn Fn(&Found, &Found) -> bool| {
        pairs
            .iter()
            .filter(|(ours, theirs)| holds(ours, theirs))
            .count()
    };
    let mut text = format!("measured beside cake-autorate, of {} traces\n", pairs.len());
    let more = count(&|ours, theirs| ours.utilisation >= theirs.utilisation);
    let _ = writeln!(text, "{more:4} at least its utilisation");
    for (index, name) in ["p50", "p95", "p99"].iter().enumerate() {
        let modem = count(&|ours, theirs| ours.modem_ms[index] <= theirs.modem_ms[index]);
        let sparse = count(&|ours, theirs| ours.sparse_ms[index] <= theirs.sparse_ms[index]);
        let _ = writeln!(
            text,
            "{modem:4} a wait in the modem that is no longer at {name}; {sparse} for the sparse flow"
        );
    }
    let both = count(&|ours, theirs| {
        ours.utilisation >= theirs.utilisation && ours.sparse_ms[1] <= theirs.sparse_ms[1]
    });
    let _ = writeln!(
        text,
        "{both:4} at least its utilisation, and a sparse flow's p95 that is no longer"
    );
    text
}
