//! `reproduce --archive`: everything that a reader needs to check the numbers of a reproduction.
//!
//! A record is named after what was run: the same scenario on the same engine has the same name in
//! every archive and, if the engine is exact, the same bytes. `SHA256SUMS` is written last, so an
//! archive without it is incomplete.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ackwise_cli::error::BadInput;
use ackwise_engines::live;
use ackwise_radio::scenario::{RadioReport, RadioScenario, RadioSpec};
use ackwise_report::PaperReport;
use ackwise_reproduce::{Engine, Error, RunScenario};
use ackwise_scenario::Scenario;
use ackwise_scenario::record::{Report, Testbed};
use ackwise_uml::Kernel;
use anyhow::Context;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// How to cite the software; the file is at the root of the repository.
const CITATION: &str = include_str!("../../../../../CITATION.cff");
const SUMS: &str = "SHA256SUMS";

/// The directory of an archive.
pub struct Archive {
    root: PathBuf,
    began: Testbed,
}

/// What made the archive, besides what each record states.
#[derive(Serialize)]
struct Environment<'a> {
    /// Name and version.
    program: String,
    /// SHA-256 of the program's file.
    program_sha256: Option<String>,
    /// The command line.
    command: Vec<String>,
    /// Name of the operating system's distribution.
    system: Option<String>,
    /// Memory, bytes.
    memory: Option<u64>,
    /// The machine, and the start of the first run.
    machine: &'a Testbed,
    /// The end of the last run.
    ended: Option<String>,
    /// The kernel of virtual time, if one was used.
    virtual_kernel: Option<VirtualKernel>,
}

#[derive(Serialize)]
struct VirtualKernel {
    version: Option<String>,
    sources: Option<String>,
    sha256: Option<String>,
}

impl Archive {
    /// Begins an archive in a directory that is empty or does not exist.
    pub fn begin(root: &Path) -> Result<Self, BadInput> {
        let bad = |what: String| {
            BadInput::new(format!("{}: {what}", root.display()))
                .hint("--archive takes a directory that is empty or not there yet")
        };
        let first = match fs::read_dir(root) {
            Ok(entries) => entries.flatten().next(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(bad(format!("cannot be read: {e}"))),
        };
        if let Some(entry) = first {
            let name = entry.file_name();
            let what = format!("it is not empty: it has {}", name.display());
            return Err(bad(what));
        }
        // Checks now that the path is writable, so that hours of work are not lost.
        fs::create_dir_all(root.join("records"))
            .map_err(|e| bad(format!("cannot be written: {e}")))?;
        Ok(Self {
            root: root.to_owned(),
            began: live::environment(),
        })
    }

    /// The directory of the pages.
    pub fn pages(&self) -> PathBuf {
        self.root.join("pages")
    }

    /// Adds a record, with the text of its scenario.
    fn add(
        &self,
        paper: &str,
        name: &str,
        key: &[&str],
        text: &str,
        record: &impl Serialize,
    ) -> io::Result<()> {
        let mut hash = Sha256::new();
        for part in key {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let directory = self.root.join("records").join(paper);
        fs::create_dir_all(&directory)?;
        let stem = format!("{name}-{}", &hex(&hash.finalize())[..12]);
        // A scenario may run twice on an engine that is not exact.
        let mut file = directory.join(format!("{stem}.json"));
        let mut again = 1;
        while file.exists() {
            again += 1;
            file = directory.join(format!("{stem}-{again}.json"));
        }
        let mut out = BufWriter::new(File::create_new(&file)?);
        serde_json::to_writer(&mut out, record)?;
        out.write_all(b"\n")?;
        out.flush()?;
        fs::write(file.with_extension("toml"), text)
    }

    /// Writes everything but the pages and records, and the checksums of all files.
    pub fn finish(&self, reports: &[PaperReport]) -> anyhow::Result<()> {
        let environment = serde_json::to_string_pretty(&self.environment())? + "\n";
        self.write("environment.json", &environment)?;
        self.write("CITATION.cff", CITATION)?;
        self.write("README.md", &readme(reports))?;
        let mut files = Vec::new();
        list(&self.root, &mut files).with_context(|| self.root.display().to_string())?;
        files.sort();
        let mut sums = String::new();
        for file in files {
            let path = file.strip_prefix(&self.root).unwrap_or(&file);
            let sum = sha256(&file).with_context(|| file.display().to_string())?;
            let _ = writeln!(sums, "{sum}  {}", path.display());
        }
        self.write(SUMS, &sums)
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.root.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    fn environment(&self) -> Environment<'_> {
        let program = std::env::current_exe().ok();
        Environment {
            program: format!("ackwise-lab {}", env!("CARGO_PKG_VERSION")),
            program_sha256: program.and_then(|path| sha256(&path).ok()),
            command: std::env::args().collect(),
            system: value_of("/etc/os-release", "PRETTY_NAME=").map(|it| it.replace('"', "")),
            memory: value_of("/proc/meminfo", "MemTotal:")
                .and_then(|it| it.trim_end_matches("kB").trim().parse().ok())
                .map(|kib: u64| kib * 1024),
            machine: &self.began,
            ended: live::environment().started,
            virtual_kernel: Kernel::find(None).ok().map(|kernel| VirtualKernel {
                sha256: sha256(&kernel.image).ok(),
                version: kernel.version,
                sources: kernel.sources,
            }),
        }
    }
}

/// The text after a word at the beginning of a line.
fn value_of(file: &str, word: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let found = text.lines().find_map(|line| line.strip_prefix(word))?;
    Some(found.trim().to_owned())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn sha256(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hash)?;
    Ok(hex(&hash.finalize()))
}

/// All files below a directory.
fn list(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            list(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Describes the content of the archive and how to check it.
fn readme(reports: &[PaperReport]) -> String {
    let mut text = format!(
        "# Papers run again by ackwise {}\n\n\
         Published numbers beside measured ones, with all that they were computed from.\n\n\
         Rows that are measured beside a published value, by verdict:\n\n\
         | Paper | Engine | Outside | Undecided | Not run | Not comparable | Within |\n\
         |---|---|---|---|---|---|---|\n",
        env!("CARGO_PKG_VERSION")
    );
    for report in reports {
        let rows = report.summary().published;
        let _ = writeln!(
            text,
            "| [{}](pages/{}.html) | {} | {} | {} | {} | {} | {} |",
            report.title,
            report.name,
            report.engine,
            rows.outside,
            rows.undecided,
            rows.not_run,
            rows.not_comparable,
            rows.within,
        );
    }
    text.push_str(
        "\n| File | What it is |\n|---|---|\n\
         | `pages/index.html` | Tables and figures; they open without a network |\n\
         | `pages/experiments.json` | Every row: published, measured, tolerance, verdict, reason |\n\
         | `records/PAPER/NAME-HASH.json` | The whole record of the runs of a scenario; the hash is of \
         the scenario, the engine and the runs that were chosen |\n\
         | `records/PAPER/NAME-HASH.toml` | That scenario: `ackwise-lab run FILE` runs it by itself |\n\
         | `environment.json` | The program, how it was called, the machine |\n\
         | `CITATION.cff` | How to cite the program |\n\
         | `SHA256SUMS` | Of all these files |\n\n\
         ## To check it\n\n\
         1. `sha256sum --check SHA256SUMS`\n\
         2. Install the version that `environment.json` names, and call it as `command` there says, with \
         another directory.\n\
         3. Compare the two `SHA256SUMS`. Records of the simulator and of virtual time are equal byte \
         for byte, and so is `pages/experiments.json` of papers that run on these. Live runs are \
         measurements and differ.\n\n\
         Numbers that come from no scenario, e.g. those of compressed headers or of an emulated \
         device, have no record; `pages/experiments.json` says in `setup` how each was made.\n",
    );
    text
}

/// Runs what a paper needs, and keeps the records.
pub struct Recorder<'a> {
    pub runs: &'a dyn RunScenario,
    pub archive: &'a Archive,
    pub paper: &'static str,
}

impl Recorder<'_> {
    fn keep(
        &self,
        name: &str,
        key: &[&str],
        text: &str,
        record: &impl Serialize,
    ) -> Result<(), Error> {
        let added = self.archive.add(self.paper, name, key, text, record);
        added.map_err(|source| Error::Engine {
            scenario: format!("{name}: its record for --archive"),
            source: source.into(),
        })
    }
}

impl RunScenario for Recorder<'_> {
    fn run(
        &self,
        engine: Engine,
        scenario: &Scenario,
        only: &[String],
        done: &mut (dyn FnMut(usize) + Send),
    ) -> Result<Report, Error> {
        let report = self.runs.run(engine, scenario, only, done)?;
        let text = &scenario.source.text;
        let chosen = only.join("\n");
        self.keep(
            &scenario.name,
            &[engine.name(), text, &chosen],
            text,
            &report,
        )?;
        Ok(report)
    }

    fn run_radio(
        &self,
        scenario: &RadioScenario,
        runs: &[RadioSpec],
        done: &(dyn Fn(usize) + Sync),
    ) -> Result<RadioReport, Error> {
        let report = self.runs.run_radio(scenario, runs, done)?;
        let text = &report.scenario.text;
        let chosen: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
        let key = ["radio", text, &chosen.join("\n")];
        self.keep(&scenario.name, &key, text, &report)?;
        Ok(report)
    }

    fn cancel(&self) -> Arc<AtomicBool> {
        self.runs.cancel()
    }
}
