//! The scenario file, checked, and the record that every run returns.
//!
//! A scenario is one TOML file: nodes, links, flows, the sweep, the arms that are compared, what is
//! recorded and what is expected. [`Scenario::load`] reads it, reports *every* mistake it finds
//! with line and column, and hands back a description in which names are resolved and quantities
//! carry units. [`Scenario::runs`] lists what has to be run; [`Scenario::at`] gives the scenario as
//! one of those runs sees it. An engine turns each run into a [`record::Run`] and the whole into a
//! [`record::Report`].
//!
//! The format is described in `docs/scenarios.md`.

mod arms;
mod boxes;
mod build;
mod changes;
mod draw;
mod edit;
mod engine;
mod error;
mod expect;
mod flows;
mod glob;
mod histogram;
mod limits;
mod links;
mod load;
mod metric;
pub mod model;
mod names;
mod place;
mod policies;
mod progress;
pub mod record;
mod replace;
mod route;
mod runs;
mod sweep;
pub mod tables;
pub mod tcp_model;
pub mod trace;

pub use draw::REPEAT;
pub use engine::{Engine, UnknownEngine};
pub use error::ScenarioError;
pub use glob::matches as glob_matches;
pub use histogram::Histogram;
pub use metric::Metric;
pub use model::{
    AckCongestionControl, AckRate, AckRateRequest, Agree, App, Arm, BASELINE, By, Direction, Draw,
    DrawnPoint, DrawnValue, Duplex, Environment, Expect, Flow, IpVersion, Link, Node, NodeKind,
    Parsed, Placement, Position, Quic, RecordOptions, Reorder, Rivals, RunSpec, Scenario, Setting,
    SettingValue, SocketOptions, Sweep, Vary, Wifi,
};
pub use progress::Progress;
pub use runs::Filter;
pub use tcp_model::TcpModel;
