//! A figure of a paper, drawn from our own numbers.

use serde::Serialize;

/// Lines over a common x axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Unique within its paper; the page's anchor.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What the paper's figure shows, and what ours shows.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Line>,
}

impl Figure {
    /// An empty figure.
    pub fn new(id: &str, title: &str, x: Axis, y: Axis) -> Figure {
        Figure {
            id: id.to_owned(),
            title: title.to_owned(),
            caption: String::new(),
            x,
            y,
            series: Vec::new(),
        }
    }

    /// Sets the caption.
    pub fn caption(mut self, caption: impl Into<String>) -> Figure {
        self.caption = caption.into();
        self
    }

    /// Adds a line.
    pub fn line(mut self, line: Line) -> Figure {
        self.series.push(line);
        self
    }

    /// Adds lines.
    pub fn lines(mut self, lines: impl IntoIterator<Item = Line>) -> Figure {
        self.series.extend(lines);
        self
    }
}

/// An axis of a figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Axis {
    /// Quantity and unit, e.g. `time, s`.
    pub label: String,
    /// Whether the axis is logarithmic.
    pub log: bool,
    /// Where a linear `y` axis begins if no value is smaller. Without it, such an axis of positive
    /// values begins at 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin: Option<f64>,
}

impl Axis {
    /// A linear axis.
    pub fn new(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            log: false,
            begin: None,
        }
    }

    /// Sets where the axis begins instead of at 0.
    pub fn begins_at(mut self, begin: f64) -> Axis {
        self.begin = Some(begin);
        self
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            log: true,
            begin: None,
        }
    }
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// A line through the points.
    Line,
    /// A dashed line, for what the paper printed.
    Published,
    /// Steps: a value holds until the next.
    Steps,
    /// Points without a line.
    Points,
}

/// Named points in ascending x.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// How it is drawn.
    pub style: Style,
    /// The x values, ascending.
    pub x: Vec<f64>,
    /// The y values, as many as `x`; `None` is a gap.
    pub y: Vec<Option<f64>>,
    /// Lower and upper edge of a band around the line, as many as `x`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub band: Option<(Vec<f64>, Vec<f64>)>,
    /// Lower and upper end of an error bar at each point, as many as `x`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bars: Option<(Vec<f64>, Vec<f64>)>,
}

impl Line {
    /// A line from points; values that are not finite leave a gap.
    pub fn new(name: &str, style: Style, points: impl IntoIterator<Item = (f64, f64)>) -> Line {
        let (x, y) = points
            .into_iter()
            .filter(|(x, _)| x.is_finite())
            .map(|(x, y)| (x, y.is_finite().then_some(y)))
            .unzip();
        Line {
            name: name.to_owned(),
            style,
            x,
            y,
            band: None,
            bars: None,
        }
    }

    /// Adds a band from low to high.
    pub fn band(mut self, edges: impl IntoIterator<Item = (f64, f64)>) -> Line {
        self.band = self.edges(edges);
        self
    }

    /// Adds an error bar from low to high at each point.
    pub fn bars(mut self, ends: impl IntoIterator<Item = (f64, f64)>) -> Line {
        self.bars = self.edges(ends);
        self
    }

    /// A finite pair for each point; otherwise `None`.
    fn edges(&self, pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<(Vec<f64>, Vec<f64>)> {
        let (low, high): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let fits = low.len() == self.x.len() && low.iter().chain(&high).all(|v| v.is_finite());
        fits.then_some((low, high))
    }

    /// Thins the line to about `most` points: each stretch keeps its minimum and maximum, in their
    /// original order.
    pub fn thin(self, most: usize) -> Line {
        let per = self.x.len().div_ceil((most / 2).max(1));
        if per <= 2 || self.band.is_some() || self.bars.is_some() {
            return self;
        }
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for (xs, ys) in self.x.chunks(per).zip(self.y.chunks(per)) {
            let known = || (0..ys.len()).filter_map(|i| Some((i, ys[i]?)));
            let low = known().min_by(|a, b| a.1.total_cmp(&b.1));
            let high = known().max_by(|a, b| a.1.total_cmp(&b.1));
            let mut kept: Vec<usize> = [low, high].iter().flatten().map(|(i, _)| *i).collect();
            kept.sort_unstable();
            kept.dedup();
            if kept.is_empty() {
                kept.push(0);
            }
            for i in kept {
                x.push(xs[i]);
                y.push(ys[i]);
            }
        }
        Line { x, y, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_peaks_and_gaps() {
        let points = (0..10_000).map(|i| (f64::from(i), if i == 4_321 { 99.0 } else { 1.0 }));
        let thin = Line::new("a", Style::Line, points).thin(100);
        assert!(thin.x.len() <= 100, "{}", thin.x.len());
        assert!(thin.y.contains(&Some(99.0)));
        assert!(thin.x.is_sorted());
        let gap = Line::new(
            "b",
            Style::Line,
            (0..1000).map(|i| (f64::from(i), f64::NAN)),
        )
        .thin(10);
        assert!(gap.y.iter().all(Option::is_none) && !gap.x.is_empty());
    }

    #[test]
    fn a_band_that_does_not_fit_is_left_out() {
        let line = Line::new("a", Style::Line, [(1.0, 2.0)]);
        assert_eq!(line.clone().band([]).band, None);
        assert_eq!(line.clone().band([(f64::NAN, 1.0)]).band, None);
        assert_eq!(line.clone().bars([(0.0, 1.0), (0.0, 1.0)]).bars, None);
        let both = line.band([(0.0, 1.0)]).bars([(1.5, 2.5)]);
        assert_eq!(both.band, Some((vec![0.0], vec![1.0])));
        assert_eq!(both.bars, Some((vec![1.5], vec![2.5])));
    }
}
