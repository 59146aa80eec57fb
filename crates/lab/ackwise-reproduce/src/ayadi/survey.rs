//! What the paper quotes of others and proposes, on its own chain: windows, versions of TCP, ABC.

use ackwise_report::Experiment;

use super::claims::{LESS, MORE, claim};
use super::points::{Metric, Place, Points};
use crate::{Error, Reproduced};

const HOPS: [u64; 5] = [2, 4, 6, 8, 10];
/// Windows in segments; the last is INET's.
const WINDOWS: [u64; 7] = [1, 2, 3, 4, 6, 8, 14];
/// Arms with the MAC of the figures and with that of the standard, a setting that the paper
/// leaves open.
const MACS: [(&str, &str); 2] = [("figures", ""), ("standard", ", the standard's MAC")];
/// Versions of TCP, all with an ACK for each segment.
const VERSIONS: [(&str, &str); 5] = [
    ("tahoe", "Tahoe"),
    ("reno", "Reno"),
    (NEWRENO, "NewReno"),
    ("sack", "SACK"),
    ("vegas", "Vegas"),
];
const NEWRENO: &str = "window-14";

const STANDARD: &str = "sim; as in the figures, but with the MAC parameters of the standard";

/// Rows with the MAC of the figures are the paper's; those with the other MAC are variants.
fn on(mac: &str, row: Experiment) -> Experiment {
    match mac {
        "figures" => row,
        _ => row.variant().setup(STANDARD),
    }
}

fn places(hops: &[u64]) -> Vec<Place> {
    hops.iter().map(|hops| Place::new(*hops, 1)).collect()
}

pub(super) fn add(points: &Points, all: &mut Reproduced) -> Result<(), Error> {
    for (mac, called) in MACS {
        gerla(points, mac, called, all)?;
        fu(points, mac, called, all)?;
        versions(points, mac, called, all)?;
        sack(points, mac, called, all)?;
    }
    abc(points, all)
}

/// Beyond two hops, windows above one segment relative to a window of one.
fn gerla(points: &Points, mac: &str, called: &str, all: &mut Reproduced) -> Result<(), Error> {
    let far = places(&HOPS[1..]);
    let one = format!("{mac}/window-1");
    for window in &WINDOWS[1..] {
        let arm = format!("{mac}/window-{window}");
        let gains = points.mean_gains(&arm, &one, &far, Metric::Throughput)?;
        let id = format!("survey/gerla/{mac}/window-{window}");
        let what =
            format!("throughput of a window of {window} against one of 1, 4 to 10 hops{called}");
        let row = claim("Survey: Gerla et al.", id, what, "%", gains);
        let row = row.published("less").tolerance(LESS).note(WINDOW);
        all.experiments.push(on(mac, row));
    }
    Ok(())
}

const WINDOW: &str = "Theirs is CSMA without link-layer acknowledgments, and 802.11. Here the sender of a \
                      frame hears of its loss and repeats it, and a window of 1 leaves the chain idle \
                      while a segment is in flight.";

/// A window of a quarter of the hops relative to the best of the others.
fn fu(points: &Points, mac: &str, called: &str, all: &mut Reproduced) -> Result<(), Error> {
    let metric = Metric::Throughput;
    for hops in [4, 8] {
        let (at, quarter) = (Place::new(hops, 1), hops / 4);
        let mut best: Option<(u64, f64)> = None;
        for window in WINDOWS.into_iter().filter(|window| *window != quarter) {
            let values =
                points.values(&format!("{mac}/window-{window}"), at, |run| metric.of(run))?;
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            if best.is_none_or(|(_, most)| mean > most) {
                best = Some((window, mean));
            }
        }
        let other = best.map_or(quarter, |(window, _)| window);
        let arms = [quarter, other].map(|window| format!("{mac}/window-{window}"));
        let gains = points.gains(&arms[0], &arms[1], at, metric)?;
        let id = format!("survey/fu/{mac}/{hops}-hops");
        let what = format!(
            "throughput of a window of {quarter}, a quarter of {hops} hops, against {other}, the best \
             of the others{called}"
        );
        let row = claim("Survey: Fu et al.", id, what, "%", gains);
        all.experiments
            .push(on(mac, row.published("more").tolerance(MORE)));
    }
    Ok(())
}

/// Versions of TCP compared: Vegas is said to be the fastest, and SACK to use the least energy.
fn versions(points: &Points, mac: &str, called: &str, all: &mut Reproduced) -> Result<(), Error> {
    let everywhere = places(&HOPS);
    for (metric, published, held, subject, part) in [
        (
            Metric::Throughput,
            "more",
            MORE,
            "vegas",
            "Survey: Xu and Saadawi",
        ),
        (
            Metric::Energy,
            "less",
            LESS,
            "sack",
            "Survey: Heng and Ai-Huang",
        ),
    ] {
        let title = VERSIONS.iter().find(|(arm, _)| *arm == subject);
        let title = title.map_or(subject, |(_, title)| title);
        // Heng and Ai-Huang compared the versions without Vegas.
        let others = VERSIONS
            .iter()
            .filter(|(arm, _)| *arm != subject && *arm != "vegas");
        for (arm, other) in others {
            let [ours, theirs] = [subject, arm].map(|arm| format!("{mac}/{arm}"));
            let gains = points.mean_gains(&ours, &theirs, &everywhere, metric)?;
            let id = format!("survey/{}/{mac}/{subject}-to-{arm}", metric.name());
            let what = format!(
                "{} of {title} against {other}, 2 to 10 hops{called}",
                metric.name()
            );
            let row = claim(part, id, what, "%", gains)
                .published(published)
                .tolerance(held);
            all.experiments.push(on(mac, row));
        }
    }
    Ok(())
}

/// SACK with receivers that delay ACKs, as the paper proposes.
fn sack(points: &Points, mac: &str, called: &str, all: &mut Reproduced) -> Result<(), Error> {
    let everywhere = places(&HOPS);
    for (arm, title) in [("dca", "DCA"), ("tda", "TDA")] {
        let [with, without] = [format!("{mac}/{arm}-sack"), format!("{mac}/{arm}")];
        for metric in [Metric::Throughput, Metric::Energy] {
            let gains = points.mean_gains(&with, &without, &everywhere, metric)?;
            let id = format!("survey/sack/{mac}/{arm}/{}", metric.name());
            let what = format!(
                "{} of {title} with SACK against without, 2 to 10 hops{called}",
                metric.name()
            );
            let row = claim("§4: SACK with fewer ACKs", id, what, "%", gains);
            all.experiments.push(row);
        }
    }
    Ok(())
}

/// Appropriate byte counting, with L of one segment and of as many segments as an ACK covers.
fn abc(points: &Points, all: &mut Reproduced) -> Result<(), Error> {
    let everywhere = places(&HOPS);
    for (arm, title, most) in [
        ("d2", "d = 2", 2),
        ("d4", "d = 4", 4),
        ("dca", "DCA", 14),
        ("tda", "TDA", 14),
    ] {
        for limit in [1, most] {
            let with = format!("figures/{arm}-abc-{limit}");
            let without = format!("figures/{arm}");
            for metric in [Metric::Throughput, Metric::Energy] {
                let gains = points.mean_gains(&with, &without, &everywhere, metric)?;
                let id = format!("survey/abc/{arm}/L-{limit}/{}", metric.name());
                let what = format!(
                    "{} of {title} with ABC, L = {limit}, against growth by ACKs, 2 to 10 hops",
                    metric.name()
                );
                let row = claim("§4: ABC", id, what, "%", gains);
                let own = limit == most && metric == Metric::Throughput;
                all.experiments.push(match own {
                    true => row.published("more").tolerance(MORE).note(ABC),
                    false => row,
                });
            }
        }
    }
    Ok(())
}

const ABC: &str = "Proposed for delayed ACKs in general, \"even if the number of delayed \
                   acknowledgments is higher than two segments\". L is the most segments that an ACK \
                   counts for in slow start (RFC 3465), here as many as it may cover.";
