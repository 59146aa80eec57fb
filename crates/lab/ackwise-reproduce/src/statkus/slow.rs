//! The slow device: what limiting saves when the CPU is the bottleneck.

use ackwise_engines::emulated::{First, Span};
use ackwise_report::{Axis, Experiment, Figure, Line, Style, Tolerance, Value};

use super::device::{Arm, Case, Device, HOLD_US, Ran, Rate, SHIFT, SHORT};
use crate::tolerances::{above, at_least, at_most, below, range, share};
use crate::{Error, Lab, Reproduced};

const SETUP: &str = "patched Linux 6.12 in QEMU -icount (no KVM), one CPU of 125 MIPS, two \
    namespaces, e1000 back to back, offloads and interrupt moderation off, cubic, 2896-byte writes; \
    the receiver is served first, so the sender is the bottleneck; what is held waits for the \
    delayed-ACK timer; tcp_ack_limit 250 (the paper: 2000), so that 8 s show what took it 100 s; \
    after the first 2 s";
/// The set-up of the runs in which r is read.
const TRACED: &str = "slow device as above, all 8 s; r is read each 100 ms, which costs instructions: other \
    runs than those above";
const PART: &str = "Slow device";
/// Length of the main runs in seconds: four times the duration of the search.
const SECONDS: u64 = 8;
/// Length of the other runs in seconds, with a `tcp_ack_limit` of [`SHORT`].
const BRIEF: u64 = 4;
/// The CPU load at which a run shows the effect of a hold that is too long.
const PROBED: f64 = 0.6;

/// "Up to 60 %" between routers.
pub(super) const GAIN: Tolerance = range(40.0, 70.0);
/// The tolerance of a fifth of the published number.
pub(super) const FIFTH: Tolerance = share(0.2);
/// "About half" as many ACKs.
pub(super) const HALF_THE_ACKS: Tolerance = range(0.4, 0.6);
/// "Almost halved" between virtual machines.
pub(super) const HALVED_RTT: Tolerance = range(0.4, 0.7);
/// Between routers the RTT rises.
pub(super) const LONGER_RTT: Tolerance = above(1.0);
/// A deviation relative to that of the unmodified kernel.
pub(super) const MORE_UNIFORM: Tolerance = below(1.0);
/// The paper has three falls in 100 s; a path without losses must have at least one.
pub(super) const FALLS: Tolerance = at_least(1.0);
/// r rises without a fall until it is highest.
pub(super) const MONOTONE: Tolerance = at_most(0.0);
/// Segments per ACK: more than the rule of two gives.
pub(super) const STARVED: Tolerance = above(2.0);

pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    let device = Device::find()?;
    let mut runs = Vec::new();
    for arm in Arm::ALL {
        runs.push(device.run(lab, Case::new(arm, SECONDS))?);
    }
    // Reading the state costs instructions for each ACK, so runs that are compared do not read it.
    let mut traced = Vec::new();
    for arm in [Arm::RateLimit, Arm::Literal] {
        let case = Case {
            trace: true,
            ..Case::new(arm, SECONDS)
        };
        traced.push(device.run(lab, case)?);
    }
    main_numbers(&runs, all)?;
    defaults(lab, &device, &runs[0], all)?;
    figures(&runs, all);
    search(&traced, all);
    speeds(lab, &device, &runs, all)?;
    loads(lab, &device, &runs[0], all)?;
    two_slow_hosts(lab, &device, all)
}

/// The change from `a` to `b`, in per cent.
fn change(a: f64, b: f64) -> f64 {
    (b / a - 1.0) * 100.0
}

/// A saturated CPU: the same CPU time, more goodput.
fn main_numbers(runs: &[Ran], all: &mut Reproduced) -> Result<(), Error> {
    for ran in runs {
        measured(ran, all)?;
    }
    let limited = runs.iter().filter(|ran| ran.case.arm != Arm::Stock);
    for ran in limited {
        against_stock(ran, &runs[0], all)?;
    }
    Ok(())
}

/// Compares goodput on the same CPU with every setting at its default: a hold lasts
/// a millisecond at most.
fn defaults(
    lab: &Lab<'_>,
    device: &Device,
    stock: &Ran,
    all: &mut Reproduced,
) -> Result<(), Error> {
    let base = stock.steady()?.goodput_bps();
    for arm in [Arm::RateLimit, Arm::Adaptive] {
        let case = Case {
            hold_us: HOLD_US,
            ..Case::new(arm, SECONDS)
        };
        let span = device.run(lab, case)?.steady()?;
        let acks = span.segments_per_ack().unwrap_or(f64::INFINITY);
        let name = arm.name();
        let row = |id: &str| {
            let what = format!("{name} with shipped defaults: change of goodput, the same CPU");
            Experiment::new(id, what, change(base, span.goodput_bps()))
                .part("With shipped defaults, against the unmodified kernel (Figs 11, 12)")
                .unit("%")
                .published(30.0)
                .variant()
                .setup(format!(
                    "as above, but tcp_ack_hold_us as shipped ({HOLD_US}), of which the round trip \
                     allows 1 ms; {acks:.1} segments an ACK; {} sent again",
                    span.retransmits
                ))
        };
        all.experiments.push(match arm {
            Arm::Adaptive => row("statkus/slow-gain-defaults-adaptive")
                .not_comparable(
                    "published of the paper's rule; this is the default policy with its default \
                     parameters, which is another",
                )
                .note(ADAPTIVE),
            _ => row("statkus/slow-gain-defaults").tolerance(FIFTH).note(
                "The other rows have tcp_ack_hold_us=0: the paper's kernel had the delayed-ACK \
                 timer alone.",
            ),
        });
    }
    Ok(())
}

fn main_id(ran: &Ran, what: &str) -> String {
    format!("statkus/slow-{what}-{}", ran.case.arm.id())
}

/// The results of one kernel.
fn measured(ran: &Ran, all: &mut Reproduced) -> Result<(), Error> {
    let name = ran.case.arm.name();
    let span = ran.steady()?;
    let [cost, ..] = ran.instructions()?;
    let measured = [
        ("goodput", "goodput", span.goodput_bps() / 1e6, "Mbit/s"),
        ("load", "CPU load", span.load() * 100.0, "%"),
        (
            "acks",
            "segments per ACK",
            span.segments_per_ack().unwrap_or(f64::INFINITY),
            "",
        ),
        (
            "instructions",
            "guest instructions per megabyte, both hosts",
            cost / 1e6,
            "million",
        ),
        ("rtt", "mean smoothed RTT", ran.rtt_ms()?, "ms"),
    ];
    for (key, what, value, unit) in measured {
        all.experiments.push(
            Experiment::new(main_id(ran, key), format!("{name}: {what}"), value)
                .part(PART)
                .unit(unit)
                .setup(SETUP),
        );
    }
    Ok(())
}

/// The results of one kernel relative to the unmodified one.
fn against_stock(ran: &Ran, stock: &Ran, all: &mut Reproduced) -> Result<(), Error> {
    let base = stock.steady()?;
    let span = ran.steady()?;
    let name = ran.case.arm.name();
    let paper = matches!(ran.case.arm, Arm::RateLimit | Arm::Literal);
    // The published numbers are about these two alone.
    let beside = |experiment: Experiment, value: f64, tolerance: Tolerance, note: &str| match paper
    {
        true => experiment.published(value).tolerance(tolerance).note(note),
        false => experiment,
    };
    let add = |key: &str, what: &str, value: f64, unit: &str| {
        Experiment::new(main_id(ran, key), format!("{name}: {what}"), value)
            .part("Against the unmodified kernel (Figs 5, 6, 11 to 17)")
            .unit(unit)
            .setup(SETUP)
    };
    let gain = change(base.goodput_bps(), span.goodput_bps());
    let all_of_it = add("gain", "change of goodput, the same CPU", gain, "%");
    all.experiments.push(match ran.case.arm {
        Arm::Adaptive => all_of_it.note(ADAPTIVE),
        _ => beside(all_of_it, 60.0, GAIN, ROUTERS),
    });
    if paper {
        all.experiments.extend(machines(ran, stock, gain)?);
    }
    let [cost, from, to] = ran.instructions()?;
    let [base_all, base_from, base_to] = stock.instructions()?;
    let work = "change of CPU work per megabyte, both hosts";
    all.experiments.push(beside(
        add("cpu", work, change(base_all, cost), "%"),
        -50.0,
        FIFTH,
        "Published: CPU load down by up to 50 % (conclusions); 30 to 32 % by Fig. 20.",
    ));
    for (key, what, base, own) in [
        (
            "cpu-sender",
            "the same, of the sending host",
            base_from,
            from,
        ),
        (
            "cpu-receiver",
            "the same, of the receiving host",
            base_to,
            to,
        ),
    ] {
        all.experiments.push(add(key, what, change(base, own), "%"));
    }
    let ratio = span.acks as f64 / span.ns as f64 / (base.acks as f64 / base.ns as f64);
    all.experiments.push(beside(
        add("ack-rate", "ACK rate, of the unmodified one", ratio, ""),
        0.5,
        HALF_THE_ACKS,
        "Published: about half. Here the search goes on to 20 and more segments an ACK.",
    ));
    let longer = ran.rtt_ms()? / stock.rtt_ms()?;
    all.experiments.push(beside(
        add("rtt-ratio", "RTT, of the unmodified one", longer, ""),
        0.5,
        HALVED_RTT,
        LONGER,
    ));
    if paper {
        let what = "the same, beside the paper's routers";
        let routers = add("rtt-ratio-routers", what, longer, "").published("higher");
        all.experiments.push(
            routers
                .tolerance(LONGER_RTT)
                .note("Figs 7, 8, in words: the RTT rises once ACKs are limited."),
        );
    }
    Ok(())
}

const ROUTERS: &str = "Published: up to 60 % between routers (the value here), up to 30 % between virtual machines. \
     The gain depends on what an ACK costs: both hosts share this CPU, and the model of instructions \
     has no caches.";
const MACHINES: &str = "Published: up to 30 %, and a more uniform rate (Figs 11, 12). An ACK that costs 0.6 to 0.75 \
     times what a segment does gives that; it does here.";
const ADAPTIVE: &str = "adaptive sends nine ACKs a round trip; here a segment takes longer than a ninth of it, so \
     nothing would be withheld. Told that the CPU is busy, it spaces ACKs by 2 ms, or by the hold bound if \
     that is shorter.";
const LONGER: &str = "Published: almost halved between virtual machines, and higher between routers. A round trip \
     includes the wait for the segments that share an ACK; only a queue in front of a slow host can \
     make up for it.";

/// Figs 11 and 12: comparison with the paper's virtual machines.
fn machines(ran: &Ran, stock: &Ran, gain: f64) -> Result<[Experiment; 2], Error> {
    let name = ran.case.arm.name();
    let uneven = ran.uneven();
    let again = match ran.steady()?.retransmits {
        1 => "1 segment was".to_owned(),
        n => format!("{n} segments were"),
    };
    let row = |key: &str, what: &str, value: f64| {
        Experiment::new(main_id(ran, key), format!("{name}: {what}"), value)
            .part("Against the unmodified kernel (Figs 5, 6, 11 to 17)")
            .setup(SETUP)
    };
    Ok([
        row(
            "gain-vm",
            "change of goodput, beside the paper's virtual machines",
            gain,
        )
        .unit("%")
        .published(30.0)
        .tolerance(FIFTH)
        .note(MACHINES),
        row(
            "uneven",
            "deviation of goodput over time by its mean, of the unmodified one",
            uneven / stock.uneven(),
        )
        .published("more uniform")
        .tolerance(MORE_UNIFORM)
        .note(format!(
            "Published in words, of Figs 11 and 12. {:.2} against {:.2} % of the mean, in intervals of \
             100 ms. The search still goes on in them; {again} sent again, which can start it anew.",
            100.0 * uneven,
            100.0 * stock.uneven(),
        )),
    ])
}

/// Figs 5, 6 and 17 with the CPU as the bottleneck.
fn figures(runs: &[Ran], all: &mut Reproduced) {
    let rates: [(&str, &str, &str, Rate); 2] = [
        (
            "slow-data",
            "Goodput of the slow device (Figs 5, 6, 11, 12)",
            "goodput, Mbit/s",
            |span| span.goodput_bps() / 1e6,
        ),
        (
            "slow-acks",
            "ACK rate of the slow device (Figs 5, 6, 17)",
            "ACKs per second",
            |span| span.acks as f64 * 1e9 / span.ns as f64,
        ),
    ];
    for (id, title, unit, value) in rates {
        let lines = runs
            .iter()
            .map(|ran| Line::new(ran.case.arm.name(), Style::Line, ran.over_time(value)));
        all.figures.push(
            Figure::new(id, title, Axis::new("time, s"), Axis::new(unit))
                .caption(
                    "A sender of 125 MIPS, an eighth of the published tcp_ack_limit; the table is of seconds \
                     2 to 8. Published, of 100 s: flat without limiting; with it, more data and fewer ACKs \
                     once it starts. A dip to the unmodified rate is a search that starts anew.",
                )
                .lines(lines),
        );
    }
}

/// Fig. 10: the state of the algorithm over time.
fn search(runs: &[Ran], all: &mut Reproduced) {
    let mut state = Figure::new(
        "slow-r",
        "The search for the ACK rate (Fig. 10)",
        Axis::new("time, s"),
        Axis::new("r, segments"),
    )
    .caption(
        "ack_rate_val and its bound ack_rate_max, with which the listing as printed never compares it. \
         Published, of 100 s: r leaves 0 at about 10 s, is highest at 20 to 25 s, and falls at about 30, \
         50 and 80 s. To read r costs instructions: these are two other runs than those above.",
    );
    for ran in runs {
        let samples = || ran.record.samples.iter();
        let at = |ns: u64| ns as f64 / 1e9;
        let r = samples().filter_map(|s| Some((at(s.at_ns), f64::from(s.ack_rate?))));
        let max = samples().filter_map(|s| Some((at(s.at_ns), f64::from(s.ack_rate_max?))));
        let name = ran.case.arm.name();
        state = state
            .line(Line::new(&format!("{name}: r"), Style::Steps, r))
            .line(Line::new(&format!("{name}: bound"), Style::Steps, max));
        let highest = samples().filter_map(|s| s.ack_rate).max();
        all.experiments.push(
            Experiment::new(
                format!("statkus/fig10-r-{}", ran.case.arm.id()),
                format!("{name}: highest r"),
                highest.map_or("never asked".into(), |r| Value::from(f64::from(r))),
            )
            .part("Fig. 10")
            .unit("segments")
            .setup(TRACED)
            .note("The paper draws r and prints no value; its bound is RWND / 3 MSS, at most 64."),
        );
        milestones(ran, all);
    }
    all.figures.push(state);
}

/// The course of an ACK rate; times in seconds.
#[derive(Debug, PartialEq)]
struct Course {
    /// When it first rose above its first value.
    rises: Option<f64>,
    /// When it first reached its maximum.
    highest: Option<f64>,
    /// How often it fell, and how often before it first reached its maximum.
    falls: usize,
    falls_before: usize,
}

fn course(rates: &[(f64, u32)]) -> Course {
    let highest = rates.iter().map(|(_, r)| *r).max();
    let begin = rates.first().map_or(0, |(_, r)| *r);
    let first = |is: &dyn Fn(u32) -> bool| rates.iter().find(|(_, r)| is(*r)).map(|(t, _)| *t);
    let falls = |rates: &[(f64, u32)]| {
        let pairs = rates.windows(2);
        pairs.filter(|pair| pair[1].1 < pair[0].1).count()
    };
    let top = rates.iter().position(|(_, r)| Some(*r) == highest);
    Course {
        rises: first(&|r| r > begin),
        highest: first(&|r| Some(r) == highest),
        falls: falls(rates),
        falls_before: falls(&rates[..top.unwrap_or(0)]),
    }
}

/// When r changes in Fig. 10, whose virtual machines run for 100 s.
fn milestones(ran: &Ran, all: &mut Reproduced) {
    let known = ran.record.samples.iter();
    let rates: Vec<(f64, u32)> = known
        .filter_map(|s| Some((s.at_ns as f64 / 1e9, s.ack_rate?)))
        .collect();
    let Course {
        rises,
        highest,
        falls,
        falls_before,
    } = course(&rates);
    let time = |at: Option<f64>| at.map_or("never".into(), Value::from);
    let row = |key: &str, what: &str, measured: Value| {
        let id = format!("statkus/fig10-{key}-{}", ran.case.arm.id());
        Experiment::new(id, format!("{}: {what}", ran.case.arm.name()), measured)
            .part("Fig. 10")
            .setup(TRACED)
    };
    all.experiments.extend([
        row("rises", "r rises for the first time", time(rises))
            .published(10.0)
            .not_comparable(SHORTENED)
            .unit("s"),
        row("highest", "r is highest for the first time", time(highest))
            .published("20 to 25 s")
            .not_comparable(SHORTENED)
            .unit("s"),
        row("falls", "how often r falls", (falls as f64).into())
            .published(3.0)
            .tolerance(FALLS)
            .note(
                "Published: falls at about 30, 50 and 80 s. The tolerance asks for at least one fall, \
                 because this path has no losses: a fall is a measurement that came out slower than the \
                 one before it.",
            ),
        row(
            "monotone",
            "how often r falls before it is highest",
            (falls_before as f64).into(),
        )
        .published(0.0)
        .tolerance(MONOTONE)
        .note("Drawn in the paper: r rises from 10 s on until it is highest at 20 to 25 s."),
    ]);
}

const SHORTENED: &str = "published of 100 s, with a smaller ack_pkt_cnt that is not given; here 8 s \
                         and an eighth of tcp_ack_limit stand for them";

/// The same work on CPUs of various speeds.
fn speeds(lab: &Lab<'_>, device: &Device, main: &[Ran], all: &mut Reproduced) -> Result<(), Error> {
    let shifts: &[u8] = if lab.quick() {
        &[SHIFT]
    } else {
        &[2, SHIFT, 4, 5]
    };
    let mut lines: [Vec<(f64, f64)>; 2] = [Vec::new(), Vec::new()];
    for &shift in shifts {
        let mut goodput = [0.0; 2];
        for (slot, arm) in [Arm::Stock, Arm::RateLimit].into_iter().enumerate() {
            let case = Case {
                shift,
                limit: SHORT,
                // Equal numbers of instructions, so that each search gets equally far.
                ..Case::new(arm, (BRIEF << shift) >> SHIFT)
            };
            let span = match main
                .iter()
                .find(|ran| shift == SHIFT && ran.case.arm == arm)
            {
                Some(ran) => ran.steady()?,
                None => device.run(lab, case)?.steady()?,
            };
            goodput[slot] = span.goodput_bps() / 1e6;
            lines[slot].push((1000.0 / f64::from(1_u32 << shift), goodput[slot]));
        }
        all.experiments.push(
            Experiment::new(
                format!("statkus/slow-speed-{shift}"),
                format!(
                    "rate-limit: change of goodput at {} MIPS",
                    1000.0 / f64::from(1_u32 << shift)
                ),
                change(goodput[0], goodput[1]),
            )
            .part("CPU speeds")
            .unit("%")
            .setup("as above; 500 million instructions, tcp_ack_limit 100, but for 125 MIPS"),
        );
    }
    let [stock, limited] = lines;
    all.figures.push(
        Figure::new(
            "slow-speeds",
            "Goodput over the speed of the CPU",
            Axis::new("million instructions a second"),
            Axis::new("goodput, Mbit/s"),
        )
        .caption(
            "Not in the paper, which has one speed of its routers and prints none. Each point is of 500 \
             million instructions with tcp_ack_limit 100; that at 125 is the run of 8 s above.",
        )
        .line(Line::new("unmodified", Style::Line, stock))
        .line(Line::new("rate-limit", Style::Line, limited)),
    );
    Ok(())
}

/// Fig. 20: the same goodput with less CPU.
fn loads(lab: &Lab<'_>, device: &Device, stock: &Ran, all: &mut Reproduced) -> Result<(), Error> {
    let capacity = stock.steady()?.goodput_bps();
    let shares: &[(f64, Option<f64>)] = match lab.quick() {
        true => &[(0.6, Some(32.0))],
        false => &[
            (0.25, Some(30.0)),
            (0.4, None),
            (0.6, Some(32.0)),
            (0.8, None),
        ],
    };
    let mut points = Vec::new();
    for &(share, published) in shares {
        let run = |arm, hold_us| {
            let case = Case {
                write_bps: Some((capacity * share) as u64),
                limit: SHORT,
                hold_us,
                ..Case::new(arm, BRIEF)
            };
            device.run(lab, case)?.steady()
        };
        let stock = run(Arm::Stock, HOLD_US)?;
        let limited = run(Arm::RateLimit, HOLD_US)?;
        let load = stock.load_of_hosts() * 100.0;
        let saved = |span: &Span| -change(stock.load_of_hosts(), span.load_of_hosts());
        points.push((load, saved(&limited)));
        let percent = share * 100.0;
        let setup = format!(
            "as above, but what is held waits for 1 ms (tcp_ack_hold_min_us); the application \
             writes at {percent:.0} % of what the unmodified kernel manages; 4 s, tcp_ack_limit 100"
        );
        let experiment = Experiment::new(
            format!("statkus/fig20-{percent:.0}"),
            format!("less CPU at equal goodput; unmodified load {load:.0} %"),
            saved(&limited),
        )
        .part("Fig. 20")
        .unit("%")
        .setup(setup.clone());
        all.experiments.push(match published {
            Some(value) => experiment.published(value).tolerance(FIFTH).note(
                "The paper's figure is of a receiving system with 80 % of the ACKs dropped, at a \
                 load of 25 and of 60 % and more; here the load is that of both hosts, and an ACK is \
                 for the 8 to 9 segments that come within 1 ms.",
            ),
            None => experiment,
        });
        if share == PROBED {
            all.experiments.push(
                Experiment::new(
                    "statkus/fig20-probed",
                    "the same, with the delayed-ACK timer as the only bound",
                    saved(&run(Arm::RateLimit, 0)?),
                )
                .part("Fig. 20")
                .unit("%")
                .setup(format!("{setup}; tcp_ack_hold_us 0"))
                .note(
                    "The ACK of a burst's last segments is held for longer than the sender waits \
                     before it probes for a lost tail. The probe repeats what has arrived, and \
                     that starts the search anew.",
                ),
            );
        }
    }
    all.figures.push(load_and_gain(points));
    Ok(())
}

/// The plot of Fig. 20: the unmodified kernel's load and the share of it that is saved, both in per cent.
fn load_and_gain(points: Vec<(f64, f64)>) -> Figure {
    Figure::new(
        "fig20",
        "CPU load and gain (Fig. 20)",
        Axis::new("load without limiting, %"),
        Axis::new("load saved, %"),
    )
    .caption(
        "Published: of a receiving system, 80 % of whose ACKs a policer drops. Measured: of both hosts of the \
         slow device at equal goodput, with rate-limit and a hold of 1 ms.",
    )
    .line(Line::new("measured", Style::Points, points))
    .line(Line::new(
        "published",
        Style::Published,
        [(25.0, 30.0), (60.0, 32.0)],
    ))
}

/// Neither host has time to spare, like the unmodified router of Fig. 17.
fn two_slow_hosts(lab: &Lab<'_>, device: &Device, all: &mut Reproduced) -> Result<(), Error> {
    let mut rates = Vec::new();
    for arm in [Arm::Stock, Arm::RateLimit] {
        let case = Case {
            first: First::Neither,
            limit: SHORT,
            chunk: 128 * 1024,
            ..Case::new(arm, BRIEF)
        };
        let span = device.run(lab, case)?.steady()?;
        rates.push(span.acks as f64 / span.ns as f64);
        let measured = [
            (
                "acks",
                "segments per ACK",
                span.segments_per_ack().unwrap_or(f64::INFINITY),
                "",
            ),
            ("goodput", "goodput", span.goodput_bps() / 1e6, "Mbit/s"),
        ];
        for (key, what, value, unit) in measured {
            let row = starved(arm, key, what, value).unit(unit).note(
                "The paper notes that its unmodified router, short of CPU, sent far fewer ACKs \
                     than one for two segments. Where the unmodified kernel of this table does \
                     so too, there is little left to limit.",
            );
            all.experiments.push(match (arm, key) {
                (Arm::Stock, "acks") => row.published("more than 2").tolerance(STARVED),
                _ => row,
            });
        }
    }
    let [stock, limited] = rates[..] else {
        return Ok(());
    };
    let what = "ACK rate, of the unmodified one";
    all.experiments.push(
        starved(Arm::RateLimit, "ack-rate", what, limited / stock)
            .published(0.5)
            .tolerance(HALF_THE_ACKS)
            .note(
                "Published: about half, of a router that without limiting sends fewer than one ACK for two \
                 segments, as here.",
            ),
    );
    Ok(())
}

fn starved(arm: Arm, key: &str, what: &str, value: f64) -> Experiment {
    Experiment::new(
        format!("statkus/fig17-starved-{key}-{}", arm.id()),
        format!("{}: {what}, both hosts short of CPU", arm.name()),
        value,
    )
    .part("Fig. 17")
    .setup("as above, but neither host is served first; 128 KiB writes; 4 s, tcp_ack_limit 100")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_rises_is_highest_and_falls() {
        let rates = [(1.0, 5), (2.0, 4), (3.0, 7), (4.0, 9), (5.0, 9), (6.0, 8)];
        let expected = |rises, highest, falls, falls_before| Course {
            rises,
            highest,
            falls,
            falls_before,
        };
        assert_eq!(course(&rates), expected(Some(3.0), Some(4.0), 2, 1));
        assert_eq!(course(&rates[..2]), expected(None, Some(1.0), 1, 0));
        assert_eq!(course(&[]), expected(None, None, 0, 0));
    }
}
