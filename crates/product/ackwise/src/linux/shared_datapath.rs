//! A datapath that one thread watches and one renews while others read its metrics.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ackwise_datapath::{Datapath, Ended, Error, FlowStats, Stats};
use ackwise_netdev::daemon::Daemon;
use ackwise_policy::Config;
use anyhow::Context;

use crate::linux::ab::subject::Subject;
use crate::linux::http::Server;
use crate::linux::shared_daemon::SharedDaemon;

/// A datapath; `None` before it is attached and after it is detached.
#[derive(Clone, Default)]
pub struct SharedDatapath {
    daemon: SharedDaemon<Datapath>,
    /// Whether the watcher is to start over.
    is_renewed: Arc<AtomicBool>,
}

impl SharedDatapath {
    pub fn set(&self, datapath: Datapath) {
        self.daemon.set(datapath);
    }

    /// Takes the datapath away from the readers.
    pub fn take(&self) -> anyhow::Result<Datapath> {
        self.daemon.take()
    }

    /// Serves the metrics of the datapath.
    pub fn serve(&self, listener: TcpListener) -> anyhow::Result<Server> {
        self.daemon.serve(listener)
    }

    /// Renews the policy's parameters. Readers are not blocked.
    pub fn renew(&self, policy: Config) -> anyhow::Result<()> {
        let renewer = self.daemon.lock().as_ref().map(Datapath::renewer);
        Ok(renewer.context("the attachment is gone")?.renew(policy)?)
    }

    /// Makes a renewal in progress fail soon, because the datapath is about to end.
    pub fn end_renewals(&self) {
        if let Some(datapath) = &*self.daemon.lock() {
            datapath.renewer().end();
        }
    }

    /// Records that the queue of the interface was replaced.
    pub fn note_queue_replaced(&self) {
        if let Some(datapath) = &*self.daemon.lock() {
            datapath.renewer().note_queue_replaced();
        }
    }

    /// Makes the watcher start over: its findings are about another policy.
    pub fn note_renewal(&self) {
        self.is_renewed.store(true, Ordering::SeqCst);
    }
}

impl Daemon for SharedDatapath {
    type Stats = Stats;
    type Error = Error;

    fn stats(&self) -> Result<Stats, Error> {
        self.daemon.stats()
    }

    fn ended(&self) -> Option<Ended> {
        if let Some(ended) = self.daemon.ended() {
            return Some(ended);
        }
        let is_renewed = self.is_renewed.swap(false, Ordering::SeqCst);
        is_renewed.then_some(Ended::Renewed)
    }
}

impl Subject for SharedDatapath {
    fn pause(&self, paused: bool) -> Result<(), Error> {
        let datapath = self.daemon.lock();
        datapath.as_ref().map_or(Ok(()), |it| it.pause(paused))
    }

    fn flows(&self, limit: usize) -> Result<Vec<FlowStats>, Error> {
        let datapath = self.daemon.lock();
        datapath
            .as_ref()
            .map_or_else(|| Ok(Vec::new()), |it| it.flows(limit))
    }
}
