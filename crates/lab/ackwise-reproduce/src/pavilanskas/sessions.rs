//! Figs. 8, 9 and 10: two sessions, both or one of them filtered.

use ackwise_report::{Axis, Experiment, Figure, Line, Style};
use ackwise_scenario::record::{Run, Series};

use super::limit::FILE_BYTES;
use super::{CC, FRAME_BYTES};
use crate::series::{jain, mean};
use crate::{Error, Lab, Outcome, Reproduced};

const BOTH_PATH: &str = "scenarios/papers/pavilanskas-2010/two-sessions.toml";
const BOTH: &str =
    include_str!("../../../../../scenarios/papers/pavilanskas-2010/two-sessions.toml");
const ONE_PATH: &str = "scenarios/papers/pavilanskas-2010/one-filtered.toml";
const ONE: &str =
    include_str!("../../../../../scenarios/papers/pavilanskas-2010/one-filtered.toml");

/// While both run, and have settled.
const SHARED_S: (f64, f64) = (12.0, 60.0);
const SESSIONS: [&str; 2] = ["tcp1", "tcp2"];
/// The set-up of two-sessions.toml that gives the paper's rates.
const FIG8: &str = "window-45-each-its-own";
const BOTH_ARMS: [(&str, &str); 5] = [
    (FIG8, "a bucket each, window 45"),
    ("each-its-own", "a bucket each, window 13"),
    ("baseline", "one bucket, window 13"),
    ("window-45", "one bucket, window 45"),
    ("unfiltered", "unfiltered, window 13"),
];
const ARMS: [(&str, &str); 3] = [
    ("baseline", "window 13"),
    ("window-free", "windows that fill the queue"),
    ("window-free-unfiltered", "the same, nothing filtered"),
];

pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    let both = lab.run(BOTH_PATH, BOTH)?;
    let one = lab.run(ONE_PATH, ONE)?;
    all.experiments.extend(both_filtered(&both)?);
    all.figures.push(figure(
        &both,
        "fig8",
        "Fig. 8: both with 80 % of their ACKs dropped",
    )?);
    all.experiments.extend(one_filtered(&one)?);
    all.figures
        .push(figure(&one, "fig10", "Fig. 10: only the first filtered")?);
    Ok(())
}

fn series<'a>(outcome: &Outcome, run: &'a Run, name: &str) -> Result<&'a Series, Error> {
    let traffic = outcome.flow(run, name)?;
    let missing = || outcome.lacks(format_args!("series of {name} in {}", run.id));
    traffic.series.as_ref().ok_or_else(missing)
}

/// Rates on the wire while both run, Mbit/s, frames with preamble and gap.
fn rates(outcome: &Outcome, run: &Run) -> Result<Vec<f64>, Error> {
    let rate = |name: &&str| {
        let series = series(outcome, run, name)?;
        let rate = mean(&series.t_s, &series.data_rate_hz, SHARED_S.0, SHARED_S.1);
        let rate = rate.ok_or_else(|| outcome.lacks("data_rate_hz"))?;
        Ok(rate * FRAME_BYTES * 8.0 / 1e6)
    };
    SESSIONS.iter().map(rate).collect()
}

fn both_filtered(outcome: &Outcome) -> Result<Vec<Experiment>, Error> {
    let part = "Figs. 8, 9: two sessions, 80 % of the ACKs of both dropped";
    let setup = "sim; 400 MiB each, from 3 s and 6 s, window 45, a bucket each; 12 … 60 s, frames with \
                 preamble and gap";
    let run = outcome.one(FIG8, CC, &[])?;
    let rates = rates(outcome, run)?;
    let mut experiments = Vec::new();
    for (index, published) in [44.0, 49.0].into_iter().enumerate() {
        let name = SESSIONS[index];
        experiments.push(
            Experiment::new(format!("pavilanskas/fig8/{name}"), name, rates[index])
                .part(part)
                .published(published)
                .unit("Mbit/s")
                .setup(setup),
        );
    }
    experiments.push(
        Experiment::new(
            "pavilanskas/fig8/total",
            "together",
            rates.iter().sum::<f64>(),
        )
        .part(part)
        .published(93.0)
        .unit("Mbit/s")
        .setup(setup),
    );
    for (index, published) in [78.0, 81.0].into_iter().enumerate() {
        let name = SESSIONS[index];
        let id = format!("pavilanskas/fig9/{name}-ends");
        let what = format!("{name} ends at");
        let experiment = match ends(outcome, run, name)? {
            Some(at) => Experiment::new(id, what, at).unit("s"),
            None => Experiment::new(id, what, "not within 120 s"),
        };
        experiments.push(experiment.part(part).published(published).setup(setup));
    }
    for (arm, title) in BOTH_ARMS {
        let run = outcome.one(arm, CC, &[])?;
        let experiment = Experiment::new(
            format!("pavilanskas/fig8/jain/{arm}"),
            format!("Jain's index: {title}"),
            jain(&self::rates(outcome, run)?),
        )
        .part(part)
        .setup(setup);
        experiments.push(match arm {
            FIG8 => experiment.published(0.997),
            "each-its-own" => experiment.note(
                "The window that puts the limit of one session at 85 % does not carry two at 80 %: \
                 the limit and Fig. 8 do not come from the same window.",
            ),
            "baseline" | "window-45" => experiment.note(
                "With a single bucket a session locks to it: the other's ACKs find no token, and \
                 it waits for its timer, 9 times. The listing has a single bucket; the figure \
                 cannot come from one without other traffic to break the lock.",
            ),
            _ => experiment,
        });
    }
    Ok(experiments)
}

/// When the last data of a session came, seconds; nothing if it did not end.
fn ends(outcome: &Outcome, run: &Run, name: &str) -> Result<Option<f64>, Error> {
    let traffic = outcome.flow(run, name)?;
    let flow = outcome.scenario.flows.iter().find(|flow| flow.name == name);
    let start = flow.map_or(0.0, |flow| flow.start.as_secs_f64());
    Ok((traffic.bytes >= FILE_BYTES).then_some(start + traffic.duration_s))
}

fn one_filtered(outcome: &Outcome) -> Result<Vec<Experiment>, Error> {
    let part = "Fig. 10: 80 % of the ACKs of one dropped, none of the other's";
    let setup = "sim; server 100 Mbit/s; 12 … 60 s";
    let mut experiments = Vec::new();
    for (arm, title) in ARMS {
        let run = outcome.one(arm, CC, &[])?;
        let rates = rates(outcome, run)?;
        let id = |what: &str| format!("pavilanskas/fig10/{arm}/{what}");
        experiments.push(
            Experiment::new(id("share"), format!("{title}: share of the filtered"), {
                100.0 * rates[0] / (rates[0] + rates[1])
            })
            .part(part)
            .unit("%")
            .setup(setup),
        );
        let fair = Experiment::new(id("jain"), format!("{title}: Jain's index"), jain(&rates))
            .part(part)
            .setup(setup);
        experiments.push(match arm {
            "baseline" => fair.published("almost equal"),
            _ => fair,
        });
    }
    Ok(experiments)
}

fn figure(outcome: &Outcome, id: &str, title: &str) -> Result<Figure, Error> {
    let mut figure = Figure::new(
        id,
        title,
        Axis::new("time, s"),
        Axis::new("data segments a second"),
    )
    .caption("Published: the two share the line almost equally; each rises when it is alone.");
    let arm = if id == "fig8" {
        "each-its-own"
    } else {
        "baseline"
    };
    let run = outcome.one(arm, CC, &[])?;
    for name in SESSIONS {
        let series = series(outcome, run, name)?;
        let rates = series.data_rate_hz.iter().map(|v| v.unwrap_or(f64::NAN));
        let points = series.t_s.iter().copied().zip(rates);
        figure = figure.line(Line::new(name, Style::Line, points).thin(600));
    }
    Ok(figure)
}
