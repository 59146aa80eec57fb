//! The modules that need Linux: engines that run it, and their users.

mod archive;
mod cli;
mod conform;
mod reproduce;
mod tunnel_demo;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ackwise_cli::Format;
use ackwise_cli::error::BadInput;
use ackwise_engines::live::{self, RunOptions};
use ackwise_engines::virt::{self, VirtualOptions};
use ackwise_engines::{LabError, emulated};
use ackwise_scenario::record::Report;
use ackwise_scenario::{Progress, Scenario};

pub use ackwise_engines::virt::KernelChoice as Kernel;
pub use cli::Command;

/// Callback for progress of the runs.
type ProgressCallback<'a> = &'a mut (dyn FnMut(Progress<'_>) + Send);

/// Called before the arguments are read, because this program may be the first process of a
/// machine.
pub fn begin() {
    // See `run --on virtual`.
    virt::run_if_guest();
    // See `reproduce statkus`.
    emulated::run_if_guest();
    // See `conform`.
    ackwise_conform::run_if_guest();
}

/// Runs a subcommand.
pub fn run(command: &Command, format: Format) -> anyhow::Result<()> {
    match command {
        Command::Reproduce(args) => reproduce::reproduce(args, format),
        Command::Conform(args) => conform::conform(args, format),
        Command::TunnelDemo(args) => tunnel_demo::demo(args, format),
    }
}

/// Returns a flag that SIGINT and SIGTERM set.
pub fn cancel_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    Ok(live::cancel_on_signals()?)
}

/// Runs a scenario on this kernel.
pub fn run_live(
    scenario: &Scenario,
    cancel: Arc<AtomicBool>,
    only: Vec<String>,
    on_progress: ProgressCallback<'_>,
) -> anyhow::Result<Report> {
    let options = RunOptions {
        cancel,
        only,
        ..RunOptions::default()
    };
    Ok(live::run(scenario, &options, on_progress)?)
}

/// Checks that a scenario can run live.
pub fn check_live(scenario: &Scenario) -> anyhow::Result<()> {
    Ok(live::check(scenario)?)
}

/// Checks that runs of a scenario can run in virtual time.
pub fn check_virtual(
    scenario: &Scenario,
    only: Vec<String>,
    kernel: Option<&Kernel>,
) -> anyhow::Result<()> {
    let options = VirtualOptions {
        run: RunOptions {
            only,
            ..RunOptions::default()
        },
        kernel: kernel.cloned(),
        ..VirtualOptions::default()
    };
    Ok(virt::check(scenario, &options)?)
}

/// Runs a scenario in virtual time.
pub fn run_virtual(
    scenario: &Scenario,
    cancel: Arc<AtomicBool>,
    only: Vec<String>,
    jobs: Option<usize>,
    kernel: Option<&Kernel>,
    on_progress: ProgressCallback<'_>,
) -> anyhow::Result<Report> {
    let options = VirtualOptions {
        run: RunOptions {
            cancel,
            only,
            ..RunOptions::default()
        },
        jobs,
        kernel: kernel.cloned(),
        ..VirtualOptions::default()
    };
    Ok(virt::run(scenario, &options, on_progress)?)
}

/// The description of everything that went into a kernel.
pub fn kernel_sources(choice: Option<&Kernel>) -> anyhow::Result<String> {
    let kernel = virt::Kernel::find(choice)?;
    kernel.sources.or(kernel.version).ok_or_else(|| {
        let image = kernel.image.display();
        let what = format!("{image}: there is no record of what this kernel was built from");
        let hint = "--into takes kernels that kernel/build made";
        BadInput::new(what).hint(hint).into()
    })
}

/// Whether an error of these libraries means that the input is bad.
pub fn is_bad_input(error: &(dyn Error + 'static)) -> bool {
    use ackwise_reproduce::Error as Reproduce;

    (error.downcast_ref()).is_some_and(ackwise_conform::Error::is_bad_input)
        || matches!(
            error.downcast_ref(),
            Some(Reproduce::UnknownPaper { .. } | Reproduce::WrongEngine { .. })
        )
        || error.downcast_ref().is_some_and(LabError::is_bad_input)
}
