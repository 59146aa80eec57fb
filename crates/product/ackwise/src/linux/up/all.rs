//! `ackwise up --all`: every interface of the configuration file, each in a process of its own.
//!
//! A process drops its privileges after it has set up one interface, so each interface needs a
//! process of its own. This one starts them, forwards the request to end, and waits for them. It
//! keeps its privileges: it can start and end processes when the file is read again, and it
//! restarts one that fails while others run. Without `--duration` it also waits while missing
//! interfaces are the only problem, as before a modem appears. If it is killed, the others end by
//! themselves.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ackwise_cli::error::{BadInput, EXIT_BAD_INPUT, in_line};
use ackwise_cli::{Format, GlobalArgs};
use ackwise_netdev::daemon::{Daemon, Ended, Outcome, Readiness, Supervisor};
use ackwise_netdev::ifreq::index_of;
use ackwise_netdev::registry::{Entry, TakeError, netns_inode};
use anyhow::{Context, anyhow, bail};
use nix::libc::{SIGINT, SIGTERM};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::reloaded::{self, AllProcess, Answer, Reloaded, UP_ALL_SERVICE, all_processes};
use super::settings::is_missing;
use super::{check, is_hangup_a_request, spawn_thread};
use crate::linux::cli::up::{CONFIG, UpArgs};

/// How long the processes may take to end: withheld ACKs leave first.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a reload waits for a process to be up.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The interval at which processes are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The interval at which failed processes are looked for.
const RESTART_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// How long a failed process stays down. The time doubles with each failure up to `MAX_BACKOFF`,
/// and starts again at the minimum after a run of at least `MAX_BACKOFF`.
const MIN_BACKOFF: Duration = Duration::from_secs(2);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

fn claim() -> anyhow::Result<Entry<AllProcess>> {
    let netns = netns_inode().context("reading the network namespace's inode")?;
    let pid = std::process::id();
    let first = AllProcess { pid, netns };
    let taken = all_processes().take(&first.key()).map_err(|error| match error {
        TakeError::Held(first) => {
            let process = first.map(|first| format!(", process {}", first.pid));
            anyhow!(
                "`ackwise up --all` is already running{}\n  `ackwise reload` makes it read the file again",
                process.unwrap_or_default()
            )
        }
        TakeError::Registry(error) => error.into(),
    });
    let mut claim = taken?;
    claim.publish(&first)?;
    Ok(claim)
}

/// Starts all processes, and waits until they have ended.
pub fn up(args: &UpArgs, global: &GlobalArgs) -> anyhow::Result<()> {
    let path = args.config.clone().unwrap_or_else(|| CONFIG.into());
    let names = names(&path)?;
    if args.explain {
        return explain(args, &path, &names, global.format);
    }
    // Before a child is started, so that no signal is missed.
    let supervisor = Supervisor::new()?;
    let claim = claim()?;
    let children = Arc::new(Children {
        args: args.clone(),
        global: *global,
        path,
        all: Mutex::default(),
        reloads: Mutex::default(),
        is_ending: AtomicBool::new(false),
    });
    for name in &names {
        if let Err(error) = children.start(name) {
            return Err(children.give_up(error));
        }
    }
    let describe = |_: &usize, running: &usize, _| format!("{running} of {} run", children.count());
    let mut outcome = supervisor.run(&Starting(&children), None, describe, None)?;
    let running = children.running();
    if matches!(outcome, Outcome::Ended(_)) && children.has_work() {
        let shared = Arc::clone(&children);
        let server = claim.listen().map_err(anyhow::Error::from);
        let server =
            server.and_then(|it| reloaded::serve(&UP_ALL_SERVICE, it, move || shared.reload()));
        let server = match server {
            Ok(server) => server,
            Err(error) => return Err(children.give_up(error)),
        };
        if is_hangup_a_request() {
            let shared = Arc::clone(&children);
            supervisor.on_hangup(move || {
                let shared = Arc::clone(&shared);
                spawn_thread(move || drop(shared.reload()));
            });
        }
        // With a duration each process ends by itself, and none is restarted.
        if args.duration.is_none() {
            children.log_waits();
            let shared = Arc::clone(&children);
            spawn_thread(move || shared.start_failed_until_the_end());
        }
        supervisor.ready(&describe(&0, &running, Duration::ZERO));
        outcome = supervisor.run(&*children, None, describe, None)?;
        drop(server);
    }
    supervisor.stopping();
    // No process is started from here on.
    children.is_ending.store(true, Ordering::SeqCst);
    drop(children.reloads());
    let stop_requested = matches!(outcome, Outcome::Signal(_) | Outcome::ParentGone);
    if stop_requested {
        children.signal(Signal::SIGTERM);
    }
    children.finish(stop_requested)
}

fn names(path: &Path) -> anyhow::Result<Vec<String>> {
    if is_missing(path) {
        let what = format!("there is no {}", path.display());
        let hint = "write one, with an [[interface]] for each (docs/guide.md), or name another \
                    with --config";
        return Err(BadInput::new(what).hint(hint).into());
    }
    let file = check::load(path)?;
    let names: Vec<_> = file.all.into_iter().map(|it| it.name.text).collect();
    if names.is_empty() {
        let what = format!("{} describes no interface", path.display());
        let hint = "add\n    [[interface]]\n    name = \"wan0\"";
        return Err(BadInput::new(what).hint(hint).into());
    }
    Ok(names)
}

/// Explains one interface after the other. An error on one does not hide the others.
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
    // Only this process reports to the service manager.
    for variable in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
        command.env_remove(variable);
    }
    Ok(command)
}

/// The processes, with the names of their interfaces.
struct Children {
    args: UpArgs,
    global: GlobalArgs,
    path: PathBuf,
    all: Mutex<Vec<ChildProcess>>,
    /// Held during a reload, and while failed processes are restarted.
    reloads: Mutex<()>,
    is_ending: AtomicBool,
}

struct ChildProcess {
    name: String,
    child: Child,
    readiness: Readiness,
    is_settled: bool,
    began: Instant,
    /// How the process ended: `Some(None)` if the kernel does not give a status.
    ended: Option<Option<ExitStatus>>,
    ended_at: Instant,
    /// Whether the interface was missing when the process ended, or when it began if that is why it
    /// ended.
    lacked_interface: bool,
    /// Whether the log says that the interface is waited for.
    is_wait_logged: bool,
    /// How long the process stays down if it fails.
    backoff: Duration,
}

impl ChildProcess {
    fn new(name: &str, child: Child, readiness: Readiness, lacked_interface: bool) -> Self {
        let now = Instant::now();
        Self {
            name: name.to_owned(),
            child,
            readiness,
            is_settled: false,
            began: now,
            ended: None,
            ended_at: now,
            lacked_interface,
            is_wait_logged: false,
            backoff: MIN_BACKOFF,
        }
    }

    fn poll(&mut self) {
        if self.ended.is_none() {
            self.ended = match self.child.try_wait() {
                Ok(status) => status.map(Some),
                Err(_) => Some(None),
            };
            self.ended_at = Instant::now();
            // An interface that appeared in between was still missing for this process.
            let lacked = self.lacked_interface && self.is_bad_input();
            self.lacked_interface = lacked || index_of(&self.name).is_none();
        }
    }

    /// Whether the process failed and its interface is missing.
    fn waits(&self) -> bool {
        self.ended.is_some() && self.has_failed() && self.lacked_interface
    }

    /// Whether it is time to restart the process: it failed long enough ago, and its interface is
    /// there. Restarting does not help against wrong settings.
    fn is_due(&self) -> bool {
        let is_lost = self.is_bad_input() && !self.lacked_interface;
        self.ended.flatten().is_some()
            && self.has_failed()
            && !is_lost
            && self.ended_at.elapsed() >= self.backoff
            && index_of(&self.name).is_some()
    }

    /// Whether the process ended with an error, or by a signal other than those that ask it to end.
    /// A process that gets one of those before it handles signals ends by it.
    fn has_failed(&self) -> bool {
        let signalled = [SIGTERM, SIGINT].map(Some);
        let status = self.ended.flatten();
        !status.is_some_and(|status| status.success() || signalled.contains(&status.signal()))
    }

    fn next_backoff(&self) -> Duration {
        match self.ended_at.duration_since(self.began) >= MAX_BACKOFF {
            true => MIN_BACKOFF,
            false => (self.backoff * 2).min(MAX_BACKOFF),
        }
    }

    fn is_settled(&mut self) -> bool {
        self.is_settled = self.is_settled || self.readiness.is_settled();
        self.is_settled
    }

    fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            // The child is reaped only here, so the process id is still its own.
            let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
        }
    }

    fn is_bad_input(&self) -> bool {
        let code = self.ended.flatten().and_then(|status| status.code());
        code == Some(i32::from(EXIT_BAD_INPUT))
    }
}

impl Children {
    fn start(&self, name: &str) -> anyhow::Result<()> {
        let started = self.spawn(name)?;
        self.with(|all| all.push(started));
        Ok(())
    }

    fn spawn(&self, name: &str) -> anyhow::Result<ChildProcess> {
        let lacks_interface = index_of(name).is_none();
        let mut command = command(&self.args, &self.path, name, &self.global)?;
        let started = Readiness::of(&mut command)
            .and_then(|readiness| Ok((command.spawn()?, readiness)))
            .with_context(|| format!("starting `ackwise up {name}`"));
        let (child, readiness) = started?;
        Ok(ChildProcess::new(name, child, readiness, lacks_interface))
    }

    /// Whether a process runs or an interface is waited for. If neither, the service manager
    /// restarts everything.
    fn has_work(&self) -> bool {
        if self.running() > 0 {
            return true;
        }
        // With a duration each process ends by itself.
        let may_wait = self.args.duration.is_none();
        may_wait
            && self.with(|all| {
                let failed = || all.iter().filter(|it| it.has_failed());
                failed().next().is_some() && failed().all(ChildProcess::waits)
            })
    }

    /// Logs once per interface that it is waited for.
    fn log_waits(&self) {
        self.with(|all| {
            for started in all.iter_mut().filter(|it| it.waits() && !it.is_wait_logged) {
                let name = &started.name;
                tracing::warn!("there is no interface {name} yet; it is set up when it appears");
                started.is_wait_logged = true;
            }
        });
    }

    /// Restarts failed processes until the end begins.
    fn start_failed_until_the_end(&self) {
        while !self.is_ending.load(Ordering::SeqCst) {
            std::thread::sleep(RESTART_CHECK_INTERVAL);
            // A reload restarts failed processes itself.
            let Ok(_no_reload) = self.reloads.try_lock() else {
                continue;
            };
            if !self.is_ending.load(Ordering::SeqCst) && self.has_work() {
                self.log_waits();
                self.start_failed();
            }
        }
    }

    fn start_failed(&self) {
        let due = self.with(|all| {
            let due = all.iter().filter(|it| it.is_due());
            due.map(|it| (it.name.clone(), it.waits()))
                .collect::<Vec<_>>()
        });
        for (name, waited) in due {
            if waited {
                tracing::info!("{name} has appeared, and is set up");
            } else {
                tracing::warn!("{name} has failed, and is set up again");
            }
            let started = self.spawn(&name);
            self.with(|all| {
                let Some(failed) = all.iter_mut().find(|it| it.name == name) else {
                    return;
                };
                let backoff = failed.next_backoff();
                match started {
                    Ok(started) => *failed = started,
                    Err(error) => {
                        tracing::error!("{}", in_line(&error));
                        let now = Instant::now();
                        (failed.began, failed.ended_at) = (now, now);
                    }
                }
                failed.backoff = backoff;
            });
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Vec<ChildProcess>) -> T) -> T {
        work(&mut self.all.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn reloads(&self) -> MutexGuard<'_, ()> {
        self.reloads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) -> usize {
        self.with(|all| all.len())
    }

    /// The number of running processes.
    fn running(&self) -> usize {
        self.with(|all| {
            all.iter_mut().for_each(ChildProcess::poll);
            all.iter().filter(|it| it.ended.is_none()).count()
        })
    }

    fn signal(&self, signal: Signal) {
        self.with(|all| all.iter().for_each(|started| started.signal(signal)));
    }

    /// Ends the running processes, since something is missing that all of them need. Returns why.
    fn give_up(&self, why: anyhow::Error) -> anyhow::Error {
        self.signal(Signal::SIGTERM);
        if let Err(error) = self.finish(false) {
            tracing::warn!("{}", in_line(&error));
        }
        why
    }

    /// Waits for the running processes, and kills those that do not end in time: the queues that
    /// they replaced are restored all the same. Each process has reported its own errors. Waiting
    /// for an interface is no error if this process was told to end.
    fn finish(&self, stop_requested: bool) -> anyhow::Result<()> {
        let may_wait = stop_requested && self.args.duration.is_none();
        let began = Instant::now();
        while self.running() > 0 {
            if began.elapsed() > STOP_TIMEOUT {
                self.signal(Signal::SIGKILL);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        let mut failed = Vec::new();
        let mut bad_input = false;
        for started in self.with(std::mem::take) {
            if started.has_failed() && !(may_wait && started.waits()) {
                bad_input |= started.is_bad_input();
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

    /// Reads the file again: starts new interfaces, ends those that are gone, and has the others
    /// reload.
    fn reload(&self) -> anyhow::Result<Vec<Reloaded>> {
        let _one_after_the_other = self.reloads();
        if self.is_ending.load(Ordering::SeqCst) {
            bail!("`ackwise up --all` is ending");
        }
        let done = names(&self.path).map(|names| self.apply(&names));
        // Each process reports its own changes.
        match &done {
            Ok(done) => {
                let own = |it: &&Reloaded| STARTED_OR_ENDED.iter().any(|report| it.starts(report));
                let own = done.iter().filter(own).map(Reloaded::clone).collect();
                reloaded::report(&Ok(own), self.global.format);
            }
            Err(_) => reloaded::report(&done, self.global.format),
        }
        done
    }

    fn apply(&self, names: &[String]) -> Vec<Reloaded> {
        let gone = self.with(|all| {
            let gone = all.iter().filter(|it| !names.contains(&it.name));
            gone.map(|it| it.name.clone()).collect::<Vec<_>>()
        });
        let mut done: Vec<_> = gone.iter().map(|name| self.stop(name)).collect();
        done.extend(names.iter().map(|name| self.reload_or_start(name)));
        done
    }

    /// Ends the process of an interface, and forgets it.
    fn stop(&self, name: &str) -> Reloaded {
        let began = Instant::now();
        let mut signalled = None;
        loop {
            let is_running = self.with(|all| {
                let started = all.iter_mut().find(|it| it.name == name)?;
                started.poll();
                let signal = match began.elapsed() {
                    late if late > STOP_TIMEOUT => Signal::SIGKILL,
                    _ => Signal::SIGTERM,
                };
                if signalled != Some(signal) {
                    started.signal(signal);
                    signalled = Some(signal);
                }
                Some(started.ended.is_none())
            });
            if is_running != Some(true) {
                break;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        self.with(|all| all.retain(|it| it.name != name));
        let mut done = Reloaded::of(name);
        done.changed.push(ENDED.to_owned());
        done
    }

    /// Has the process of an interface reload, or starts one.
    fn reload_or_start(&self, name: &str) -> Reloaded {
        let pid = self.with(|all| {
            let started = all.iter_mut().find(|it| it.name == name)?;
            started.poll();
            started.ended.is_none().then(|| started.child.id())
        });
        let Some(pid) = pid else {
            return self.start_and_wait(name, STARTED);
        };
        let answer = super::registry().list().map_err(anyhow::Error::from);
        let answer = answer.and_then(|all| {
            let record = all.into_iter().find(|it| it.pid == pid);
            let record = record.context("it is starting")?;
            reloaded::ask(&reloaded::UP_SERVICE, &reloaded::socket_path(&record), pid)
        });
        let failed = |why: String| Reloaded {
            failed: Some(why),
            ..Reloaded::of(name)
        };
        match answer {
            Ok(Answer::Done(mut done)) => match done.pop() {
                Some(done) if !done.left.is_empty() => {
                    let why = format!("{STARTED} again: {}", done.left.join(", "));
                    self.stop(name);
                    self.start_and_wait(name, &why)
                }
                Some(done) => done,
                None => Reloaded::of(name),
            },
            // The file changed after this process had read it.
            Ok(Answer::Mistake(lines)) => failed(lines.join("\n")),
            Err(error) => failed(in_line(&error)),
        }
    }

    /// Starts a process, and waits until it is up or has ended.
    fn start_and_wait(&self, name: &str, why: &str) -> Reloaded {
        let mut done = Reloaded::of(name);
        // A process that has ended stays known until it is replaced, so that it is restarted.
        match self.spawn(name) {
            Ok(started) => self.with(|all| {
                all.retain(|it| it.name != name);
                all.push(started);
            }),
            Err(error) => {
                done.failed = Some(in_line(&error));
                return done;
            }
        }
        let began = Instant::now();
        while began.elapsed() < START_TIMEOUT {
            let settled = self.with(|all| {
                let started = all.iter_mut().find(|it| it.name == name)?;
                started.is_settled().then(|| started.readiness.is_ready())
            });
            match settled {
                Some(true) => {
                    done.changed.push(why.to_owned());
                    return done;
                }
                Some(false) => break,
                None => std::thread::sleep(POLL_INTERVAL),
            }
        }
        done.failed = Some("it does not come up; its messages say why".to_owned());
        done
    }
}

const STARTED: &str = "started";
const ENDED: &str = "ended";
const STARTED_OR_ENDED: [&str; 2] = [STARTED, ENDED];

impl Reloaded {
    fn starts(&self, report: &str) -> bool {
        self.changed.iter().any(|it| it.starts_with(report))
    }
}

impl Daemon for Children {
    type Stats = usize;
    type Error = std::convert::Infallible;

    fn stats(&self) -> Result<usize, Self::Error> {
        Ok(self.running())
    }

    fn ended(&self) -> Option<Ended> {
        // A process that is being restarted has just ended.
        let _no_reload = self.reloads.try_lock().ok()?;
        (!self.has_work()).then_some(Ended::Requested)
    }
}

/// Waits until each process is up, or has ended and said why.
struct Starting<'a>(&'a Children);

impl Daemon for Starting<'_> {
    type Stats = usize;
    type Error = std::convert::Infallible;

    fn stats(&self) -> Result<usize, Self::Error> {
        self.0.stats()
    }

    fn ended(&self) -> Option<Ended> {
        let settled = self
            .0
            .with(|all| all.iter_mut().all(ChildProcess::is_settled));
        settled.then_some(Ended::Requested)
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    /// The reason for the end is reported, whatever becomes of the processes.
    #[test]
    fn what_kept_one_from_starting_is_said() {
        let arguments = UpArgs::augment_args(clap::Command::new("up"));
        let arguments = arguments.get_matches_from(["up", "--all"]);
        let children = Children {
            args: UpArgs::from_arg_matches(&arguments).unwrap(),
            global: GlobalArgs {
                format: Format::Text,
                verbose: 0,
            },
            path: PathBuf::new(),
            all: Mutex::default(),
            reloads: Mutex::default(),
            is_ending: AtomicBool::new(false),
        };
        let mut command = Command::new("false");
        let readiness = Readiness::of(&mut command).unwrap();
        let child = command.spawn().unwrap();
        let started = ChildProcess::new("no-such-if", child, readiness, true);
        children.with(|all| all.push(started));
        while children.running() > 0 {
            std::thread::sleep(POLL_INTERVAL);
        }
        let why = children.give_up(anyhow!("starting `ackwise up eth1`: no process is left"));
        assert!(
            why.to_string().starts_with("starting `ackwise up eth1`"),
            "{why}"
        );
    }
}
