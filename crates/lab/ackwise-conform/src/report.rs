//! The graded report of several devices: a document, text, or the body of a page.

use std::fmt::Write as _;

use serde::Serialize;

use crate::case::Level;
use crate::judge::{CaseReport, DeviceReport, Finding};

/// The document that `--format json` prints.
#[derive(Debug, Default, Serialize)]
pub struct Document {
    /// Devices that were judged.
    pub devices: Vec<Judged>,
    /// Devices that could not be built, did not start or failed.
    pub broken: Vec<Broken>,
    /// Devices that were not run, with the reason.
    pub not_run: Vec<NotRun>,
}

/// A device, and the cases that it failed.
#[derive(Debug, Serialize)]
pub struct Judged {
    /// Its name.
    pub name: String,
    /// The grade: `conforms`, `careless` or `unsafe`.
    pub outcome: &'static str,
    /// Cases that passed.
    pub passed: usize,
    /// Cases that failed.
    pub failed: Vec<Failed>,
    /// The share of ACKs removed from plain flows, per cent.
    pub thinned_percent: Option<f64>,
    /// The share of ACKs removed from flows with AccECN, per cent.
    pub thinned_accecn_percent: Option<f64>,
}

/// A case that failed.
#[derive(Debug, Serialize)]
pub struct Failed {
    /// Its name.
    pub case: String,
    /// The place that says that this is news.
    pub rfc: String,
    /// What had to happen, and what was lost, late or wrong.
    pub what: String,
    /// `must` or `should`.
    pub level: Level,
    /// Number of failed runs, and number of runs.
    pub runs: [u32; 2],
}

/// A device that should have been judged but could not be.
#[derive(Debug, Serialize)]
pub struct Broken {
    /// Its name.
    pub name: String,
    /// The reason.
    pub error: String,
}

/// A device that was not judged.
#[derive(Debug, Serialize)]
pub struct NotRun {
    /// Its name.
    pub name: String,
    /// The reason.
    pub why: String,
}

fn failed((case, finding): (&CaseReport, &Finding)) -> Failed {
    Failed {
        case: case.case.clone(),
        rfc: case.rfc.clone(),
        what: format!("{}: {}", finding.failure.name(), finding.what),
        level: case.level,
        runs: [case.failed_runs, case.runs],
    }
}

impl Document {
    /// Adds the result of a device.
    pub fn add(&mut self, report: &DeviceReport) {
        let share = |case| {
            let percent: Option<f64> = report.thinned(Some(case));
            percent.map(|it| (it * 10.0).round() / 10.0)
        };
        self.devices.push(Judged {
            name: report.name.clone(),
            outcome: report.outcome().name(),
            passed: report.passed(),
            failed: report.failed().map(failed).collect(),
            thinned_percent: share("plain"),
            thinned_accecn_percent: share("accecn"),
        });
    }

    /// Adds a device that could not be judged.
    pub fn broken(&mut self, name: impl Into<String>, error: impl ToString) {
        self.broken.push(Broken {
            name: name.into(),
            error: error.to_string(),
        });
    }

    /// Adds a device that was not judged.
    pub fn not_run(&mut self, name: impl Into<String>, why: impl ToString) {
        self.not_run.push(NotRun {
            name: name.into(),
            why: why.to_string(),
        });
    }

    /// The rows of the summary: device, grade, cases, musts, shoulds, thinned, with AccECN.
    #[must_use]
    pub fn rows(&self) -> Vec<Vec<String>> {
        let heads = [
            "device",
            "grade",
            "passed",
            "musts failed",
            "shoulds failed",
            "thinned",
            "with AccECN",
        ];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        for it in &self.devices {
            let failed = |level| it.failed.iter().filter(|case| case.level == level).count();
            let share = |percent: Option<f64>| {
                percent.map_or_else(|| "-".to_owned(), |it| format!("{it:.0} %"))
            };
            rows.push(vec![
                it.name.clone(),
                it.outcome.to_owned(),
                it.passed.to_string(),
                failed(Level::Must).to_string(),
                failed(Level::Should).to_string(),
                share(it.thinned_percent),
                share(it.thinned_accecn_percent),
            ]);
        }
        for it in &self.broken {
            let mut row = vec!["-".to_owned(); heads.len()];
            row[0].clone_from(&it.name);
            row[1] = "error".to_owned();
            rows.push(row);
        }
        rows
    }

    /// The failures of each device, the devices that could not be judged, and those that were not
    /// run, as text.
    #[must_use]
    pub fn details(&self) -> String {
        let mut text = String::new();
        for it in self.devices.iter().filter(|it| !it.failed.is_empty()) {
            let _ = writeln!(text, "\n{}", it.name);
            for case in &it.failed {
                let level = match case.level {
                    Level::Must => "must  ",
                    Level::Should => "should",
                };
                let [failed, runs] = case.runs;
                let _ = writeln!(
                    text,
                    "  {level}  {} ({}), {failed} of {runs} runs\n            {}",
                    case.case, case.rfc, case.what
                );
            }
        }
        if !self.broken.is_empty() {
            let _ = writeln!(text, "\nnot judged because of an error");
        }
        for it in &self.broken {
            let _ = writeln!(text, "  {}: {}", it.name, it.error.replace('\n', "\n    "));
        }
        if !self.not_run.is_empty() {
            let _ = writeln!(text, "\nnot run");
        }
        for it in &self.not_run {
            let _ = writeln!(text, "  {}: {}", it.name, it.why.replace('\n', "\n    "));
        }
        text
    }

    /// The body of a page. `escape` makes text safe for HTML.
    #[must_use]
    pub fn html(&self, escape: fn(&str) -> String) -> String {
        let mut body = String::from("<h2>Grades</h2>\n<div class=\"wide\"><table>\n");
        for (number, row) in self.rows().iter().enumerate() {
            let cell = if number == 0 { "th" } else { "td" };
            body.push_str("<tr>");
            for text in row {
                let _ = write!(body, "<{cell}>{}</{cell}>", escape(text));
            }
            body.push_str("</tr>\n");
        }
        body.push_str("</table></div>\n");
        for it in self.devices.iter().filter(|it| !it.failed.is_empty()) {
            let _ = write!(
                body,
                "<h2>{}</h2>\n<div class=\"wide\"><table>\n<tr><th>case</th><th>level</th>\
                 <th>source</th><th>runs</th><th>what</th></tr>\n",
                escape(&it.name)
            );
            for case in &it.failed {
                let level = match case.level {
                    Level::Must => "must",
                    Level::Should => "should",
                };
                let [failed, runs] = case.runs;
                let _ = writeln!(
                    body,
                    "<tr><td>{}</td><td>{level}</td><td>{}</td><td>{failed}/{runs}</td><td>{}</td></tr>",
                    escape(&case.case),
                    escape(&case.rfc),
                    escape(&case.what)
                );
            }
            body.push_str("</table></div>\n");
        }
        if !self.broken.is_empty() {
            body.push_str("<h2>Not judged because of an error</h2>\n<ul>\n");
            for it in &self.broken {
                let (name, error) = (escape(&it.name), escape(&it.error));
                let _ = writeln!(body, "<li>{name}: {error}</li>");
            }
            body.push_str("</ul>\n");
        }
        if !self.not_run.is_empty() {
            body.push_str("<h2>Not run</h2>\n<ul>\n");
            for it in &self.not_run {
                let _ = writeln!(body, "<li>{}: {}</li>", escape(&it.name), escape(&it.why));
            }
            body.push_str("</ul>\n");
        }
        body
    }
}
