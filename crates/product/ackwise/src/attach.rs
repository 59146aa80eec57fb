//! `ackwise attach`: in the foreground until it is told to stop.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, text};
use ackwise_datapath::{Attachment, Ended, Error, Options, Stats};
use anyhow::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use serde_json::json;

use crate::cli::AttachArgs;
use crate::http::{Page, Server};
use crate::metrics;
use crate::notify::Notifier;
use crate::options::options;
use crate::status::{name, totals};
use crate::summary;

/// How often the live line changes.
const LOOK: Duration = Duration::from_secs(1);
/// The longest wait before the interface and the control socket are looked at again.
const TICK: Duration = Duration::from_millis(100);

/// The attachment, shared with whoever scrapes; nothing before it is made and after it ended.
type Shared = Arc<Mutex<Option<Attachment>>>;

/// Attaches, waits, detaches.
pub fn attach(args: &AttachArgs, format: Format) -> anyhow::Result<()> {
    let options = options(args)?;
    // Before any thread is started, so that all of them leave signals to this one.
    let signals = Signals::block()?;
    let shared = Shared::default();
    // Before attaching: a port that is taken must not cost a single ACK.
    let server = args
        .metrics
        .map(|address| serve(address, shared.clone()))
        .transpose()?;
    let started = Instant::now();
    let attachment = Attachment::attach(options.clone())?;
    let stats = attachment.stats()?;
    *lock(&shared) = Some(attachment);

    let notifier = Notifier::from_env();
    notifier.ready(&format!("{} on {}", options.policy, options.ifname));
    announce(&options, &stats, server.as_ref(), format)?;
    let until = args.duration.map(|d| started + d);
    let why = watch(&shared, &signals, &notifier, until, format)?;
    notifier.stopping();
    drop(server);
    let attachment = lock(&shared).take().context("the attachment is gone")?;
    let last = attachment.stats().unwrap_or_default();
    let ended = attachment.detach();
    let stats = ended.as_ref().unwrap_or(&last);
    conclude(&options, stats, why, format)?;
    ended.map(|_| ()).map_err(Into::into)
}

fn lock(shared: &Shared) -> MutexGuard<'_, Option<Attachment>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(address: std::net::SocketAddr, shared: Shared) -> anyhow::Result<Server> {
    let page: Arc<Page> = Arc::new(move || match lock(&shared).as_ref() {
        Some(attachment) => metrics::page(attachment.stats().map_err(|e| e.to_string())?),
        None => Err("not attached".to_owned()),
    });
    Server::start(address, page).map_err(|e| {
        BadInput::new(format!("--metrics {address}: cannot listen there: {e}"))
            .mend("choose another address or port; port 0 takes any free one")
            .into()
    })
}

fn announce(
    options: &Options,
    stats: &Stats,
    server: Option<&Server>,
    format: Format,
) -> anyhow::Result<()> {
    let metrics = server.map(|s| s.address().to_string());
    if format == Format::Json {
        return text::print(&format!(
            "{}\n",
            json!({
                "event": "attached",
                "interface": options.ifname,
                "policy": options.policy.to_string(),
                "position": name(&options.position),
                "attach": name(&stats.attach),
                "attach_fallback": stats.attach_fallback,
                "hold_max_us": options.hold_max.as_micros() as u64,
                "dry_run": options.dry_run,
                "metrics": metrics,
            })
        ));
    }
    let mut line = format!(
        "attached to {} ({}, {}): {}{}",
        options.ifname,
        name(&options.position),
        name(&stats.attach),
        options.policy,
        if options.dry_run {
            "; dry run: nothing is withheld"
        } else {
            ""
        },
    );
    if let Some(address) = metrics {
        line.push_str(&format!("; metrics on http://{address}/metrics"));
    }
    if text::watched() {
        line.push_str("; Ctrl-C detaches");
    }
    text::print(&format!("{line}\n"))
}

fn conclude(options: &Options, stats: &Stats, why: Why, format: Format) -> anyhow::Result<()> {
    if format == Format::Json {
        return text::print(&format!(
            "{}\n",
            json!({
                "event": "detached",
                "interface": options.ifname,
                "why": why.name(),
                "stats": stats,
            })
        ));
    }
    text::print(&format!(
        "detached from {} ({})\n{}",
        options.ifname,
        why.name(),
        totals(stats)
    ))
}

/// What ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Signal(Signal),
    Duration,
    Detached,
    InterfaceGone,
}

impl Why {
    fn name(self) -> &'static str {
        match self {
            Why::Signal(signal) => signal.as_str(),
            Why::Duration => "the time is over",
            Why::Detached => "ackwise detach",
            Why::InterfaceGone => "the interface is gone",
        }
    }
}

/// Shows what happens until something ends it.
fn watch(
    shared: &Shared,
    signals: &Signals,
    notifier: &Notifier,
    until: Option<Instant>,
    format: Format,
) -> Result<Why, Error> {
    let line = summary::live_line();
    let watched = text::watched() && format == Format::Text;
    let beat = notifier.watchdog().map(|w| w / 2);
    let mut looked = Instant::now();
    let mut before = look(shared)?;
    let mut beaten = looked;
    loop {
        let mut wait = beat.map_or(TICK, |b| TICK.min(b / 2));
        if let Some(until) = until {
            wait = wait.min(until.saturating_duration_since(Instant::now()));
        }
        if let Some(signal) = signals.wait(wait) {
            return Ok(Why::Signal(signal));
        }
        match lock(shared).as_ref().and_then(|a| a.wait(Duration::ZERO)) {
            Some(Ended::Detached) => return Ok(Why::Detached),
            Some(Ended::InterfaceGone) => return Ok(Why::InterfaceGone),
            None => {}
        }
        if until.is_some_and(|u| Instant::now() >= u) {
            return Ok(Why::Duration);
        }
        let took = looked.elapsed();
        let beat_now = beat.is_some_and(|b| beaten.elapsed() >= b);
        if (watched && took >= LOOK) || beat_now {
            // Reading the counters is the sign of life: a stuck datapath gives none.
            let now = look(shared)?;
            let text = summary::line(&before, &now, took);
            if watched {
                line.set_message(text.clone());
            }
            if beat_now {
                notifier.alive(&text);
                beaten = Instant::now();
            }
            if took >= LOOK {
                (before, looked) = (now, Instant::now());
            }
        }
    }
}

fn look(shared: &Shared) -> Result<Stats, Error> {
    lock(shared)
        .as_ref()
        .map_or_else(|| Ok(Stats::default()), Attachment::stats)
}

/// The signals that end it, as something to wait for.
pub struct Signals(SignalFd);

impl Signals {
    /// For this thread, and those that it starts from now on.
    pub fn block() -> anyhow::Result<Self> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block().context("blocking signals")?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self(
            SignalFd::with_flags(&set, flags).context("opening a signal descriptor")?,
        ))
    }

    /// The next of them, if one comes in time.
    pub fn wait(&self, patience: Duration) -> Option<Signal> {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        // Rounded up: never a busy loop at the end of a duration.
        let ms = u16::try_from(patience.as_millis() + 1).unwrap_or(u16::MAX);
        let _ = poll(&mut fds, PollTimeout::from(ms));
        let info = self.0.read_signal().ok().flatten()?;
        Signal::try_from(info.ssi_signo as i32).ok()
    }
}
