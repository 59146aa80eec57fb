//! Evaluates drawn points: for each arm, the distribution of its ratio to the baseline and to the
//! best of other arms on the same line.

use std::collections::BTreeMap;

use ackwise_scenario::record::{Completion, Report, Run, Traffic};
use ackwise_scenario::trace::TraceFiles;
use ackwise_scenario::{
    App, BASELINE, Draw, Flow, REPEAT, Rivals, RunSpec, Scenario, glob_matches,
};

use crate::compare::{failed, ratio};

/// What is measured on a line; for each measure, more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Measure {
    /// Goodput of bulk flows.
    Goodput,
    /// Inverse of the median completion time of short flows.
    ShortFlows,
    /// Inverse of the median time of exchanges.
    Exchanges,
    /// The share of chunks that arrived in time.
    ChunksInTime,
    /// Goodput of all flows in one direction, if they are of different kinds.
    AllFlows,
    /// The sum over both directions of goodput divided by rate.
    BothDirections,
}

/// The measure by which a group of flows is judged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score {
    measure: Measure,
    from: String,
    to: String,
}

impl Score {
    fn of(flow: &Flow) -> Score {
        let measure = match flow.app {
            App::Bulk { .. } | App::Iperf3 { .. } => Measure::Goodput,
            App::ShortFlows { .. } => Measure::ShortFlows,
            App::RequestResponse { .. } => Measure::Exchanges,
            App::Chunks { .. } => Measure::ChunksInTime,
        };
        Score {
            measure,
            from: flow.from.clone(),
            to: flow.to.clone(),
        }
    }

    /// The title for a heading.
    pub(crate) fn title(&self) -> String {
        let direction = format!("{} → {}", self.from, self.to);
        match self.measure {
            Measure::Goodput => format!("goodput {direction}"),
            Measure::ShortFlows => format!("short flows {direction}, 1 / median time"),
            Measure::Exchanges => format!("exchanges {direction}, 1 / median time"),
            Measure::ChunksInTime => format!("chunks {direction}, share in time"),
            Measure::AllFlows => format!("goodput {direction}, flows of all kinds"),
            Measure::BothDirections => "goodput by rate, sum of both directions".to_owned(),
        }
    }
}

/// The results of all arms on one line.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    /// One of its runs, for the point.
    pub run: &'a Run,
    /// The repeats, by score and arm.
    values: BTreeMap<Score, BTreeMap<&'a str, Repeats>>,
    /// The drawn values that are the same in all repeats.
    pub drawn: BTreeMap<&'a str, &'a str>,
    /// Paths that are swept besides the draws.
    swept: Vec<String>,
    /// Number of seeds of the scenario.
    seeds: usize,
}

/// The value of each repeat that did not fail, by number.
type Repeats = BTreeMap<u32, f64>;

/// The reference with which an arm is compared on its line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Against {
    /// The stock stack.
    Baseline,
    /// The best of several arms.
    Best(Rivals),
}

impl Against {
    /// The title for a heading.
    pub(crate) fn title(&self) -> String {
        match self {
            Against::Baseline => "to nothing".to_owned(),
            Against::Best(rivals) if rivals.arms == ["*"] => "to the best of all".to_owned(),
            Against::Best(rivals) => {
                format!("to {}: the best of {}", rivals.name, rivals.arms.join(", "))
            }
        }
    }

    /// The name for a column.
    pub(crate) fn name(&self) -> &str {
        match self {
            Against::Baseline => "nothing",
            Against::Best(rivals) => &rivals.name,
        }
    }

    /// Whether an arm belongs to the reference.
    fn has(&self, arm: &str) -> bool {
        match self {
            Against::Baseline => arm == BASELINE,
            Against::Best(rivals) => rivals.arms.iter().any(|glob| glob_matches(glob, arm)),
        }
    }
}

/// A ratio on a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ratio<'a> {
    pub ratio: f64,
    pub line: &'a Line<'a>,
}

/// All lines of a report with drawn points.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    /// How the points were drawn.
    pub draw: Draw,
    /// The lines in the order of the runs; all repeats of a point are one.
    pub lines: Vec<Line<'a>>,
    /// Names of the arms, in the order of the runs.
    pub arms: Vec<&'a str>,
}

impl<'a> Lines<'a> {
    /// Extracts the lines of a report; `None` if it has no drawn points, or if this version cannot
    /// read its scenario.
    pub(crate) fn of(report: &'a Report) -> Option<Lines<'a>> {
        report.runs.iter().find(|run| run.draw.is_some())?;
        let info = &report.scenario;
        let name = format!("{}.toml", info.name);
        let scenario = Scenario::parse_with(name, &info.text, &TraceFiles::nowhere()).ok()?;
        let mut groups: Vec<Vec<&Run>> = Vec::new();
        let mut arms: Vec<&str> = Vec::new();
        for run in report.runs.iter().filter(|run| !failed(run)) {
            if !arms.contains(&run.arm.as_str()) {
                arms.push(&run.arm);
            }
            let same = |other: &&Run| {
                let swept = |path| other.point.get(path) == run.point.get(path);
                (other.draw, other.seed, &other.cc) == (run.draw, run.seed, &run.cc)
                    && scenario.sweep.paths().all(swept)
            };
            match groups.iter_mut().rev().find(|group| same(&group[0])) {
                Some(group) => group.push(run),
                None => groups.push(vec![run]),
            }
        }
        let draw = scenario.sweep.draw.clone()?;
        let lines = groups
            .iter()
            .filter_map(|group| line(&scenario, &draw, group));
        Some(Lines {
            lines: lines.collect(),
            arms,
            draw,
        })
    }

    /// The scores that at least one line has.
    pub(crate) fn scores(&self) -> Vec<&Score> {
        let mut scores: Vec<&Score> = self
            .lines
            .iter()
            .flat_map(|line| line.values.keys())
            .collect();
        scores.sort();
        scores.dedup();
        scores
    }

    /// Whether there is nothing to compare.
    pub(crate) fn is_of_one_arm(&self) -> bool {
        self.arms.len() == 1
    }

    /// All references, including those that give no information.
    pub(crate) fn all_against(&self) -> Vec<Against> {
        let rivals = self.draw.against.iter().cloned().map(Against::Best);
        std::iter::once(Against::Baseline).chain(rivals).collect()
    }

    /// The references that are of interest: with a single arm, the best of several is that arm
    /// itself.
    pub(crate) fn against(&self) -> Vec<Against> {
        let mut all = self.all_against();
        all.truncate(if self.is_of_one_arm() { 1 } else { all.len() });
        all
    }

    /// The ratios of an arm on the lines that `wanted` accepts, in ascending order.
    pub(crate) fn ratios(
        &self,
        score: &Score,
        arm: &str,
        against: &Against,
        wanted: &dyn Fn(&Line<'_>) -> bool,
    ) -> Vec<Ratio<'_>> {
        let mut ratios: Vec<Ratio<'_>> = Vec::new();
        for line in self.lines.iter().filter(|line| wanted(line)) {
            if let Some(ratio) = line.ratio(score, arm, against) {
                ratios.push(Ratio { ratio, line });
            }
        }
        ratios.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        ratios
    }

    /// Ratios between the two halves of the repeats, in ascending order. For the baseline they show
    /// the effect of chance, for the best of several how well an arm can be chosen. Empty if each
    /// point is run once.
    pub(crate) fn halves(&self, score: &Score, against: &Against) -> Vec<Ratio<'_>> {
        let ratio = |line: &'_ Line<'a>| match against {
            Against::Baseline => line.chance(score),
            Against::Best(_) => line.hindsight(score, against),
        };
        let mut ratios: Vec<Ratio<'_>> = self
            .lines
            .iter()
            .filter_map(|line| ratio(line).map(|ratio| Ratio { ratio, line }))
            .collect();
        ratios.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        ratios
    }
}

impl Line<'_> {
    /// The ratio of the baseline's odd repeats to its even ones: the effect of chance alone. `None`
    /// if either half is empty.
    fn chance(&self, score: &Score) -> Option<f64> {
        let all = self.values.get(score)?.get(BASELINE)?;
        Some(ratio(half(all, true)?, half(all, false)?))
    }

    /// The arm that is best over the odd repeats, compared over the even ones with the best arm
    /// there: what could be gained by knowing the line. `None` if either half is empty.
    fn hindsight(&self, score: &Score, against: &Against) -> Option<f64> {
        let rivals = self.values.get(score)?.iter();
        let rivals = rivals.filter(|(name, _)| against.has(name));
        let mut halves = rivals.filter_map(|(_, all)| Some((half(all, true)?, half(all, false)?)));
        let first = halves.next()?;
        // The first of two equal arms is chosen, regardless of the other half.
        let (chosen, best) = halves.fold((first, first.1), |(chosen, best), (odd, even)| {
            let chosen = if odd > chosen.0 { (odd, even) } else { chosen };
            (chosen, best.max(even))
        });
        Some(ratio(chosen.1, best))
    }

    /// An arm's mean over its repeats; `None` if its flows are not on this line.
    pub(crate) fn value(&self, score: &Score, arm: &str) -> Option<f64> {
        mean(self.values.get(score)?.get(arm)?.iter())
    }

    /// An arm's ratio to the reference, over the repeats that both have; infinite if the reference
    /// is zero. The best of several arms is the one with the lowest ratio.
    pub(crate) fn ratio(&self, score: &Score, arm: &str, against: &Against) -> Option<f64> {
        let values = self.values.get(score)?;
        let own = values.get(arm)?;
        let to = |other: &Repeats| {
            let both = |a: &Repeats, b: &Repeats| mean(a.iter().filter(|(n, _)| b.contains_key(n)));
            Some(ratio(both(own, other)?, both(other, own)?))
        };
        let rivals = values.iter().filter(|(name, _)| against.has(name));
        rivals
            .filter_map(|(_, other)| to(other))
            .min_by(f64::total_cmp)
    }

    /// The value of a name of the point, as text.
    pub(crate) fn drawn(&self, name: &str) -> Option<&str> {
        match name {
            "cc" => Some(&self.run.cc),
            name => self.drawn.get(name).copied(),
        }
    }

    /// The line in words: the names on which others depend, without drawn paths, and the swept
    /// values by which lines of one point differ.
    pub(crate) fn words(&self) -> String {
        let is_shown =
            |name: &str| !name.contains('.') || self.swept.iter().any(|path| path == name);
        let short = self.drawn.iter().filter(|(name, _)| is_shown(name));
        let mut words: Vec<String> = short
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        if !self.drawn.contains_key("cc") {
            words.push(format!("cc {}", self.run.cc));
        }
        if self.seeds > 1 {
            words.push(format!("seed {}", self.run.seed));
        }
        words.join(", ")
    }
}

/// The results of all arms on one line, with flows as the scenario has them at that point.
fn line<'a>(scenario: &Scenario, draw: &Draw, runs: &[&'a Run]) -> Option<Line<'a>> {
    let first = runs.first()?;
    let mut values: BTreeMap<Score, BTreeMap<&str, Repeats>> = BTreeMap::new();
    let mut seen: Option<(&BTreeMap<String, String>, Scenario)> = None;
    for run in runs {
        if seen.as_ref().is_none_or(|(point, _)| **point != run.point) {
            let spec = RunSpec {
                id: run.id.clone(),
                arm: BASELINE.to_owned(),
                cc: run.cc.clone(),
                seed: run.seed,
                draw: run.draw,
                point: run.point.clone(),
            };
            seen = Some((&run.point, scenario.at(&spec).ok()?));
        }
        let (_, seen) = seen.as_ref()?;
        let repeat = run.point.get(REPEAT).map_or(Some(1), |n| n.parse().ok())?;
        for (score, value) in scores(seen, run) {
            let arms = values.entry(score).or_default();
            arms.entry(&run.arm).or_default().insert(repeat, value);
        }
    }
    let stays = |name: &str| name != REPEAT && !draw.redrawn.iter().any(|it| it == name);
    let point = first.point.iter().map(|(name, value)| (&**name, &**value));
    Some(Line {
        run: first,
        values,
        drawn: point
            .filter(|(name, _)| draw.repeats == 1 || stays(name))
            .collect(),
        swept: scenario.sweep.paths().map(str::to_owned).collect(),
        seeds: scenario.sweep.seeds.len(),
    })
}

/// The mean over the odd repeats, or over the even ones.
fn half(repeats: &Repeats, odd: bool) -> Option<f64> {
    mean(repeats.iter().filter(|(n, _)| (*n % 2 == 1) == odd))
}

/// The mean over repeats; `None` if there are none.
fn mean<'a>(repeats: impl Iterator<Item = (&'a u32, &'a f64)>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0_u32);
    for (_, value) in repeats {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / f64::from(count))
}

fn scores(seen: &Scenario, run: &Run) -> BTreeMap<Score, f64> {
    let mut flows: BTreeMap<Score, Vec<&Traffic>> = BTreeMap::new();
    let mut shares: BTreeMap<Score, f64> = BTreeMap::new();
    for flow in &seen.flows {
        let own = run.flows.iter().find(|record| record.flow == flow.name);
        let alone = run.flow.as_ref() == Some(&flow.name);
        let Some(traffic) = own.map(|own| &own.traffic).or(alone.then_some(&run.totals)) else {
            continue;
        };
        let score = Score::of(flow);
        if let (Measure::Goodput, Some(rate)) = (score.measure, seen.bottleneck_bps(flow)) {
            *shares.entry(score.clone()).or_default() += traffic.goodput_bps / rate as f64;
        }
        flows.entry(score).or_default().push(traffic);
    }
    let mut values = all_flows(&flows);
    if shares.len() > 1 {
        let both = Score {
            measure: Measure::BothDirections,
            from: String::new(),
            to: String::new(),
        };
        values.insert(both, shares.values().sum());
    }
    for (score, traffic) in flows {
        if let Some(value) = value(score.measure, &traffic) {
            values.insert(score, value);
        }
    }
    values
}

/// Goodput of each direction that has flows of several kinds: short flows may gain what the
/// transfer beside them loses.
fn all_flows(flows: &BTreeMap<Score, Vec<&Traffic>>) -> BTreeMap<Score, f64> {
    let mut sums: BTreeMap<Score, (f64, u32)> = BTreeMap::new();
    for (score, traffic) in flows {
        let all = Score {
            measure: Measure::AllFlows,
            ..score.clone()
        };
        let (sum, kinds) = sums.entry(all).or_default();
        *sum += traffic.iter().map(|flow| flow.goodput_bps).sum::<f64>();
        *kinds += 1;
    }
    let several = |(score, (sum, kinds))| (kinds > 1).then_some((score, sum));
    sums.into_iter().filter_map(several).collect()
}

fn value(measure: Measure, flows: &[&Traffic]) -> Option<f64> {
    let completions = || flows.iter().filter_map(|flow| flow.completion.as_ref());
    match measure {
        Measure::Goodput => Some(flows.iter().map(|flow| flow.goodput_bps).sum()),
        Measure::ShortFlows | Measure::Exchanges => {
            let speeds: Vec<f64> = completions()
                .map(|it| match it.count {
                    0 => 0.0,
                    _ => 1e6 / it.time_us.p50.max(1e-3),
                })
                .collect();
            let count = speeds.len();
            (count > 0).then(|| speeds.iter().sum::<f64>() / count as f64)
        }
        Measure::ChunksInTime => {
            let all: u64 = completions().map(Completion::due).sum();
            let late: u64 = completions().filter_map(|it| it.late).sum();
            (all > 0).then(|| 1.0 - late as f64 / all as f64)
        }
        Measure::AllFlows | Measure::BothDirections => None,
    }
}
