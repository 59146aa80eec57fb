//! Who has a gateway where, and how to talk to them: by the interface's name.

use std::io;
use std::sync::Arc;

use ackwise_netdev::control::{Request, Service, Unanswered};
use ackwise_netdev::socket::{Claim, PATIENCE, Server};

use crate::gateway::Inner;
use crate::{Error, Stats};

const GATEWAYS: Service<Stats> = Service::new("gateway");

/// The right to be the gateway of an interface.
pub(crate) fn claim(interface: &str) -> Result<Claim, Error> {
    GATEWAYS
        .claim(interface)
        .map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Error::Held {
                interface: interface.to_owned(),
                pid: status(interface).map_or(0, |stats| stats.pid),
            },
            _ => Error::system("opening the control socket")(error),
        })
}

pub(crate) fn start(claim: Claim, gateway: Arc<Inner>) -> Result<Server, Error> {
    GATEWAYS
        .start(claim, move |request| {
            match request {
                Request::Status => gateway.stats(),
                Request::Down => gateway.stop_and_wait(PATIENCE / 2),
            }
            .map_err(|error| error.to_string())
        })
        .map_err(Error::system("starting the control thread"))
}

fn ask(interface: &str, request: Request) -> Result<Stats, Error> {
    GATEWAYS
        .ask(interface, request)
        .map_err(|unanswered| match unanswered {
            Unanswered::NotThere => Error::NotThere(interface.to_owned()),
            Unanswered::Because(why) => Error::Control {
                interface: interface.to_owned(),
                why,
            },
        })
}

/// The counters of the gateway of an interface.
///
/// # Errors
/// There is none, or it does not answer.
pub fn status(interface: &str) -> Result<Stats, Error> {
    ask(interface, Request::Status)
}

/// Ends the gateway of an interface; its last counters.
///
/// # Errors
/// There is none, or it does not answer.
pub fn down(interface: &str) -> Result<Stats, Error> {
    ask(interface, Request::Down)
}

/// The interfaces of this network namespace that have a gateway.
///
/// # Errors
/// The list of sockets cannot be read.
pub fn list() -> Result<Vec<String>, Error> {
    GATEWAYS
        .list()
        .map_err(Error::system("reading the list of sockets"))
}
