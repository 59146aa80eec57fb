//! A datapath that one thread watches and others read metrics of.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ackwise_cli::error::BadInput;
use ackwise_datapath::{Datapath, Ended, Error, FlowStats, Stats};
use ackwise_netdev::daemon::Daemon;
use ackwise_policy::Config;
use anyhow::Context;

use crate::ab::subject::Subject;
use crate::http::{Page, Server};
use crate::metrics;

/// A datapath; none before it is attached and after it has detached. Then nothing counts.
#[derive(Clone, Default)]
pub struct SharedDatapath(Arc<Shared>);

#[derive(Default)]
struct Shared {
    datapath: Mutex<Option<Datapath>>,
    /// Whoever watches is to begin anew.
    is_renewed: AtomicBool,
}

impl SharedDatapath {
    fn lock(&self) -> MutexGuard<'_, Option<Datapath>> {
        let datapath = self.0.datapath.lock();
        datapath.unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, datapath: Datapath) {
        *self.lock() = Some(datapath);
    }

    /// Takes it from those who read.
    pub fn take(&self) -> anyhow::Result<Datapath> {
        self.lock().take().context("the attachment is gone")
    }

    /// Goes on with other parameters of the policy. Others read meanwhile.
    pub fn renew(&self, policy: Config) -> anyhow::Result<()> {
        let renewer = self.lock().as_ref().map(Datapath::renewer);
        Ok(renewer.context("the attachment is gone")?.renew(policy)?)
    }

    /// Has whoever watches it begin anew: what was found out is of another policy.
    pub fn note_renewal(&self) {
        self.0.is_renewed.store(true, Ordering::SeqCst);
    }

    /// Serves its metrics.
    pub fn serve(&self, listener: TcpListener) -> anyhow::Result<Server> {
        let shared = self.clone();
        let page: Arc<Page> = Arc::new(move || match shared.lock().as_ref() {
            Some(datapath) => metrics::page(datapath.stats().map_err(|e| e.to_string())?),
            None => Err("not attached".to_owned()),
        });
        Server::start(listener, page).context("starting the thread that serves metrics")
    }
}

/// Listens where metrics are to be served. Do it before attaching: a port that is taken must not
/// cost a single ACK.
pub fn listen(address: SocketAddr) -> Result<TcpListener, BadInput> {
    TcpListener::bind(address).map_err(|e| {
        BadInput::new(format!("--metrics {address}: cannot listen there: {e}"))
            .mend("choose another address or port; port 0 takes any free one")
    })
}

impl Daemon for SharedDatapath {
    type Stats = Stats;
    type Error = Error;

    fn stats(&self) -> Result<Stats, Error> {
        let datapath = self.lock();
        datapath
            .as_ref()
            .map_or_else(|| Ok(Stats::default()), Datapath::stats)
    }

    fn ended(&self) -> Option<Ended> {
        if let Some(ended) = self.lock().as_ref().and_then(Datapath::ended) {
            return Some(ended);
        }
        let is_renewed = self.0.is_renewed.swap(false, Ordering::SeqCst);
        is_renewed.then_some(Ended::Renewed)
    }
}

impl Subject for SharedDatapath {
    fn pause(&self, paused: bool) -> Result<(), Error> {
        self.lock().as_ref().map_or(Ok(()), |it| it.pause(paused))
    }

    fn flows(&self, limit: usize) -> Result<Vec<FlowStats>, Error> {
        let datapath = self.lock();
        datapath
            .as_ref()
            .map_or_else(|| Ok(Vec::new()), |it| it.flows(limit))
    }
}
