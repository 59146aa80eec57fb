//! Which technique wins where: a sweep over asymmetry × uplink queue × flows.
//!
//! This is no paper's experiment, but where the papers' experiments lead; `docs/which-technique-wins.md`
//! discusses it.

use std::collections::BTreeMap;

use ackwise_report::{Axis, Experiment, Figure, Line, Spread, Style};

use crate::{Engine, Error, Lab, Outcome, Paper, Reproduced};

const PATH: &str = "scenarios/papers/sweep/which-technique-wins.toml";
const TEXT: &str = include_str!("../../../../scenarios/papers/sweep/which-technique-wins.toml");
const CC: &str = "cubic";
const RATE: &str = "link.wan.reverse.rate";
const QUEUE: &str = "link.wan.reverse.queue.limit";
const FLOWS: &str = "flow.bulk.connections";

/// Uplink rates as written in the scenario, and in kbit/s.
const RATES: [(&str, f64); 5] = [
    ("50 kbit/s", 50.0),
    ("200 kbit/s", 200.0),
    ("500 kbit/s", 500.0),
    ("1 Mbit/s", 1000.0),
    ("5 Mbit/s", 5000.0),
];
const QUEUES: [&str; 2] = ["20 packets", "1000 packets"];
const CONNECTIONS: [&str; 3] = ["1", "4", "16"];
const DOWNLINK_KBPS: f64 = 50_000.0;
/// Bytes of the Ethernet frames of a full segment and of an ACK with timestamps.
const SEGMENT_BYTES: f64 = 1514.0;
const ACK_BYTES: f64 = 66.0;
/// A technique within this share of the best counts as equally good.
const AS_GOOD: f64 = 0.98;

const ARMS: [(&str, &str); 11] = [
    ("baseline", "nothing"),
    ("every-4", "an ACK for 4 segments"),
    ("every-16", "an ACK for 16 segments"),
    ("adaptive", "adaptive"),
    ("rate-limit", "rate limiting (Statkus)"),
    ("tack", "TACK"),
    ("acc", "ACK congestion control"),
    ("af", "ACK filtering, RFC 3449"),
    ("af-reconstruct", "the same, reconstructed"),
    ("cake", "ACK filtering, cake aggressive"),
    ("mux", "multiplexed, compressed, 10 ms"),
];

/// The sweep.
pub struct Conclusions;

impl Paper for Conclusions {
    fn name(&self) -> &'static str {
        "conclusions"
    }

    fn title(&self) -> &'static str {
        "Which technique wins where"
    }

    fn source(&self) -> &'static str {
        "ackwise; a sweep over asymmetry, the uplink's queue and the number of flows"
    }

    fn about(&self) -> &'static str {
        "50 Mbit/s down, an uplink from 5 Mbit/s to 50 kbit/s with a short or a deep queue, 1 to \
         16 CUBIC flows, 40 ms: the downlink goodput with each way of handling ACKs."
    }

    fn engines(&self) -> &'static [Engine] {
        &[Engine::Sim]
    }

    fn reproduce(&self, lab: &Lab<'_>) -> Result<Reproduced, Error> {
        let outcome = lab.run(PATH, TEXT)?;
        let points = points(&outcome)?;
        let mut all = Reproduced::default();
        all.experiments
            .extend(ARMS.iter().map(|arm| technique(arm, &points)));
        all.experiments.extend(points.iter().map(winner));
        for queue in QUEUES {
            for flows in CONNECTIONS {
                all.figures.push(figure(queue, flows, &points));
            }
        }
        all.notes.push(
            "ACKs-first is not among them: only ACKs go up here, so that it changes nothing. With \
             data on the uplink it does: see the last part of the page on Marhoon."
                .to_owned(),
        );
        all.notes.push(
            "One congestion control, one round trip, one seed: a map, not a verdict. Goodput \
             alone; what ACKs cost in CPU or energy is not in it."
                .to_owned(),
        );
        Ok(all)
    }
}

/// A point of the sweep, with the goodput of each arm in Mbit/s.
struct Point {
    rate: (&'static str, f64),
    queue: &'static str,
    flows: &'static str,
    goodput: BTreeMap<&'static str, f64>,
}

impl Point {
    /// Balakrishnan's k: data packets per ACK that the uplink carries, relative to a stock
    /// receiver. Above 1, ACKs are the bottleneck.
    fn asymmetry(&self) -> f64 {
        let packets = DOWNLINK_KBPS / SEGMENT_BYTES;
        let acks = self.rate.1 / ACK_BYTES;
        packets / acks / 2.0
    }

    fn best(&self) -> (&'static str, f64) {
        let best = self.goodput.iter().max_by(|a, b| a.1.total_cmp(b.1));
        best.map_or(("baseline", 0.0), |(arm, rate)| (arm, *rate))
    }
}

fn points(outcome: &Outcome) -> Result<Vec<Point>, Error> {
    let mut points = Vec::new();
    for rate in RATES {
        for queue in QUEUES {
            for flows in CONNECTIONS {
                let at = [(RATE, rate.0), (QUEUE, queue), (FLOWS, flows)];
                let goodput = ARMS
                    .iter()
                    .map(|(arm, _)| {
                        let run = outcome.one(arm, CC, &at)?;
                        Ok((*arm, run.totals.goodput_bps / 1e6))
                    })
                    .collect::<Result<_, Error>>()?;
                points.push(Point {
                    rate,
                    queue,
                    flows,
                    goodput,
                });
            }
        }
    }
    Ok(points)
}

/// A technique over all points, as shares of the best one's goodput.
fn technique(&(arm, title): &(&'static str, &'static str), points: &[Point]) -> Experiment {
    let shares = points
        .iter()
        .map(|point| 100.0 * point.goodput[arm] / point.best().1);
    let spread = Spread::of("the points of the sweep", shares);
    let worst = spread.as_ref().map_or(f64::NAN, |s| s.min);
    Experiment::new(format!("conclusions/technique/{arm}"), title, worst)
        .part("Each technique at its worst: share of the best one's goodput")
        .unit("%")
        .setup("sim; the least over 30 points")
        .spread(spread)
}

fn winner(point: &Point) -> Experiment {
    let (best, rate) = point.best();
    let good: Vec<&str> = ARMS
        .iter()
        .map(|(arm, _)| *arm)
        .filter(|arm| point.goodput[arm] >= AS_GOOD * rate)
        .collect();
    let text = match good.len() {
        n if n == ARMS.len() => "all".to_owned(),
        n if n > ARMS.len() / 2 => {
            let bad = ARMS
                .iter()
                .map(|(arm, _)| *arm)
                .filter(|arm| !good.contains(arm));
            format!("all but {}", bad.collect::<Vec<_>>().join(", "))
        }
        _ => good.join(", "),
    };
    let id = format!("{}/{}/{}", point.rate.0, point.queue, point.flows).replace(' ', "-");
    Experiment::new(
        format!("conclusions/winner/{id}"),
        format!(
            "{}, queue {}, flows {}",
            point.rate.0, point.queue, point.flows
        ),
        text,
    )
    .part("Within 2 % of the best")
    .setup(format!(
        "sim; k = {:.1}; nothing done: {:.1} Mbit/s; best: {best}, {rate:.1} Mbit/s",
        point.asymmetry(),
        point.goodput["baseline"],
    ))
}

fn figure(queue: &str, flows: &str, points: &[Point]) -> Figure {
    let mut figure = Figure::new(
        &format!("queue-{}-flows-{flows}", queue.replace(' ', "-")),
        &format!("Queue of {queue}, flows: {flows}"),
        Axis::log("uplink, kbit/s"),
        Axis::new("goodput, Mbit/s"),
    )
    .caption("An uplink of 1.09 Mbit/s carries an ACK for every second segment.");
    for (arm, title) in ARMS {
        let here = points
            .iter()
            .filter(|p| p.queue == queue && p.flows == flows);
        let line = here.map(|point| (point.rate.1, point.goodput[arm]));
        figure = figure.line(Line::new(title, Style::Line, line));
    }
    figure
}
