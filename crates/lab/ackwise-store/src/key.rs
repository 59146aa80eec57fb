//! The name of a result: a hash of everything that determines it.

use std::fmt;
use std::path::Path;

use ackwise_scenario::{Engine, RunSpec, Scenario};
use sha2::{Digest, Sha256};

/// Version of the results; raised when a run with the same inputs gives a different file.
const FORMAT: &str = "ackwise results 2";

/// The name of a run's result, 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// The name of the file.
    pub fn file_name(&self) -> String {
        format!("{}.parquet", self.0)
    }

    /// The result that a file holds, from the file's name.
    pub(crate) fn of_file(path: &Path) -> Option<Key> {
        let name = path.file_name()?.to_str()?.strip_suffix(".parquet")?;
        Some(Key(name.to_owned()))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The common properties of the runs of one report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSet {
    id: String,
    engine: Engine,
}

impl RunSet {
    /// The runs of a scenario on an engine, by this version of ackwise. In virtual time, `kernel`
    /// describes everything that went into the kernel.
    pub fn new(scenario: &Scenario, engine: Engine, kernel: Option<&str>) -> Self {
        let mut hash = Sha256::new();
        let mut add = |part: &str| {
            // Each part is preceded by its length, so that different lists of parts never give the
            // same bytes.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(FORMAT);
        add(env!("CARGO_PKG_VERSION"));
        add(engine.name());
        add(kernel.unwrap_or(""));
        add(&scenario.source.text);
        read_all_traces(scenario);
        for (name, text) in scenario.files.texts() {
            add(&name);
            add(&text);
        }
        Self {
            id: hex(&hash.finalize(), 6),
            engine,
        }
    }

    /// The id of the set, 12 hexadecimal digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The engine of the runs.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// The name of a run's result. The run's id contains its arm, congestion control, seed and
    /// point.
    pub fn key(&self, run: &RunSpec) -> Key {
        self.key_of(&run.id)
    }

    pub(crate) fn key_of(&self, run_id: &str) -> Key {
        let mut hash = Sha256::new();
        hash.update(&self.id);
        hash.update(run_id);
        Key(format!("{}{}", self.id, hex(&hash.finalize(), 10)))
    }
}

/// Reads the traces that only drawn points name, by deriving the scenario at each point.
fn read_all_traces(scenario: &Scenario) {
    let drawn = scenario.sweep.draw.is_some() && scenario.source.text.contains("trace");
    let mut last = None;
    let runs = scenario.runs();
    for run in runs.iter().filter(|_| drawn) {
        // Each repeat of a point may name a different trace.
        if last != Some(&run.point) {
            // Mistakes are reported when the point is run.
            let _ = scenario.at(run);
            last = Some(&run.point);
        }
    }
}

fn hex(bytes: &[u8], take: usize) -> String {
    bytes
        .iter()
        .take(take)
        .map(|b| format!("{b:02x}"))
        .collect()
}
