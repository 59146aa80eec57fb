//! The results of runs.

use ackwise_radio::scenario::RadioReport;
use ackwise_report::TableOptions;
use ackwise_scenario::record::Report;
use arrow_schema::ArrowError;
use pyo3::prelude::*;

use crate::builder;
use crate::errors;
use crate::table::Table;

/// The record of runs.
#[pyclass(frozen, module = "ackwise._native")]
pub struct Record {
    report: Report,
}

impl Record {
    /// The record of this report.
    pub fn new(report: Report) -> Self {
        Self { report }
    }
}

#[pymethods]
impl Record {
    /// From the JSON that the program writes.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        let report = Report::from_json(text);
        // A radio record may look like a link record without runs.
        let empty = report.as_ref().map_or(true, |it| it.runs.is_empty());
        if empty && RadioReport::is_meant(text) {
            let why = "this is a record of low-power radio, whose runs have no tables in Python\n  \
                       `ackwise-lab report` shows it";
            return Err(errors::raise(py, "Error", (why,)));
        }
        report
            .map(Self::new)
            .map_err(|e| errors::raise(py, "Error", (e.to_string(),)))
    }

    /// The JSON that the program writes.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        let text = self.report.to_json();
        text.map_err(|e| errors::raise(py, "Error", (e.to_string(),)))
    }

    /// The page with plots that the program writes.
    fn to_html(&self) -> String {
        ackwise_report::html(&self.report)
    }

    /// The comparison that the program prints.
    fn comparison(&self) -> String {
        ackwise_report::table(&self.report, &TableOptions::default())
    }

    #[getter]
    fn engine(&self) -> &str {
        &self.report.engine
    }

    #[getter]
    fn version(&self) -> &str {
        &self.report.version
    }

    #[getter]
    fn scenario(&self) -> &str {
        &self.report.scenario.name
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.report.notes.clone()
    }

    /// The ids of the runs, each with its errors.
    fn errors(&self) -> Vec<(&str, Vec<String>)> {
        let runs = self.report.runs.iter();
        runs.map(|run| (run.id.as_str(), run.errors.clone()))
            .collect()
    }

    fn __len__(&self) -> usize {
        self.report.runs.len()
    }

    /// One of its tables.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let says = |e: ArrowError| match e {
            ArrowError::InvalidArgumentError(text) => text,
            other => other.to_string(),
        };
        builder::table(&self.report, name)
            .map(Table::new)
            .map_err(|e| errors::raise(py, "Error", (says(e),)))
    }

    /// The names of its tables.
    #[staticmethod]
    fn tables() -> Vec<&'static str> {
        ackwise_scenario::tables::TABLES.to_vec()
    }
}
