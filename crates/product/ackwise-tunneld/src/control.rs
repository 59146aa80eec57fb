//! Lists running tunnels, and asks or stops one by the name of its device.

use std::time::Duration;

use ackwise_netdev::control::{AskError, Listener, Request, Server, Service};
use ackwise_netdev::registry::{Entry, Key, Redirector, Registry, TakeError, netns_inode};

use crate::{Error, Stats};

const KIND: &str = "tunnel";
const TUNNELS: Service<Stats> = Service::new(KIND);

fn registry() -> Registry<Redirector> {
    Registry::new(KIND, |_| false)
}

/// Claims the name of a device, so that no other tunnel uses it.
pub(crate) fn claim(device: &str) -> Result<Entry<Redirector>, Error> {
    registry()
        .take(&Key::here(device)?)
        .map_err(|error| match error {
            TakeError::Held(holder) => Error::Held {
                device: device.to_owned(),
                pid: holder.map_or(0, |holder| holder.pid),
            },
            TakeError::Registry(error) => error.into(),
        })
}

/// Answers requests on the control socket. `stats` returns the statistics; `stop` ends the
/// tunnel and returns the last ones.
pub(crate) fn start(
    listener: Listener,
    stats: impl Fn() -> Stats + Send + Sync + 'static,
    stop: impl Fn() -> Stats + Send + Sync + 'static,
) -> Result<Server, Error> {
    TUNNELS
        .serve(listener, move |request| {
            Ok(match request {
                Request::Status { .. } => stats(),
                Request::Stop => stop(),
            })
        })
        .map_err(Error::system("start the control thread"))
}

fn ask(device: &str, request: Request) -> Result<Stats, Error> {
    // Whoever may not read the registry cannot tell whether there is a tunnel.
    let registry = registry();
    registry.list()?;
    let path = registry.socket_path(&Key::here(device)?);
    TUNNELS.ask(&path, request).map_err(|error| match error {
        AskError::NotRunning => Error::NotThere(device.to_owned()),
        AskError::Failed(why) => Error::Control {
            device: device.to_owned(),
            why,
        },
    })
}

/// Returns the statistics of a tunnel.
///
/// # Errors
/// Returns [`Error::NotThere`] if there is no such tunnel, and [`Error::Control`] if it does
/// not answer.
pub fn status(device: &str) -> Result<Stats, Error> {
    ask(device, Request::STATUS)
}

/// Ends a tunnel and returns its last statistics.
///
/// # Errors
/// Returns [`Error::NotThere`] if there is no such tunnel, and [`Error::Control`] if it does
/// not answer.
pub fn down(device: &str) -> Result<Stats, Error> {
    ask(device, Request::Stop)
}

/// Waits until the process of a tunnel that was stopped has ended as well, so that another one can
/// start. Returns whether it ended within `time`.
///
/// # Errors
/// Fails if the registry cannot be read.
pub fn wait_ended(pid: u32, time: Duration) -> Result<bool, Error> {
    Ok(registry().wait_ended(pid, time)?)
}

/// Lists the devices of the tunnels in this network namespace.
///
/// # Errors
/// Fails if the registry cannot be read.
pub fn list() -> Result<Vec<String>, Error> {
    let netns = netns_inode().map_err(Error::system("read the network namespace's inode"))?;
    let here = registry().list()?.into_iter();
    let here = here.filter(|tunnel| tunnel.netns == netns);
    let mut names: Vec<_> = here.map(|tunnel| tunnel.name).collect();
    names.sort();
    Ok(names)
}
