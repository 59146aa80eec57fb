//! Compares the arrivals with what had to arrive.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::case::{Expect, Level};
use crate::device::Arrival;
use crate::packet::{self, Segment, Side};
use crate::schedule::{Run, Schedule, Shaper};

mod sender;

use sender::AcceptedSegment;

/// The kind of failure of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Failure {
    /// The news never arrived.
    Lost,
    /// It arrived later than a device may delay it.
    Late,
    /// A packet arrived that was never sent.
    Wrong,
    /// Segments of a flow were reordered.
    Overtaken,
}

impl Failure {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Late => "late",
            Self::Wrong => "wrong bytes",
            Self::Overtaken => "overtaken",
        }
    }
}

/// A failure in one run of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its kind.
    pub failure: Failure,
    /// Its subject.
    pub what: String,
}

/// The result of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseReport {
    /// Its name.
    pub case: String,
    /// The place that says that this is news.
    pub rfc: String,
    /// The severity of a failure.
    pub level: Level,
    /// What had to happen.
    pub asks: String,
    /// The first failure; `None` if all runs passed.
    pub finding: Option<Finding>,
    /// Number of failed runs.
    pub failed_runs: u32,
    /// The first failed run, counted from 0.
    pub first_failed: u32,
    /// Number of runs.
    pub runs: u32,
    /// Pure ACKs sent.
    pub acks_sent: u64,
    /// Pure ACKs that arrived.
    pub acks_arrived: u64,
}

/// The grade of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Every case passed.
    Conforms,
    /// Only cases of [`Level::Should`] failed.
    Careless,
    /// A case of [`Level::Must`] failed.
    Unsafe,
}

impl Outcome {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Conforms => "conforms",
            Self::Careless => "careless",
            Self::Unsafe => "unsafe",
        }
    }
}

/// The result of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// The result of each case.
    pub cases: Vec<CaseReport>,
}

impl DeviceReport {
    /// Number of cases that passed in every run.
    #[must_use]
    pub fn passed(&self) -> usize {
        let cases = self.cases.iter();
        cases.filter(|it| it.finding.is_none()).count()
    }

    /// Cases that failed in at least one run.
    pub fn failed(&self) -> impl Iterator<Item = (&CaseReport, &Finding)> {
        let cases = self.cases.iter();
        cases.filter_map(|it| Some((it, it.finding.as_ref()?)))
    }

    /// The grade.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let levels = || self.failed().map(|(case, _)| case.level);
        if levels().any(|level| level == Level::Must) {
            Outcome::Unsafe
        } else if levels().next().is_some() {
            Outcome::Careless
        } else {
            Outcome::Conforms
        }
    }

    /// The share of pure ACKs that did not arrive, in one case or in all, in per cent.
    #[must_use]
    pub fn thinned(&self, case: Option<&str>) -> Option<f64> {
        let chosen = (self.cases.iter()).filter(|it| case.is_none_or(|name| it.case == name));
        let (sent, arrived) = chosen.fold((0, 0), |(sent, arrived), it| {
            (sent + it.acks_sent, arrived + it.acks_arrived)
        });
        (sent > 0).then(|| 100.0 * (1.0 - arrived as f64 / sent as f64))
    }
}

/// An arrival that matches a sent segment.
#[derive(Debug, Clone)]
struct Found {
    at_ns: u64,
    step: usize,
    segment: Segment,
}

/// The arrivals of one run.
#[derive(Debug, Default)]
struct Arrived {
    found: Vec<Found>,
    findings: Vec<Finding>,
}

/// Compares all arrivals with the schedule.
#[must_use]
pub fn judge(
    name: &str,
    schedule: &Schedule,
    shaper: Shaper,
    arrivals: &[Arrival],
) -> DeviceReport {
    let mut of_run: Vec<Vec<(&Arrival, Segment)>> = Vec::new();
    of_run.resize_with(schedule.runs.len(), Vec::new);
    for arrival in arrivals {
        if let Some(segment) = packet::read(&arrival.packet)
            && let Some(run) = schedule.run_of(segment.flow)
        {
            of_run[run].push((arrival, segment));
        }
    }
    let mut cases: Vec<CaseReport> = Vec::new();
    for (run, arrivals) in schedule.runs.iter().zip(of_run) {
        let arrived = matched(run, arrivals);
        let finding = judge_run(run, shaper, &arrived);
        if cases.last().is_none_or(|it| it.case != run.case.name) {
            cases.push(CaseReport {
                case: run.case.name.to_owned(),
                rfc: run.case.rfc.to_owned(),
                level: run.case.level,
                asks: run.case.what.to_owned(),
                finding: None,
                failed_runs: 0,
                first_failed: 0,
                runs: 0,
                acks_sent: 0,
                acks_arrived: 0,
            });
        }
        let Some(report) = cases.last_mut() else {
            continue;
        };
        let pure = |it: &&Segment| it.from == Side::Receiver && it.is_pure_ack();
        let sent = run.script.steps.iter().map(|it| &it.segment).filter(pure);
        let accepted = arrived.found.iter().map(|it| &it.segment).filter(pure);
        report.runs += 1;
        report.acks_sent += sent.count() as u64;
        report.acks_arrived += accepted.count() as u64;
        if let Some(finding) = finding {
            if report.finding.is_none() {
                report.first_failed = report.runs - 1;
            }
            report.failed_runs += 1;
            report.finding.get_or_insert(finding);
        }
    }
    DeviceReport {
        name: name.to_owned(),
        cases,
    }
}

/// Matches each arrival with a sent segment; an arrival without a match is a finding.
fn matched(run: &Run, arrivals: Vec<(&Arrival, Segment)>) -> Arrived {
    // Steps by their bytes, with the earliest last, to be taken first.
    let mut sent: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    for (index, step) in run.script.steps.iter().enumerate().rev() {
        let bytes = packet::without_hops(&step.segment.to_packet());
        sent.entry(bytes).or_default().push(index);
    }
    let mut arrived = Arrived::default();
    for (arrival, segment) in arrivals {
        let wrong = |what: String| Finding {
            failure: Failure::Wrong,
            what,
        };
        let Some(steps) = sent.get_mut(&packet::without_hops(&arrival.packet)) else {
            let what = format!("{} was never sent in this form", segment.describe());
            arrived.findings.push(wrong(what));
            continue;
        };
        // The last one stays, because a filter may send a copy for one that it withheld.
        let step = if steps.len() > 1 {
            steps.pop()
        } else {
            steps.last().copied()
        };
        let Some(step) = step else { continue };
        let was = run.script.steps[step].segment.ip_ecn;
        let is = segment.ip_ecn;
        if is != was && !(was != 0 && is == 3) {
            let what = format!(
                "the ECN field of {} was {was} and arrived as {is}",
                segment.describe()
            );
            arrived.findings.push(wrong(what));
        }
        arrived.found.push(Found {
            at_ns: arrival.at_ns,
            step,
            segment,
        });
    }
    arrived
}

/// The first failure in a run.
fn judge_run(run: &Run, shaper: Shaper, arrived: &Arrived) -> Option<Finding> {
    if let Some(finding) = arrived.findings.first() {
        return Some(finding.clone());
    }
    let check = RunCheck {
        run,
        due_ns: run.due_ns(shaper),
        found: &arrived.found,
        accepted: sender::accepted_segments(run, &arrived.found),
    };
    let data = run.script.steps.iter().enumerate();
    let mut data = data.filter(|(_, it)| it.segment.from == Side::Sender);
    if let Some(finding) = data.find_map(|(step, _)| check.arrives(step)) {
        return Some(Finding {
            what: format!("towards the receiver: {}", finding.what),
            ..finding
        });
    }
    let mut expects = run.script.expects.iter();
    expects.find_map(|expect| check.at(expect))
}

/// One run, with everything that is known of it.
struct RunCheck<'a> {
    run: &'a Run,
    due_ns: Vec<u64>,
    found: &'a [Found],
    accepted: Vec<AcceptedSegment<'a>>,
}

impl RunCheck<'_> {
    fn segment(&self, step: usize) -> &Segment {
        &self.run.script.steps[step].segment
    }

    /// `None` if there is a first time and it is not too late.
    fn in_time(&self, step: usize, first_ns: Option<u64>, what: &str) -> Option<Finding> {
        let described = self.segment(step).describe();
        match first_ns {
            None => Some(Finding {
                failure: Failure::Lost,
                what: format!("{what}{described}"),
            }),
            Some(at) if at > self.due_ns[step] => Some(Finding {
                failure: Failure::Late,
                what: format!(
                    "{what}{described}, by {} ms",
                    (at - self.due_ns[step]).div_ceil(1_000_000)
                ),
            }),
            Some(_) => None,
        }
    }

    fn arrives(&self, step: usize) -> Option<Finding> {
        let first = self.found.iter().find(|it| it.step == step);
        self.in_time(step, first.map(|it| it.at_ns), "")
    }

    /// The time of the first accepted ACK of the step's connection that satisfies `is`.
    fn first(&self, step: usize, mut is: impl FnMut(&AcceptedSegment<'_>) -> bool) -> Option<u64> {
        let flow = self.segment(step).flow;
        let mut accepted = self.accepted.iter().filter(|it| it.segment.flow == flow);
        accepted.find(|it| is(it)).map(|it| it.at_ns)
    }

    fn at(&self, expect: &Expect) -> Option<Finding> {
        match *expect {
            Expect::Arrives(step) => self.arrives(step),
            Expect::Acked(step) => {
                let ack = self.segment(step).ack;
                let first = self.first(step, |it| sender::reaches(it.segment.ack, ack));
                self.in_time(step, first, "the acknowledgment of ")
            }
            Expect::Sacked(step) => {
                let mut known = sender::Scoreboard::default();
                let blocks = self.segment(step).sack();
                let first = self.first(step, |it| {
                    known.observe(it.segment);
                    blocks.iter().all(|block| known.covers(*block))
                });
                self.in_time(step, first, "the blocks of ")
            }
            Expect::Duplicates { of, count } => {
                let like = self.segment(of);
                let same = self.accepted.iter().filter(|it| {
                    it.segment.flow == like.flow
                        && it.segment.is_pure_ack()
                        && it.segment.ack == like.ack
                });
                let arrived = same.count();
                (arrived < count).then(|| Finding {
                    failure: Failure::Lost,
                    what: format!(
                        "only {arrived} of {count} copies of {} arrived",
                        like.describe()
                    ),
                })
            }
            Expect::Window(step) => {
                let edge = self.edge(self.segment(step));
                let first = self.first(step, |it| sender::reaches(self.edge(it.segment), edge));
                self.in_time(step, first, "the window of ")
            }
            Expect::Flagged { from, flags } => {
                let first = self.first(from, |it| {
                    it.step >= from && it.segment.flags & flags == flags
                });
                self.in_time(from, first, "the flags of ")
            }
            Expect::EceBytes => self.counts("bytes acknowledged under ECE", sender::ece_bytes),
            Expect::AceCount => self.counts("CE marks, counted from ACE", sender::ace_count),
            Expect::AceSafe => self.counts(
                "CE marks, counted as if ACE may have wrapped",
                sender::ace_safe,
            ),
            Expect::Counter { of, field } => {
                let first = self.first(of, |it| {
                    it.step >= of && sender::accecn_counters(it.segment)[field].is_some()
                });
                self.in_time(of, first, "the AccECN counters of ")
            }
            Expect::Order => {
                let pair = self.found.windows(2).find(|pair| {
                    pair[1].step < pair[0].step
                        && pair[0].segment.from == Side::Receiver
                        && pair[1].segment.from == Side::Receiver
                        && pair[0].segment.flow == pair[1].segment.flow
                });
                pair.map(|pair| Finding {
                    failure: Failure::Overtaken,
                    what: format!(
                        "{} arrived before {}",
                        pair[0].segment.describe(),
                        pair[1].segment.describe()
                    ),
                })
            }
        }
    }

    fn edge(&self, segment: &Segment) -> u32 {
        let window = u32::from(segment.window) << self.run.script.window_scale;
        segment.ack.wrapping_add(window)
    }

    /// Compares the sender's count with its count if everything had arrived.
    fn counts(&self, what: &str, count: fn(&[&Segment]) -> u64) -> Option<Finding> {
        let all = self.run.script.steps.iter().map(|it| &it.segment);
        let all: Vec<&Segment> = all.filter(|it| it.from == Side::Receiver).collect();
        let accepted: Vec<&Segment> = self.accepted.iter().map(|it| it.segment).collect();
        let (is, was) = (count(&accepted), count(&all));
        (is != was).then(|| Finding {
            failure: Failure::Lost,
            what: format!("{what}: the sender counts {is}, the receiver reported {was}"),
        })
    }
}
