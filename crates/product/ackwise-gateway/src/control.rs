//! Which gateways run, and how to ask and stop them: by the name of their interface.

use std::io;

use ackwise_netdev::control::{AskError, Claim, Request, Server, Service};

use crate::{Error, Stats};

const GATEWAYS: Service<Stats> = Service::new("gateway");

/// Claims the right to be the gateway of an interface.
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

/// Answers requests with what `answer` returns, until the server is dropped.
pub(crate) fn serve(
    claim: Claim,
    answer: impl Fn(Request) -> Result<Stats, Error> + Send + 'static,
) -> Result<Server, Error> {
    GATEWAYS
        .serve(claim, move |request| {
            answer(request).map_err(|error| error.to_string())
        })
        .map_err(Error::system("starting the control thread"))
}

fn ask(interface: &str, request: Request) -> Result<Stats, Error> {
    GATEWAYS
        .ask(interface, request)
        .map_err(|error| match error {
            AskError::NotRunning => Error::NotThere(interface.to_owned()),
            AskError::Failed(why) => Error::Control {
                interface: interface.to_owned(),
                why,
            },
        })
}

/// Returns the counters of the gateway of an interface.
///
/// # Errors
/// The interface has no gateway, or it does not answer.
pub fn status(interface: &str) -> Result<Stats, Error> {
    ask(interface, Request::STATUS)
}

/// Stops the gateway of an interface and returns its last counters.
///
/// # Errors
/// The interface has no gateway, or it does not answer.
pub fn down(interface: &str) -> Result<Stats, Error> {
    ask(interface, Request::Stop)
}

/// Returns the interfaces of this network namespace that have a gateway.
///
/// # Errors
/// The list of sockets cannot be read.
pub fn list() -> Result<Vec<String>, Error> {
    GATEWAYS
        .list()
        .map_err(Error::system("reading the list of sockets"))
}
