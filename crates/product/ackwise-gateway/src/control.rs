//! Lists running gateways, and asks or stops one by the name of its interface.

use std::time::Duration;

use ackwise_netdev::control::{AskError, Listener, Request, Server, Service};
use ackwise_netdev::registry::{Entry, Key, Redirector, Registry, TakeError, netns_inode};
use ackwise_netdev::{Interface, ifreq, remove_stale_filters};

use crate::redirect::PROGRAM;
use crate::{Error, Stats};

const KIND: &str = "gateway";
const GATEWAYS: Service<Stats> = Service::new(KIND);

fn registry() -> Registry<Redirector> {
    Registry::new(KIND, |_| false)
}

/// Claims the right to be the gateway of an interface.
pub(crate) fn claim(interface: &Interface) -> Result<Entry<Redirector>, Error> {
    let key = Key::here(&interface.index.to_string())?;
    registry().take(&key).map_err(|error| match error {
        TakeError::Held(holder) => Error::Held {
            interface: interface.name.clone(),
            pid: holder.map_or(0, |holder| holder.pid),
        },
        TakeError::Registry(error) => error.into(),
    })
}

/// Answers requests with what `answer` returns, until the server is dropped.
pub(crate) fn serve(
    listener: Listener,
    answer: impl Fn(Request) -> Result<Stats, Error> + Send + 'static,
) -> Result<Server, Error> {
    GATEWAYS
        .serve(listener, move |request| {
            answer(request).map_err(|error| error.to_string())
        })
        .map_err(Error::system("start the control thread"))
}

fn ask(interface: &str, request: Request) -> Result<Stats, Error> {
    let not_there = || Error::NotThere(interface.to_owned());
    let index = ifreq::index_of(interface).ok_or_else(not_there)?;
    // Whoever may not read the registry cannot tell whether there is a gateway.
    let registry = registry();
    registry.list()?;
    let path = registry.socket_path(&Key::here(&index.to_string())?);
    GATEWAYS.ask(&path, request).map_err(|error| match error {
        AskError::NotRunning => not_there(),
        AskError::Failed(why) => Error::Control {
            interface: interface.to_owned(),
            why,
        },
    })
}

/// Returns the counters of the gateway of an interface.
///
/// # Errors
/// If the interface has no gateway, or it does not answer.
pub fn status(interface: &str) -> Result<Stats, Error> {
    ask(interface, Request::STATUS)
}

/// Stops the gateway of an interface and returns its last counters.
///
/// # Errors
/// If the interface has no gateway, or it does not answer.
pub fn down(interface: &str) -> Result<Stats, Error> {
    ask(interface, Request::Stop)
}

/// Removes the filter that a killed gateway left on an interface's clsact qdisc, which passes
/// everything. Returns whether there was one.
///
/// # Errors
/// If there is no such interface, or it has a gateway.
pub fn clear_up(interface: &str) -> Result<bool, Error> {
    let interface = Interface::find(interface)?;
    let _claim = claim(&interface)?;
    Ok(remove_stale_filters(&interface.name, &[PROGRAM]))
}

/// Returns the interfaces of this network namespace on whose clsact qdisc a killed gateway has left
/// its filter, which passes everything. [`clear_up`] removes it.
///
/// # Errors
/// If the registry cannot be read, or the kernel refuses.
pub fn left_filters() -> Result<Vec<String>, Error> {
    let attached = |gateway: &Redirector| Some((gateway.netns, gateway.redirect.as_ref()?.ifindex));
    Ok(registry().left_filters(&[PROGRAM], attached)?)
}

/// Waits until the process of a stopped gateway has ended as well, so that another one can start.
/// Returns whether it ended within `time`.
///
/// # Errors
/// If the registry cannot be read.
pub fn wait_ended(pid: u32, time: Duration) -> Result<bool, Error> {
    Ok(registry().wait_ended(pid, time)?)
}

/// Returns whether an interface of this network namespace has a gateway. This does not wait for an
/// answer of its process.
///
/// # Errors
/// If the registry cannot be read.
pub fn is_running(interface: &str) -> Result<bool, Error> {
    let netns = netns_inode().map_err(Error::system("read the network namespace's inode"))?;
    let index = ifreq::index_of(interface);
    let is_here = |it: &Redirector| {
        it.netns == netns && it.redirect.is_some_and(|it| Some(it.ifindex) == index)
    };
    Ok(registry().list()?.iter().any(is_here))
}

/// Returns the interfaces of this network namespace that have a gateway, by their current names.
///
/// # Errors
/// If the registry cannot be read.
pub fn list() -> Result<Vec<String>, Error> {
    let netns = netns_inode().map_err(Error::system("read the network namespace's inode"))?;
    let here = registry().list()?.into_iter();
    let here = here.filter(|gateway| gateway.netns == netns);
    let name_now = |gateway: Redirector| {
        let now = gateway.redirect.and_then(|it| ifreq::name_at(it.ifindex));
        now.unwrap_or(gateway.name)
    };
    let mut names: Vec<_> = here.map(name_now).collect();
    names.sort();
    Ok(names)
}
