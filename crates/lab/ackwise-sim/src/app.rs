//! Applications: who gives data to whom, and when.

use ackwise_queue::Nanos;
use ackwise_rng::Rng;

use crate::endpoint::{Sink, Source, Supply};
use crate::engine::Network;
use crate::schedule::Target;

/// The application of a flow.
#[derive(Debug)]
pub struct App {
    /// Flow of the scenario.
    pub flow: usize,
    /// How its connections are made; exchanges need a second one, for requests.
    pub template: usize,
    /// How many are open at a time.
    pub connections: u32,
    /// Number of the first of those that are there from the beginning.
    pub first: usize,
    /// What it does.
    pub kind: Kind,
}

/// What an application does.
#[derive(Debug)]
pub enum Kind {
    /// Sends so many bytes over each connection, or without end.
    Bulk(Option<u64>),
    /// One transfer after another, each over a new connection.
    Short(Transfers),
    /// Requests and responses.
    Exchange(Exchanges),
}

/// Transfers to be made.
#[derive(Debug)]
pub struct Transfers {
    /// Sizes in the order in which they are begun.
    pub order: Vec<u64>,
    /// Those that were begun: size, when, and how long it took.
    pub begun: Vec<Transfer>,
}

/// A transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes.
    pub bytes: u64,
    /// When its connection was opened, or its request was made.
    pub began: Nanos,
    /// From there to the last byte at the receiver.
    pub took: Option<Nanos>,
}

/// Requests and responses over long-lived connections.
#[derive(Debug)]
pub struct Exchanges {
    /// How the connections for requests are made.
    pub asking: usize,
    /// Flow under which those are counted: none of the scenario.
    pub uncounted: usize,
    /// Bytes of a request.
    pub request: u64,
    /// Bytes of a response.
    pub response: u64,
    /// Exchanges over each connection.
    pub count: u32,
    pairs: Vec<Pair>,
    /// Those that were begun.
    pub begun: Vec<Transfer>,
}

/// The two directions of a connection for exchanges.
#[derive(Debug)]
struct Pair {
    asks: usize,
    answers: usize,
    left: u32,
    /// The exchange that runs, in `begun`.
    current: usize,
}

impl Kind {
    /// How many connections each of an application's has from the beginning.
    pub fn reserved(&self) -> u32 {
        match self {
            Kind::Bulk(_) => 1,
            Kind::Short(_) => 0,
            Kind::Exchange(_) => 2,
        }
    }
}

impl Transfers {
    /// Every size `count` times, in an order that `rng` determines (Fisher and
    /// Yates).
    pub fn shuffled(sizes: &[u64], count: u32, rng: &mut Rng) -> Transfers {
        let mut order: Vec<u64> = (0..count).flat_map(|_| sizes.iter().copied()).collect();
        for last in (1..order.len()).rev() {
            let other = rng.below(last as u64 + 1) as usize;
            order.swap(last, other);
        }
        Transfers {
            begun: Vec::with_capacity(order.len()),
            order,
        }
    }
}

impl Exchanges {
    /// None made yet.
    pub fn new(asking: usize, uncounted: usize, sizes: (u64, u64), count: u32) -> Exchanges {
        Exchanges {
            asking,
            uncounted,
            request: sizes.0,
            response: sizes.1,
            count,
            pairs: Vec::new(),
            begun: Vec::new(),
        }
    }

    fn ask(&mut self, pair: usize, now: Nanos) {
        self.pairs[pair].current = self.begun.len();
        self.begun.push(Transfer {
            bytes: self.response,
            began: now,
            took: None,
        });
    }
}

impl<S: Source, R: Sink> Network<S, R> {
    /// Adds an application that begins at `start`, with the connections that it
    /// has from the beginning; [`Kind::reserved`] for each.
    pub fn add_app(&mut self, mut app: App, start: Nanos) {
        app.first = self.connections.len();
        let index = self.apps.len();
        let App { flow, template, .. } = app;
        for lane in 0..app.connections {
            match &app.kind {
                Kind::Bulk(bytes) => {
                    self.open(index, flow, template, 0, bytes.unwrap_or(u64::MAX));
                }
                Kind::Short(_) => {}
                Kind::Exchange(exchanges) => {
                    let (asking, uncounted) = (exchanges.asking, exchanges.uncounted);
                    let asks = self.open(index, uncounted, asking, 2 * lane, exchanges.request);
                    let answers =
                        self.open(index, flow, template, 2 * lane + 1, exchanges.response);
                    self.join(asks, answers);
                }
            }
        }
        self.schedule.push(start, Target::Start(index));
        self.apps.push(app);
    }

    /// The applications, to be read when the run is over.
    pub fn apps(&self) -> &[App] {
        &self.apps
    }

    pub(crate) fn on_start(&mut self, app: usize) {
        let App {
            connections, first, ..
        } = self.apps[app];
        for lane in 0..connections as usize {
            match self.apps[app].kind {
                Kind::Bulk(bytes) => self.start_bulk(first + lane, bytes),
                Kind::Short(_) => self.next_transfer(app),
                Kind::Exchange(_) => self.start_exchange(app, lane, first + 2 * lane),
            }
        }
    }

    fn start_bulk(&mut self, number: usize, bytes: Option<u64>) {
        let supply = bytes.map_or(Supply::Endless, Supply::Last);
        self.connections[number].source.supply(supply, self.now);
        self.after_source(number);
    }

    fn next_transfer(&mut self, app: usize) {
        let now = self.now;
        let App { flow, template, .. } = self.apps[app];
        let Kind::Short(transfers) = &mut self.apps[app].kind else {
            return;
        };
        let role = transfers.begun.len();
        let Some(&bytes) = transfers.order.get(role) else {
            return;
        };
        transfers.begun.push(Transfer {
            bytes,
            began: now,
            took: None,
        });
        let number = self.open(app, flow, template, role as u32, bytes);
        let connection = &mut self.connections[number];
        connection.await_end = true;
        // A transfer counts from its first packet, not from its first data.
        connection.first = now;
        connection.source.supply(Supply::Last(bytes), now);
        self.after_source(number);
    }

    fn start_exchange(&mut self, app: usize, lane: usize, asks: usize) {
        let Kind::Exchange(exchanges) = &mut self.apps[app].kind else {
            return;
        };
        exchanges.pairs.push(Pair {
            asks,
            answers: asks + 1,
            left: exchanges.count - 1,
            current: 0,
        });
        exchanges.ask(lane, self.now);
        let request = Supply::Bytes(exchanges.request);
        self.connections[asks].source.supply(request, self.now);
        self.after_source(asks);
    }

    /// A connection has delivered as much as its application waits for.
    #[cold]
    pub(crate) fn on_goal(&mut self, number: usize) {
        let now = self.now;
        let connection = &mut self.connections[number];
        let (app, role) = (connection.app as usize, connection.role as usize);
        match &mut self.apps[app].kind {
            Kind::Bulk(_) => connection.goal = u64::MAX,
            Kind::Short(transfers) => {
                connection.goal = u64::MAX;
                let transfer = &mut transfers.begun[role];
                transfer.took = Some(now - transfer.began);
            }
            Kind::Exchange(exchanges) if role % 2 == 0 => {
                connection.goal += exchanges.request;
                let answers = exchanges.pairs[role / 2].answers;
                let response = exchanges.response;
                let source = &mut self.connections[answers].source;
                source.supply(Supply::Bytes(response), now);
                self.after_source(answers);
            }
            Kind::Exchange(exchanges) => {
                connection.goal += exchanges.response;
                let pair = &mut exchanges.pairs[role / 2];
                let transfer = &mut exchanges.begun[pair.current];
                transfer.took = Some(now - transfer.began);
                if pair.left == 0 {
                    return;
                }
                pair.left -= 1;
                let (asks, request) = (pair.asks, exchanges.request);
                exchanges.ask(role / 2, now);
                let source = &mut self.connections[asks].source;
                source.supply(Supply::Bytes(request), now);
                self.after_source(asks);
            }
        }
    }

    /// A sender's last byte is acknowledged: on to the next transfer.
    #[cold]
    pub(crate) fn on_end(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        connection.await_end = false;
        let app = connection.app as usize;
        if self.reuse {
            self.free.push(number as u32);
        }
        self.next_transfer(app);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_comes_as_often_as_asked() {
        let order = |seed| Transfers::shuffled(&[1, 2, 3], 100, &mut Rng::new(seed)).order;
        for size in 1..=3 {
            assert_eq!(order(5).iter().filter(|&&one| one == size).count(), 100);
        }
        assert_eq!(order(5), order(5));
        assert_ne!(order(5), order(6));
    }
}
