//! `ackwise up --all`: every interface of the configuration file, each in a process of its own.
//!
//! A process gives its rights up after it has set up one interface, so that each interface needs
//! its own. This one starts them, passes on that it is to end, and waits for them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ackwise_cli::error::{BadInput, EXIT_BAD_INPUT};
use ackwise_cli::{Format, GlobalArgs};
use ackwise_netdev::daemon::{Daemon, Ended, Outcome, Readiness, Supervisor};
use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::check;
use super::settings::is_missing;
use crate::cli::up::{CONFIG, UpArgs};

/// How long those that were told to end may take: what they hold leaves first.
const PATIENCE: Duration = Duration::from_secs(15);
/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Starts all, and waits until they have ended.
pub fn up(args: &UpArgs, global: &GlobalArgs) -> anyhow::Result<()> {
    let path = args.config.clone().unwrap_or_else(|| CONFIG.into());
    let names = names(&path)?;
    if args.explain {
        return explain(args, &path, &names, global.format);
    }
    // Before a child is started, so that no signal is missed.
    let supervisor = Supervisor::new()?;
    let children = Children::default();
    for name in &names {
        if let Err(error) = children.start(command(args, &path, name, global)?, name) {
            children.signal(Signal::SIGTERM);
            return children.finish().and(Err(error));
        }
    }
    let describe = |_: &usize, running: &usize, _| format!("{running} of {} run", names.len());
    let mut outcome = supervisor.run(&Starting(&children), None, describe, None)?;
    if let (Outcome::Ended(_), running @ 1..) = (outcome, children.running()) {
        supervisor.ready(&describe(&0, &running, Duration::ZERO));
        outcome = supervisor.run(&children, None, describe, None)?;
    }
    supervisor.stopping();
    if let Outcome::Signal(_) = outcome {
        children.signal(Signal::SIGTERM);
    }
    children.finish()
}

fn names(path: &Path) -> anyhow::Result<Vec<String>> {
    if is_missing(path) {
        let what = format!("there is no {}", path.display());
        let mend = "write one, with an [[interface]] for each (docs/guide.md), or name another \
                    with --config";
        return Err(BadInput::new(what).mend(mend).into());
    }
    let file = check::load(path)?;
    let names: Vec<_> = file.all.into_iter().map(|it| it.name.text).collect();
    if names.is_empty() {
        let what = format!("{} describes no interface", path.display());
        let mend = "add\n    [[interface]]\n    name = \"wan0\"";
        return Err(BadInput::new(what).mend(mend).into());
    }
    Ok(names)
}

/// One after the other. What is wrong with one does not hide the others.
fn explain(args: &UpArgs, path: &Path, names: &[String], format: Format) -> anyhow::Result<()> {
    let mut last = Ok(());
    for (number, name) in names.iter().enumerate() {
        if number > 0 && format == Format::Text {
            ackwise_cli::text::print("\n")?;
        }
        let args = UpArgs {
            config: Some(path.to_owned()),
            ..args.clone()
        };
        if let Err(error) = super::up_one(&args, name, format) {
            if last.is_err() {
                tracing::error!("{name}: {error}");
            }
            last = last.and(Err(error));
        }
    }
    last
}

fn command(args: &UpArgs, path: &Path, name: &str, global: &GlobalArgs) -> anyhow::Result<Command> {
    let program: PathBuf = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(program);
    let mut config = OsString::from("--config=");
    config.push(path);
    command.arg("up").arg(config);
    if global.format == Format::Json {
        command.args(["--format", "json"]);
    }
    command.args(std::iter::repeat_n("-v", usize::from(global.verbose)));
    if let Some(duration) = args.duration {
        command.args(["--duration", &format!("{} ms", duration.as_millis())]);
    }
    command.args(["--", name]);
    // The service manager hears of this process alone.
    for variable in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
        command.env_remove(variable);
    }
    Ok(command)
}

/// The processes, with the names of their interfaces.
#[derive(Default)]
struct Children(Mutex<Vec<Started>>);

struct Started {
    name: String,
    child: Child,
    readiness: Readiness,
    is_settled: bool,
    /// How it has ended; without a status if the kernel does not say.
    ended: Option<Option<ExitStatus>>,
}

impl Children {
    fn start(&self, mut command: Command, name: &str) -> anyhow::Result<()> {
        let started = Readiness::of(&mut command)
            .and_then(|readiness| Ok((command.spawn()?, readiness)))
            .with_context(|| format!("starting `ackwise up {name}`"));
        let (child, readiness) = started?;
        self.with(|all| {
            all.push(Started {
                name: name.to_owned(),
                child,
                readiness,
                is_settled: false,
                ended: None,
            });
        });
        Ok(())
    }

    fn with<T>(&self, work: impl FnOnce(&mut Vec<Started>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many run.
    fn running(&self) -> usize {
        self.with(|all| {
            for started in &mut *all {
                if started.ended.is_none() {
                    started.ended = match started.child.try_wait() {
                        Ok(status) => status.map(Some),
                        Err(_) => Some(None),
                    };
                }
            }
            all.iter().filter(|it| it.ended.is_none()).count()
        })
    }

    fn signal(&self, signal: Signal) {
        self.with(|all| {
            for started in all.iter().filter(|it| it.ended.is_none()) {
                // It is waited for only here, so that the number is still its own.
                let _ = kill(Pid::from_raw(started.child.id() as i32), signal);
            }
        });
    }

    /// Waits for those that run, and kills what does not end in time: what they replaced comes back
    /// all the same. Each has said itself what went wrong.
    fn finish(self) -> anyhow::Result<()> {
        let began = Instant::now();
        while self.running() > 0 {
            if began.elapsed() > PATIENCE {
                self.signal(Signal::SIGKILL);
            }
            std::thread::sleep(LOOK);
        }
        let mut failed = Vec::new();
        let mut bad_input = false;
        for started in self.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let status = started.ended.flatten();
            if !status.is_some_and(|status| status.success()) {
                let code = status.and_then(|status| status.code());
                bad_input |= code == Some(i32::from(EXIT_BAD_INPUT));
                failed.push(started.name);
            }
        }
        if failed.is_empty() {
            return Ok(());
        }
        let what = format!("failed: {}", failed.join(", "));
        if bad_input {
            return Err(BadInput::new(what).into());
        }
        bail!(what)
    }
}

impl Daemon for Children {
    type Stats = usize;
    type Error = std::convert::Infallible;

    fn stats(&self) -> Result<usize, Self::Error> {
        Ok(self.running())
    }

    fn ended(&self) -> Option<Ended> {
        (self.running() == 0).then_some(Ended::Asked)
    }
}

/// The processes until each is up, or has said why not and ended.
struct Starting<'a>(&'a Children);

impl Daemon for Starting<'_> {
    type Stats = usize;
    type Error = std::convert::Infallible;

    fn stats(&self) -> Result<usize, Self::Error> {
        self.0.stats()
    }

    fn ended(&self) -> Option<Ended> {
        let settled = self.0.with(|all| {
            all.iter_mut().all(|it| {
                it.is_settled = it.is_settled || it.readiness.is_settled();
                it.is_settled
            })
        });
        settled.then_some(Ended::Asked)
    }
}
