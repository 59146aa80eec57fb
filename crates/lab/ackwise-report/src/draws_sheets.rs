//! The tables of drawn points, in words and numbers, for a terminal and for a page.

use ackwise_scenario::BASELINE;
use ackwise_scenario::record::nearest_rank;

use crate::draws::{Against, Line, Lines, Ratio, Score};

/// Percentiles of a distribution of ratios.
const PERCENTILES: [u32; 6] = [5, 10, 25, 50, 75, 90];

/// The row of the baseline compared with itself.
const CHANCE: &str = "chance";

/// The row for what could be gained by knowing the line.
const HINDSIGHT: &str = "hindsight";

/// Number of worst lines listed for each arm.
const MAX_WORST_LINES: usize = 2;

/// Ratios of at least this are no loss worth listing.
const NO_LOSS_RATIO: f64 = 0.97;

/// A table of text cells.
#[derive(Debug)]
pub(crate) struct Sheet {
    /// The title after the score.
    pub title: String,
    /// Headings of the first column and of the numbers.
    pub heads: Vec<String>,
    pub rows: Vec<Row>,
}

/// A row of a table.
#[derive(Debug)]
pub(crate) struct Row {
    pub name: String,
    /// Whether the name is an arm's.
    pub is_arm: bool,
    pub cells: Vec<String>,
}

/// A line on which an arm does worse than its reference.
#[derive(Debug)]
pub(crate) struct Worst<'a> {
    pub arm: &'a str,
    pub ratio: String,
    /// The reference, and the score.
    pub against: String,
    pub score: String,
    pub point: u32,
    /// The point in words.
    pub words: String,
}

/// The heading of the tables.
pub(crate) fn heading(lines: &Lines<'_>) -> String {
    let repeats = match lines.draw.repeats {
        1 => String::new(),
        repeats => format!(
            " Each line was run {repeats} times, and its means count; \"{CHANCE}\" is the baseline \
             of the odd repeats compared with that of the even ones."
        ),
    };
    let rivals = lines.against().len() > 1;
    let hindsight = match lines.draw.repeats > 1 && rivals {
        false => String::new(),
        true => format!(
            " \"{HINDSIGHT}\" is the best arm of the odd repeats compared with the best one of the even \
             ones: what knowing the line would bring, by half of the repeats."
        ),
    };
    let alone = match lines.arms.as_slice() {
        [only] => format!(
            " There are only results of '{only}', so there is nothing to compare; run other arms, \
             too."
        ),
        _ => String::new(),
    };
    format!(
        "{} lines of points drawn with seed {}. Ratios are formed on the same line: 1 is equal, \
         more is better.{repeats}{hindsight}{alone}",
        lines.lines.len(),
        lines.draw.seed
    )
}

fn ratio_text(ratio: f64) -> String {
    match ratio.is_finite() {
        true => format!("{ratio:.2}"),
        false => "∞".to_owned(),
    }
}

fn quantile(ratios: &[Ratio<'_>], percent: u32) -> f64 {
    let sorted: Vec<f64> = ratios.iter().map(|it| it.ratio).collect();
    nearest_rank(&sorted, f64::from(percent) / 100.0)
}

/// The ratios of all arms, one row per arm.
pub(crate) fn distribution(lines: &Lines<'_>, score: &Score, against: &Against) -> Sheet {
    let percentiles = PERCENTILES.map(|percent| format!("p{percent}"));
    let heads = ["arm", "lines", "min"].map(str::to_owned);
    let mut rows = Vec::new();
    let mut add = |name: &str, is_arm: bool, ratios: &[Ratio<'_>]| {
        let Some(least) = ratios.first() else {
            return;
        };
        let percentiles = PERCENTILES.map(|percent| ratio_text(quantile(ratios, percent)));
        let first = [ratios.len().to_string(), ratio_text(least.ratio)];
        rows.push(Row {
            name: name.to_owned(),
            is_arm,
            cells: first.into_iter().chain(percentiles).collect(),
        });
    };
    if let Against::Best(_) = against {
        add(HINDSIGHT, false, &lines.halves(score, against));
    }
    for arm in &lines.arms {
        if *arm == BASELINE && *against == Against::Baseline {
            add(CHANCE, false, &lines.halves(score, against));
        } else {
            add(arm, true, &lines.ratios(score, arm, against, &|_| true));
        }
    }
    Sheet {
        title: against.title(),
        heads: heads.into_iter().chain(percentiles).collect(),
        rows,
    }
}

/// The ratios to the baseline and to the first set of rivals, grouped by a name of the points;
/// empty if all lines have the same value.
pub(crate) fn grouped(lines: &Lines<'_>, score: &Score, name: &str) -> Vec<Sheet> {
    let of_score = lines
        .lines
        .iter()
        .filter(|line| line.value(score, BASELINE).is_some());
    let mut values: Vec<&str> = of_score.filter_map(|line| line.drawn(name)).collect();
    values.sort_unstable();
    values.dedup();
    if values.len() < 2 {
        return Vec::new();
    }
    let arms = lines.arms.iter().copied();
    let arms: Vec<&str> = arms.filter(|arm| *arm != BASELINE).collect();
    if lines.is_of_one_arm() {
        return Vec::new();
    }
    let sheet = |against: &Against| {
        let row = |value: &&str| {
            let of_value = |line: &Line<'_>| line.drawn(name) == Some(value);
            let mut most = 0;
            let cells: Vec<String> = arms
                .iter()
                .map(|arm| {
                    let ratios = lines.ratios(score, arm, against, &of_value);
                    most = most.max(ratios.len());
                    ratios.first().map_or(String::new(), |least| {
                        let median = ratio_text(quantile(&ratios, 50));
                        format!("{median} ({})", ratio_text(least.ratio))
                    })
                })
                .collect();
            Row {
                name: (*value).to_owned(),
                is_arm: false,
                cells: std::iter::once(most.to_string()).chain(cells).collect(),
            }
        };
        let heads = [name, "lines"].into_iter().chain(arms.iter().copied());
        Sheet {
            title: format!("{} by {name}: median (min)", against.title()),
            heads: heads.map(str::to_owned).collect(),
            rows: values.iter().map(row).collect(),
        }
    };
    lines.against().iter().take(2).map(sheet).collect()
}

/// The worst lines of each arm, relative to the baseline and to the first set of rivals.
pub(crate) fn worst<'a>(lines: &'a Lines<'_>) -> Vec<Worst<'a>> {
    let mut found = Vec::new();
    for arm in lines.arms.iter().filter(|arm| **arm != BASELINE) {
        for score in lines.scores() {
            for against in lines.against().iter().take(2) {
                let ratios = lines.ratios(score, arm, against, &|_| true);
                let lost = ratios.iter().take_while(|it| it.ratio < NO_LOSS_RATIO);
                found.extend(
                    lost.take(MAX_WORST_LINES)
                        .map(|Ratio { ratio, line }| Worst {
                            arm,
                            ratio: ratio_text(*ratio),
                            against: against.title(),
                            score: score.title(),
                            point: line.run.draw.unwrap_or_default(),
                            words: line.words(),
                        }),
                );
            }
        }
    }
    found
}

/// The arguments that run a single point, with `N` for its number.
pub(crate) fn point_alone(lines: &Lines<'_>) -> String {
    // The same number of repeats as here, whatever the file says.
    let repeats = match lines.draw.redrawn.is_empty() {
        true => String::new(),
        false => format!(" --repeats {}", lines.draw.repeats),
    };
    format!("--draw-seed {}{repeats} --point N", lines.draw.seed)
}
