//! `ackwise down`, and putting back what a killed `ackwise up` has left.

use std::time::{Duration, Instant};

use ackwise_cli::{Format, text as out};
use ackwise_datapath::control as datapath;
use ackwise_gateway::control as gateway;
use ackwise_netdev::ifreq;
use ackwise_netdev::netlink::Netlink;
use ackwise_netdev::qdisc::{Qdisc, Undone};
use ackwise_netdev::registry::{Entry, Key, TakeError, netns_inode};
use anyhow::{Context, anyhow, bail};
use serde::Serialize;
use serde_json::json;

use super::{Record, registry};
use crate::linux::cli::up::DownArgs;

/// How long an `ackwise up` that was told to stop may take: what it holds leaves first.
const PATIENCE: Duration = Duration::from_secs(15);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// What `ackwise down` did for one interface.
#[derive(Serialize)]
struct Done {
    interface: String,
    /// Whether its process ran, and was told to end.
    ran: bool,
    /// The kind of the root queue that is there again.
    #[serde(skip_serializing_if = "Option::is_none")]
    restored: Option<String>,
    /// The kind of the one that somebody else has set meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    stays: Option<String>,
}

/// Ends one, or all of this network namespace.
pub fn down(args: &DownArgs, format: Format) -> anyhow::Result<()> {
    let netns = netns_inode().context("reading the network namespace's inode")?;
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
            "no `ackwise up` is at work on {name}, and none has left anything there\n  `ackwise \
             status` lists what else is attached"
        );
    }
    let (done, failed) = end_all(&all, end);
    if format == Format::Json || failed.is_empty() || !done.is_empty() {
        show(&done, format)?;
    }
    conclude(failed)
}

/// Removes the filters that a killed one has left on clsact, which let every packet pass. Returns
/// whether there were any.
fn clear_up(name: &str) -> bool {
    // Where somebody is at work they are in use.
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
            out::print("No `ackwise up` is at work in this network namespace.\n")
        }
        Format::Text => out::print(&done.iter().map(line).collect::<String>()),
    }
}

/// An interface, and why it could not be ended.
type Failed = (String, anyhow::Error);

/// Ends all. One that does not end keeps no other up.
fn end_all(
    all: &[(Record, bool)],
    end: impl Fn(&Record, bool) -> anyhow::Result<Done>,
) -> (Vec<Done>, Vec<Failed>) {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for (record, runs) in all {
        match end(record, *runs) {
            Ok(ended) => done.push(ended),
            Err(error) => failed.push((record.interface.clone(), error)),
        }
    }
    (done, failed)
}

fn conclude(mut failed: Vec<Failed>) -> anyhow::Result<()> {
    match failed.len() {
        0 => Ok(()),
        1 => Err(failed.remove(0).1),
        _ => {
            let said = failed
                .iter()
                .map(|(name, error)| format!("{name}: {error:#}"));
            Err(anyhow!(said.collect::<Vec<_>>().join("\n")))
        }
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
        (None, Some(kind)) => format!("; somebody else has set its queue, {kind}, which stays"),
        (None, None) => String::new(),
    };
    format!("{}: {ended}{queue}\n", done.interface)
}

/// Ends a process, or clears up after a killed one.
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
                drop(put_back(entry)?);
                break;
            }
            // The next one has it already: the last one has ended.
            Err(TakeError::Held(Some(other))) if other.pid != record.pid => break,
            Err(TakeError::Held(_)) if began.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            Err(TakeError::Held(_)) => bail!(
                "process {pid} of {name} has not ended within {PATIENCE:?}\n  `kill -9 {pid}` ends \
                 it, and the queue is put back all the same",
                pid = record.pid,
                name = record.interface
            ),
            Err(TakeError::Registry(error)) => return Err(error.into()),
        }
    }
    // One that was killed may have been told to end all the same, as long as what clears up after it runs.
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
        // An interface that is gone has none, and ours is that of the next `ackwise up`.
        let is_other = |it: &Qdisc| it.is_root() && !it.is_ours();
        if let Some(now) = all.into_iter().find(is_other) {
            if is_back(replaced.found.as_ref(), &now) {
                done.restored = Some(now.kind);
            } else {
                done.stays = Some(now.kind);
            }
        }
    }
    Ok(done)
}

/// Whether the root that was found is the one that is there now.
fn is_back(found: Option<&Qdisc>, now: &Qdisc) -> bool {
    match found {
        Some(found) if !found.is_default() => {
            (&found.kind, found.handle) == (&now.kind, now.handle)
        }
        // The kernel makes its own again, of the kind that is its default by then.
        _ => now.is_default(),
    }
}

fn stop(record: &Record) -> anyhow::Result<()> {
    let name = ifreq::name_at(record.index).unwrap_or_else(|| record.interface.clone());
    if record.gateway {
        return match gateway::down(&name) {
            Ok(_) | Err(ackwise_gateway::Error::NotThere(_)) => Ok(()),
            Err(error) => Err(error.into()),
        };
    }
    match datapath::detach(&name) {
        Ok(_) | Err(ackwise_datapath::Error::NotAttached(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Puts back what a killed process has left, by its record.
///
/// # Errors
/// The kernel refuses; the record stays.
pub(super) fn put_back(entry: Entry<Record>) -> anyhow::Result<Entry<Record>> {
    let replaced = entry.leftover.as_ref().and_then(|it| it.replaced.clone());
    let Some(replaced) = replaced else {
        return Ok(entry);
    };
    match Netlink::open().and_then(|mut netlink| replaced.undo(&mut netlink)) {
        Ok(Undone::Restored) => tracing::info!("the queue of a killed `ackwise up` is put back"),
        Ok(Undone::NotOurs) => tracing::info!("the queue was changed by somebody else, and stays"),
        Err(error) => {
            entry.leave();
            return Err(anyhow!(
                "the queue cannot be put back: {error}\n  run as root"
            ));
        }
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_does_not_end_keeps_no_other_up() {
        let record = |name: &str| Record {
            pid: 1,
            interface: name.to_owned(),
            index: 1,
            netns: 1,
            gateway: false,
            replaced: None,
        };
        let all = ["eth0", "eth1", "eth2", "eth3"].map(|name| (record(name), true));
        let stuck = ["eth0", "eth2"];
        let end = |record: &Record, ran| match &record.interface[..] {
            name if stuck.contains(&name) => Err(anyhow!("process 1 does not end")),
            name => Ok(Done {
                interface: name.to_owned(),
                ran,
                restored: None,
                stays: None,
            }),
        };
        let (done, failed) = end_all(&all, end);
        let done: Vec<_> = done.iter().map(|it| it.interface.as_str()).collect();
        assert_eq!(done, ["eth1", "eth3"]);
        let said = conclude(failed).unwrap_err().to_string();
        let expected = stuck.map(|name| format!("{name}: process 1 does not end"));
        assert_eq!(said, expected.join("\n"));
        let (_, failed) = end_all(&all[..1], end);
        let said = conclude(failed).unwrap_err().to_string();
        assert_eq!(said, "process 1 does not end");
        conclude(Vec::new()).unwrap();
    }
}
