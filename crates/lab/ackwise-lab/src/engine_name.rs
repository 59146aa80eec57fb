//! The argument that names an engine.

use ackwise_scenario::Engine;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Reads the name of an engine; the help text describes each.
pub fn engine() -> impl TypedValueParser<Value = Engine> {
    let named = |engine: Engine| PossibleValue::new(engine.name()).help(engine.about());
    PossibleValuesParser::new(Engine::ALL.map(named)).try_map(|name| name.parse::<Engine>())
}
