//! Converts errors of the libraries to exceptions of the package, with the text that the programs print.

use ackwise_scenario::ScenarioError;
use ackwise_sim::SimError;
use ackwise_store::StoreError;
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

/// The module in which Python defines the exceptions.
const MODULE: &str = "ackwise._errors";

/// Creates an exception of the package.
pub fn raise<'py>(py: Python<'py>, class: &str, arguments: impl PyCallArgs<'py>) -> PyErr {
    let made = py
        .import(MODULE)
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1(arguments));
    match made {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// A `ScenarioError` with the places of all mistakes.
pub fn scenario(py: Python<'_>, error: &ScenarioError) -> PyErr {
    let places: Vec<(usize, usize, String)> = error
        .diagnostics()
        .iter()
        .map(|it| (it.line, it.column, it.message.clone()))
        .collect();
    raise(py, "ScenarioError", (error.to_string(), places))
}

/// The exception for an error of the simulator.
pub fn sim(py: Python<'_>, error: &SimError) -> PyErr {
    match error {
        SimError::Invalid(error) => scenario(py, error),
        SimError::TooLarge { .. } => raise(py, "TooLargeError", (error.to_string(),)),
        _ => raise(py, "Error", (error.to_string(),)),
    }
}

/// The exception for an error of a results directory.
pub fn store(py: Python<'_>, error: &StoreError) -> PyErr {
    raise(py, "StoreError", (error.to_string(),))
}
