//! The course of Figs 5 and 6 on a CPU that is the bottleneck: the paper's 100 s with its limit.

use ackwise_engines::emulated::Span;
use ackwise_report::{Axis, Experiment, Figure, Line, Style, Tolerance, Value};

use super::device::{Arm, Case, Device, Ran, Rate};
use super::drop::{LIMITED, first};
use super::link::{SAME, SOME};
use super::slow::GAIN;
use crate::tolerances::below;
use crate::{Error, Lab, Reproduced};

const PART: &str = "The course of 100 s (Figs 5, 6)";
const SETUP: &str = "slow device as above, but 100 s, tcp_ack_limit 2000 and 31 MIPS: goodput is \
    that of the flow in virtual time, so a measurement of 2000 segments lasts about as long";
const SECONDS: u64 = 100;
/// The paper's `tcp_ack_limit`.
const PUBLISHED: u32 = 2000;
/// 31 million instructions per second.
const SHIFT: u8 = 5;
/// Length in seconds of the intervals whose maximum stands for "up to".
const TEN: u64 = 10;

/// An ACK rate relative to the unmodified kernel's: "collapses" has no number.
pub(super) const FEWER: Tolerance = below(1.0);

pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    let device = Device::find()?;
    let limited: &[Arm] = match lab.quick() {
        true => &[Arm::RateLimit],
        false => &[Arm::RateLimit, Arm::Literal],
    };
    let run = |arm| {
        let case = Case {
            shift: SHIFT,
            limit: PUBLISHED,
            ..Case::new(arm, SECONDS)
        };
        device.run(lab, case)
    };
    let stock = run(Arm::Stock)?;
    let limited: Vec<Ran> = limited
        .iter()
        .map(|&arm| run(arm))
        .collect::<Result<_, _>>()?;
    for ran in &limited {
        let course = Course::of(ran, &stock);
        all.experiments.extend(course.rows(ran.case.arm));
    }
    let runs = || std::iter::once(&stock).chain(&limited);
    for ran in runs() {
        all.experiments.extend(numbers(ran)?);
    }
    let drawn: [(&str, &str, &str, Rate); 2] = [
        ("data", "Goodput", "goodput, Mbit/s", |span| {
            span.goodput_bps() / 1e6
        }),
        ("acks", "ACK rate", "ACKs per second", ack_rate),
    ];
    for (id, what, unit, value) in drawn {
        let line = |ran: &Ran| Line::new(ran.case.arm.name(), Style::Line, ran.over_time(value));
        all.figures.push(
            Figure::new(
                &format!("slow-100s-{id}"),
                &format!("{what} of the slow device over 100 s (Figs 5, 6)"),
                Axis::new("time, s"),
                Axis::new(unit),
            )
            .caption(DRAWN)
            .lines(runs().map(line)),
        );
    }
    Ok(())
}

const DRAWN: &str = "A sender of 31 MIPS, tcp_ack_limit 2000. Published: both the same for 19 to 20 s; \
                     then more data and fewer ACKs; drops at 45 s; limited again from 51 s on.";
const RATE: &str = "published of 2000 segments and a rate that is not printed: at any rate of its figures they \
                    pass within a second, so its start threshold was another or losses put it off. \
                    Here 2000 segments pass before the first measurement, and two measurements of 2000 \
                    (three with the listing) before an ACK covers three segments";
const RESTART: &str = "published of drops at 45 s that limiting itself causes, at a rate that is not printed. \
                       Here the search starts anew like the first one: how long that takes depends on the data rate";
const NO_DROP: &str = "published of drops at 45 s that limiting itself causes; here nothing was sent again, so \
                       that no search started anew";

fn ack_rate(span: &Span) -> f64 {
    span.acks as f64 * 1e9 / span.ns as f64
}

/// Segments per ACK; NaN without ACKs, which is neither above nor below a bound.
fn per_ack(span: &Span) -> f64 {
    span.segments_per_ack().unwrap_or(f64::NAN)
}

fn again(span: &Span) -> f64 {
    span.retransmits as f64
}

/// The course of a limited flow relative to an unmodified one; times in seconds.
#[derive(Debug, PartialEq)]
struct Course {
    /// When an ACK first covers more segments than the unmodified rule allows.
    starts: Option<f64>,
    /// Goodput until then, relative to the unmodified flow's.
    before: Option<f64>,
    /// Goodput relative to the unmodified flow's in the same time: in the best ten seconds, and
    /// from the start of limiting to the end.
    best: Option<f64>,
    after: Option<f64>,
    /// ACK rate from the start of limiting to the end, relative to the unmodified flow's.
    acks: Option<f64>,
    /// Retransmitted segments, second by second.
    lost: Vec<(f64, f64)>,
    /// Time from the first retransmissions until ACKs are limited again.
    restart: Option<f64>,
    /// How often goodput is lower than in the second before by more than [`DIP`], once ACKs are limited.
    dips: usize,
    /// Coefficient of variation of the goodput after the first quarter, and that of the unmodified flow.
    uneven: [f64; 2],
}

impl Course {
    fn of(ran: &Ran, stock: &Ran) -> Course {
        let seconds = |at: u64| at * 1_000_000_000;
        // The ratio of one kernel's value between two moments to the other's; `None` if either is 0.
        let ratio = |value: Rate, from: u64, to: u64| {
            let [a, b] = [ran, stock].map(|ran| ran.record.span(from, to));
            let [a, b] = [value(&a?), value(&b?)];
            (a > 0.0 && b > 0.0).then(|| a / b)
        };
        let starts = first(ran.over_time(per_ack), 0.0, |v| v > LIMITED);
        // The sample before `starts` has ended when limiting starts.
        let until = starts.map(|t| seconds((t as u64).saturating_sub(1)));
        let until = until.filter(|&ns| ns > 0);
        let since = starts.map(|t| seconds(t as u64));
        let end = seconds(SECONDS);
        let tens = (0..SECONDS / TEN).map(|ten| (seconds(ten * TEN), seconds((ten + 1) * TEN)));
        let best = tens.filter_map(|(from, to)| ratio(Span::goodput_bps, from, to));
        let lost: Vec<(f64, f64)> = ran.over_time(again).filter(|(_, n)| *n > 0.0).collect();
        let restart = lost.first().and_then(|&(at, _)| {
            let reset = first(ran.over_time(per_ack), at - 0.5, |v| v < LIMITED)?;
            Some(first(ran.over_time(per_ack), reset, |v| v > LIMITED)? - at)
        });
        Course {
            starts,
            before: until.and_then(|until| ratio(Span::goodput_bps, 0, until)),
            best: best.reduce(f64::max),
            after: since.and_then(|since| ratio(Span::goodput_bps, since, end)),
            acks: since.and_then(|since| ratio(ack_rate, since, end)),
            lost,
            restart,
            dips: dips(ran, starts),
            uneven: [ran, stock].map(Ran::uneven),
        }
    }

    fn rows(&self, arm: Arm) -> Vec<Experiment> {
        let seconds = |at: Option<f64>| at.map_or("never".into(), Value::from);
        let ratio = |ratio: Option<f64>| ratio.map_or("ACKs are not limited".into(), Value::from);
        let gain = |of: Option<f64>| ratio(of.map(|ratio| (ratio - 1.0) * 100.0));
        let before = match (self.starts, self.before) {
            (Some(_), None) => "ACKs are limited from the start".into(),
            (_, before) => ratio(before),
        };
        let sent_again = self.lost.iter().fold(0.0, |sum, (_, count)| sum + count);
        let mut rows = vec![
            row(arm, "start", "ACKs are limited from", seconds(self.starts))
                .unit("s")
                .published("19 to 20 s")
                .not_comparable(RATE),
            row(
                arm,
                "before",
                "goodput before ACKs are limited, of the unmodified one",
                before,
            )
            .published(1.0)
            .tolerance(SAME)
            .note(
                "Published: the same. Here each segment asks the policy from the start on, which \
                 costs this CPU 3 to 4 %; the listing also sends an ACK for each segment until then.",
            ),
            row(
                arm,
                "gain",
                "change of goodput in the best ten seconds",
                gain(self.best),
            )
            .unit("%")
            .published(60.0)
            .tolerance(GAIN)
            .note("Published: up to 60 %. The gain depends on what an ACK costs on this CPU."),
            row(
                arm,
                "gain-mean",
                "change of goodput from the start of limiting to the end",
                gain(self.after),
            )
            .unit("%"),
            row(
                arm,
                "ack-rate",
                "ACK rate once ACKs are limited, of the unmodified one",
                ratio(self.acks),
            )
            .published("falls")
            .tolerance(FEWER)
            .note("Published in words."),
            row(arm, "own-drops", "segments sent again", sent_again.into())
                .published("several")
                .tolerance(SOME)
                .note(
                    "Published: at 45 s limiting leads to drops, which start the search anew.",
                ),
        ];
        let (restart, why) = match self.lost.is_empty() {
            true => ("no drop".into(), NO_DROP),
            false => (seconds(self.restart), RESTART),
        };
        let what = "from the first of them until ACKs are limited again";
        rows.push(
            row(arm, "restart", what, restart)
                .unit("s")
                .published(6.0)
                .not_comparable(why),
        );
        rows.push(self.evenness(arm));
        rows.push(self.unsteadiness(arm));
        rows
    }

    /// The short dips of Fig. 12.
    fn unsteadiness(&self, arm: Arm) -> Experiment {
        let what = "seconds in which goodput falls by more than a twentieth, once ACKs are limited";
        let mut row = row(arm, "dips", what, (self.dips as f64).into());
        row.id = format!("statkus/fig12-dips-{}", arm.id());
        row.published("some").tolerance(SOME).note(
            "Published, drawn and in words: short drops of throughput at 10 to 20 s, from reducing ACKs too \
             far. In the same 100 s, second by second.",
        )
    }

    /// Figs 11 and 12, for 100 s.
    fn evenness(&self, arm: Arm) -> Experiment {
        let [own, base] = self.uneven;
        let what = "deviation of goodput from second to second by its mean, of the unmodified one";
        row(arm, "uneven", what, (own / base).into())
            .published("more uniform")
            .not_comparable(format!(
                "{:.2} against {:.2} % of the mean from second 25 on: an emulated CPU does nearly the same \
                 each second, while the paper's machines shared a host",
                100.0 * own,
                100.0 * base
            ))
    }
}

/// The share of itself by which goodput falls in a dip.
const DIP: f64 = 0.05;

/// The number of seconds after `from` with less goodput than the one before, by more than [`DIP`]. The last
/// second is excluded, because the transfer ends in it.
fn dips(ran: &Ran, from: Option<f64>) -> usize {
    let Some(from) = from else { return 0 };
    let rates = ran.over_time(Span::goodput_bps).filter(|(t, _)| *t > from);
    let rates: Vec<f64> = rates.map(|(_, rate)| rate).collect();
    let whole = &rates[..rates.len().saturating_sub(1)];
    let fell = whole
        .windows(2)
        .filter(|pair| pair[1] < (1.0 - DIP) * pair[0]);
    fell.count()
}

fn row(arm: Arm, key: &str, what: &str, value: Value) -> Experiment {
    let id = format!("statkus/slow-100s-{key}-{}", arm.id());
    Experiment::new(id, format!("{}: {what}", arm.name()), value)
        .part(PART)
        .setup(SETUP)
}

/// The totals of a kernel.
fn numbers(ran: &Ran) -> Result<Vec<Experiment>, Error> {
    let Some(span) = ran.record.span(0, u64::MAX) else {
        return Ok(Vec::new());
    };
    let arm = ran.case.arm;
    let acks = span.segments_per_ack().map_or("no ACK".into(), Value::from);
    Ok(vec![
        row(arm, "goodput", "goodput", (span.goodput_bps() / 1e6).into()).unit("Mbit/s"),
        row(arm, "acks", "segments per ACK", acks),
        row(arm, "rtt", "mean smoothed RTT", ran.rtt_ms()?.into()).unit("ms"),
    ])
}

#[cfg(test)]
mod tests {
    use ackwise_engines::emulated::{Record, Sample};
    use ackwise_report::Verdict;

    use super::*;

    /// A run given by each second's megabytes, segments per ACK, and retransmitted segments.
    fn ran(arm: Arm, second: impl Fn(u64) -> (u64, u64, u64)) -> Ran {
        let mut samples = vec![Sample::default()];
        for t in 1..=SECONDS {
            let (bytes, share, again) = second(t);
            let last = samples[samples.len() - 1];
            samples.push(Sample {
                at_ns: t * 1_000_000_000 + 1000,
                bytes: last.bytes + bytes * 1_000_000,
                data_segments: last.data_segments + bytes * 1000,
                acks: last.acks + bytes * 1000 / share,
                retransmits: last.retransmits + again,
                ..Sample::default()
            });
        }
        Ran {
            case: Case::new(arm, SECONDS),
            record: Record {
                kernel: String::new(),
                samples,
            },
        }
    }

    #[test]
    fn the_course_of_the_paper_is_read_off() {
        let stock = ran(Arm::Stock, |_| (10, 2, 0));
        let limited = ran(Arm::RateLimit, |t| match t {
            ..=19 => (10, 2, 0),
            45 => (14, 7, 3),
            46..=50 => (10, 2, 0),
            _ => (16, 8, 0),
        });
        let course = Course::of(&limited, &stock);
        assert_eq!(
            (course.starts.map(f64::trunc), course.before),
            (Some(20.0), Some(1.0))
        );
        assert_eq!(
            (course.best, course.restart.map(f64::round)),
            (Some(1.6), Some(6.0))
        );
        assert!(course.after.unwrap() < 1.6 && course.acks.unwrap() < 0.6);
        let verdicts: Vec<(String, Verdict)> = course
            .rows(Arm::RateLimit)
            .iter()
            .map(|row| (row.id.clone(), row.verdict()))
            .filter(|(_, verdict)| *verdict != Verdict::NotPublished)
            .collect();
        let of = |key: &str| {
            let id = format!("statkus/slow-100s-{key}-rate-limit");
            verdicts.iter().find(|row| row.0 == id).map(|row| row.1)
        };
        for key in ["before", "gain", "ack-rate", "own-drops"] {
            assert_eq!(of(key), Some(Verdict::Within), "{key}");
        }
        for key in ["start", "restart", "uneven"] {
            assert_eq!(of(key), Some(Verdict::NotComparable), "{key}");
        }
        // From 16 to 14, and from 14 to 10.
        assert_eq!(course.dips, 2);
        let id = "statkus/fig12-dips-rate-limit";
        assert!(verdicts.contains(&(id.to_owned(), Verdict::Within)));
    }

    /// A second without data has no ACKs, and so is not taken for one in which ACKs are limited.
    #[test]
    fn seconds_without_acks_are_not_limited() {
        let stock = ran(Arm::Stock, |_| (10, 2, 0));
        let limited = ran(Arm::RateLimit, |t| match t {
            3 => (0, 2, 0),
            ..=19 => (10, 2, 0),
            45 => (14, 7, 3),
            46 | 48..=50 => (10, 2, 0),
            47 => (0, 2, 0),
            _ => (16, 8, 0),
        });
        let course = Course::of(&limited, &stock);
        assert_eq!(course.starts.map(f64::trunc), Some(20.0));
        assert_eq!(course.restart.map(f64::round), Some(6.0));
    }

    #[test]
    fn seconds_in_which_nothing_is_done_are_no_ratio() {
        let still = ran(Arm::Stock, |t| (if t <= 10 { 0 } else { 10 }, 2, 0));
        let limited = ran(Arm::RateLimit, |t| (16, if t <= 19 { 2 } else { 8 }, 0));
        assert_eq!(Course::of(&limited, &still).best, Some(1.6));
        let nothing = ran(Arm::Stock, |_| (0, 2, 0));
        assert_eq!(Course::of(&limited, &nothing).acks, None);
    }

    #[test]
    fn limiting_may_start_within_the_first_second() {
        let stock = ran(Arm::Stock, |_| (10, 2, 0));
        let mut limited = ran(Arm::RateLimit, |_| (16, 8, 0));
        limited.record.samples[1].at_ns = 500_000_000;
        let course = Course::of(&limited, &stock);
        assert_eq!((course.starts, course.before), (Some(0.5), None));
        let rows = course.rows(Arm::RateLimit);
        let before = rows.iter().find(|row| row.id.contains("-before-"));
        let before = before.expect("a row");
        assert_eq!(before.measured, "ACKs are limited from the start".into());
        assert_eq!(before.verdict(), Verdict::Outside);
    }

    #[test]
    fn what_the_restart_is_not_compared_for_is_said() {
        let stock = ran(Arm::Stock, |_| (10, 2, 0));
        let restart = |again: u64| {
            let limited = ran(Arm::RateLimit, |t| match t {
                ..=19 => (10, 2, 0),
                45 => (14, 7, again),
                46..=50 => (10, 2, 0),
                _ => (16, 8, 0),
            });
            let rows = Course::of(&limited, &stock).rows(Arm::RateLimit);
            let row = rows.iter().find(|row| row.id.contains("-restart-"));
            let row = row.expect("a row");
            assert_eq!(row.verdict(), Verdict::NotComparable);
            (row.measured.number(), row.reason().to_owned())
        };
        let (measured, reason) = restart(3);
        assert_eq!(measured.map(f64::round), Some(6.0));
        assert!(reason.contains("at a rate that is not printed"), "{reason}");
        let (measured, reason) = restart(0);
        assert_eq!(measured, None);
        assert!(reason.contains("nothing was sent again"), "{reason}");
    }

    #[test]
    fn a_flow_that_is_never_limited_is_outside() {
        let stock = ran(Arm::Stock, |_| (10, 2, 0));
        let course = Course::of(&ran(Arm::RateLimit, |_| (10, 2, 0)), &stock);
        assert_eq!((course.starts, course.restart), (None, None));
        let rows = course.rows(Arm::RateLimit);
        let judged = rows.iter().filter(|row| row.tolerance.is_some());
        assert!(
            judged
                .map(Experiment::verdict)
                .all(|v| v == Verdict::Outside)
        );
    }
}
