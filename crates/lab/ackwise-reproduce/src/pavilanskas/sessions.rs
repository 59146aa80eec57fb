//! Figs. 8, 9 and 10: two sessions, with both or one of them filtered.

use ackwise_report::{Axis, Experiment, Figure, Line, Style, Tolerance, Value};
use ackwise_scenario::record::{Run, Series};

use super::limit::{FILE_BYTES, POLICED, dropped};
use super::{CC, FRAME_BYTES};
use crate::series::{jain, mean};
use crate::{Error, Lab, Outcome, Reproduced};

const BOTH_PATH: &str = "scenarios/papers/pavilanskas-2010/two-sessions.toml";
const BOTH: &str =
    include_str!("../../../../../scenarios/papers/pavilanskas-2010/two-sessions.toml");
const ONE_PATH: &str = "scenarios/papers/pavilanskas-2010/one-filtered.toml";
const ONE: &str =
    include_str!("../../../../../scenarios/papers/pavilanskas-2010/one-filtered.toml");

/// The time in which both sessions run and have settled; it ends earlier if one of them does.
const SHARED_S: (f64, f64) = (12.0, 60.0);
const SESSIONS: [&str; 2] = ["tcp1", "tcp2"];
/// The rates that the paper prints for them.
const RATES_MBPS: [f64; 2] = [44.0, 49.0];
/// A set-up of two-sessions.toml.
struct SetUp {
    arm: &'static str,
    title: &'static str,
    note: &'static str,
}

const fn set_up(arm: &'static str, title: &'static str, note: &'static str) -> SetUp {
    SetUp { arm, title, note }
}

/// The first set-up has the bucket of the paper's listing, the burst of its prose, and its software;
/// the others vary what it leaves open, and the second has the burst of the listing.
const BOTH_ARMS: [SetUp; 12] = [
    set_up("window-free", "one bucket, no limit of the window", LOCKED),
    set_up(
        "listing",
        "one bucket, no limit of the window, the listing's burst",
        LOCKED,
    ),
    set_up(
        "window-free-each-its-own",
        "a bucket each, no limit of the window",
        UNLISTED,
    ),
    set_up(FIG8, "a bucket each, window 45", FITTED),
    set_up("each-its-own", "a bucket each, window 13", TOO_SMALL),
    set_up(
        "window-16-each-its-own",
        "a bucket each, window 16",
        ONE_TOO,
    ),
    set_up(
        "window-17-each-its-own",
        "a bucket each, window 17",
        ONE_TOO,
    ),
    set_up(
        "window-18-each-its-own",
        "a bucket each, window 18",
        ONE_TOO,
    ),
    set_up("baseline", "one bucket, window 13", LOCKED),
    set_up("window-20", "one bucket, window 20", LOCKED),
    set_up("window-45", "one bucket, window 45", LOCKED),
    set_up(
        "window-45-jitter",
        "one bucket, window 45, ACKs jittered by 0.5 ms",
        "",
    ),
];
/// The set-up whose rates are closest to the paper's. It was found by trial, and is drawn beside the
/// listing's.
const FIG8: &str = "window-45-each-its-own";
const UNFILTERED: &str = "window-free-unfiltered";

const LOCKED: &str = "With a single bucket a session can lock to it: the other's ACKs find no token, \
                      and it waits for its timer. The listing has a single bucket.";
const UNLISTED: &str = "The paper's listing has no bucket for each session.";
const FITTED: &str = "Neither the window nor the buckets are the paper's: both were found by trying \
                      what gives its rates.";
const TOO_SMALL: &str = "With the window for which one session's limit would be 85 %, two sessions at \
                         80 % collapse.";
const ONE_TOO: &str = "One of the windows with which one session is whole at 80 % and collapsed by 90 %. \
                    The paper's listing has no bucket for each session.";
/// The set-ups that are drawn.
const DRAWN: [&str; 2] = ["window-free", FIG8];
/// The minimum of Jain's index that counts as "almost equal": 61 and 39 %.
pub(super) const FAIR: Tolerance = Tolerance::AtLeast { bound: 0.95 };
const ARMS: [(&str, &str); 4] = [
    (
        "window-free",
        "no limit of the window, which fills the queue",
    ),
    ("baseline", "window 13"),
    ("window-free-unfiltered", "no limit, nothing filtered"),
    ("listing", "no limit, the listing's burst"),
];

pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    let both = lab.run(BOTH_PATH, BOTH)?;
    let one = lab.run(ONE_PATH, ONE)?;
    all.experiments.extend(both_filtered(&both)?);
    for SetUp { arm, title, note } in BOTH_ARMS.iter().filter(|one| DRAWN.contains(&one.arm)) {
        let title = format!("Fig. 8: both with 80 % of their ACKs dropped; {title}");
        let drawn = figure(&both, arm, &format!("fig8-{arm}"), &title)?;
        let drawn = drawn.caption(format!(
            "Published: 44 and 49 Mbit/s from second 9 until the first ends at 78 s; the other then rises. \
             {note}"
        ));
        all.figures.push(drawn.lines(published()));
    }
    all.experiments.extend(one_filtered(&one)?);
    for ((arm, title), caption) in ARMS.iter().zip(FIG10) {
        let title = format!("Fig. 10: only the first filtered; {title}");
        let id = format!("fig10-{arm}");
        all.figures
            .push(figure(&one, arm, &id, &title)?.caption(caption));
    }
    Ok(())
}

/// Captions of the first arms of [`ARMS`].
const FIG10: [&str; 2] = [
    "Published in words: the two share the line almost equally. The table has means from 12 s until one \
     ends; the shares of the sessions vary in that time.",
    "Published in words: the two share the line almost equally. The policer's rate is a fifth of the ACKs \
     of half the line: where the filtered session is alone, it is a tenth of its ACKs, and a window of 13 \
     starves.",
];

/// Fig. 8 as printed: the rates, over the time in which both run.
fn published() -> impl Iterator<Item = Line> {
    SESSIONS.iter().zip(RATES_MBPS).map(|(name, mbps)| {
        let rate = mbps * 1e6 / 8.0 / FRAME_BYTES;
        let name = format!("{name}, published");
        Line::new(&name, Style::Published, [(9.0, rate), (78.0, rate)])
    })
}

fn series<'a>(outcome: &Outcome, run: &'a Run, name: &str) -> Result<&'a Series, Error> {
    let traffic = outcome.flow(run, name)?;
    let missing = || outcome.lacks(format_args!("series of {name} in {}", run.id));
    traffic.series.as_ref().ok_or_else(missing)
}

/// Rates on the wire in Mbit/s while both run; frames count with preamble and gap.
fn rates(outcome: &Outcome, run: &Run) -> Result<Vec<f64>, Error> {
    let mut until = SHARED_S.1;
    for name in SESSIONS {
        until = ends(outcome, run, name)?.map_or(until, |end| until.min(end));
    }
    let rate = |name: &&str| {
        let series = series(outcome, run, name)?;
        let rate = mean(&series.t_s, &series.data_rate_hz, SHARED_S.0, until);
        let rate = rate.ok_or_else(|| outcome.lacks("data_rate_hz"))?;
        Ok(rate * FRAME_BYTES * 8.0 / 1e6)
    };
    SESSIONS.iter().map(rate).collect()
}

fn both_filtered(outcome: &Outcome) -> Result<Vec<Experiment>, Error> {
    let mut experiments = Vec::new();
    for (index, set_up) in BOTH_ARMS.iter().enumerate() {
        let rows = of_set_up(outcome, set_up)?.into_iter();
        // All but the first are one of several settings.
        experiments.extend(rows.map(|row| if index == 0 { row } else { row.variant() }));
    }
    let unfiltered = rates(outcome, outcome.one(UNFILTERED, CC, &[])?)?;
    experiments.push(
        Experiment::new(
            "pavilanskas/fig8/unfiltered/jain",
            "Jain's index, nothing dropped, no limit of the window",
            jain(&unfiltered),
        )
        .part("Figs. 8, 9: two sessions, for comparison")
        .setup(format!(
            "{SETUP}; {:.1} and {:.1} Mbit/s",
            unfiltered[0], unfiltered[1]
        )),
    );
    Ok(experiments)
}

const SETUP: &str = "sim; 400 MiB each, from 3 s and 6 s; from 12 s until one ends, or 60 s; frames with \
                     preamble and gap";

fn of_set_up(outcome: &Outcome, set_up: &SetUp) -> Result<Vec<Experiment>, Error> {
    let part = format!(
        "Figs. 8, 9: two sessions, 80 % of the ACKs of both dropped; {}",
        set_up.title
    );
    let run = outcome.one(set_up.arm, CC, &[])?;
    let rates = rates(outcome, run)?;
    // With a bucket each, the policers are on the links of the receivers.
    let policers: &[&str] = match set_up.arm.ends_with("each-its-own") {
        true => &["r0-pc1.reverse", "r0-pc2.reverse"],
        false => &[POLICED],
    };
    let mut shares = Vec::new();
    for policer in policers {
        shares.push(format!("{:.1}", dropped(outcome, run, policer)?));
    }
    let setup = format!("{SETUP}; {} % of the ACKs dropped", shares.join(" and "));
    let row = |id: &str, what: &str, measured: Value| {
        Experiment::new(
            format!("pavilanskas/{id}").replace("{}", set_up.arm),
            what,
            measured,
        )
        .part(&part)
        .setup(&setup)
        .note(set_up.note)
    };
    let mut rows = Vec::new();
    for (index, published) in RATES_MBPS.into_iter().enumerate() {
        let name = SESSIONS[index];
        let rate = row(&format!("fig8/{{}}/{name}"), name, rates[index].into());
        rows.push(rate.published(published).within_share(0.15).unit("Mbit/s"));
    }
    let total = rates.iter().sum::<f64>();
    rows.push(
        row("fig8/{}/total", "together", total.into())
            .published(93.0)
            .within_share(0.02)
            .unit("Mbit/s"),
    );
    rows.push(
        row("fig8/{}/jain", "Jain's index", jain(&rates).into())
            .published(0.997)
            .derived()
            .tolerance(Tolerance::AtLeast { bound: 0.98 }),
    );
    for (index, published) in [78.0, 81.0].into_iter().enumerate() {
        let name = SESSIONS[index];
        let at = ends(outcome, run, name)?;
        let measured = at.map_or("not within 120 s".into(), Value::from);
        let end = row(
            &format!("fig9/{{}}/{name}-ends"),
            &format!("{name} ends at"),
            measured,
        );
        rows.push(end.published(published).within_by(4.0).unit("s"));
    }
    Ok(rows)
}

/// When the last data of a session arrived, in seconds; `None` if it did not end.
fn ends(outcome: &Outcome, run: &Run, name: &str) -> Result<Option<f64>, Error> {
    let traffic = outcome.flow(run, name)?;
    let flow = outcome.scenario.flows.iter().find(|flow| flow.name == name);
    let start = flow.map_or(0.0, |flow| flow.start.as_secs_f64());
    Ok((traffic.bytes >= FILE_BYTES).then_some(start + traffic.duration_s))
}

fn one_filtered(outcome: &Outcome) -> Result<Vec<Experiment>, Error> {
    let part = "Fig. 10: 80 % of the ACKs of one dropped, none of the other's";
    let mut experiments = Vec::new();
    for (arm, title) in ARMS {
        let run = outcome.one(arm, CC, &[])?;
        let rates = rates(outcome, run)?;
        // The policer drops ACKs of the first only.
        let policed = outcome.queue(run, POLICED)?.policed.unwrap_or(0);
        let acks = outcome.flow(run, SESSIONS[0])?.acks_on_wire;
        let setup = format!(
            "sim; server 100 Mbit/s; from 12 s until one ends, or 60 s; {:.1} % of the first's ACKs \
             dropped in all",
            100.0 * policed as f64 / acks.max(1) as f64
        );
        let id = |what: &str| format!("pavilanskas/fig10/{arm}/{what}");
        experiments.push(
            Experiment::new(id("share"), format!("{title}: share of the filtered"), {
                100.0 * rates[0] / (rates[0] + rates[1])
            })
            .part(part)
            .unit("%")
            .setup(&setup),
        );
        let fair = Experiment::new(id("jain"), format!("{title}: Jain's index"), jain(&rates))
            .part(part)
            .setup(&setup);
        experiments.push(match arm {
            "window-free" => fair.published("almost equal").tolerance(FAIR),
            "baseline" | "listing" => fair.published("almost equal").tolerance(FAIR).variant(),
            _ => fair,
        });
    }
    Ok(experiments)
}

fn figure(outcome: &Outcome, arm: &str, id: &str, title: &str) -> Result<Figure, Error> {
    let mut figure = Figure::new(
        id,
        title,
        Axis::new("time, s"),
        Axis::new("data segments a second"),
    );
    let run = outcome.one(arm, CC, &[])?;
    for name in SESSIONS {
        let series = series(outcome, run, name)?;
        let rates = series.data_rate_hz.iter().map(|v| v.unwrap_or(f64::NAN));
        let points = series.t_s.iter().copied().zip(rates);
        figure = figure.line(Line::new(name, Style::Line, points).thin(600));
    }
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ackwise_scenario::Scenario;

    #[test]
    fn the_scenarios_have_the_arms_that_are_asked_for() {
        let arms = |path, text| {
            let scenario = Scenario::parse(path, text).unwrap();
            scenario
                .arms
                .into_iter()
                .map(|arm| arm.name)
                .collect::<Vec<_>>()
        };
        let both = arms(BOTH_PATH, BOTH);
        for one in BOTH_ARMS.iter().map(|one| one.arm).chain([UNFILTERED]) {
            assert!(both.iter().any(|arm| arm == one), "{one}");
        }
        let one = arms(ONE_PATH, ONE);
        assert!(
            ARMS.iter()
                .all(|(arm, _)| one.iter().any(|have| have == arm))
        );
        let drawn = |arm| BOTH_ARMS.iter().any(|one| one.arm == arm);
        assert!(DRAWN.into_iter().all(drawn));
    }
}
