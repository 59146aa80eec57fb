//! Applications: which end sends data, how much, and when.

use ackwise_queue::Nanos;
use ackwise_rng::Rng;

/// The application of a flow.
#[derive(Debug)]
pub struct App {
    /// Flow of the scenario.
    pub flow: usize,
    /// The template of its connections; exchanges have a second one, for requests.
    pub template: usize,
    /// How many connections are open at a time.
    pub connections: u32,
    /// Number of the first connection that exists from the beginning.
    pub first: usize,
    /// What the application does.
    pub kind: Kind,
}

/// What an application does.
#[derive(Debug)]
pub enum Kind {
    /// Sends this many bytes over each connection, or data without end.
    Bulk(Option<u64>),
    /// One transfer after another, each over a new connection.
    Short(Transfers),
    /// Requests and responses.
    Exchange(Exchanges),
    /// One chunk per period.
    Chunks(Chunks),
}

/// Transfers to be made.
#[derive(Debug)]
pub struct Transfers {
    /// Sizes in the order in which the transfers begin.
    pub order: Vec<u64>,
    /// The transfers after those of `order`, if there is no end.
    pub more: Option<Endless>,
    /// Transfers that have begun, with size, start time and duration.
    pub begun: Vec<Transfer>,
}

/// A transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Size in bytes.
    pub bytes: u64,
    /// When its connection was opened, or its request was made.
    pub began: Nanos,
    /// Time from the start to the last byte at the receiver.
    pub duration: Option<Nanos>,
}

/// Transfers without end: rounds of every size once, each round in a new order.
#[derive(Debug)]
pub struct Endless {
    sizes: Vec<u64>,
    rng: Rng,
}

/// Chunks that become due at the sender once per period.
#[derive(Debug)]
pub struct Chunks {
    /// Bytes of a chunk.
    pub bytes: u64,
    /// Time from one chunk to the next.
    pub period: Nanos,
    /// How long a chunk may take to arrive.
    pub deadline: Nanos,
    /// Chunks that have arrived, for each connection.
    pub(crate) arrived: Vec<usize>,
    /// The chunks of each period, one for each connection.
    pub begun: Vec<Transfer>,
}

impl Chunks {
    /// No chunks yet, for this many connections.
    pub fn new(bytes: u64, period: Nanos, deadline: Nanos, connections: u32) -> Chunks {
        Chunks {
            bytes,
            period,
            deadline,
            arrived: vec![0; connections as usize],
            begun: Vec::new(),
        }
    }

    /// The chunks whose deadline was at or before `end`.
    pub fn due(&self, end: Nanos) -> impl Iterator<Item = &Transfer> {
        let over = move |chunk: &&Transfer| chunk.began.saturating_add(self.deadline) <= end;
        self.begun.iter().filter(over)
    }

    /// Records that a connection has delivered its next chunk.
    pub(crate) fn arrive(&mut self, lane: usize, now: Nanos) {
        let connections = self.arrived.len();
        let index = self.arrived[lane] * connections + lane;
        self.arrived[lane] += 1;
        let chunk = &mut self.begun[index];
        chunk.duration = Some(now - chunk.began);
    }
}

/// Requests and responses over long-lived connections.
#[derive(Debug)]
pub struct Exchanges {
    /// The template of the connections for requests.
    pub asking: usize,
    /// Flow under which those connections are counted; it is no flow of the scenario.
    pub uncounted: usize,
    /// Bytes of a request.
    pub request: u64,
    /// Bytes of a response.
    pub response: u64,
    /// Exchanges over each connection; as many as time allows if `None`.
    pub count: Option<u32>,
    pub(crate) pairs: Vec<Pair>,
    /// Exchanges that have begun.
    pub begun: Vec<Transfer>,
}

/// The two directions of a connection for exchanges.
#[derive(Debug)]
pub(crate) struct Pair {
    /// Number of the connection that carries requests.
    pub asks: usize,
    /// Number of the connection that carries responses.
    pub answers: usize,
    /// Exchanges that have yet to begin; `None` if there is no end.
    pub left: Option<u32>,
    /// Index of the current exchange in `begun`.
    pub current: usize,
}

impl Kind {
    /// How many of the engine's connections each connection has from the beginning.
    pub fn reserved(&self) -> u32 {
        match self {
            Kind::Bulk(_) | Kind::Chunks(_) => 1,
            Kind::Short(_) => 0,
            Kind::Exchange(_) => 2,
        }
    }
}

impl Transfers {
    /// A transfer of every size, `count` times each, in a random order (Fisher-Yates).
    pub fn shuffled(sizes: &[u64], count: u32, rng: &mut Rng) -> Transfers {
        let mut order: Vec<u64> = (0..count).flat_map(|_| sizes.iter().copied()).collect();
        shuffle(&mut order, rng);
        Transfers {
            begun: Vec::with_capacity(order.len()),
            order,
            more: None,
        }
    }

    /// Transfers without end.
    pub fn endless(sizes: &[u64], rng: Rng) -> Transfers {
        Transfers {
            order: Vec::new(),
            begun: Vec::new(),
            more: Some(Endless {
                sizes: sizes.to_vec(),
                rng,
            }),
        }
    }

    /// The size of the next transfer; `None` after the last.
    pub(crate) fn next_size(&mut self) -> Option<u64> {
        if let Some(more) = &mut self.more
            && self.begun.len() == self.order.len()
        {
            let mut round = more.sizes.clone();
            shuffle(&mut round, &mut more.rng);
            self.order.extend(round);
        }
        self.order.get(self.begun.len()).copied()
    }
}

/// Shuffles by Fisher-Yates.
fn shuffle(order: &mut [u64], rng: &mut Rng) {
    for last in (1..order.len()).rev() {
        let other = rng.below(last as u64 + 1) as usize;
        order.swap(last, other);
    }
}

impl Exchanges {
    /// Records that the next exchange of a pair begins.
    pub(crate) fn ask(&mut self, pair: usize, now: Nanos) {
        self.pairs[pair].current = self.begun.len();
        self.begun.push(Transfer {
            bytes: self.response,
            began: now,
            duration: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_without_end_come_in_rounds_of_every_size() {
        let mut transfers = Transfers::endless(&[1, 2, 3], Rng::new(5));
        let mut seen = Vec::new();
        for _ in 0..30 {
            let bytes = transfers.next_size().unwrap();
            transfers.begun.push(Transfer {
                bytes,
                began: 0,
                duration: None,
            });
            seen.push(bytes);
        }
        assert_eq!(transfers.order, seen);
        for round in seen.chunks(3) {
            assert_eq!(round.iter().sum::<u64>(), 6, "{round:?}");
        }
    }

    #[test]
    fn a_chunk_is_due_when_its_time_is_over() {
        let mut chunks = Chunks::new(1000, 10, 15, 2);
        for began in [0, 0, 10, 10, 20, 20] {
            chunks.begun.push(Transfer {
                bytes: 1000,
                began,
                duration: None,
            });
        }
        chunks.arrive(1, 8);
        chunks.arrive(1, 30);
        chunks.arrive(0, 31);
        let duration: Vec<_> = chunks.begun.iter().map(|chunk| chunk.duration).collect();
        assert_eq!(duration, [Some(31), Some(8), None, Some(20), None, None]);
        assert_eq!(chunks.due(24).count(), 2);
        assert_eq!(chunks.due(25).count(), 4);
    }

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
