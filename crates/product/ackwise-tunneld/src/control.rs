//! The control socket: it finds the tunnels of a network namespace and asks them, by the
//! name of their device.

use std::io;

use ackwise_netdev::control::{AskError, Claim, Request, Server, Service};

use crate::{Error, Stats};

const TUNNELS: Service<Stats> = Service::new("tunnel");

/// Claims the name of a device, so that no other tunnel uses it.
pub(crate) fn claim(device: &str) -> Result<Claim, Error> {
    TUNNELS.claim(device).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Error::Held {
            device: device.to_owned(),
            pid: status(device).map_or(0, |stats| stats.pid),
        },
        _ => Error::system("opening the control socket")(error),
    })
}

/// Answers requests on the control socket. `stats` returns the statistics; `stop` ends the
/// tunnel and returns the last ones.
pub(crate) fn start(
    claim: Claim,
    stats: impl Fn() -> Stats + Send + Sync + 'static,
    stop: impl Fn() -> Stats + Send + Sync + 'static,
) -> Result<Server, Error> {
    TUNNELS
        .serve(claim, move |request| {
            Ok(match request {
                Request::Status { .. } => stats(),
                Request::Stop => stop(),
            })
        })
        .map_err(Error::system("starting the control thread"))
}

fn ask(device: &str, request: Request) -> Result<Stats, Error> {
    TUNNELS.ask(device, request).map_err(|error| match error {
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

/// Lists the devices of the tunnels in this network namespace.
///
/// # Errors
/// Fails if the list of sockets cannot be read.
pub fn list() -> Result<Vec<String>, Error> {
    TUNNELS
        .list()
        .map_err(Error::system("reading the list of sockets"))
}
