//! The engines that run scenarios, by name.

use std::fmt;
use std::str::FromStr;

/// An engine that runs scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The simulator.
    Sim,
    /// The real Linux stack on a separate kernel, in virtual time.
    Virtual,
    /// The running kernel in network namespaces, in real time.
    Live,
}

impl Engine {
    /// All engines.
    pub const ALL: [Engine; 3] = [Engine::Sim, Engine::Virtual, Engine::Live];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Sim => "sim",
            Engine::Virtual => "virtual",
            Engine::Live => "live",
        }
    }

    /// A one-line description for a help text.
    pub fn about(self) -> &'static str {
        match self {
            Engine::Sim => "The simulator: exact, takes seconds, needs no root",
            Engine::Virtual => {
                "The real Linux stack on a kernel of its own, in virtual time: exact, needs no root"
            }
            Engine::Live => "Network namespaces on the running kernel, in real time (root)",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no engine with this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no engine '{0}'; there are sim, virtual and live")]
pub struct UnknownEngine(String);

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(name: &str) -> Result<Engine, UnknownEngine> {
        let found = Engine::ALL.into_iter().find(|engine| engine.name() == name);
        found.ok_or_else(|| UnknownEngine(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_known_by_its_name_only() {
        for engine in Engine::ALL {
            assert_eq!(engine.name().parse(), Ok(engine));
        }
        let error = "simulator".parse::<Engine>().unwrap_err().to_string();
        assert!(
            error.contains("'simulator'") && error.contains("virtual"),
            "{error}"
        );
    }
}
