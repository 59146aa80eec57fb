//! Groups runs by what they have in common, and compares each arm with the baseline.

use std::collections::{BTreeMap, BTreeSet};

use ackwise_scenario::record::{Report, Run};
use ackwise_scenario::{BASELINE, Metric, REPEAT};
use serde::Serialize;

/// All groups of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The groups, in the order of the runs.
    pub groups: Vec<Group>,
    /// Whether a flow of a run has no completion times, such as bulk data beside short flows.
    #[serde(skip)]
    mixed: bool,
    /// The least and the greatest number of seeds of a row; they differ if runs are missing.
    #[serde(skip)]
    seeds: Option<(usize, usize)>,
}

impl Comparison {
    /// Whether all flows are sent for their completion time, so that goodput adds no information.
    pub(crate) fn only_completes(&self) -> bool {
        let mut rows = self.groups.iter().flat_map(|group| &group.rows);
        !self.mixed && rows.all(|row| row.value(Metric::CompletionP50).is_some())
    }

    /// What tables say about the seeds of their rows; nothing if each row has one.
    pub(crate) fn seeds_text(&self) -> Option<String> {
        match self.seeds? {
            (_, 0..=1) => None,
            (least, most) if least == most => Some(format!("{most} seeds")),
            (least, most) => Some(format!("{least} to {most} seeds (some runs are missing)")),
        }
    }

    /// The name of a row's arm in tables, with its number of seeds if others have more.
    pub(crate) fn arm_title(&self, row: &Row) -> String {
        match self.seeds {
            Some((_, most)) if row.runs < most => {
                let plural = if row.runs == 1 { "" } else { "s" };
                format!("{} ({} seed{plural})", row.arm, row.runs)
            }
            _ => row.arm.clone(),
        }
    }

    /// The number of columns to skip: the first two columns of tables are goodput and its ratio.
    pub(crate) fn goodput_columns_to_skip(&self) -> usize {
        if self.only_completes() { 2 } else { 0 }
    }
}

/// Runs that differ only in arm and seed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Congestion control.
    pub cc: String,
    /// The number of the drawn point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draw: Option<u32>,
    /// Varied values.
    pub point: BTreeMap<String, String>,
    /// The varied values in the title, each with its label there.
    #[serde(skip)]
    pub titled: Vec<(String, String)>,
    /// One row per arm, in the order of the runs.
    pub rows: Vec<Row>,
}

impl Group {
    /// The title: `cubic`, or `cubic · loss 1 %` if something is varied, with more of the path if
    /// several paths end in the same key. A drawn point has its number, its repeat, and what is
    /// swept besides.
    pub fn title(&self) -> String {
        let mut title = self.cc.clone();
        if let Some(number) = self.draw {
            title.push_str(&format!(" · point {number}"));
        }
        for (path, key) in &self.titled {
            let value = self.point.get(path).map_or("", String::as_str);
            title.push_str(&format!(" · {key} {value}"));
        }
        title
    }

    /// Whether a run belongs to this group.
    pub(crate) fn has(&self, run: &Run) -> bool {
        (&self.cc, self.draw, &self.point) == (&run.cc, run.draw, &run.point)
    }

    /// The row of an arm.
    pub fn row(&self, arm: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.arm == arm)
    }
}

/// An arm over its seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Name of the arm.
    pub arm: String,
    /// Number of runs (seeds).
    pub runs: usize,
    /// Number of runs with errors or wrong content.
    pub failed: usize,
    /// The value of each metric that at least one run has, by name.
    pub values: BTreeMap<&'static str, Stat>,
    /// Each metric's ratio to the baseline's run with the same seed.
    pub ratios: BTreeMap<&'static str, Stat>,
}

impl Row {
    /// The median over seeds.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        self.stat(metric).map(|stat| stat.median)
    }

    /// The median and spread over seeds.
    pub fn stat(&self, metric: Metric) -> Option<Stat> {
        self.values.get(metric.name()).copied()
    }

    /// The ratio to the baseline: median and spread over seeds.
    pub fn ratio(&self, metric: Metric) -> Option<Stat> {
        self.ratios.get(metric.name()).copied()
    }
}

/// The distribution of a number over several seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stat {
    /// Median; for an even number of values, the mean of the middle two. Like the other values it
    /// is infinite for a ratio to a baseline of zero, which JSON shows as `null`.
    pub median: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Number of values.
    pub count: usize,
}

impl Stat {
    /// Summarizes values in any order; NaN is left out.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Stat> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|v| !v.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let count = sorted.len();
        let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
        Some(Stat {
            median,
            min,
            max,
            count,
        })
    }
}

/// Whether a run's numbers can be trusted.
pub(crate) fn failed(run: &Run) -> bool {
    let wrong = |content: &Option<ackwise_scenario::record::Content>| {
        content.as_ref().is_some_and(|content| !content.ok)
    };
    !run.errors.is_empty()
        || wrong(&run.totals.content)
        || run.flows.iter().any(|flow| wrong(&flow.traffic.content))
}

/// The ratio of two values; 1 if both are zero, infinite if only `base` is.
pub(crate) fn ratio(value: f64, base: f64) -> f64 {
    match base > 0.0 {
        true => value / base,
        false if value > 0.0 => f64::INFINITY,
        false => 1.0,
    }
}

/// Groups the runs and computes ratios to `baseline`. Ratios are computed seed by seed, so that
/// effects of a seed on both cancel out.
pub fn compare(report: &Report) -> Comparison {
    let mut groups: Vec<(Group, Vec<Vec<&Run>>)> = Vec::new();
    for run in &report.runs {
        let at = groups.iter().position(|(group, _)| group.has(run));
        let index = at.unwrap_or_else(|| {
            let group = Group {
                cc: run.cc.clone(),
                draw: run.draw,
                point: run.point.clone(),
                titled: Vec::new(),
                rows: Vec::new(),
            };
            groups.push((group, Vec::new()));
            groups.len() - 1
        });
        let arms = &mut groups[index].1;
        match arms.iter_mut().find(|runs| runs[0].arm == run.arm) {
            Some(runs) => runs.push(run),
            None => arms.push(vec![run]),
        }
    }
    let mut groups: Vec<Group> = groups
        .into_iter()
        .map(|(mut group, arms)| {
            let baseline = arms.iter().find(|runs| runs[0].arm == BASELINE);
            group.rows = arms.iter().map(|runs| row(runs, baseline)).collect();
            group
        })
        .collect();
    let swept = swept(&groups);
    for group in &mut groups {
        let paths = group.point.keys();
        let all = group.draw.is_none();
        let wanted = |path: &&String| all || *path == REPEAT || swept.contains(*path);
        let titled: Vec<&String> = paths.filter(wanted).collect();
        let named = titled.iter().map(|path| {
            let others = titled.iter().filter(|other| other != &path);
            ((*path).clone(), short(path, others).to_owned())
        });
        group.titled = named.collect();
    }
    let mut flows = report.runs.iter().flat_map(|run| &run.flows);
    let mixed = flows.any(|flow| flow.traffic.completion.is_none());
    let rows = groups.iter().flat_map(|group| &group.rows);
    let counts = rows.map(|row| row.runs);
    let seeds = counts.clone().min().zip(counts.max());
    Comparison {
        groups,
        mixed,
        seeds,
    }
}

/// The shortest tail of a path that distinguishes it from the others.
fn short<'a, 'b>(path: &'a str, others: impl Iterator<Item = &'b &'b String> + Clone) -> &'a str {
    let ends = path.rmatch_indices('.').map(|(dot, _)| &path[dot + 1..]);
    let alone = |end: &&str| {
        let same = |other: &&&String| other.strip_suffix(end).is_some_and(|it| it.ends_with('.'));
        !others.clone().any(|other| same(&other))
    };
    ends.into_iter().find(alone).unwrap_or(path)
}

/// The paths that are swept besides the draws: the same repeat of the same point has the same drawn
/// values.
fn swept(groups: &[Group]) -> BTreeSet<String> {
    let mut swept = BTreeSet::new();
    let mut firsts: BTreeMap<(u32, Option<&String>), &Group> = BTreeMap::new();
    for group in groups {
        let Some(number) = group.draw else { continue };
        let same = (number, group.point.get(REPEAT));
        let first = firsts.entry(same).or_insert(group);
        let differs = |(path, value): &(&String, &String)| first.point.get(*path) != Some(value);
        let paths = group.point.iter().filter(differs);
        swept.extend(paths.map(|(path, _)| path.clone()));
    }
    swept
}

fn row(runs: &[&Run], baseline: Option<&Vec<&Run>>) -> Row {
    let mut values = BTreeMap::new();
    let mut ratios = BTreeMap::new();
    for (metric, name) in Metric::ALL {
        if let Some(stat) = Stat::of(runs.iter().filter_map(|run| metric.of(run))) {
            values.insert(name, stat);
        }
        let pairs = runs.iter().filter_map(|run| {
            let base = baseline?.iter().find(|base| base.seed == run.seed)?;
            Some(ratio(metric.of(run)?, metric.of(base)?))
        });
        if let Some(stat) = Stat::of(pairs) {
            ratios.insert(name, stat);
        }
    }
    Row {
        arm: runs[0].arm.clone(),
        runs: runs.len(),
        failed: runs.iter().filter(|run| failed(run)).count(),
        values,
        ratios,
    }
}
