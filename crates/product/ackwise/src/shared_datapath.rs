//! A datapath that one thread watches and others read metrics of.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ackwise_cli::error::BadInput;
use ackwise_datapath::{Datapath, Ended, Error, FlowStats, Stats};
use ackwise_netdev::daemon::Daemon;
use anyhow::Context;

use crate::ab::subject::Subject;
use crate::http::{Page, Server};
use crate::metrics;

/// A datapath; none before it is attached and after it has detached. Then nothing counts.
#[derive(Clone, Default)]
pub struct SharedDatapath(Arc<Mutex<Option<Datapath>>>);

impl SharedDatapath {
    fn lock(&self) -> MutexGuard<'_, Option<Datapath>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, datapath: Datapath) {
        *self.lock() = Some(datapath);
    }

    /// Takes it from those who read.
    pub fn take(&self) -> anyhow::Result<Datapath> {
        self.lock().take().context("the attachment is gone")
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
        self.lock().as_ref().and_then(Datapath::ended)
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
