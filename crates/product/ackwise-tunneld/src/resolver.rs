//! Looks up the names of endpoints again while their peers do not answer.
//!
//! A lookup may take seconds, so a thread of its own does it. It ends when the resolver is
//! dropped.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::{io, thread};

/// The time between two lookups of a name, and from the last answer of a peer to the first, in
/// nanoseconds.
const INTERVAL: u64 = 30_000_000_000;

/// The current address of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// The index of the peer.
    pub peer: usize,
    pub address: SocketAddr,
}

/// The names of the peers' endpoints, and when each is looked up.
#[derive(Debug)]
pub(crate) struct Resolver {
    /// When the next lookup is due, for each peer whose endpoint is a name.
    due: Vec<Option<u64>>,
    /// A queue with room for one request for each peer.
    ask: SyncSender<usize>,
    found: Receiver<Resolved>,
}

impl Resolver {
    /// Starts the thread if an endpoint is a name. `endpoints` contains the endpoint of each peer;
    /// `lookup` returns the address of a name.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub fn start(
        endpoints: Vec<Option<String>>,
        now: u64,
        lookup: impl Fn(&str) -> Result<SocketAddr, String> + Send + 'static,
    ) -> io::Result<Option<Self>> {
        let is_name = |endpoint: &String| endpoint.parse::<SocketAddr>().is_err();
        let names = endpoints
            .into_iter()
            .map(|endpoint| endpoint.filter(is_name));
        let names: Vec<_> = names.collect();
        if names.iter().all(Option::is_none) {
            return Ok(None);
        }
        let due = names
            .iter()
            .map(|name| name.as_ref().map(|_| now + INTERVAL));
        let due = due.collect();
        let (ask, requests) = sync_channel(names.len());
        let (answer, found) = sync_channel(names.len());
        let work = move || {
            for peer in requests {
                let Some(name) = names.get(peer).and_then(Option::as_deref) else {
                    continue;
                };
                match lookup(name) {
                    Ok(address) => {
                        if answer.send(Resolved { peer, address }).is_err() {
                            return;
                        }
                    }
                    Err(why) => tracing::info!("cannot resolve {name}: {why}"),
                }
            }
        };
        let thread = thread::Builder::new().name("ackwise-resolve".to_owned());
        thread.spawn(work)?;
        Ok(Some(Self { due, ask, found }))
    }

    /// Requests a lookup for a peer that does not answer, if it is due. An answer of the peer
    /// postpones it.
    pub fn watch(&mut self, peer: usize, answers: bool, now: u64) {
        let Some(Some(due)) = self.due.get_mut(peer) else {
            return;
        };
        if answers {
            *due = now + INTERVAL;
        } else if *due <= now {
            *due = now + INTERVAL;
            // If there is no room, the previous lookup has not ended.
            let _ = self.ask.try_send(peer);
        }
    }

    /// Returns the next address that was found.
    pub fn found(&self) -> Option<Resolved> {
        self.found.try_recv().ok()
    }
}

/// Looks up `host:port` and returns the first address of a family that the tunnel listens on.
///
/// # Errors
/// Says why there is none.
pub(crate) fn resolve(endpoint: &str, listen: &[SocketAddr]) -> Result<SocketAddr, String> {
    let all = endpoint.to_socket_addrs();
    let listened_on = |address: &SocketAddr| {
        let mut own = listen.iter();
        own.any(|own| own.is_ipv4() == address.is_ipv4())
    };
    let found = all.map_err(|error| error.to_string())?.find(listened_on);
    found.ok_or_else(|| "it has no address of a family that this end listens on".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU16, Ordering};

    fn address(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    fn next(resolver: &Resolver) -> Resolved {
        resolver.found.recv().expect("the thread runs")
    }

    #[test]
    fn l11_a_name_is_looked_up_again_while_its_peer_does_not_answer() {
        let port = AtomicU16::new(0);
        let lookup = move |name: &str| match port.fetch_add(1, Ordering::Relaxed) {
            1 => Err("for once".to_owned()),
            count => {
                assert_eq!(name, "gw.example:1");
                Ok(address(count))
            }
        };
        let endpoints = ["192.0.2.9:1", "gw.example:1"].map(|name| Some(name.to_owned()));
        let endpoints = [endpoints.to_vec(), vec![None]].concat();
        let start = 5 * INTERVAL;
        let resolver = Resolver::start(endpoints, start, lookup).expect("a thread");
        let mut resolver = resolver.expect("there is a name");
        let watch = |resolver: &mut Resolver, answers, at: u64| {
            // Addresses and peers without one are never looked up.
            for (peer, answers) in [(0, false), (1, answers), (2, false), (3, false)] {
                resolver.watch(peer, answers, start + at);
            }
        };
        watch(&mut resolver, false, INTERVAL - 1);
        watch(&mut resolver, true, INTERVAL - 1);
        watch(&mut resolver, false, 2 * INTERVAL - 2);
        // There was no lookup until now, so this is the first answer.
        watch(&mut resolver, false, 2 * INTERVAL - 1);
        let first = Resolved {
            peer: 1,
            address: address(0),
        };
        assert_eq!(next(&resolver), first);
        watch(&mut resolver, false, 3 * INTERVAL - 2);
        // A lookup that fails changes nothing, and is repeated.
        watch(&mut resolver, false, 3 * INTERVAL - 1);
        watch(&mut resolver, false, 4 * INTERVAL - 1);
        assert_eq!(next(&resolver).address, address(2));
        assert_eq!(resolver.found(), None);
    }

    #[test]
    fn l11_without_names_there_is_no_thread() {
        let endpoints = vec![None, Some("[2001:db8::1]:1".to_owned())];
        let none = Resolver::start(endpoints, 0, |_| Err(String::new()));
        assert!(none.expect("no thread").is_none());
    }

    #[test]
    fn only_addresses_that_can_be_reached_are_taken() {
        let v6 = ["[::]:1".parse().expect("an address")];
        assert_eq!(resolve("192.0.2.1:1", &[address(1)]), Ok(address(1)));
        assert!(resolve("192.0.2.1:1", &v6).is_err());
    }
}
