//! What a process that owns a way out can be asked: its counters, and to end.
//!
//! A question is a line of JSON over a [socket] and so is the answer.

use std::io;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::socket::{self, Claim, Server};

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// The counters.
    Status,
    /// End; the last counters.
    Down,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer<S> {
    Stats(Box<S>),
    Error(String),
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// Nobody has the name.
    NotThere,
    /// In words.
    Because(String),
}

/// A kind of process, whose counters are an `S`.
#[derive(Debug)]
pub struct Service<S> {
    kind: &'static str,
    stats: PhantomData<fn() -> S>,
}

impl<S: Serialize + DeserializeOwned + 'static> Service<S> {
    /// All of this kind (`gateway`) in this network namespace.
    #[must_use]
    pub const fn new(kind: &'static str) -> Self {
        let stats = PhantomData;
        Self { kind, stats }
    }

    fn full(&self, name: &str) -> String {
        format!("ackwise-{}-{name}", self.kind)
    }

    /// The right to a name.
    ///
    /// # Errors
    /// `AddrInUse`: another process has it. Or it is too long.
    pub fn claim(&self, name: &str) -> io::Result<Claim> {
        Claim::take(&self.full(name))
    }

    /// Answers until the server is dropped.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        &self,
        claim: Claim,
        answer: impl Fn(Request) -> Result<S, String> + Send + 'static,
    ) -> io::Result<Server> {
        let refusal = format!("only root and the user of the {} may ask", self.kind);
        let refusal = to_line(&Answer::<S>::Error(refusal));
        Server::start(claim, refusal, move |line| {
            let stats = serde_json::from_str(line)
                .map_err(|error| format!("the question is not understood: {error}"))
                .and_then(&answer);
            to_line(&stats.map_or_else(Answer::Error, |stats| Answer::Stats(Box::new(stats))))
        })
    }

    /// Asks whoever has a name.
    ///
    /// # Errors
    /// See [`Unanswered`].
    pub fn ask(&self, name: &str, request: Request) -> Result<S, Unanswered> {
        let because = |error: &dyn std::error::Error| Unanswered::Because(error.to_string());
        let line = serde_json::to_string(&request).map_err(|e| because(&e))?;
        let text = socket::ask(&self.full(name), &line).map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => Unanswered::NotThere,
            _ => because(&error),
        })?;
        match serde_json::from_str(&text).map_err(|e| because(&e))? {
            Answer::Stats(stats) => Ok(*stats),
            Answer::Error(why) => Err(Unanswered::Because(why)),
        }
    }

    /// The names that are taken.
    ///
    /// # Errors
    /// The list of sockets cannot be read.
    pub fn list(&self) -> io::Result<Vec<String>> {
        socket::list(&self.full(""))
    }
}

fn to_line<S: Serialize>(answer: &Answer<S>) -> String {
    serde_json::to_string(answer).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_and_its_answers() {
        let service = Service::<u32>::new("test-of-control");
        let name = std::process::id().to_string();
        let ask = |request| service.ask(&name, request);
        assert_eq!(ask(Request::Status), Err(Unanswered::NotThere));
        let claim = service.claim(&name).unwrap();
        let taken = service.claim(&name).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let server = service.start(claim, |request| match request {
            Request::Status => Ok(7),
            Request::Down => Err("it stays".to_owned()),
        });
        assert_eq!(ask(Request::Status), Ok(7));
        let stays = Unanswered::Because("it stays".to_owned());
        assert_eq!(ask(Request::Down), Err(stays));
        assert!(service.list().unwrap().contains(&name));
        let other = socket::ask(&service.full(&name), "\"sideways\"").unwrap();
        assert!(other.contains("not understood"), "{other}");
        drop(server);
        assert_eq!(ask(Request::Status), Err(Unanswered::NotThere));
    }
}
