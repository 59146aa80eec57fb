//! Scenarios for Python.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ackwise_config::units;
use ackwise_radio::scenario::RadioScenario;
use ackwise_scenario::trace::TraceFiles;
use ackwise_scenario::{Engine, Filter, ScenarioError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::results::Record;
use crate::run::{self, Limits, Policies};
use crate::{errors, number, toml};

/// The bound of the program's `--duration`: what runs for longer than a day is a service.
const MAX_DURATION: Duration = Duration::from_secs(86_400);
/// The bound of the program's `--jobs`.
const MAX_JOBS: usize = u16::MAX as usize;

/// A scenario, checked.
#[pyclass(frozen, module = "ackwise._native")]
pub struct Scenario {
    checked: Arc<ackwise_scenario::Scenario>,
    /// The file has this text.
    #[pyo3(get)]
    as_in_file: bool,
}

impl Scenario {
    /// The scenario as the libraries represent it.
    pub fn checked(&self) -> &Arc<ackwise_scenario::Scenario> {
        &self.checked
    }

    /// Checks the policies as well, as the program does before it runs a scenario.
    fn new(
        py: Python<'_>,
        checked: Result<ackwise_scenario::Scenario, ScenarioError>,
        as_in_file: bool,
    ) -> PyResult<Self> {
        let checked = checked.and_then(|it| match it.policy_mistakes().into_iter().next() {
            Some(error) => Err(error),
            None => Ok(it),
        });
        Ok(Self {
            checked: Arc::new(checked.map_err(|e| errors::scenario(py, &e))?),
            as_in_file,
        })
    }
}

fn engine(name: &str) -> PyResult<Engine> {
    name.parse()
        .map_err(|e: ackwise_scenario::UnknownEngine| PyValueError::new_err(e.to_string()))
}

/// The error for a radio scenario.
fn radio(py: Python<'_>, path: &Path) -> PyErr {
    let text = format!(
        "{}: this is a scenario of low-power radio, which cannot be run from Python\n  \
         run it with `ackwise-lab run`",
        path.display()
    );
    let none: Vec<(usize, usize, String)> = Vec::new();
    errors::raise(py, "ScenarioError", (text, none))
}

#[pymethods]
impl Scenario {
    /// Reads and checks a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let read = ackwise_scenario::Scenario::load(&path);
        if read.is_err()
            && std::fs::read_to_string(&path).is_ok_and(|it| RadioScenario::is_meant(&it))
        {
            return Err(radio(py, &path));
        }
        Self::new(py, read, true)
    }

    /// Checks a text; errors show `name` as the file. Of the traces, those that are not given are
    /// read beside it.
    #[staticmethod]
    #[pyo3(signature = (text, name, traces=None))]
    fn from_toml(
        py: Python<'_>,
        text: &str,
        name: PathBuf,
        traces: Option<BTreeMap<String, String>>,
    ) -> PyResult<Self> {
        let files = TraceFiles::beside(&name).with_texts(traces.unwrap_or_default());
        let read = ackwise_scenario::Scenario::parse_with(&name, text, &files);
        if read.is_err() && RadioScenario::is_meant(text) {
            return Err(radio(py, &name));
        }
        Self::new(py, read, false)
    }

    /// Checks a dict of the same layout.
    #[staticmethod]
    fn from_dict(py: Python<'_>, dict: &Bound<'_, PyDict>, name: PathBuf) -> PyResult<Self> {
        Self::from_toml(py, &toml::document(dict)?.to_string(), name, None)
    }

    /// A copy with other values, by their paths.
    fn with_values(&self, py: Python<'_>, changes: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut items = Vec::new();
        for (path, value) in changes {
            let path: String = path.extract()?;
            let item = match value.is_none() {
                true => None,
                false => Some(toml::item(&value, &path)?),
            };
            items.push((path, item));
        }
        let items = items.iter().map(|(path, it)| (path.as_str(), it.clone()));
        Self::new(py, self.checked.with_values(items), false)
    }

    /// A copy with another duration, as `--duration` of the program takes it.
    fn with_duration(&self, py: Python<'_>, text: &str) -> PyResult<Self> {
        let duration = units::time(text).map_err(PyValueError::new_err)?;
        if duration.is_zero() || duration > MAX_DURATION {
            let why = "a duration must be more than 0 and at most 24 h";
            return Err(PyValueError::new_err(why));
        }
        let changed = self.checked.with_duration(duration);
        Ok(Self {
            checked: Arc::new(changed.map_err(|e| errors::scenario(py, &e))?),
            as_in_file: false,
        })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.checked.name
    }

    #[getter]
    fn about(&self) -> &str {
        &self.checked.about
    }

    #[getter]
    fn duration_s(&self) -> f64 {
        self.checked.duration.as_secs_f64()
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.checked.source.path.clone()
    }

    #[getter]
    fn text(&self) -> &str {
        &self.checked.source.text
    }

    #[getter]
    fn arms(&self) -> Vec<&str> {
        self.checked
            .arms
            .iter()
            .map(|it| it.name.as_str())
            .collect()
    }

    #[getter]
    fn cc(&self) -> Vec<String> {
        self.checked.sweep.cc.clone()
    }

    #[getter]
    fn seeds(&self) -> Vec<u64> {
        self.checked.sweep.seeds.clone()
    }

    /// The names and texts of the traces that it reads.
    fn traces(&self) -> BTreeMap<String, String> {
        self.checked.files.texts()
    }

    /// The ids of the selected runs.
    fn select(
        &self,
        py: Python<'_>,
        on: &str,
        cc: Vec<String>,
        arms: Vec<String>,
        seeds: Vec<String>,
        points: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<String>> {
        let points = points.iter().map(|it| number::whole(it, "point", u32::MAX));
        let filter = Filter {
            arms,
            cc,
            seeds,
            points: points.collect::<PyResult<_>>()?,
            engine: None,
        };
        let runs = self.checked.select_on(engine(on)?, filter);
        runs.map_err(|e| errors::scenario(py, &e))
    }

    /// Runs `only` on the simulator. `progress` is called with what happened, the id and index of
    /// the run, the number of runs, and the simulated seconds. Each of `policies` is an arm, a name
    /// for the record, and a callable that makes an object for each flow.
    #[expect(
        clippy::too_many_arguments,
        reason = "as Python calls it, by their names"
    )]
    #[pyo3(signature = (only, *, jobs, max_events, max_memory, policies, progress=None))]
    fn simulate(
        &self,
        py: Python<'_>,
        only: Vec<String>,
        jobs: &Bound<'_, PyAny>,
        max_events: &Bound<'_, PyAny>,
        max_memory: &Bound<'_, PyAny>,
        policies: Policies,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Record> {
        let limits = Limits {
            jobs: number::whole(jobs, "jobs", MAX_JOBS)?,
            max_events: number::whole(max_events, "max_events", u64::MAX)?,
            max_memory: number::whole(max_memory, "max_memory", u64::MAX)?,
        };
        let observer = progress.as_ref();
        run::simulate(py, &self.checked, only, &limits, policies, observer).map(Record::new)
    }
}
