//! What applications do when they begin and when their data have arrived.

use ackwise_queue::Nanos;

use super::Network;
use crate::app::{App, Kind, Pair, Transfer};
use crate::endpoint::{Sink, Source, Supply};
use crate::schedule::Target;

impl<S: Source, R: Sink> Network<S, R> {
    /// Adds an application that begins at `start`, and opens the connections that it has from the
    /// beginning ([`Kind::reserved`] for each).
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
                Kind::Chunks(chunks) => {
                    self.open(index, flow, template, lane, chunks.bytes);
                }
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

    /// The applications, for reading after the run.
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
                Kind::Chunks(_) => self.next_chunk(app, first + lane),
            }
        }
        if let Kind::Chunks(chunks) = &self.apps[app].kind {
            let next = self.now.saturating_add(chunks.period);
            self.schedule.push(next, Target::Start(app));
        }
    }

    fn next_chunk(&mut self, app: usize, number: usize) {
        let Kind::Chunks(chunks) = &mut self.apps[app].kind else {
            return;
        };
        chunks.begun.push(Transfer {
            bytes: chunks.bytes,
            began: self.now,
            duration: None,
        });
        let chunk = Supply::Bytes(chunks.bytes);
        self.connections[number].source.supply(chunk, self.now);
        self.after_source(number);
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
        let Some(bytes) = transfers.next_size() else {
            return;
        };
        transfers.begun.push(Transfer {
            bytes,
            began: now,
            duration: None,
        });
        let number = self.open(app, flow, template, role as u32, bytes);
        let connection = &mut self.connections[number];
        connection.await_end = true;
        // A transfer counts from its first packet, not from its first data segment.
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
            left: exchanges.count.map(|count| count - 1),
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
                transfer.duration = Some(now - transfer.began);
            }
            Kind::Chunks(chunks) => {
                // One arrival may complete several chunks.
                while connection.goal <= connection.delivered {
                    connection.goal += chunks.bytes;
                    chunks.arrive(role, now);
                }
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
                transfer.duration = Some(now - transfer.began);
                match &mut pair.left {
                    Some(0) => return,
                    Some(left) => *left -= 1,
                    None => {}
                }
                let (asks, request) = (pair.asks, exchanges.request);
                exchanges.ask(role / 2, now);
                let source = &mut self.connections[asks].source;
                source.supply(Supply::Bytes(request), now);
                self.after_source(asks);
            }
        }
    }

    /// The last byte of a sender is acknowledged: its application begins the next transfer.
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
