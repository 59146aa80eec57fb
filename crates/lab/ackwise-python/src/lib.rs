//! The Rust part of the Python package `ackwise`: scenarios, the simulator, records as Arrow
//! tables, policies and captures. Its users see `python/ackwise/`.
#![deny(unsafe_code)]

mod builder;
mod capture;
mod errors;
mod number;
mod own_policy;
mod policy;
mod results;
mod run;
mod scenario;
mod sweep;
mod table;
mod toml;

use pyo3::prelude::*;

/// The names of the congestion controls that the simulator has.
#[pyfunction]
fn congestion_controls() -> Vec<&'static str> {
    ackwise_sim::tcp::congestion_controls().collect()
}

/// Defines the module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add("MAX_EVENTS", ackwise_sim::RunOptions::MAX_EVENTS)?;
    module.add("MAX_MEMORY", ackwise_sim::RunOptions::MAX_MEMORY)?;
    module.add_class::<scenario::Scenario>()?;
    module.add_class::<results::Record>()?;
    module.add_class::<sweep::Sweep>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<policy::Policy>()?;
    module.add_class::<policy::Flow>()?;
    module.add_function(wrap_pyfunction!(congestion_controls, module)?)?;
    module.add_function(wrap_pyfunction!(policy::policies, module)?)?;
    module.add_function(wrap_pyfunction!(policy::reasons, module)?)?;
    module.add_function(wrap_pyfunction!(capture::analyze, module)?)?;
    Ok(())
}
