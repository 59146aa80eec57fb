//! `ackwise down`, and restoring what a killed `ackwise up` left.

use std::time::{Duration, Instant};

use ackwise_cli::{Format, text as out};
use ackwise_datapath::control as datapath;
use ackwise_gateway::control as gateway;
use ackwise_netdev::ifreq;
use ackwise_netdev::netlink::Netlink;
use ackwise_netdev::qdisc::{Qdisc, RestoreOutcome};
use ackwise_netdev::registry::{Entry, Key, TakeError, netns_inode};
use anyhow::{Context, anyhow, bail};
use serde::Serialize;
use serde_json::json;

use super::{Record, registry};
use crate::linux::cli::up::DownArgs;
use crate::linux::per_daemon::PerDaemon;

/// How long an `ackwise up` that was told to stop may take: withheld ACKs leave first.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// The interval at which a process is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What `ackwise down` did for one interface.
#[derive(Serialize)]
struct Done {
    interface: String,
    /// Whether its process was running, and was told to end.
    ran: bool,
    /// The kind of the restored root queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    restored: Option<String>,
    /// The kind of the root queue that somebody else has set meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    stays: Option<String>,
}

/// Ends one `ackwise up`, or all of this network namespace.
pub fn down(args: &DownArgs, format: Format) -> anyhow::Result<()> {
    let netns = netns_inode().context("reading the network namespace's inode")?;
    wait_started(netns, args.interface.as_deref())?;
    let running = registry().list()?.into_iter().map(|record| (record, true));
    let left = registry().leftovers()?.into_iter().map(|it| (it, false));
    let index = args.interface.as_deref().and_then(ifreq::index_of);
    let is_meant = |record: &Record| match (&args.interface, index) {
        (None, _) => true,
        (Some(_), Some(index)) => record.index == index,
        (Some(name), None) => record.interface == *name,
    };
    let all: Vec<_> = running
        .chain(left)
        .filter(|(record, _)| record.netns == netns && is_meant(record))
        .collect();
    if let (Some(name), []) = (&args.interface, &all[..]) {
        if index.is_none() {
            return Err(ackwise_netdev::Error::NoInterface(name.clone()).into());
        }
        if clear_up(name) {
            return show(
                &[Done {
                    interface: name.clone(),
                    ran: false,
                    restored: None,
                    stays: None,
                }],
                format,
            );
        }
        bail!(
            "no `ackwise up` is running on {name}, and none has left anything there\n  `ackwise \
             status` lists what else is attached"
        );
    }
    let is_nobody = all.is_empty();
    let ended = PerDaemon::of(
        all,
        |(record, _)| &record.interface,
        |(record, runs)| end(record, *runs).map(Some),
    );
    let done = &ended.done;
    if format == Format::Json || is_nobody || !done.is_empty() {
        show(done, format)?;
    }
    ended.finish()
}

/// Waits until each `ackwise up` that has claimed this interface, or any of this network namespace,
/// is in the registry, where it can be told to end, or has ended.
fn wait_started(netns: u64, interface: Option<&str>) -> anyhow::Result<()> {
    let index = interface.and_then(ifreq::index_of);
    let is_meant = |key: &Key| match (interface, index) {
        (Some(_), Some(index)) => key.name == index.to_string(),
        (Some(_), None) => false,
        (None, _) => true,
    };
    let began = Instant::now();
    let mut starting = registry().starting()?;
    starting.retain(|key| key.netns == netns && is_meant(key));
    while let Some(key) = starting.first() {
        if began.elapsed() > STOP_TIMEOUT {
            let name = key.name.parse().ok().and_then(ifreq::name_at);
            let name = name.unwrap_or_else(|| format!("(interface {})", key.name));
            bail!("`ackwise up {name}` is still starting\n  try again, or end its process");
        }
        std::thread::sleep(POLL_INTERVAL);
        let still = registry().starting()?;
        starting.retain(|key| still.contains(key));
    }
    Ok(())
}

/// Removes the filters that a killed daemon left on clsact, which let every packet pass. Returns
/// whether there were any.
fn clear_up(name: &str) -> bool {
    // Filters of a running daemon are in use and stay.
    let any = [
        datapath::clear_up(name).unwrap_or(false),
        gateway::clear_up(name).unwrap_or(false),
    ];
    any.contains(&true)
}

fn show(done: &[Done], format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json => out::print_json(&json!({ "down": done })),
        Format::Text if done.is_empty() => {
            out::print("No `ackwise up` is running in this network namespace.\n")
        }
        Format::Text => out::print(&done.iter().map(line).collect::<String>()),
    }
}

fn line(done: &Done) -> String {
    let ended = if done.ran {
        "ended"
    } else {
        "cleared up after a killed process"
    };
    let queue = match (&done.restored, &done.stays) {
        (Some(kind), _) => format!("; its queue is {kind} again"),
        (None, Some(kind)) => format!("; someone else has set its queue, {kind}, which stays"),
        (None, None) => String::new(),
    };
    format!("{}: {ended}{queue}\n", done.interface)
}

/// Ends a process, or cleans up after a killed one.
fn end(record: &Record, runs: bool) -> anyhow::Result<Done> {
    if runs {
        stop(record)?;
    }
    let key = Key {
        netns: record.netns,
        name: record.index.to_string(),
    };
    let began = Instant::now();
    loop {
        match registry().take(&key) {
            Ok(entry) => {
                drop(restore_leftovers(entry)?);
                break;
            }
            // The next process holds it already, so the last one has ended.
            Err(TakeError::Held(Some(other))) if other.pid != record.pid => break,
            Err(TakeError::Held(_)) if began.elapsed() < STOP_TIMEOUT => {
                std::thread::sleep(POLL_INTERVAL);
                // A process that was starting did not listen yet.
                if runs && (record.gateway || has_attached(record)) {
                    let _ = stop(record);
                }
            }
            Err(TakeError::Held(_)) => bail!(
                "process {pid} of {name} has not ended within {STOP_TIMEOUT:?}\n  `kill -9 {pid}` ends \
                 it, and the queue is restored all the same",
                pid = record.pid,
                name = record.interface
            ),
            Err(TakeError::Registry(error)) => return Err(error.into()),
        }
    }
    // A killed process counts as running while its cleanup process runs, and may have been stopped
    // above; its filters may be left.
    if let Some(name) = ifreq::name_at(record.index) {
        clear_up(&name);
    }
    let mut done = Done {
        interface: record.interface.clone(),
        ran: runs,
        restored: None,
        stays: None,
    };
    if let Some(replaced) = &record.replaced {
        let all = Netlink::open().and_then(|mut netlink| netlink.qdiscs(replaced.index));
        let all = all.context("looking at the queue that is there now")?;
        // An interface that is gone has no root, and a root of ours is that of the next `ackwise
        // up`.
        let is_other = |it: &Qdisc| it.is_root() && !it.is_ours();
        if let Some(now) = all.into_iter().find(is_other) {
            if is_restored(replaced.found.as_ref(), &now) {
                done.restored = Some(now.kind);
            } else {
                done.stays = Some(now.kind);
            }
        }
    }
    Ok(done)
}

/// Whether the current root is the one that was found before.
fn is_restored(found: Option<&Qdisc>, now: &Qdisc) -> bool {
    match found {
        Some(found) if !found.is_default() => {
            (&found.kind, found.handle) == (&now.kind, now.handle)
        }
        // The kernel recreates its own queue, of its default kind at that time.
        _ => now.is_default(),
    }
}

/// Whether the process is attached by now, and was not yet told to end.
fn has_attached(record: &Record) -> bool {
    let name = ifreq::name_at(record.index);
    let holder = name.and_then(|name| datapath::holder(&name).ok());
    holder.is_some_and(|holder| holder.pid == record.pid)
}

fn stop(record: &Record) -> anyhow::Result<()> {
    let name = ifreq::name_at(record.index).unwrap_or_else(|| record.interface.clone());
    if record.gateway {
        return match gateway::down(&name) {
            Ok(_) | Err(ackwise_gateway::Error::NotThere(_)) => Ok(()),
            Err(error @ ackwise_gateway::Error::Control { .. }) => Err(stuck(record, &error)),
            Err(error) => Err(error.into()),
        };
    }
    match datapath::detach(&name) {
        // It has ended, or is starting.
        Ok(_)
        | Err(ackwise_datapath::Error::NotAttached(_) | ackwise_datapath::Error::Held { .. }) => {
            Ok(())
        }
        Err(error @ ackwise_datapath::Error::Control { .. }) => Err(stuck(record, &error)),
        Err(error) => Err(error.into()),
    }
}

/// The error for a process that does not answer, with what ends it.
fn stuck(record: &Record, error: &dyn std::fmt::Display) -> anyhow::Error {
    let pid = record.pid;
    anyhow!("{error}\n  `kill -9 {pid}` ends it, and the queue is restored all the same")
}

/// Restores what a killed process left, from its record.
///
/// # Errors
/// If the kernel refuses; the record stays.
pub(super) fn restore_leftovers(entry: Entry<Record>) -> anyhow::Result<Entry<Record>> {
    let replaced = entry.leftover.as_ref().and_then(|it| it.replaced.clone());
    let Some(replaced) = replaced else {
        return Ok(entry);
    };
    match Netlink::open().and_then(|mut netlink| replaced.restore(&mut netlink)) {
        Ok(RestoreOutcome::Restored) => {
            tracing::info!("restored the queue that a killed `ackwise up` had replaced");
        }
        Ok(RestoreOutcome::NotOurs) => {
            tracing::info!("the queue was changed by someone else, and stays")
        }
        Err(error) => {
            entry.leave();
            return Err(anyhow!(
                "the queue cannot be restored: {error}\n  run as root"
            ));
        }
    }
    Ok(entry)
}
