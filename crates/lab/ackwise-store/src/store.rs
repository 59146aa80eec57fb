//! A directory of results.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ackwise_scenario::record::{Report, Run, RunContext};
use ackwise_scenario::trace::TraceFiles;
use ackwise_scenario::{Filter, RunSpec, Scenario};
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::error::StoreError;
use crate::key::{Key, RunSet};
use crate::table;

/// Key of the record in a file's metadata.
const RECORD: &str = "ackwise.record";
const PLACE: &str = "ackwise.place";
const SET: &str = "ackwise.set";

/// Prefix of a file that is being written. It gets its name when it is complete.
const PARTIAL: &str = ".partial-";
/// Age at which an unfinished file is taken for abandoned by a killed program.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// A directory of results.
#[derive(Debug, Clone)]
pub struct Store {
    directory: PathBuf,
}

/// The merged results of a directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    /// The report, as one machine would have made it from the same runs.
    pub report: Report,
    /// Number of runs that the scenario has for the engine; the report may have fewer.
    pub scenario_runs: usize,
}

/// One result, as stored in a file.
struct Entry {
    set: String,
    /// The run's index among all runs of the scenario, and their number.
    place: (usize, usize),
    /// A report of only this run.
    report: Report,
}

impl Store {
    /// Opens a directory, and creates it if it is missing. Unfinished files that are more than a
    /// day old are removed.
    ///
    /// # Errors
    /// The directory cannot be created or read.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let directory = directory.into();
        fs::create_dir_all(&directory).map_err(io(&directory))?;
        let store = Self { directory };
        for path in store.paths(|name| name.starts_with(PARTIAL))? {
            let age = fs::metadata(&path).and_then(|it| it.modified());
            let age = age
                .ok()
                .and_then(|at| SystemTime::now().duration_since(at).ok());
            if age.is_some_and(|age| age > ABANDONED) {
                // Another process may have removed it.
                let _ = fs::remove_file(&path);
            }
        }
        Ok(store)
    }

    /// Whether a run's result exists.
    pub fn contains(&self, key: &Key) -> bool {
        self.directory.join(key.file_name()).exists()
    }

    /// The runs of `runs` that have no result. The directory is read once, however many there are.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn missing(&self, set: &RunSet, runs: Vec<RunSpec>) -> Result<Vec<RunSpec>, StoreError> {
        let present = self.present(set)?;
        let mut runs = runs;
        runs.retain(|run| !present.contains(&set.key(run)));
        Ok(runs)
    }

    /// The existing results of a set.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn present(&self, set: &RunSet) -> Result<HashSet<Key>, StoreError> {
        let paths = self.paths(|name| name.starts_with(set.id()))?;
        let keys = paths.iter().filter_map(|path| Key::of_file(path));
        Ok(keys.collect())
    }

    /// The report of these runs, as one machine would have made it. Each run is in `given`, e.g.
    /// because it had errors, or has a result in the directory.
    ///
    /// # Errors
    /// A result is missing or broken.
    pub fn report_of(
        &self,
        set: &RunSet,
        runs: &[&RunSpec],
        given: &mut BTreeMap<String, Report>,
    ) -> Result<Option<Report>, StoreError> {
        let mut all: Option<Report> = None;
        for run in runs {
            let one = match given.remove(&run.id) {
                Some(report) => report,
                None => {
                    let path = self.directory.join(set.key(run).file_name());
                    Entry::read(&path)?.report
                }
            };
            match &mut all {
                Some(all) => join(all, one),
                None => all = Some(one),
            }
        }
        Ok(all)
    }

    /// Adds a run's result. Readers of the directory see the whole file or none.
    ///
    /// # Errors
    /// The result cannot be written.
    pub fn put(
        &self,
        set: &RunSet,
        scenario: &Scenario,
        run: &Run,
        context: &RunContext,
        place: (usize, usize),
    ) -> Result<(), StoreError> {
        let mut report = Report::new(set.engine().name(), scenario);
        report.add(run.clone(), context.clone());
        let metadata = vec![
            (RECORD, serde_json::to_string(&report)?),
            (PLACE, format!("{}/{}", place.0, place.1)),
            (SET, set.id().to_owned()),
        ];
        let to = self.directory.join(set.key_of(&run.id).file_name());
        let mut builder = tempfile::Builder::new();
        builder.prefix(PARTIAL);
        // Normal permissions, because other users read the directory, too.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut bytes = Vec::new();
        table::write(&report, metadata, &mut bytes)?;
        let mut partial = builder
            .tempfile_in(&self.directory)
            .map_err(io(&self.directory))?;
        partial.write_all(&bytes).map_err(io(&to))?;
        partial.as_file().sync_all().map_err(io(&to))?;
        partial.persist(&to).map_err(|e| io(&to)(e.error))?;
        Ok(())
    }

    /// Merges the results into the report that one machine would have made of the same runs. If
    /// there are several sets, `set` chooses one by its first digits.
    ///
    /// # Errors
    /// There are no results, there are several sets, or a file is broken.
    pub fn merge(&self, set: Option<&str>) -> Result<Merged, StoreError> {
        let mut sets: BTreeMap<String, BTreeMap<usize, Entry>> = BTreeMap::new();
        for path in self.results()? {
            let entry = Entry::read(&path)?;
            let of_set = sets.entry(entry.set.clone()).or_default();
            of_set.insert(entry.place.0, entry);
        }
        let entries = self.choose(sets, set)?;
        let mut entries = entries.into_values();
        let Some(first) = entries.next() else {
            return Err(self.empty());
        };
        let scenario_runs = first.all_runs();
        let mut report = first.report;
        for entry in entries {
            join(&mut report, entry.report);
        }
        Ok(Merged {
            report,
            scenario_runs,
        })
    }

    /// The files that [`Store::merge`] reads.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn results(&self) -> Result<Vec<PathBuf>, StoreError> {
        self.paths(|name| name.ends_with(".parquet") && !name.starts_with('.'))
    }

    fn choose(
        &self,
        mut sets: BTreeMap<String, BTreeMap<usize, Entry>>,
        asked: Option<&str>,
    ) -> Result<BTreeMap<usize, Entry>, StoreError> {
        if sets.is_empty() {
            return Err(self.empty());
        }
        let is_asked = |id: &&String| asked.is_none_or(|asked| id.starts_with(asked));
        let chosen: Vec<String> = sets.keys().filter(is_asked).cloned().collect();
        if let [only] = chosen.as_slice() {
            return Ok(sets.remove(only).unwrap_or_default());
        }
        let lines = sets
            .iter()
            .filter_map(|(id, entries)| {
                let any = entries.values().next()?;
                Some(format!(
                    "  {id}: '{}' on '{}', ackwise {}, {} of {} runs",
                    any.report.scenario.name,
                    any.report.engine,
                    any.report.version,
                    entries.len(),
                    any.all_runs()
                ))
            })
            .collect();
        let path = self.directory.clone();
        Err(match asked.filter(|_| chosen.is_empty()) {
            Some(asked) => StoreError::NoSuchSet {
                path,
                asked: asked.to_owned(),
                sets: lines,
            },
            None => StoreError::Several { path, sets: lines },
        })
    }

    fn empty(&self) -> StoreError {
        StoreError::Empty {
            path: self.directory.clone(),
        }
    }

    /// The files whose names are wanted, sorted by name.
    fn paths(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, StoreError> {
        let mut paths = Vec::new();
        for file in fs::read_dir(&self.directory).map_err(io(&self.directory))? {
            let path = file.map_err(io(&self.directory))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(&wanted) {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }
}

impl Entry {
    fn read(path: &Path) -> Result<Self, StoreError> {
        let broken = |why: String| StoreError::Broken {
            path: path.to_owned(),
            why,
        };
        let file = File::open(path).map_err(io(path))?;
        let reader = SerializedFileReader::new(file)
            .map_err(|e| broken(format!("not a complete Parquet file ({e})")))?;
        let metadata = reader.metadata().file_metadata().key_value_metadata();
        let value = |name: &str| {
            let mut values = metadata.into_iter().flatten();
            values
                .find(|it| it.key == name)
                .and_then(|it| it.value.clone())
                .ok_or_else(|| {
                    broken(format!(
                        "not a result of ackwise-lab: its metadata has no '{name}'"
                    ))
                })
        };
        let place = value(PLACE)?;
        let place = place
            .split_once('/')
            .and_then(|(at, of)| Some((at.parse().ok()?, of.parse().ok()?)))
            .ok_or_else(|| {
                broken(format!(
                    "its '{PLACE}' is '{place}', not a place such as 3/8"
                ))
            })?;
        let report =
            Report::from_json(&value(RECORD)?).map_err(|e| broken(format!("its record: {e}")))?;
        if report.runs.len() != 1 {
            return Err(broken(format!(
                "it has {} runs instead of one",
                report.runs.len()
            )));
        }
        Ok(Self {
            set: value(SET)?,
            place,
            report,
        })
    }

    /// Number of runs that the scenario has for the engine; some arms may be for other engines
    /// only.
    fn all_runs(&self) -> usize {
        let scenario = &self.report.scenario;
        let name = format!("{}.toml", scenario.name);
        let parsed = Scenario::parse_with(name, &scenario.text, &TraceFiles::nowhere()).ok();
        let here = Filter {
            engine: self.report.engine.parse().ok(),
            ..Filter::default()
        };
        let runs = parsed.and_then(|scenario| scenario.select(&here).ok());
        // If this version cannot read the scenario, the number of runs for all engines is used.
        runs.map_or(self.place.1, |runs| runs.len())
    }
}

/// Adds the runs of another report, and how they were made.
fn join(report: &mut Report, other: Report) {
    let Report {
        environment,
        runs,
        notes,
        ..
    } = other;
    for run in runs {
        let context = RunContext {
            environment: environment.clone(),
            notes: notes.clone(),
        };
        report.add(run, context);
    }
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> StoreError {
    move |source| StoreError::Io {
        path: path.to_owned(),
        source,
    }
}
