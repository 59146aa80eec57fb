//! What runs on this host, read at one moment.

use std::time::{Duration, Instant};

use ackwise_datapath::control::Status;
use ackwise_netdev::netlink::{Netlink, QdiscStats};

use crate::linux::lookup::root_queue;
use crate::linux::present::{Names, named};

/// The maximum number of flows read per attachment: those with most ACKs.
pub const MAX_FLOWS: usize = 256;

/// What a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `ackwise attach`, or the part of `ackwise up` that thins.
    Attachment,
    /// `ackwise gateway up`.
    Gateway,
    /// `ackwise tunnel up`.
    Tunnel,
}

/// Identifies a source across snapshots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    pub kind: Kind,
    /// The inode of the network namespace, if it is not the caller's.
    pub netns: Option<u64>,
    /// The interface, followed by its name when it was attached to if that is different; or the
    /// tunnel's device.
    pub name: String,
}

/// The counters of one source.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "there are few of them")]
pub enum Counters {
    Attachment(Status),
    Gateway(ackwise_gateway::Stats),
    Tunnel(ackwise_tunneld::Stats),
}

/// Packets that wait at an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    pub packets: u64,
    pub bytes: u64,
    /// The rate at which the bytes leave, bit/s, if known.
    pub rate_bps: Option<u64>,
}

/// One attachment, gateway or tunnel.
#[derive(Debug, Clone)]
pub struct Source {
    pub id: Id,
    /// The counters, or why there are none.
    pub counters: Result<Counters, String>,
    /// The queue behind the source, if this process can see it.
    pub backlog: Option<Backlog>,
}

/// Everything that runs.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The time since the reader was created.
    pub at: Duration,
    /// The sources, in a stable order.
    pub sources: Vec<Source>,
}

/// Reads snapshots.
pub struct Reader {
    began: Instant,
    /// Read only sources of this name.
    only: Option<String>,
    netlink: Option<Netlink>,
    names: Names,
}

impl Reader {
    pub fn new(only: Option<String>) -> Self {
        Self {
            began: Instant::now(),
            only,
            // Without netlink no queues are shown; everything else is.
            netlink: Netlink::open().ok(),
            names: Names::new(),
        }
    }

    /// Reads the counters of everything that runs.
    pub fn read(&mut self) -> anyhow::Result<Snapshot> {
        let at = self.began.elapsed();
        let queues = self.netlink.as_mut().map(Netlink::qdisc_stats);
        let queues = queues.and_then(Result::ok).unwrap_or_default();
        let mut sources = self.attachments(&queues)?;
        sources.extend(self.gateways()?);
        sources.extend(self.tunnels()?);
        sources.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(Snapshot { at, sources })
    }

    fn wanted(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == name)
    }

    fn attachments(&self, queues: &[QdiscStats]) -> anyhow::Result<Vec<Source>> {
        let holders = ackwise_datapath::control::list()?.into_iter();
        let source = |holder: ackwise_datapath::control::Holder| {
            let now = self.names.other(&holder);
            // An interface that is renamed meanwhile is still shown.
            let names = [Some(&holder.ifname), now.as_ref()];
            if !names.into_iter().flatten().any(|it| self.wanted(it)) {
                return None;
            }
            let status = ackwise_datapath::control::status_of(&holder, MAX_FLOWS);
            let here = holder.netns == self.names.netns;
            Some(Source {
                backlog: here.then(|| root_backlog(queues, holder.ifindex)).flatten(),
                id: Id {
                    kind: Kind::Attachment,
                    netns: (!here).then_some(holder.netns),
                    name: named(&holder.ifname, now.as_deref()),
                },
                counters: status
                    .map(Counters::Attachment)
                    .map_err(|error| error.to_string()),
            })
        };
        Ok(holders.filter_map(source).collect())
    }

    fn gateways(&self) -> anyhow::Result<Vec<Source>> {
        let names = ackwise_gateway::control::list()?.into_iter();
        let source = |name: String| {
            let stats = ackwise_gateway::control::status(&name);
            // It may have ended since the list was made.
            if matches!(stats, Err(ackwise_gateway::Error::NotThere(_))) {
                return None;
            }
            Some(Source {
                backlog: stats.as_ref().ok().map(|stats| Backlog {
                    packets: stats.waiting.packets,
                    bytes: stats.waiting.bytes,
                    rate_bps: Some(stats.measured.map_or(stats.rate_bps, |m| m.rate_bps)),
                }),
                id: Id {
                    kind: Kind::Gateway,
                    netns: None,
                    name,
                },
                counters: stats
                    .map(Counters::Gateway)
                    .map_err(|error| error.to_string()),
            })
        };
        Ok(names
            .filter(|name| self.wanted(name))
            .filter_map(source)
            .collect())
    }

    fn tunnels(&self) -> anyhow::Result<Vec<Source>> {
        let mut sources = Vec::new();
        for name in ackwise_tunneld::control::list()? {
            let stats = ackwise_tunneld::control::status(&name);
            if matches!(stats, Err(ackwise_tunneld::Error::NotThere(_))) {
                continue;
            }
            let interface = stats.as_ref().ok().and_then(|s| s.interface.clone());
            if self.wanted(&name) || interface.is_some_and(|name| self.wanted(&name)) {
                sources.push(Source {
                    id: Id {
                        kind: Kind::Tunnel,
                        netns: None,
                        name,
                    },
                    counters: stats
                        .map(Counters::Tunnel)
                        .map_err(|error| error.to_string()),
                    backlog: None,
                });
            }
        }
        Ok(sources)
    }
}

fn root_backlog(queues: &[QdiscStats], interface: u32) -> Option<Backlog> {
    let root = root_queue(queues, interface)?;
    Some(Backlog {
        packets: u64::from(root.packets),
        bytes: u64::from(root.bytes),
        rate_bps: None,
    })
}
