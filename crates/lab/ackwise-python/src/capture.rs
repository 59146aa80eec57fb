//! The Python side of `ackwise analyze`.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::PathBuf;

use ackwise_analyze::{Analysis, Analyzer, LinkType, Options, default_policies, read};
use ackwise_config::uplink;
use ackwise_policy::Config;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;

use crate::{errors, policy};

/// The result for a capture, as the program prints it for a file.
#[derive(Serialize)]
struct Finding {
    file: String,
    cut_at: Option<u64>,
    #[serde(flatten)]
    analysis: Analysis,
}

/// The source of a capture.
#[derive(FromPyObject)]
pub enum Source {
    /// A capture in memory.
    Bytes(Vec<u8>),
    /// A capture file.
    Path(PathBuf),
}

fn rate(name: &str, text: Option<String>) -> PyResult<Option<u64>> {
    let rate = text.map(|text| uplink::rate(&text)).transpose();
    rate.map_err(|why| PyValueError::new_err(format!("{name}: {why}")))
}

/// The cost of the ACKs in a capture, as JSON. `name` is shown for a capture in memory.
#[pyfunction]
#[pyo3(signature = (source, *, name, policies=None, up=None, down=None, wifi=None))]
pub fn analyze(
    py: Python<'_>,
    source: Source,
    name: String,
    policies: Option<Vec<String>>,
    up: Option<String>,
    down: Option<String>,
    wifi: Option<String>,
) -> PyResult<String> {
    let configs = policies.map(|all| all.iter().map(|it| policy::config(py, it)).collect());
    let configs: Option<PyResult<Vec<Config>>> = configs;
    let options = Options {
        policies: configs.transpose()?.unwrap_or_else(default_policies),
        up_bps: rate("up", up)?,
        down_bps: rate("down", down)?,
        wifi_bps: rate("wifi", wifi)?,
    };
    let refused = |what: String| errors::raise(py, "CaptureError", (what,));
    let (file, opened): (String, Box<dyn Read + Send>) = match source {
        Source::Bytes(bytes) => (name, Box::new(Cursor::new(bytes))),
        Source::Path(path) => {
            let file = path.display().to_string();
            if path.is_dir() {
                let why = format!("{file}: it is a directory\n  name the capture files in it");
                return Err(refused(why));
            }
            let opened = File::open(&path).map_err(|e| refused(format!("{file}: {e}")))?;
            (file, Box::new(opened))
        }
    };
    let (end, analysis) = py.detach(|| {
        let mut analyzer = Analyzer::new(options);
        let end = read(opened, &mut |packet| analyzer.packet(packet));
        (end, analyzer.finish())
    });
    let end = end.map_err(|error| {
        let advice = error.advice().map(|it| format!("\n  {it}"));
        refused(format!("{file}: {error}{}", advice.unwrap_or_default()))
    })?;
    if let Some(link) = analysis.only_unsupported() {
        let supported = LinkType::SUPPORTED;
        return Err(refused(format!(
            "{file}: frames of link type {link} are not read\n  capture one of these: {supported}"
        )));
    }
    let finding = Finding {
        file,
        cut_at: end.cut_at,
        analysis,
    };
    serde_json::to_string(&finding).map_err(|e| PyValueError::new_err(e.to_string()))
}
