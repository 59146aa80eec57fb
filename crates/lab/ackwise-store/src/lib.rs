//! Results of runs, shared by many machines.
//!
//! A simulated run, and one in virtual time, is exact: its result depends on the scenario, the
//! run's place in it, the engine and the version, and not on the machine. A result is therefore a
//! Parquet file named after those ([`RunSet::key`]). A run whose file exists need not be run again,
//! two machines that do the same run write the same bytes, and a machine may be killed at any
//! moment.
//!
//! ```no_run
//! use ackwise_scenario::{Engine, Scenario};
//! use ackwise_store::{RunSet, Store};
//!
//! let scenario = Scenario::load("scenarios/first-look.toml")?;
//! let set = RunSet::new(&scenario, Engine::Sim, None);
//! let store = Store::open("results")?;
//! let missing = store.missing(&set, scenario.runs())?;
//! // … run those, and give each to `store.put`; then:
//! println!("{}", store.merge(None)?.report.to_json()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod key;
mod shard;
mod store;
mod table;

pub use error::StoreError;
pub use key::{Key, RunSet};
pub use shard::Shard;
pub use store::{Merged, Store};
pub use table::write_report;
