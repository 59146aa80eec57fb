//! The data for the page's script: series are thinned, and numbers rounded to what a plot can show.

use std::collections::BTreeMap;

use ackwise_scenario::record::{Report, Run, Series};
use serde::Serialize;

use crate::compare::Comparison;
use crate::draws::Lines;
use crate::draws_html::{DrawsData, draws_data};

/// Maximum number of points of all series together; a few megabytes of JSON.
const POINT_BUDGET: usize = 400_000;
const MAX_POINTS: usize = 400;
const MIN_POINTS: usize = 60;

#[derive(Serialize)]
pub(crate) struct PageData<'a> {
    /// Arms in the order of the runs.
    arms: Vec<&'a str>,
    /// Whether all flows are sent for their completion time.
    only_completes: bool,
    groups: Vec<GroupData<'a>>,
    runs: Vec<RunData<'a>>,
    /// The distributions of drawn points.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    draws: Vec<DrawsData<'a>>,
}

#[derive(Serialize)]
struct GroupData<'a> {
    title: String,
    #[serde(flatten)]
    group: &'a crate::compare::Group,
}

#[derive(Serialize)]
struct RunData<'a> {
    arm: &'a str,
    /// Index into `groups`.
    group: usize,
    seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<BTreeMap<&'static str, Vec<Option<f64>>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    completion: Vec<SizeData>,
}

#[derive(Serialize)]
struct SizeData {
    bytes: u64,
    cdf_ms: Vec<f64>,
}

impl<'a> PageData<'a> {
    pub fn new(
        report: &'a Report,
        comparison: &'a Comparison,
        lines: Option<&'a Lines<'a>>,
    ) -> PageData<'a> {
        let mut arms: Vec<&str> = Vec::new();
        for run in &report.runs {
            if !arms.contains(&run.arm.as_str()) {
                arms.push(&run.arm);
            }
        }
        let points = (POINT_BUDGET / 5 / report.runs.len().max(1)).clamp(MIN_POINTS, MAX_POINTS);
        let groups = comparison
            .groups
            .iter()
            .map(|group| GroupData {
                title: group.title(),
                group,
            })
            .collect();
        let runs = report
            .runs
            .iter()
            .filter_map(|run| run_data(run, comparison, points))
            .collect();
        PageData {
            arms,
            only_completes: comparison.only_completes(),
            groups,
            runs,
            draws: lines.map(draws_data).unwrap_or_default(),
        }
    }
}

fn run_data<'a>(run: &'a Run, comparison: &Comparison, points: usize) -> Option<RunData<'a>> {
    let group = comparison.groups.iter().position(|group| group.has(run))?;
    // With a single flow, an engine may omit the series of the totals.
    let series = run.totals.series.as_ref().or(match run.flows.as_slice() {
        [only] => only.traffic.series.as_ref(),
        _ => None,
    });
    let completion = run.totals.completion.iter().flat_map(|completion| {
        completion.by_size.iter().map(|size| SizeData {
            bytes: size.bytes,
            cdf_ms: thin_plain(&size.cdf_us, 200)
                .into_iter()
                .map(|us| round(us / 1e3))
                .collect(),
        })
    });
    Some(RunData {
        arm: &run.arm,
        group,
        seed: run.seed,
        series: series
            .filter(|s| !s.t_s.is_empty())
            .map(|s| thin(s, points)),
        completion: completion.filter(|size| size.cdf_ms.len() > 1).collect(),
    })
}

/// Thins a series to buckets of equal length; each has the mean of its known values.
fn thin(series: &Series, points: usize) -> BTreeMap<&'static str, Vec<Option<f64>>> {
    let length = series.t_s.len();
    let per_bucket = length.div_ceil(points).max(1);
    let times: Vec<Option<f64>> = series.t_s.iter().copied().map(Some).collect();
    let mut columns = BTreeMap::from([("t_s", last_of_buckets(&times, per_bucket))]);
    let plotted = [
        "goodput_bps",
        "ack_rate_hz",
        "rtt_us",
        "cwnd_segments",
        "ssthresh_segments",
    ];
    for (name, values) in series.columns() {
        if plotted.contains(&name) && values.len() == length {
            columns.insert(name, means_of_buckets(values, per_bucket));
        }
    }
    columns
}

fn last_of_buckets(values: &[Option<f64>], size: usize) -> Vec<Option<f64>> {
    values
        .chunks(size)
        .map(|bucket| bucket.last().copied().flatten().map(round))
        .collect()
}

fn means_of_buckets(values: &[Option<f64>], size: usize) -> Vec<Option<f64>> {
    values
        .chunks(size)
        .map(|bucket| {
            let known: Vec<f64> = bucket
                .iter()
                .flatten()
                .copied()
                .filter(|v| v.is_finite())
                .collect();
            (!known.is_empty()).then(|| round(known.iter().sum::<f64>() / known.len() as f64))
        })
        .collect()
}

/// Evenly spaced values, including the first and the last.
fn thin_plain(values: &[f64], points: usize) -> Vec<f64> {
    if values.len() <= points {
        return values.to_vec();
    }
    let last = points - 1;
    (0..=last)
        .map(|i| values[i * (values.len() - 1) / last])
        .collect()
}

/// Rounds to five significant digits.
fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(4 - value.abs().log10().floor() as i32);
    if scale.is_finite() && scale > 0.0 {
        (value * scale).round() / scale
    } else {
        value
    }
}

/// JSON that can be embedded in a `<script>`: it has no `<` and no line terminators of JavaScript.
///
/// # Errors
///
/// A value cannot be represented in JSON.
pub fn embed<T: Serialize>(data: &T) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string(data)?
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_thinned_to_means() {
        let series = Series {
            t_s: (1..=1000).map(|i| f64::from(i) / 10.0).collect(),
            goodput_bps: (1..=1000).map(|i| Some(f64::from(i))).collect(),
            ssthresh_segments: vec![None; 1000],
            rtt_us: vec![Some(1.0); 3],
            ..Series::default()
        };
        let thinned = thin(&series, 400);
        assert_eq!(thinned["t_s"].len(), 334);
        assert_eq!(thinned["t_s"][0], Some(0.3));
        assert_eq!(thinned["goodput_bps"][0], Some(2.0));
        assert_eq!(thinned["goodput_bps"].len(), 334);
        assert_eq!(thinned["ssthresh_segments"][0], None);
        assert!(
            !thinned.contains_key("rtt_us"),
            "too short to belong to t_s"
        );
    }

    #[test]
    fn numbers_are_rounded_and_scripts_cannot_be_closed() {
        assert_eq!(round(123_456.7), 123_460.0);
        assert_eq!(round(0.000_123_456), 0.000_123_46);
        assert_eq!(round(-1.0), -1.0);
        assert_eq!(round(f64::MIN_POSITIVE), f64::MIN_POSITIVE);
        let text = embed(&"</script><!--\u{2028}").unwrap();
        assert!(!text.contains('<') && !text.contains('\u{2028}'), "{text}");
        let back: String = serde_json::from_str(&text).unwrap();
        assert_eq!(back, "</script><!--\u{2028}");
    }
}
