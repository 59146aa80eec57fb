//! The same dumbbell with Linux at its ends and the tunnel's daemons between them, live or
//! in virtual time.

use ackwise_report::{Axis, Experiment, Figure, Line, Spread, Style, Tolerance, Value};
use ackwise_scenario::record::{MuxRecord, Run};

use super::{BOTTLENECK_BPS, PACKET_BYTES};
use crate::series::{falls, mean_interval, wire_rate_bps};
use crate::tolerances::share;
use crate::{Engine, Error, Lab, Outcome, Reproduced};

const SINGLE_PATH: &str = "scenarios/papers/saldana-2013/single-real.toml";
const SINGLE: &str = include_str!("../../../../../scenarios/papers/saldana-2013/single-real.toml");
const PAIR_PATH: &str = "scenarios/papers/saldana-2013/pair-real.toml";
const PAIR: &str = include_str!("../../../../../scenarios/papers/saldana-2013/pair-real.toml");
const HUNDRED_PATH: &str = "scenarios/papers/saldana-2013/hundred-real.toml";
const HUNDRED: &str =
    include_str!("../../../../../scenarios/papers/saldana-2013/hundred-real.toml");

/// The link with the tunnel.
const QUEUE: &str = "n-p.reverse";
const CCS: [(&str, &str); 2] = [("reno", "Reno"), ("cubic", "CUBIC")];
/// Start of the flow through the tunnel: the first value is the cell, and all are its spread.
const START: &str = "flow.b.start";
const STARTS: [&str; 5] = ["0 s", "0.303 s", "0.707 s", "1.111 s", "1.919 s"];
/// Periods in ms; the longest is for Fig. 2 only.
const PERIODS_MS: [u32; 6] = [5, 10, 15, 20, 25, 50];
/// Table I's row for Reno, in %.
const RENO: [f64; 5] = [5.95, 17.78, 48.62, 24.29, 61.92];
/// What the Tahoe flow of Fig. 2 loses at 50 ms, in % of the link.
const TAHOE_LOSS: f64 = 12.0;
/// Fig. 2, without and with PE = 50 ms: Mbit/s, and seconds between resets.
const FIGURE_2: [(f64, f64); 2] = [(9.24, 7.0), (8.039, 9.5)];
/// The share of itself to which a window falls at a loss, with a margin for what it gains until it
/// is sampled.
const FALLEN: f64 = 0.75;
/// When slow start and its losses are over, in seconds.
const SETTLED_S: f64 = 5.0;
/// The periods of a short version.
const QUICK_MS: [u32; 3] = [5, 10, 50];

pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    let periods: Vec<u32> = PERIODS_MS
        .into_iter()
        .filter(|period| !lab.quick() || QUICK_MS.contains(period))
        .collect();
    let wanted = |arm: &str| arm == "baseline" || periods.iter().any(|ms| arm == name(*ms));
    let single = lab.run_where(SINGLE_PATH, SINGLE, |run| wanted(&run.arm))?;
    let starts = starts(lab);
    let pair = lab.run_where(PAIR_PATH, PAIR, |run| {
        let start = run.point.get(START);
        wanted(&run.arm) && start.is_some_and(|start| starts.contains(&start.as_str()))
    })?;
    for (cc, title) in CCS {
        alone(lab, &single, (cc, title), &periods, all)?;
        beside(lab, &pair, (cc, title), &periods, all)?;
    }
    // In real time 242 Mbit/s through two daemons would only measure the machine.
    if lab.engine() == Engine::Virtual {
        hundred(lab, all)?;
    }
    all.notes.extend(NOTES.map(str::to_owned));
    all.notes.push(match lab.engine() {
        Engine::Live => "Linux of the running kernel, in real time: numbers vary.".to_owned(),
        _ => "Linux 6.12 in virtual time: the same numbers every time.".to_owned(),
    });
    Ok(())
}

const NOTES: [&str; 3] = [
    "Linux acknowledges every second segment, paces nothing under Reno and CUBIC, and leaves slow \
     start by HyStart: the paper's simulated senders do none of that. Its row of Reno is printed \
     beside Linux' Reno for comparison, not as what has to come out.",
    "Averages are over the second half: 20 of 40 s, and 30 of 60 s of two flows. The period is kept \
     as it is given; by default a tunnel keeps it under an eighth of the round trip, 10 ms here.",
    "The tunnel hurries ACKs that carry news (SACK, the start of a flow), which the paper's \
     multiplexer did not.",
];

fn name(ms: u32) -> String {
    format!("tunnel-{ms}ms")
}

/// Rate of a flow over the second half of a run in Mbit/s, headers included.
fn rate(outcome: &Outcome, run: &Run, flow: &str) -> Result<f64, Error> {
    let until = outcome.scenario.duration.as_secs_f64();
    let series = outcome.flow(run, flow)?.series.as_ref();
    let rate = series.and_then(|s| wire_rate_bps(s, PACKET_BYTES, until / 2.0, until));
    let lacks = || outcome.lacks(format_args!("data_rate_hz of {flow} in {}", run.id));
    Ok(rate.ok_or_else(lacks)? / 1e6)
}

fn mux<'a>(outcome: &'a Outcome, run: &'a Run) -> Result<&'a MuxRecord, Error> {
    let mux = outcome.queue(run, QUEUE)?.mux.as_ref();
    mux.filter(|mux| mux.bundles > 0 && mux.packets > 0)
        .ok_or_else(|| outcome.lacks(format_args!("bundles in {}", run.id)))
}

/// Fig. 2: a single flow.
fn alone(
    lab: &Lab<'_>,
    outcome: &Outcome,
    (cc, title): (&str, &str),
    periods: &[u32],
    all: &mut Reproduced,
) -> Result<(), Error> {
    let part = format!("Fig. 2 with Linux: {title} by itself");
    let setup = format!(
        "{}; single-real.toml; 10 Mbit/s, 80 ms, 50 packets",
        lab.engine()
    );
    let experiment = |what: &str, title: String, measured: Value| {
        let id = format!("saldana/{}/single/{cc}/{what}", lab.engine());
        Experiment::new(id, title, measured)
            .part(&part)
            .setup(&setup)
    };
    let shown = |arm: &str, id: &str, title: &str, published: (f64, f64)| {
        let run = outcome.one(arm, cc, &[])?;
        let rate = rate(outcome, run, "b")?;
        let every = between_losses(outcome, run)?.map_or("no losses".into(), Value::from);
        let rows = [
            experiment(id, format!("throughput, {title}"), rate.into())
                .published(published.0)
                .not_comparable(RATE_NOTE)
                .variant()
                .unit("Mbit/s"),
            experiment(
                &format!("{id}-interval"),
                format!("from loss to loss, {title}"),
                every,
            )
            .published(published.1)
            .not_comparable(INTERVAL_NOTE)
            .variant()
            .unit("s"),
        ];
        Ok::<_, Error>((rate, rows))
    };
    let (direct, rows) = shown("baseline", "direct", "ACKs direct", FIGURE_2[0])?;
    all.experiments.extend(rows);
    let mut bundles: Vec<Experiment> = Vec::new();
    for &ms in periods {
        let run = outcome.one(&name(ms), cc, &[])?;
        let lost = (direct - rate(outcome, run, "b")?) / (BOTTLENECK_BPS / 1e6) * 100.0;
        let what = format!("lost by PE = {ms} ms, of the link");
        let lost = experiment(&format!("lost-{ms}ms"), what, lost.into()).unit("%");
        if ms == 50 {
            let (_, rows) = shown(&name(ms), "50ms", "PE = 50 ms", FIGURE_2[1])?;
            all.experiments.extend(rows);
            // As with all rows of Linux: the paper states ns-2's Tahoe.
            let lost = lost.published(TAHOE_LOSS).within_by(4.0).variant();
            all.experiments.push(lost.note(LOSS_NOTE));
        } else {
            all.experiments
                .push(lost.note("Fig. 2 has PE = 50 ms alone."));
        }
        if ms == 10 {
            bundles.extend(bundle_costs(outcome, run, &experiment)?);
        }
    }
    all.experiments.extend(bundles);
    Ok(())
}

/// The cost of bundles with PE = 10 ms, and the number of ACKs in them.
fn bundle_costs(
    outcome: &Outcome,
    run: &Run,
    experiment: &dyn Fn(&str, String, Value) -> Experiment,
) -> Result<[Experiment; 2], Error> {
    let mux = mux(outcome, run)?;
    let bytes = mux.bundle_bytes as f64 / mux.packets as f64;
    let acks = mux.packets as f64 / mux.bundles as f64;
    Ok([
        experiment(
            "bytes-per-ack-10ms",
            "bytes for each ACK, PE = 10 ms".to_owned(),
            bytes.into(),
        )
        .published("7 to 8")
        .not_comparable(BYTES_NOTE)
        .variant()
        .unit("B"),
        experiment(
            "acks-per-bundle-10ms",
            "ACKs in a bundle, PE = 10 ms".to_owned(),
            acks.into(),
        )
        .note(
            "The paper's example, 50 ACKs in a bundle, is of 100 flows of 100 packets a \
             second.",
        ),
    ])
}

const RATE_NOTE: &str = "Published for ns-2's Tahoe, an ACK a packet, over 500 s. Tahoe starts \
                         from one segment after each loss; Linux halves its window (Reno) or \
                         takes 0.7 of it (CUBIC), and with 50 packets in the queue little idles.";
const INTERVAL_NOTE: &str = "Published: from reset to reset of Tahoe, read off a figure. Ours: \
                             from one fall of the window to the next after the first 5 s; Linux \
                             halves it or takes 0.7, and does not begin again from one segment.";
const LOSS_NOTE: &str = "Published for ns-2's Tahoe with an ACK a packet. A bundle of 50 ms lets \
                         some 40 segments go at once there and here, before a queue of 50.";
const BYTES_NOTE: &str = "Published without the headers of the bundle, by assumption. Ours are \
                          bundles with IP, UDP, authentication and all, of one flow: few ACKs \
                          share them. `ackwise-lab tunnel-bench` has those of eight.";

/// ACKs in a bundle, of which the paper has 50 with 100 flows.
pub(super) const IN_A_BUNDLE: Tolerance = share(0.2);

/// 100 flows with 100 ACKs per second each, the paper's example of an aggregation network.
fn hundred(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    let outcome = lab.run(HUNDRED_PATH, HUNDRED)?;
    let direct = outcome.one("baseline", "reno", &[])?;
    let run = outcome.one(&name(5), "reno", &[])?;
    let bundles = mux(&outcome, run)?;
    let packets = bundles.packets as f64;
    let [saved, together] = [
        100.0 * (1.0 - bundles.bundle_bytes as f64 / bundles.native_bytes as f64),
        packets / bundles.bundles as f64,
    ];
    let row = |id: &str, what: &str, measured: f64| {
        let id = format!("saldana/{}/hundred/{id}", lab.engine());
        Experiment::new(id, what, measured)
            .part("100 flows of 100 ACKs a second, PE = 5 ms (§ on multiplexing)")
            .setup(format!(
                "{}; hundred-real.toml; Reno, 242 Mbit/s, 80 ms, a queue of one round trip",
                lab.engine()
            ))
    };
    all.experiments.extend([
        row("acks-per-bundle", "ACKs in a bundle", together)
            .published(50.0)
            .tolerance(IN_A_BUNDLE)
            .note(HUNDRED_NOTE),
        row(
            "bytes-per-ack",
            "bytes for each ACK",
            bundles.bundle_bytes as f64 / packets,
        )
        .published("7 to 8")
        .not_comparable(CODEC_NOTE)
        .variant()
        .unit("B"),
        row("saved", "bytes saved", saved)
            .published(80.0)
            .not_comparable(CODEC_NOTE)
            .variant()
            .unit("%"),
        row(
            "goodput",
            "what arrives, of what arrives with the ACKs direct",
            100.0 * run.totals.bytes as f64 / direct.totals.bytes as f64,
        )
        .unit("%"),
        row(
            "retransmits",
            "segments sent again, of those with the ACKs direct",
            run.totals.retransmits as f64 / direct.totals.retransmits as f64,
        ),
    ]);
    Ok(())
}

const HUNDRED_NOTE: &str = "By the paper 100 × 100 × 5 ms. The tunnel lets ACKs that carry news (SACK, \
                            the start of a flow) leave within a quarter of the period: bundles are \
                            more, and have fewer ACKs each.";
const CODEC_NOTE: &str = "published by assumption, for header compression of the time and without the \
                          headers of the bundle; ours sends what changed since the ACK before, and \
                          counts the bundle's IP, UDP and authentication";

/// Mean seconds between losses, each of which reduces a window to 0.7 or half of it; `None` for
/// fewer than two.
fn between_losses(outcome: &Outcome, run: &Run) -> Result<Option<f64>, Error> {
    let series = outcome.flow(run, "b")?.series.as_ref();
    let series = series.ok_or_else(|| outcome.lacks(format_args!("series of {}", run.id)))?;
    let mut losses = falls(&series.t_s, &series.cwnd_segments, FALLEN);
    losses.retain(|t| *t > SETTLED_S);
    Ok(mean_interval(&losses))
}

const PAIR_NOTE: &str = "Published for ns-2's Reno, whose cells are set by phase: other details \
                         that the paper does not print move them by tens of points and change \
                         their sign (`ackwise-lab reproduce saldana`, table1-open). Linux has other \
                         phases: HyStart, an ACK for two segments, the tunnel's hurry.";
const CUBIC_NOTE: &str = "Not in the paper.";

/// In real time each start would take a minute.
fn starts(lab: &Lab<'_>) -> &'static [&'static str] {
    match lab.engine() {
        Engine::Virtual if !lab.quick() => &STARTS,
        _ => &STARTS[..1],
    }
}

/// Table I: a flow through the tunnel that competes with one outside it.
fn beside(
    lab: &Lab<'_>,
    outcome: &Outcome,
    (cc, title): (&str, &str),
    periods: &[u32],
    all: &mut Reproduced,
) -> Result<(), Error> {
    let part = format!("Table I with Linux: {title}");
    let setup = format!("{}; pair-real.toml; both start at 0", lab.engine());
    let difference = |arm: &str, start: &str| -> Result<f64, Error> {
        let run = outcome.one(arm, cc, &[(START, start)])?;
        let apart = rate(outcome, run, "a")? - rate(outcome, run, "b")?;
        Ok(apart / (BOTTLENECK_BPS / 1e6) * 100.0)
    };
    let cell = |arm: &str| -> Result<(f64, Option<Spread>), Error> {
        let values: Result<Vec<f64>, Error> = starts(lab)
            .iter()
            .map(|start| difference(arm, start))
            .collect();
        let values = values?;
        let spread = Spread::of("start times of B", values.iter().copied());
        Ok((values[0], spread.filter(|spread| spread.count > 1)))
    };
    let id = |what: &str| format!("saldana/{}/pair/{cc}/{what}", lab.engine());
    let (none, spread) = cell("baseline")?;
    all.experiments.push(
        Experiment::new(id("direct"), "A − B, the ACKs of both direct", none)
            .part(&part)
            .unit("%")
            .setup(&setup)
            .spread(spread)
            .note("The difference between two equal flows that start times and phase alone cause."),
    );
    let mut points = Vec::new();
    for (&ms, published) in PERIODS_MS.iter().zip(RENO) {
        if !periods.contains(&ms) {
            continue;
        }
        let (value, spread) = cell(&name(ms))?;
        points.push((f64::from(ms), value));
        let what = format!("PE = {ms} ms: A − B");
        let mut row = Experiment::new(id(&format!("{ms}ms")), what, value)
            .part(&part)
            .unit("%")
            .setup(&setup)
            .spread(spread)
            .note(CUBIC_NOTE);
        if cc == "reno" {
            row = row.published(published).not_comparable(PAIR_NOTE).variant();
            row = row.note("");
        }
        all.experiments.push(row);
    }
    let published: Vec<(f64, f64)> = PERIODS_MS.map(f64::from).into_iter().zip(RENO).collect();
    all.figures.push(
        Figure::new(
            &format!("pair-{cc}"),
            &format!("Table I with Linux' {title}"),
            Axis::new("period PE, ms"),
            Axis::new("A − B, % of the link"),
        )
        .caption("Published: ns-2's Reno. Ours: real TCP and a real tunnel.")
        .line(Line::new("published", Style::Published, published))
        .line(Line::new("Linux", Style::Line, points)),
    );
    Ok(())
}
