//! A daemon that one thread watches while others read its metrics.

use std::fmt::Display;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ackwise_cli::error::BadInput;
use ackwise_netdev::daemon::{Daemon, Ended};
use anyhow::Context;

use crate::linux::http::{Page, Server};
use crate::linux::metrics::{self, Exported};

/// A daemon; `None` before it is started and after it has ended, when there are no counters.
pub struct SharedDaemon<D>(Arc<Mutex<Option<D>>>);

impl<D> Default for SharedDaemon<D> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<D> Clone for SharedDaemon<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D> SharedDaemon<D> {
    pub fn lock(&self) -> MutexGuard<'_, Option<D>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, daemon: D) {
        *self.lock() = Some(daemon);
    }

    /// Takes the daemon away from the readers.
    pub fn take(&self) -> anyhow::Result<D> {
        self.lock().take().context("the attachment is gone")
    }
}

impl<D> SharedDaemon<D>
where
    D: Daemon<Stats: Exported, Error: Display> + Send + 'static,
{
    /// Serves the metrics of the daemon.
    pub fn serve(&self, listener: TcpListener) -> anyhow::Result<Server> {
        let shared = self.clone();
        let page: Arc<Page> = Arc::new(move |wanted| {
            let stats = match shared.lock().as_ref() {
                Some(daemon) => daemon.stats().map_err(|e| e.to_string())?,
                None => return Err("not attached".to_owned()),
            };
            metrics::page(&stats, wanted)
        });
        Server::start(listener, page).context("starting the thread that serves metrics")
    }
}

impl<D: Daemon<Stats: Default>> Daemon for SharedDaemon<D> {
    type Stats = D::Stats;
    type Error = D::Error;

    fn stats(&self) -> Result<D::Stats, D::Error> {
        let daemon = self.lock();
        daemon
            .as_ref()
            .map_or_else(|| Ok(D::Stats::default()), Daemon::stats)
    }

    fn ended(&self) -> Option<Ended> {
        self.lock().as_ref().and_then(Daemon::ended)
    }

    fn is_alive(before: &D::Stats, now: &D::Stats) -> bool {
        D::is_alive(before, now)
    }
}

/// Listens where metrics are to be served. Call this before attaching: a port in use must not cost
/// a single ACK.
pub fn listen(address: SocketAddr) -> Result<TcpListener, BadInput> {
    listen_for("--metrics", address)
}

/// Checks that an address could be listened on, without taking its port: it may be in use now by
/// the daemon that this one would replace. Returns the error that listening there would have.
pub fn check_address(address: SocketAddr) -> io::Result<()> {
    let mut any_port = address;
    any_port.set_port(0);
    UdpSocket::bind(any_port).map(drop)
}

/// Checks that [`listen`] would not refuse the address, whoever has its port.
pub fn check_listen(address: SocketAddr) -> Result<(), BadInput> {
    check_address(address).map_err(|e| cannot_listen("--metrics", address, &e))
}

/// Listens where metrics are to be served, if an argument or else the key `metrics` of a file asks
/// for it.
pub fn listen_if_requested(
    argument: Option<SocketAddr>,
    file: Option<&Path>,
    key: Option<SocketAddr>,
) -> Result<Option<TcpListener>, BadInput> {
    match (argument, file, key) {
        (Some(address), ..) => listen(address).map(Some),
        (None, Some(file), Some(address)) => {
            listen_for(&format!("{}: 'metrics'", file.display()), address).map(Some)
        }
        _ => Ok(None),
    }
}

fn listen_for(what: &str, address: SocketAddr) -> Result<TcpListener, BadInput> {
    TcpListener::bind(address).map_err(|e| cannot_listen(what, address, &e))
}

fn cannot_listen(what: &str, address: SocketAddr, why: &io::Error) -> BadInput {
    BadInput::new(format!("{what} {address}: cannot listen there: {why}"))
        .hint("choose another address or port; port 0 takes any free one")
}
