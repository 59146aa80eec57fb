//! The applications of a run.
//!
//! A flow's applications are threads (or `iperf3`) whose sockets live in the
//! namespaces of its two nodes. Every wait has an end: see [`socket::Limits`].

mod chunks;
pub mod content;
mod exchange;
mod iperf;
mod short;
pub mod socket;

mod bulk;

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ackwise_rng::Rng;
use ackwise_scenario::record::Content;
use ackwise_scenario::{App, SocketOptions};
use serde::{Deserialize, Serialize};
use socket2::Socket;

use crate::clock::{nanos, now_ns, thread_cpu_ns};
use crate::error::LabError;
use crate::netns::Entrance;
use crate::tcpinfo::{self, TcpInfo};

use socket::{CANCELLED, Connection, Limits};

/// A flow, ready to be run.
#[derive(Debug, Clone)]
pub struct Job {
    /// Name of the flow.
    pub name: String,
    /// The application.
    pub app: App,
    /// Congestion control of its sender.
    pub cc: String,
    /// Options of its sockets.
    pub options: SocketOptions,
    /// Address on which the listening side listens.
    pub server: SocketAddr,
    /// Handle to the namespace of the node that sends the data.
    pub from: Arc<Entrance>,
    /// Handle to the namespace of the node that receives the data.
    pub to: Arc<Entrance>,
    /// Number of concurrent connections.
    pub connections: u32,
    /// The seed of the content and of the order of transfers.
    pub seed: u64,
    /// Start of the flow.
    pub start_ns: u64,
    /// Time after which nothing new begins.
    pub stop_ns: u64,
    /// Misbehaviour of the applications.
    pub behaviour: Vec<Behaviour>,
}

/// Occasional misbehaviour of an application that TCP must cope with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Behaviour {
    /// The receiver stops reading for a while: the window closes.
    ReceiverPause {
        /// Time after the flow's start.
        after: Duration,
        /// Duration.
        lasting: Duration,
    },
    /// The sender stops writing for a while: the flow idles.
    SenderPause {
        /// Time after the flow's start.
        after: Duration,
        /// Duration.
        lasting: Duration,
    },
    /// The receiver reads no faster than this.
    SlowReader {
        /// Bytes per second.
        bytes_per_s: u64,
    },
    /// The sending program is killed (only `iperf3` is a separate program).
    KillSender {
        /// Time after the flow's start.
        after: Duration,
    },
}

/// A completed transfer or exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes transferred.
    pub bytes: u64,
    /// Completion time.
    pub time_ns: u64,
}

/// The results of a flow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Bytes that the receiving application read.
    pub bytes: u64,
    /// When the first byte was sent.
    pub first_ns: Option<u64>,
    /// When the last byte was received.
    pub last_ns: Option<u64>,
    /// Whether the content was right; `None` if it was not checked.
    pub content: Option<Content>,
    /// Completed transfers or exchanges, for applications that have them.
    pub transfers: Vec<Transfer>,
    /// Transfers or exchanges that began and were not completed.
    pub unfinished: u64,
    /// Chunks that arrived late or not at all.
    pub late: Option<u64>,
    /// CPU time of the sending application.
    pub cpu_from_ns: u64,
    /// CPU time of the receiving application.
    pub cpu_to_ns: u64,
    /// `TCP_INFO` of each connection at its end.
    pub finals: Vec<TcpInfo>,
    /// Errors of the flow.
    pub errors: Vec<String>,
}

impl Outcome {
    fn failed(error: impl std::fmt::Display) -> Self {
        Self {
            errors: vec![error.to_string()],
            ..Self::default()
        }
    }

    /// Merges the results of another part of the flow.
    fn merge(&mut self, part: Self) {
        self.bytes += part.bytes;
        self.first_ns = [self.first_ns, part.first_ns].into_iter().flatten().min();
        self.last_ns = self.last_ns.max(part.last_ns);
        self.content = match (self.content.take(), part.content) {
            (Some(mine), Some(theirs)) => Some(Content {
                ok: mine.ok && theirs.ok,
                // Several streams have no common hash.
                sha256: None,
                bytes: mine.bytes + theirs.bytes,
            }),
            (mine, theirs) => mine.or(theirs),
        };
        self.transfers.extend(part.transfers);
        self.unfinished += part.unfinished;
        self.late = match (self.late, part.late) {
            (None, late) | (late, None) => late,
            (Some(mine), Some(theirs)) => Some(mine + theirs),
        };
        self.cpu_from_ns += part.cpu_from_ns;
        self.cpu_to_ns += part.cpu_to_ns;
        self.finals.extend(part.finals);
        self.errors.extend(part.errors);
    }
}

/// The state of a running flow that others may read.
#[derive(Debug, Default)]
pub struct Live {
    /// Bytes that the receiver has read.
    pub bytes: AtomicU64,
    probes: Mutex<Vec<(u64, OwnedFd)>>,
    next: AtomicU64,
}

impl Live {
    /// Lets the sampler look at a sender's socket until the guard is dropped.
    fn watch<'a>(&'a self, socket: &Socket) -> Option<Watch<'a>> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let copy = socket.as_fd().try_clone_to_owned().ok()?;
        self.probes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((id, copy));
        Some(Watch { live: self, id })
    }

    /// The current `TCP_INFO` of each watched connection.
    pub fn tcp_infos(&self) -> Vec<TcpInfo> {
        self.probes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .filter_map(|(_, socket)| tcpinfo::of_socket(socket.as_fd()).ok())
            .collect()
    }

    fn received(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Keeps a socket watched until this is dropped.
#[derive(Debug)]
struct Watch<'a> {
    live: &'a Live,
    id: u64,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.live
            .probes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(id, _)| *id != self.id);
    }
}

/// A flow whose listening side is listening.
#[derive(Debug)]
pub struct Prepared {
    job: Job,
    /// `None` for `iperf3`, which listens for itself.
    listener: Option<Socket>,
}

/// Starts to listen, so that no connection attempt fails.
///
/// # Errors
/// The address is taken, or the kernel lacks what the flow asks for.
pub fn prepare(job: Job) -> Result<Prepared, LabError> {
    let (node, sends) = match job.app {
        App::Iperf3 { .. } => {
            return Ok(Prepared {
                job,
                listener: None,
            });
        }
        App::RequestResponse { .. } => (&job.from, true),
        App::Bulk { .. } | App::ShortFlows { .. } | App::Chunks { .. } => (&job.to, false),
    };
    let listener = inside(node, || {
        socket::listen(job.server, &job.cc, &job.options, sends).map_err(LabError::os(format!(
            "flow `{}` cannot listen on {}",
            job.name, job.server
        )))
    })?;
    Ok(Prepared {
        listener: Some(listener),
        job,
    })
}

impl Prepared {
    /// Runs the flow to its end.
    pub fn run(self, live: &Live, limits: &Limits) -> Outcome {
        let job = &self.job;
        // A side that fails ends the other side, but no other flow.
        let failed = Arc::new(AtomicBool::new(false));
        let limits = &Limits {
            failed: Some(Arc::clone(&failed)),
            ..limits.clone()
        };
        let mut outcome = match (&job.app, &self.listener) {
            (App::Bulk { bytes }, Some(listener)) => bulk::run(job, *bytes, listener, live, limits),
            (
                &App::RequestResponse {
                    request,
                    response,
                    count,
                },
                Some(listener),
            ) => {
                let size = exchange::Exchange {
                    request,
                    response,
                    count,
                };
                exchange::run(job, size, listener, live, limits)
            }
            (App::ShortFlows { sizes, count }, Some(listener)) => {
                short::run(job, sizes, *count, listener, live, limits)
            }
            (
                &App::Chunks {
                    chunk,
                    period,
                    deadline,
                },
                Some(listener),
            ) => {
                let chunks = chunks::Chunks {
                    bytes: chunk,
                    period,
                    deadline,
                };
                chunks::run(job, chunks, listener, live, limits)
            }
            (App::Iperf3 { bytes }, _) => iperf::run(job, *bytes, limits),
            (_, None) => Outcome::failed("nobody listens"),
        };
        if outcome
            .errors
            .iter()
            .any(|error| !error.ends_with(CANCELLED))
        {
            outcome.errors.retain(|error| !error.ends_with(CANCELLED));
        }
        for error in &mut outcome.errors {
            *error = format!("flow `{}`: {error}", job.name);
        }
        outcome
    }
}

/// Runs a closure on a new thread in a namespace.
fn inside<T: Send>(
    entrance: &Entrance,
    work: impl FnOnce() -> Result<T, LabError> + Send,
) -> Result<T, LabError> {
    thread::scope(|scope| {
        scope
            .spawn(|| {
                entrance.enter()?;
                work()
            })
            .join()
            .map_err(|_| LabError::Panicked("a thread in a namespace"))?
    })
}

/// Joins workers; a panic becomes an error of the flow.
fn join_workers<'scope>(
    workers: impl IntoIterator<Item = thread::ScopedJoinHandle<'scope, Outcome>>,
) -> Outcome {
    let mut all = Outcome::default();
    for worker in workers {
        match worker.join() {
            Ok(part) => all.merge(part),
            Err(_) => all.merge(Outcome::failed(
                "a worker panicked; this is a bug in ackwise",
            )),
        }
    }
    all
}

/// A separate seed for each connection and purpose.
fn seed_of(job: &Job, index: u64) -> u64 {
    Rng::stream(job.seed, index).next_u64()
}

/// CPU time that the calling thread used since `before`, without the lab's own
/// share.
fn cpu_since(before: u64, own: u64) -> u64 {
    thread_cpu_ns().saturating_sub(before).saturating_sub(own)
}

/// Carries out the receiver's misbehaviours that are due, after it has read this much.
fn misbehave_reading(
    job: &Job,
    done: &mut Vec<Behaviour>,
    read: u64,
    limits: &Limits,
) -> std::io::Result<()> {
    for &behaviour in &job.behaviour {
        match behaviour {
            Behaviour::ReceiverPause { after, lasting } => {
                pause(job, done, behaviour, after, lasting, limits)?;
            }
            Behaviour::SlowReader { bytes_per_s } => {
                let due = u128::from(read) * 1_000_000_000 / u128::from(bytes_per_s.max(1));
                let due = job
                    .start_ns
                    .saturating_add(u64::try_from(due).unwrap_or(u64::MAX));
                limits.sleep_until(due)?;
            }
            Behaviour::SenderPause { .. } | Behaviour::KillSender { .. } => {}
        }
    }
    Ok(())
}

/// Carries out the sender's misbehaviours that are due.
fn misbehave_writing(job: &Job, done: &mut Vec<Behaviour>, limits: &Limits) -> std::io::Result<()> {
    for &behaviour in &job.behaviour {
        if let Behaviour::SenderPause { after, lasting } = behaviour {
            pause(job, done, behaviour, after, lasting, limits)?;
        }
    }
    Ok(())
}

fn pause(
    job: &Job,
    done: &mut Vec<Behaviour>,
    behaviour: Behaviour,
    after: Duration,
    lasting: Duration,
    limits: &Limits,
) -> std::io::Result<()> {
    if now_ns() < job.start_ns + nanos(after) || done.contains(&behaviour) {
        return Ok(());
    }
    done.push(behaviour);
    limits.sleep_until(now_ns() + nanos(lasting))
}

/// Opens a connection from one of the flow's nodes.
fn connect(job: &Job, node: &Entrance, sends: bool, limits: &Limits) -> Result<Connection, String> {
    node.enter().map_err(|error| error.to_string())?;
    Connection::open(job.server, &job.cc, &job.options, sends, limits)
        .map_err(|error| format!("cannot connect to {}: {error}", job.server))
}
