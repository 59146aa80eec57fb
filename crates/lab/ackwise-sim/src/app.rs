//! Applications: who gives data to whom, and when.

use ackwise_queue::Nanos;
use ackwise_rng::Rng;

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
    pub(crate) pairs: Vec<Pair>,
    /// Those that were begun.
    pub begun: Vec<Transfer>,
}

/// The two directions of a connection for exchanges.
#[derive(Debug)]
pub(crate) struct Pair {
    /// Number of the connection that carries requests.
    pub asks: usize,
    /// Number of the connection that carries responses.
    pub answers: usize,
    /// Exchanges that are still to begin.
    pub left: u32,
    /// The exchange that runs, in `begun`.
    pub current: usize,
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
    /// Notes that the next exchange of a pair begins.
    pub(crate) fn ask(&mut self, pair: usize, now: Nanos) {
        self.pairs[pair].current = self.begun.len();
        self.begun.push(Transfer {
            bytes: self.response,
            began: now,
            took: None,
        });
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
