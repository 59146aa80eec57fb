//! Lists the interfaces that ackwise is attached to, and sends requests to the attached processes.
//!
//! Each process has an entry of the [registry](ackwise_netdev::registry), so that it is found from
//! any network namespace.

use std::thread;
use std::time::{Duration, Instant};

use ackwise_netdev::control::{AskError, Listener, Request, Server, Service, TIMEOUT};
use ackwise_netdev::ifreq;
use ackwise_netdev::registry::{Entry, Key, Registry, TakeError};
use serde::{Deserialize, Serialize};

use crate::hooks::{PROGRAMS, sweep};
use crate::{Error, FlowStats, Stats};

const KIND: &str = "datapath";
const DATAPATHS: Service<Status> = Service::new(KIND);
/// How long a process that is told to stop may take to answer: it first sends what it holds, and
/// the machine may be busy.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a process may take from its claim on an interface to its entry in the registry: the
/// verifier is slow on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which a process that starts is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The registry's record of the process that is attached to an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// The interface's name when it attached.
    pub ifname: String,
    /// The interface's index.
    pub ifindex: u32,
    /// The inode of the network namespace.
    pub netns: u64,
    /// The policy with its parameters.
    pub policy: String,
    /// Whether it withholds nothing and only counts.
    pub dry_run: bool,
    /// Whether the interface had no clsact qdisc before.
    pub made_clsact: bool,
}

impl Holder {
    fn key(&self) -> Key {
        Key {
            netns: self.netns,
            name: self.ifindex.to_string(),
        }
    }
}

/// The state of an attachment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The counters.
    pub stats: Stats,
    /// The flows that were asked for, the busiest first.
    pub flows: Vec<FlowStats>,
}

fn registry() -> Registry<Holder> {
    // The record of a killed holder is kept for cleanup if it had created the qdisc.
    Registry::new(KIND, |holder| holder.made_clsact)
}

fn key(ifindex: u32) -> Result<Key, Error> {
    Ok(Key::here(&ifindex.to_string())?)
}

/// The claim on one interface.
#[derive(Debug)]
pub(crate) struct Claim {
    pub entry: Entry<Holder>,
    pub netns: u64,
}

impl Claim {
    /// Claims an interface of the calling thread's network namespace.
    pub(crate) fn take(ifname: &str, ifindex: u32) -> Result<Self, Error> {
        let key = key(ifindex)?;
        let entry = registry().take(&key);
        let entry = entry.map_err(|error| match error {
            TakeError::Held(holder) => Error::Held {
                ifname: ifname.to_owned(),
                pid: holder.as_ref().map_or(0, |holder| holder.pid),
                policy: holder.map_or_else(|| "starting".to_owned(), |holder| holder.policy),
            },
            TakeError::Registry(error) => error.into(),
        })?;
        Ok(Self {
            entry,
            netns: key.netns,
        })
    }

    /// Removes the filters that a killed holder left. Returns whether there were any.
    pub(crate) fn sweep(&self, ifname: &str, ifindex: u32) -> bool {
        let leftover = self.entry.leftover.as_ref();
        sweep(ifname, ifindex, leftover.is_some_and(|h| h.made_clsact))
    }
}

/// Answers requests with what `answer` returns, until the server is dropped.
pub(crate) fn serve(
    listener: Listener,
    answer: impl Fn(Request) -> Result<Status, Error> + Send + 'static,
) -> Result<Server, Error> {
    DATAPATHS
        .serve(listener, move |request| {
            answer(request).map_err(|error| error.to_string())
        })
        .map_err(Error::system("start the control thread"))
}

/// Returns all current holders, in any network namespace.
///
/// # Errors
/// If the registry cannot be read.
pub fn list() -> Result<Vec<Holder>, Error> {
    let mut holders = registry().list()?;
    holders.sort_by(|a, b| (a.netns, &a.ifname).cmp(&(b.netns, &b.ifname)));
    Ok(holders)
}

/// Returns the holder of an interface of the calling thread's network namespace.
///
/// # Errors
/// If no process is attached there.
pub fn holder(ifname: &str) -> Result<Holder, Error> {
    let index = ifreq::index_of(ifname);
    let Key { netns, .. } = key(index.unwrap_or(0))?;
    list()?
        .into_iter()
        .find(|h| h.netns == netns && index.map_or_else(|| h.ifname == ifname, |i| h.ifindex == i))
        .ok_or_else(|| Error::NotAttached(ifname.to_owned()))
}

fn ask(holder: &Holder, request: Request) -> Result<Status, Error> {
    let path = registry().socket_path(&holder.key());
    let timeout = match request {
        Request::Status { .. } => TIMEOUT,
        Request::Stop => STOP_TIMEOUT,
    };
    let answer = DATAPATHS.ask_within(timeout, &path, request);
    answer.map_err(|error| {
        let why = match error {
            AskError::NotRunning => "nobody listens on its control socket".to_owned(),
            AskError::Failed(why) => why,
        };
        let pid = holder.pid;
        Error::Control { pid, why }
    })
}

/// Returns the counters and the `flows` busiest flows of the holder of an interface.
///
/// # Errors
/// If no process is attached there, or it does not answer.
pub fn status(ifname: &str, flows: usize) -> Result<Status, Error> {
    status_of(&holder(ifname)?, flows)
}

/// Returns the counters and the `flows` busiest flows of a holder from [`list`].
///
/// # Errors
/// If it does not answer.
pub fn status_of(holder: &Holder, flows: usize) -> Result<Status, Error> {
    ask(holder, Request::Status { flows })
}

/// Makes the holder of an interface detach, and returns its last counters. If the holder is still
/// starting, this waits for it. If it was killed, this removes the filters that it left on a clsact
/// qdisc, and there are no counters.
///
/// # Errors
/// If no process is attached there, or it does not answer.
pub fn detach(ifname: &str) -> Result<Option<Stats>, Error> {
    let began = Instant::now();
    loop {
        match holder(ifname) {
            Ok(holder) => return Ok(Some(ask(&holder, Request::Stop)?.stats)),
            Err(error @ Error::NotAttached(_)) => match clear_up(ifname) {
                Ok(true) => return Ok(None),
                Ok(false) => return Err(error),
                // A process that starts has claimed the interface, and is not in the list yet.
                Err(Error::Held { .. }) if began.elapsed() < START_TIMEOUT => {
                    thread::sleep(POLL_INTERVAL)
                }
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        }
    }
}

/// Removes the filters that a killed holder left on an interface's clsact qdisc. Returns whether
/// there were any.
///
/// # Errors
/// If there is no such interface, or a process is attached there.
pub fn clear_up(ifname: &str) -> Result<bool, Error> {
    let missing = || ackwise_netdev::Error::NoInterface(ifname.to_owned());
    let index = ifreq::index_of(ifname).ok_or_else(missing)?;
    Ok(Claim::take(ifname, index)?.sweep(ifname, index))
}

/// Returns the interfaces of this network namespace on whose clsact qdisc a killed holder has left
/// filters, which let every packet pass. [`clear_up`] removes them.
///
/// # Errors
/// If the registry cannot be read, or the kernel refuses.
pub fn left_filters() -> Result<Vec<String>, Error> {
    let attached = |holder: &Holder| Some((holder.netns, holder.ifindex));
    Ok(registry().left_filters(&PROGRAMS, attached)?)
}
