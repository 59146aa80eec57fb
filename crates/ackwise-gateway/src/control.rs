//! Who has a gateway where, and how to talk to them.
//!
//! Each gateway listens on a socket whose name is in no file system: the name is
//! the claim to the interface, is of one network namespace as the interface is, and
//! is gone with the process. A line is answered by a line of JSON.

use std::io;
use std::sync::Arc;

use ackwise_door::socket::{self, PATIENCE, Server};
use serde::{Deserialize, Serialize};

use crate::gateway::Inner;
use crate::{Error, Stats};

const PREFIX: &str = "ackwise-gateway-";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Request {
    Status,
    Down,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Stats(Box<Stats>),
    Error(String),
}

fn name(interface: &str) -> String {
    format!("{PREFIX}{interface}")
}

/// The right to be the gateway of an interface.
#[derive(Debug)]
pub(crate) struct Claim(socket::Claim);

impl Claim {
    pub fn take(interface: &str) -> Result<Self, Error> {
        socket::Claim::take(&name(interface))
            .map(Self)
            .map_err(|error| match error.kind() {
                io::ErrorKind::AddrInUse => Error::Held {
                    interface: interface.to_owned(),
                    pid: status(interface).map_or(0, |stats| stats.pid),
                },
                _ => Error::system("opening the control socket")(error),
            })
    }
}

pub(crate) fn start(claim: Claim, gateway: Arc<Inner>) -> Result<Server, Error> {
    let refusal = "only root and the user of the gateway may ask";
    let refusal = to_line(&Answer::Error(refusal.to_owned()));
    Server::start(claim.0, refusal, move |line| answer(line, &gateway))
        .map_err(Error::system("starting the control thread"))
}

fn to_line(answer: &Answer) -> String {
    serde_json::to_string(answer).unwrap_or_default()
}

fn answer(line: &str, gateway: &Inner) -> String {
    let stats = match serde_json::from_str(line) {
        Ok(Request::Status) => gateway.stats(),
        Ok(Request::Down) => gateway.stop_and_wait(PATIENCE / 2),
        Err(error) => Err(Error::Control {
            interface: "this interface".to_owned(),
            why: format!("the question is not understood: {error}"),
        }),
    };
    to_line(&stats.map_or_else(
        |error| Answer::Error(error.to_string()),
        |stats| Answer::Stats(Box::new(stats)),
    ))
}

fn ask(interface: &str, request: &Request) -> Result<Stats, Error> {
    let line = serde_json::to_string(request).unwrap_or_default();
    let why = match socket::ask(&name(interface), &line) {
        Ok(text) => match serde_json::from_str(&text) {
            Ok(Answer::Stats(stats)) => return Ok(*stats),
            Ok(Answer::Error(why)) => why,
            Err(error) => error.to_string(),
        },
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return Err(Error::NotThere(interface.to_owned()));
        }
        Err(error) => error.to_string(),
    };
    Err(Error::Control {
        interface: interface.to_owned(),
        why,
    })
}

/// The counters of the gateway of an interface.
///
/// # Errors
/// There is none, or it does not answer.
pub fn status(interface: &str) -> Result<Stats, Error> {
    ask(interface, &Request::Status)
}

/// Ends the gateway of an interface; its last counters.
///
/// # Errors
/// There is none, or it does not answer.
pub fn down(interface: &str) -> Result<Stats, Error> {
    ask(interface, &Request::Down)
}

/// The interfaces of this network namespace that have a gateway.
///
/// # Errors
/// The list of sockets cannot be read.
pub fn list() -> Result<Vec<String>, Error> {
    socket::list(PREFIX).map_err(Error::system("reading the list of sockets"))
}
