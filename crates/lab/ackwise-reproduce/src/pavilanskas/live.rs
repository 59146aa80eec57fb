//! The bridge with real packets, live or in virtual time: how Linux's TCP copes with policed
//! ACKs, what the contract changes, and (live) what it saves a router.

use ackwise_report::{Axis, Experiment, Figure, Line, Style, Tolerance, Value};
use ackwise_scenario::record::Run;
use ackwise_scenario::{RunSpec, Scenario};

use super::limit::{COLLAPSED, FILE_BYTES, WHOLE as WHOLE_RATE};
use super::{CC, router};
use crate::series::jain;
use crate::{Engine, Error, Lab, Outcome, Reproduced};

const PATH: &str = "scenarios/papers/pavilanskas-2010/live.toml";
const TEXT: &str = include_str!("../../../../../scenarios/papers/pavilanskas-2010/live.toml");
const LOAD_PATH: &str = "scenarios/papers/pavilanskas-2010/live-load.toml";
const LOAD: &str = include_str!("../../../../../scenarios/papers/pavilanskas-2010/live-load.toml");
const BOTH_PATH: &str = "scenarios/papers/pavilanskas-2010/live-sessions.toml";
const BOTH: &str =
    include_str!("../../../../../scenarios/papers/pavilanskas-2010/live-sessions.toml");
const ONE_PATH: &str = "scenarios/papers/pavilanskas-2010/live-one.toml";
const ONE: &str = include_str!("../../../../../scenarios/papers/pavilanskas-2010/live-one.toml");

const BUFFER: &str = "flow.tcp.socket.send_buffer";
const BUFFERS: [&str; 2] = ["16 KiB", "64 KiB"];
const DROPPED: [u32; 7] = [20, 40, 60, 80, 86, 90, 96];
const HELD: [u32; 4] = [80, 86, 90, 96];
/// How long the paper's 400 MiB take, and the rate that follows.
const FULL_S: f64 = 38.3;
const FULL_MBPS: f64 = 87.6;
/// Up to this share of dropped ACKs the paper calls the transfer whole.
const WHOLE: u32 = 80;
/// The arms of a short version.
const QUICK: [&str; 5] = ["baseline", "dropped-80", "dropped-90", "held-80", "held-90"];

const RATE: &str = "link.pc0-r0.forward.rate";
const RATES: [&str; 7] = [
    "1 Mbit/s",
    "4 Mbit/s",
    "8 Mbit/s",
    "16 Mbit/s",
    "32 Mbit/s",
    "65 Mbit/s",
    "90 Mbit/s",
];
const QUICK_RATES: [&str; 2] = ["16 Mbit/s", "90 Mbit/s"];
/// The router that no longer sees the ACKs that the bridge drops.
const ROUTER: &str = "r0";
const SESSIONS: [&str; 2] = ["tcp1", "tcp2"];

/// Duration of a run in virtual time, in which the paper's 400 MB fit.
const WHOLE_RUN: &str = "40 s";

/// The scenario of one transfer, adapted to the engine.
fn transfer_text(engine: Engine) -> Result<String, Error> {
    if engine == Engine::Live {
        return Ok(TEXT.to_owned());
    }
    let mut text: toml_edit::DocumentMut = TEXT.parse().map_err(|error| Error::Record {
        scenario: PATH.to_owned(),
        what: format!("it is no TOML: {error}"),
    })?;
    text["scenario"]["duration"] = toml_edit::value(WHOLE_RUN);
    Ok(text.to_string())
}

/// Runs a scenario. On a busy machine a veth loses a packet now and then, so the live engine runs
/// it arm by arm, and repeats an arm once after an error.
fn runs(
    lab: &Lab<'_>,
    path: &str,
    text: &str,
    wanted: impl Fn(&RunSpec) -> bool,
) -> Result<Outcome, Error> {
    if lab.engine() != Engine::Live {
        return lab.run_where(path, text, wanted);
    }
    let scenario = Scenario::parse(path, text)?;
    let mut all: Option<Outcome> = None;
    for arm in &scenario.arms {
        // An empty list of runs would mean all runs.
        if !scenario
            .runs()
            .iter()
            .any(|run| run.arm == arm.name && wanted(run))
        {
            continue;
        }
        let of_arm = |run: &RunSpec| run.arm == arm.name && wanted(run);
        let some = match lab.run_where(path, text, of_arm) {
            Err(Error::Run { .. }) => lab.run_where(path, text, of_arm),
            other => other,
        }?;
        match &mut all {
            Some(all) => all.report.runs.extend(some.report.runs),
            None => all = Some(some),
        }
    }
    all.ok_or(Error::Record {
        scenario: path.to_owned(),
        what: "there is no arm".to_owned(),
    })
}

/// Whether a short version includes this run of the transfer.
fn quick_arm(lab: &Lab<'_>, run: &RunSpec) -> bool {
    !lab.quick() || QUICK.contains(&run.arm.as_str())
}

fn quick_rate(lab: &Lab<'_>, run: &RunSpec) -> bool {
    let rate = run.point.get(RATE).map(String::as_str);
    !lab.quick() || rate.is_some_and(|rate| QUICK_RATES.contains(&rate))
}

/// The number of runs.
fn expected(lab: &Lab<'_>) -> Result<usize, Error> {
    let of = |path: &str, text: &str, wanted: fn(&Lab<'_>, &RunSpec) -> bool| {
        let runs = Scenario::parse(path, text)?.runs();
        Ok::<_, Error>(runs.iter().filter(|run| wanted(lab, run)).count())
    };
    let load = match lab.engine() {
        Engine::Live => of(LOAD_PATH, LOAD, quick_rate)?,
        _ => router::machines(lab),
    };
    Ok(load
        + of(PATH, TEXT, quick_arm)?
        + of(BOTH_PATH, BOTH, |_, _| true)?
        + of(ONE_PATH, ONE, |_, _| true)?)
}

pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    lab.expect(expected(lab)?);
    let text = transfer_text(lab.engine())?;
    transfer(
        lab,
        &runs(lab, PATH, &text, |run| quick_arm(lab, run))?,
        all,
    )?;
    // Where computing takes no time, a router costs nothing; an emulated CPU shows its cost.
    if lab.engine() == Engine::Live {
        let outcome = runs(lab, LOAD_PATH, LOAD, |run| quick_rate(lab, run))?;
        load(lab, &outcome, all)?;
    } else {
        router::run(lab, all)?;
    }
    let both = runs(lab, BOTH_PATH, BOTH, |_| true)?;
    let part = "Figs. 8, 9: 80 % of the ACKs of both";
    for (arm, what) in [
        ("baseline", "all ACKs"),
        ("both-dropped", "dropped"),
        ("both-held", "held"),
    ] {
        let published = (arm == "both-dropped").then_some([93.0, 0.997]);
        all.experiments
            .extend(sessions((lab, &both), arm, what, part, published)?);
    }
    let one = runs(lab, ONE_PATH, ONE, |_| true)?;
    let part = "Fig. 10: 80 % of the ACKs of the first";
    for (arm, what) in [
        ("baseline", "all ACKs"),
        ("first-dropped", "dropped"),
        ("first-held", "held"),
        ("free", "all ACKs, windows that fill the queue"),
        ("first-dropped-free", "dropped, windows that fill the queue"),
        ("first-held-free", "held, windows that fill the queue"),
    ] {
        all.experiments
            .extend(sessions((lab, &one), arm, what, part, None)?);
    }
    let of_engine = match lab.engine() {
        Engine::Live => &LIVE_NOTES[..],
        _ => &VIRTUAL_NOTES[..],
    };
    let notes = of_engine.iter().chain(&NOTES);
    all.notes.extend(notes.map(|note| (*note).to_owned()));
    Ok(())
}

const LIVE_NOTES: [&str; 3] = [
    "Real TCP of the running kernel, in real time: numbers vary with what else the machine does.",
    "One transfer is cut after 4 s, 44 of the 400 MB; `ackwise-lab run --duration 40s` on the scenario \
     does all of it.",
    "The router's CPU time is that of the thread that hands it packets: receiving, forwarding, \
     and putting them into the next device, with the device itself.",
];
const VIRTUAL_NOTES: [&str; 1] = [
    "Real TCP of Linux 6.12 in virtual time: the same numbers every time, and on every machine. \
     One transfer goes on for 40 s; 400 MB (MiB, as in the paper) are done in less where all is well.",
];
const NOTES: [&str; 2] = [
    "Dropped: a token bucket on the link from the bridge, without the contract, as in the paper. \
     Held: the policy police in the eBPF datapath on the same port of the bridge; what exceeds \
     waits for the next ACK or for its time. Two sessions run 8 s.",
    "The tail-loss probe is off, which the paper's Linux did not have.",
];

fn shares(lab: &Lab<'_>, all: &'static [u32]) -> impl Iterator<Item = u32> {
    let quick = lab.quick();
    all.iter()
        .copied()
        .filter(move |share| !quick || matches!(share, 80 | 90))
}

fn policed(outcome: &Outcome, run: &Run) -> Result<u64, Error> {
    Ok(outcome.queue(run, "r0-br.reverse")?.policed.unwrap_or(0))
}

fn transfer(lab: &Lab<'_>, outcome: &Outcome, all: &mut Reproduced) -> Result<(), Error> {
    let mut figure = Figure::new(
        "live-limit",
        "Rate over the share of ACKs above the policer's rate",
        Axis::new("ACKs above the rate, %"),
        Axis::new("goodput, Mbit/s"),
    )
    .caption("Published: whole to 80 %, fatal above 85 %.");
    for buffer in BUFFERS {
        let at = |arm: &str| outcome.one(arm, CC, &[(BUFFER, buffer)]);
        let whole = at("baseline")?;
        let part = format!("One transfer, send buffer {buffer}");
        all.experiments.push(
            Experiment::new(
                format!("pavilanskas/{}/{buffer}/rate", lab.engine()),
                "all ACKs: goodput",
                whole.totals.goodput_bps / 1e6,
            )
            .part(&part)
            .published(FULL_MBPS)
            .derived()
            .within_share(0.03)
            .variant()
            .unit("Mbit/s")
            .setup(format!(
                "{}; 93 Mbit/s of frames, 89 of payload",
                lab.engine()
            ))
            .note(
                "Derived: 400 MiB in 38.3 s, by its figure 4; its 93 Mbit/s count preamble and \
                 gap, ours do not.",
            ),
        );
        all.experiments
            .extend(duration_row(lab, 0, buffer, whole, &part));
        for share in shares(lab, &DROPPED).filter(|share| *share <= WHOLE) {
            let run = at(&format!("dropped-{share}"))?;
            all.experiments
                .extend(duration_row(lab, share, buffer, run, &part));
        }
        all.experiments
            .push(sent_again(lab, outcome, buffer, &part)?);
        for (how, list) in [("dropped", &DROPPED[..]), ("held", &HELD[..])] {
            let mut points = vec![(0.0, whole.totals.goodput_bps / 1e6)];
            for share in shares(lab, list) {
                let run = at(&format!("{how}-{share}"))?;
                points.push((f64::from(share), run.totals.goodput_bps / 1e6));
                all.experiments.push(left(
                    (lab, outcome),
                    (how, share, buffer),
                    run,
                    whole,
                    &part,
                )?);
            }
            let title = format!("{how}, send buffer {buffer}");
            figure = figure.line(Line::new(&title, Style::Line, points));
        }
    }
    all.figures.push(figure);
    Ok(())
}

/// How long the transfer took, on engines that run it whole.
fn duration_row(
    lab: &Lab<'_>,
    share: u32,
    buffer: &str,
    run: &Run,
    part: &str,
) -> Option<Experiment> {
    if lab.engine() == Engine::Live {
        return None;
    }
    let id = format!("pavilanskas/{}/{buffer}/took-{share}", lab.engine());
    let what = format!("{share} % dropped: 400 MB take");
    let seconds: Value = match run.totals.bytes >= FILE_BYTES {
        true => (FILE_BYTES as f64 * 8.0 / run.totals.goodput_bps).into(),
        false => format!("more than {WHOLE_RUN}").into(),
    };
    let mib = run.totals.bytes as f64 / f64::from(1 << 20);
    let setup = format!("{}; {mib:.0} MiB in {WHOLE_RUN}", lab.engine());
    let row = Experiment::new(id, what, seconds)
        .part(part)
        .published(FULL_S)
        .derived()
        .within_share(0.03)
        .variant()
        .unit("s");
    Some(row.setup(setup).note(
        "Published: 41 to 42 s at every share, of which the first 3 are before the transfer begins.",
    ))
}

/// Retransmissions where the paper sees none.
fn sent_again(
    lab: &Lab<'_>,
    outcome: &Outcome,
    buffer: &str,
    part: &str,
) -> Result<Experiment, Error> {
    let (mut again, mut segments) = (0, 0);
    for share in shares(lab, &DROPPED).filter(|share| *share <= WHOLE) {
        let run = outcome.one(&format!("dropped-{share}"), CC, &[(BUFFER, buffer)])?;
        again += run.totals.retransmits;
        segments += run.totals.data_segments;
    }
    Ok(Experiment::new(
        format!("pavilanskas/{}/{buffer}/retransmits", lab.engine()),
        "segments sent again, up to 80 % dropped",
        100.0 * again as f64 / segments.max(1) as f64,
    )
    .part(part)
    .published(0.0)
    .within_by(0.1)
    .variant()
    .unit("%")
    .setup(lab.engine().to_string())
    .note(
        "Fig. 5, in words: the same bytes at the FTP and at the TCP layer at any time. What is \
         sent again here is what waited for the timer, where the window starves.",
    ))
}

/// The rate that is left, as a share of the whole rate.
fn left(
    (lab, outcome): (&Lab<'_>, &Outcome),
    (how, share, buffer): (&str, u32, &str),
    run: &Run,
    whole: &Run,
    part: &str,
) -> Result<Experiment, Error> {
    let totals = &run.totals;
    let experiment = Experiment::new(
        format!("pavilanskas/{}/{buffer}/{how}-{share}", lab.engine()),
        format!("{share} % {how}: rate left"),
        100.0 * totals.goodput_bps / whole.totals.goodput_bps,
    )
    .part(part)
    .unit("%")
    .setup(format!(
        "{}; {} ACKs to the server, {} dropped, {} timeouts",
        lab.engine(),
        totals.acks_on_wire,
        policed(outcome, run)?,
        totals.timeouts.unwrap_or(0)
    ));
    Ok(match how {
        "dropped" if share <= WHOLE => experiment
            .published("whole")
            .tolerance(WHOLE_RATE)
            .variant()
            .note(CLIFF_NOTE),
        "dropped" => experiment
            .published("fatal")
            .tolerance(COLLAPSED)
            .variant()
            .note(CLIFF_NOTE),
        _ => experiment.note("Not in the paper: under the contract no ACK is lost."),
    })
}

const CLIFF_NOTE: &str = "The paper does not print its window. A small one starves: with d segments \
                          an ACK and W in flight at most 1 − d/W of the ACKs can be missing. A send \
                          buffer of 16 KiB is some 20 segments, one of 64 KiB some 80: that would be \
                          90 and 97.5 %, and Linux collapses earlier with both.";

/// CPU seconds of the router in a run.
fn router(outcome: &Outcome, run: &Run) -> Result<f64, Error> {
    run.nodes
        .iter()
        .find(|node| node.name == ROUTER)
        .and_then(|node| node.cpu_stack_s)
        .ok_or_else(|| outcome.lacks(format_args!("CPU time of {ROUTER} in {}", run.id)))
}

fn load(lab: &Lab<'_>, outcome: &Outcome, all: &mut Reproduced) -> Result<(), Error> {
    let part = "Figs. 6, 7: CPU time of the router behind the bridge";
    let rates: &[&str] = if lab.quick() { &QUICK_RATES } else { &RATES };
    let mut figure = Figure::new(
        "live-load",
        "Fig. 6: load of the router over the rate",
        Axis::new("data packets a second"),
        Axis::new("CPU, % of a core"),
    )
    .caption("Published: lines through the origin, the lower one with 80 % of the ACKs dropped.");
    let mut lines = Vec::new();
    for (arm, title) in [
        ("baseline", "all ACKs"),
        ("dropped-80", "80 % dropped"),
        ("held", "one ACK in ten segments, held"),
    ] {
        let mut points = Vec::new();
        for rate in rates {
            let run = outcome.one(arm, CC, &[(RATE, rate)])?;
            let seconds = outcome.scenario.duration.as_secs_f64();
            let load = 100.0 * router(outcome, run)? / seconds;
            points.push((run.totals.data_segments as f64 / seconds, load));
        }
        let id = format!("pavilanskas/live/linear/{arm}");
        let row = router::linear(id, title, &points).part(part);
        // The paper drops ACKs, and holds none.
        let held = arm == "held";
        all.experiments.push(if held { row.variant() } else { row });
        figure = figure.line(Line::new(title, Style::Line, points.iter().copied()));
        lines.push(points);
    }
    if let [whole, dropped, ..] = &lines[..] {
        all.experiments
            .push(router::lower("pavilanskas/live/lower", whole, dropped).part(part));
    }
    all.figures.push(figure);
    for rate in rates {
        let whole = outcome.one("baseline", CC, &[(RATE, rate)])?;
        let all_acks = per_segment(outcome, whole)?;
        for (arm, what) in [("dropped-80", "80 % dropped"), ("held", "held, 1 in 10")] {
            let run = outcome.one(arm, CC, &[(RATE, rate)])?;
            let filtered = per_segment(outcome, run)?;
            let experiment = Experiment::new(
                format!("pavilanskas/live/load/{arm}/{rate}"),
                format!("{rate}, {what}: CPU time saved"),
                100.0 * (1.0 - filtered / all_acks),
            )
            .part(part)
            .unit("%")
            .setup(format!(
                "live; {all_acks:.1} against {filtered:.1} µs a data packet; ACKs a segment {:.2} \
                 against {:.2}",
                acks_through(whole),
                acks_through(run)
            ));
            all.experiments.push(match arm {
                "dropped-80" => experiment
                    .published("30 at 25 % load, 32 from 60 % on")
                    .not_comparable(
                        "published for CPU loads of Cisco routers, not for rates; this is time of a \
                         shared machine",
                    ),
                _ => experiment,
            });
        }
    }
    Ok(())
}

/// Router CPU time in µs per data packet and its share of ACKs.
fn per_segment(outcome: &Outcome, run: &Run) -> Result<f64, Error> {
    Ok(1e6 * router(outcome, run)? / run.totals.data_segments.max(1) as f64)
}

/// ACKs per data segment that reach the router.
fn acks_through(run: &Run) -> f64 {
    run.totals.acks_on_wire as f64 / run.totals.data_segments.max(1) as f64
}

const EACH_ITS_OWN: &str = "Derived from 44 and 49 Mbit/s. A bucket for each session, which the \
                            paper's listing has not.";
const FREE_NOTE: &str = "Published in words: an \"insignificant unfairness\". Here windows fill the \
                         queue, and the policed session can fall behind; if ACKs are held, its \
                         rate is not lower than without a filter.";

fn sessions(
    (lab, outcome): (&Lab<'_>, &Outcome),
    arm: &str,
    what: &str,
    part: &str,
    published: Option<[f64; 2]>,
) -> Result<Vec<Experiment>, Error> {
    let run = outcome.one(arm, CC, &[])?;
    let rates: Vec<f64> = SESSIONS
        .iter()
        .map(|name| Ok(outcome.flow(run, name)?.goodput_bps / 1e6))
        .collect::<Result<_, Error>>()?;
    let id = |name: &str| {
        let scenario = &outcome.scenario.name;
        format!("pavilanskas/{}/{scenario}/{arm}/{name}", lab.engine())
    };
    let setup = format!(
        "{}; {:.1} and {:.1} Mbit/s of payload",
        lab.engine(),
        rates[0],
        rates[1]
    );
    let total = Experiment::new(
        id("total"),
        format!("{what}: together"),
        rates.iter().sum::<f64>(),
    )
    .part(part)
    .unit("Mbit/s")
    .setup(&setup);
    let fair = Experiment::new(id("jain"), format!("{what}: Jain's index"), jain(&rates))
        .part(part)
        .setup(&setup);
    Ok(match published {
        Some([rate, index]) => vec![
            total
                .published(rate)
                .variant()
                .not_comparable("93 are of the line, headers counted; this is payload, 89 at most"),
            fair.published(index)
                .derived()
                .tolerance(Tolerance::AtLeast { bound: 0.98 })
                .variant()
                .note(EACH_ITS_OWN),
        ],
        None if arm == "first-dropped" || arm == "first-dropped-free" => {
            let fair = fair
                .published("almost equal")
                .tolerance(Tolerance::AtLeast { bound: 0.95 })
                .variant();
            let note = match arm {
                "first-dropped" => "Published in words: an \"insignificant unfairness\".",
                _ => FREE_NOTE,
            };
            vec![total, fair.note(note)]
        }
        None => vec![total, fair],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenarios_have_what_is_asked_of_them() {
        let scenario = Scenario::parse(PATH, TEXT).unwrap();
        let has = |arm: &str| scenario.arms.iter().any(|one| one.name == arm);
        assert!(DROPPED.iter().all(|share| has(&format!("dropped-{share}"))));
        assert!(HELD.iter().all(|share| has(&format!("held-{share}"))));
        assert!(QUICK.iter().all(|arm| has(arm)));
        let vary = |scenario: &Scenario, path: &str| {
            let vary = scenario.sweep.vary.iter().find(|vary| vary.path == path);
            vary.unwrap().values.clone()
        };
        assert_eq!(vary(&scenario, BUFFER), BUFFERS);
        let whole = transfer_text(Engine::Virtual).unwrap();
        let whole = Scenario::parse(PATH, &whole).unwrap();
        assert_eq!(whole.duration.as_secs(), 40);
        assert_eq!(whole.runs(), scenario.runs());
        let scenario = Scenario::parse(LOAD_PATH, LOAD).unwrap();
        assert_eq!(vary(&scenario, RATE), RATES);
        for (path, text) in [(BOTH_PATH, BOTH), (ONE_PATH, ONE)] {
            let scenario = Scenario::parse(path, text).unwrap();
            assert_eq!(scenario.flows.len(), SESSIONS.len());
        }
    }
}
