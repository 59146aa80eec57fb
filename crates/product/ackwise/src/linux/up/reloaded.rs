//! The report of a reload: by `ackwise reload`, by the process of one interface, and by the first
//! process of `ackwise up --all`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ackwise_cli::error::{EXIT_BAD_INPUT, exit_code, in_line};
use ackwise_cli::{Format, text as out};
use ackwise_netdev::control::{AskError, Listener, Server, Service};
use ackwise_netdev::registry::{Key, Registry};
use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Record, registry};

/// How long a process may take: the kernel's verifier checks programs, and a process that is
/// restarted first sends the ACKs that it holds.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(120);
/// What a running process can be asked.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    Reload,
}

/// The outcome of reading the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Done(Vec<Reloaded>),
    /// The lines that say what is wrong with the file. Everything stays as it was.
    Mistake(Vec<String>),
}

/// The outcome for one interface.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Reloaded {
    pub interface: String,
    /// What has changed.
    pub changed: Vec<String>,
    /// The keys whose new values need a new process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// What failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl Reloaded {
    pub fn of(interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            ..Self::default()
        }
    }

    pub fn line(&self) -> String {
        let mut parts = self.changed.clone();
        if !self.left.is_empty() {
            parts.push(format!("not changed: {}", self.left.join(", ")));
        }
        parts.extend(self.failed.iter().map(|why| format!("failed: {why}")));
        if parts.is_empty() {
            parts.push("nothing to change".to_owned());
        }
        format!("{}: {}\n", self.interface, parts.join("; "))
    }
}

/// The processes that are up on one interface.
pub const UP_SERVICE: Service<Answer, Request> = Service::new("up");

/// Answers requests with the outcome of `reload`, until the server is dropped.
pub fn serve(
    service: &Service<Answer, Request>,
    listener: Listener,
    reload: impl Fn() -> anyhow::Result<Vec<Reloaded>> + Send + 'static,
) -> anyhow::Result<Server> {
    let server = service.serve(listener, move |Request::Reload| match reload() {
        Ok(done) => Ok(Answer::Done(done)),
        Err(error) if exit_code(&error, |_| false) == EXIT_BAD_INPUT => {
            let lines = error.to_string();
            Ok(Answer::Mistake(lines.lines().map(str::to_owned).collect()))
        }
        Err(error) => Err(in_line(&error)),
    });
    server.context("starting the control thread")
}

/// Reports a reload that nobody waits for, or that another process asked for.
pub fn report(done: &anyhow::Result<Vec<Reloaded>>, format: Format) {
    let printed = match done {
        Ok(all) => all.iter().try_for_each(|one| match format {
            Format::Json => {
                let mut event = serde_json::to_value(one).unwrap_or_default();
                event["event"] = "reloaded".into();
                out::print(&format!("{event}\n"))
            }
            Format::Text => out::print(&format!("reloaded {}", one.line())),
        }),
        Err(error) => {
            tracing::error!("{}\n  nothing was changed", in_line(error));
            match format {
                Format::Json => {
                    let event = json!({ "event": "not-reloaded", "why": in_line(error) });
                    out::print(&format!("{event}\n"))
                }
                Format::Text => Ok(()),
            }
        }
    };
    if let Err(error) = printed {
        tracing::debug!("nobody reads what was reloaded: {error}");
    }
}

/// The first process of `ackwise up --all`, as recorded in the registry.
#[derive(Debug, Serialize, Deserialize)]
pub struct AllProcess {
    pub pid: u32,
    /// The inode of the network namespace.
    pub netns: u64,
}

impl AllProcess {
    pub fn key(&self) -> Key {
        Key {
            netns: self.netns,
            name: NAME.to_owned(),
        }
    }
}

const KIND: &str = "all";
const NAME: &str = "up";
/// The first processes of `ackwise up --all`, one per network namespace.
pub const UP_ALL_SERVICE: Service<Answer, Request> = Service::new(KIND);

pub fn all_processes() -> Registry<AllProcess> {
    Registry::new(KIND, |_| false)
}

/// Asks one process to reload.
pub fn ask(service: &Service<Answer, Request>, path: &Path, pid: u32) -> anyhow::Result<Answer> {
    let answer = service.ask_within(RELOAD_TIMEOUT, path, Request::Reload);
    answer.map_err(|error| match error {
        AskError::NotRunning => anyhow!("process {pid} has just ended, or is starting; try again"),
        AskError::Failed(why) => anyhow!("process {pid}: {why}"),
    })
}

/// The socket of the process that is up on an interface.
pub(super) fn socket_path(record: &Record) -> PathBuf {
    registry().socket_path(&Key {
        netns: record.netns,
        name: record.index.to_string(),
    })
}
