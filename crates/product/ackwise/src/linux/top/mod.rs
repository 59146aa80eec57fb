//! `ackwise top`: a live display of what runs on this host.

mod app;
mod measures;
mod snapshot;
#[cfg(test)]
mod tests;
mod view;

use std::io::IsTerminal;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use ackwise_cli::Format;
use ackwise_cli::error::BadInput;
use anyhow::Context;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::linux::cli::top::TopArgs;
use app::{App, Next};
use snapshot::{Reader, Snapshot};

/// The maximum delay before a key is handled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Shows what runs until somebody ends it.
pub fn top(args: &TopArgs, format: Format) -> anyhow::Result<()> {
    if format == Format::Json || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal()
    {
        return Err(BadInput::new("`ackwise top` draws on a terminal")
            .hint("ackwise status --format json prints the same counters for a program")
            .into());
    }
    let mut reader = Reader::new(args.interface.clone());
    let first = reader.read()?;
    if let (Some(interface), true) = (&args.interface, first.sources.is_empty()) {
        anyhow::bail!("nothing of ackwise runs on {interface}; ackwise up {interface} begins");
    }
    let color = !args.no_color && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    // Block signals before any thread starts, so that every thread leaves them to this one.
    let signals = signals()?;
    let snapshots = read_in_background(reader, args.interval)?;
    // `try_init` also installs a panic hook that restores the terminal.
    let ended = ratatui::try_init()
        .context("cannot use the terminal")
        .and_then(|mut terminal| {
            let mut app = App::new(first, color);
            run(&mut terminal, &mut app, &snapshots, &signals)
        });
    ratatui::restore();
    ended
}

/// The signals that end a program. Dying by one of them would leave the terminal in raw mode.
fn signals() -> anyhow::Result<SignalFd> {
    let set: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]
        .into_iter()
        .collect();
    set.thread_block()?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    Ok(SignalFd::with_flags(&set, flags)?)
}

/// Reads in a thread of its own: a daemon that does not answer must not delay keys.
fn read_in_background(
    mut reader: Reader,
    interval: Duration,
) -> anyhow::Result<Receiver<anyhow::Result<Snapshot>>> {
    let (to, snapshots): (SyncSender<_>, _) = mpsc::sync_channel(1);
    thread::Builder::new()
        .name("reader".to_owned())
        .spawn(move || {
            loop {
                thread::sleep(interval);
                if to.send(reader.read()).is_err() {
                    return;
                }
            }
        })
        .context("cannot start a thread")?;
    Ok(snapshots)
}

fn run(
    terminal: &mut DefaultTerminal,
    app: &mut App,
    snapshots: &Receiver<anyhow::Result<Snapshot>>,
    signals: &SignalFd,
) -> anyhow::Result<()> {
    let mut changed = true;
    loop {
        if changed {
            terminal.draw(|frame| view::draw(frame, app))?;
        }
        changed = false;
        if signals.read_signal()?.is_some() {
            return Ok(());
        }
        while event::poll(Duration::ZERO)? {
            changed = true;
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
                && app.key(key) == Next::End
            {
                return Ok(());
            }
        }
        match snapshots.recv_timeout(POLL_INTERVAL) {
            Ok(read) => {
                app.update(read);
                changed = true;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the reader has ended"),
        }
    }
}
