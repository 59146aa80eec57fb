//! Which tunnels there are, and how to talk to them.

use std::io;
use std::sync::Arc;

use ackwise_door::socket::{self, PATIENCE, Server};
use serde::{Deserialize, Serialize};

use crate::daemon::Inner;
use crate::{Error, Stats};

const PREFIX: &str = "ackwise-tunnel-";

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

fn name(device: &str) -> String {
    format!("{PREFIX}{device}")
}

/// The right to be the tunnel of a name.
pub(crate) fn claim(device: &str) -> Result<socket::Claim, Error> {
    socket::Claim::take(&name(device)).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Error::Held {
            device: device.to_owned(),
            pid: status(device).map_or(0, |stats| stats.pid),
        },
        _ => Error::system("opening the control socket")(error),
    })
}

pub(crate) fn start(claim: socket::Claim, tunnel: Arc<Inner>) -> Result<Server, Error> {
    let refusal = Answer::Error("only root and the user of the tunnel may ask".to_owned());
    Server::start(claim, to_line(&refusal), move |line| answer(line, &tunnel))
        .map_err(Error::system("starting the control thread"))
}

fn to_line(answer: &Answer) -> String {
    serde_json::to_string(answer).unwrap_or_default()
}

fn answer(line: &str, tunnel: &Inner) -> String {
    to_line(&match serde_json::from_str(line) {
        Ok(Request::Status) => Answer::Stats(Box::new(tunnel.stats())),
        Ok(Request::Down) => Answer::Stats(Box::new(tunnel.stop_and_wait(PATIENCE / 2))),
        Err(error) => Answer::Error(format!("the question is not understood: {error}")),
    })
}

fn ask(device: &str, request: &Request) -> Result<Stats, Error> {
    let line = serde_json::to_string(request).unwrap_or_default();
    let why = match socket::ask(&name(device), &line) {
        Ok(text) => match serde_json::from_str(&text) {
            Ok(Answer::Stats(stats)) => return Ok(*stats),
            Ok(Answer::Error(why)) => why,
            Err(error) => error.to_string(),
        },
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return Err(Error::NotThere(device.to_owned()));
        }
        Err(error) => error.to_string(),
    };
    Err(Error::Control {
        device: device.to_owned(),
        why,
    })
}

/// The counters of a tunnel.
///
/// # Errors
/// There is none, or it does not answer.
pub fn status(device: &str) -> Result<Stats, Error> {
    ask(device, &Request::Status)
}

/// Ends a tunnel; its last counters.
///
/// # Errors
/// There is none, or it does not answer.
pub fn down(device: &str) -> Result<Stats, Error> {
    ask(device, &Request::Down)
}

/// The devices of this network namespace's tunnels.
///
/// # Errors
/// The list of sockets cannot be read.
pub fn list() -> Result<Vec<String>, Error> {
    socket::list(PREFIX).map_err(Error::system("reading the list of sockets"))
}
