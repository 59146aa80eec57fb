//! Replaces the modules that need Linux on other systems.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ackwise_cli::Format;
use ackwise_cli::error::BadInput;
use ackwise_cli::unread::{Names, NeedsLinux};
use ackwise_scenario::record::Report;
use ackwise_scenario::{Engine, Progress, Scenario};

/// The subcommands that need Linux.
#[derive(Debug)]
pub struct System;

impl Names for System {
    const NAMES: &'static [&'static str] = &["reproduce", "conform", "tunnel-demo"];
}

/// A subcommand that needs Linux.
pub type Command = NeedsLinux<System>;

/// A kernel, which nothing runs here.
pub type Kernel = PathBuf;

/// Callback for progress of the runs.
type ProgressCallback<'a> = &'a mut (dyn FnMut(Progress<'_>) + Send);

/// Called before the arguments are read.
pub fn begin() {}

/// Reports that a subcommand needs Linux.
pub fn run(command: &Command, _: Format) -> anyhow::Result<()> {
    Err(command.refuse().into())
}

/// Returns a flag that is never set: a signal ends the program.
pub fn cancel_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    Ok(Arc::default())
}

/// Reports that this engine needs Linux.
pub fn run_live(
    _: &Scenario,
    _: Arc<AtomicBool>,
    _: Vec<String>,
    _: ProgressCallback<'_>,
) -> anyhow::Result<Report> {
    Err(refused(Engine::Live))
}

/// Reports that this engine needs Linux.
pub fn run_virtual(
    _: &Scenario,
    _: Arc<AtomicBool>,
    _: Vec<String>,
    _: Option<usize>,
    _: Option<&Kernel>,
    _: ProgressCallback<'_>,
) -> anyhow::Result<Report> {
    Err(refused(Engine::Virtual))
}

/// Reports that this engine needs Linux.
pub fn check_live(_: &Scenario) -> anyhow::Result<()> {
    Err(refused(Engine::Live))
}

/// Reports that this engine needs Linux.
pub fn check_virtual(_: &Scenario, _: Vec<String>, _: Option<&Kernel>) -> anyhow::Result<()> {
    Err(refused(Engine::Virtual))
}

/// Reports that running kernels needs Linux.
pub fn kernel_sources(_: Option<&Kernel>) -> anyhow::Result<String> {
    Err(refused(Engine::Virtual))
}

fn refused(engine: Engine) -> anyhow::Error {
    BadInput::new(format!("--on {} needs Linux", engine.name()))
        .hint("use --on sim, which runs on every system")
        .into()
}

/// Whether an error of the modules that are missing here means that the input is bad.
pub fn is_bad_input(_: &(dyn Error + 'static)) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Subcommand;

    #[cfg(target_os = "linux")]
    #[test]
    fn what_linux_has_is_known_elsewhere() {
        let command = clap::Command::new("ackwise-lab");
        let command = crate::linux::Command::augment_subcommands(command);
        let names = command.get_subcommands().map(clap::Command::get_name);
        assert_eq!(names.collect::<Vec<_>>(), System::NAMES);
    }

    #[test]
    fn an_engine_that_is_missing_says_what_to_use() {
        assert!(Command::has_subcommand("conform") && !Command::has_subcommand("run"));
        let error = kernel_sources(None).unwrap_err().to_string();
        assert!(
            error.contains("--on virtual") && error.contains("--on sim"),
            "{error}"
        );
    }
}
