//! Which tunnels there are, and how to talk to them: by the name of their device.

use std::io;
use std::sync::Arc;

use ackwise_netdev::control::{Request, Service, Unanswered};
use ackwise_netdev::socket::{Claim, PATIENCE, Server};

use crate::daemon::Inner;
use crate::{Error, Stats};

const TUNNELS: Service<Stats> = Service::new("tunnel");

/// The right to be the tunnel of a name.
pub(crate) fn claim(device: &str) -> Result<Claim, Error> {
    TUNNELS.claim(device).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Error::Held {
            device: device.to_owned(),
            pid: status(device).map_or(0, |stats| stats.pid),
        },
        _ => Error::system("opening the control socket")(error),
    })
}

pub(crate) fn start(claim: Claim, tunnel: Arc<Inner>) -> Result<Server, Error> {
    TUNNELS
        .start(claim, move |request| {
            Ok(match request {
                Request::Status => tunnel.stats(),
                Request::Down => tunnel.stop_and_wait(PATIENCE / 2),
            })
        })
        .map_err(Error::system("starting the control thread"))
}

fn ask(device: &str, request: Request) -> Result<Stats, Error> {
    TUNNELS
        .ask(device, request)
        .map_err(|unanswered| match unanswered {
            Unanswered::NotThere => Error::NotThere(device.to_owned()),
            Unanswered::Because(why) => Error::Control {
                device: device.to_owned(),
                why,
            },
        })
}

/// The counters of a tunnel.
///
/// # Errors
/// There is none, or it does not answer.
pub fn status(device: &str) -> Result<Stats, Error> {
    ask(device, Request::Status)
}

/// Ends a tunnel; its last counters.
///
/// # Errors
/// There is none, or it does not answer.
pub fn down(device: &str) -> Result<Stats, Error> {
    ask(device, Request::Down)
}

/// The devices of this network namespace's tunnels.
///
/// # Errors
/// The list of sockets cannot be read.
pub fn list() -> Result<Vec<String>, Error> {
    TUNNELS
        .list()
        .map_err(Error::system("reading the list of sockets"))
}
