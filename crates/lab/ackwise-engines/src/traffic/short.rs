//! Many transfers, each over a new connection.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use ackwise_rng::Rng;
use ackwise_scenario::record::Content;
use socket2::Socket;

use super::content::{CHUNK, Producer, Tally};
use super::socket::{Limits, accept};
use super::{Job, Live, Outcome, Transfer, connect, cpu_since, join_workers, seed_of};
use crate::clock::{now_ns, thread_cpu_ns};
use crate::tcpinfo;

/// Time and digest of a transfer that has arrived.
struct Arrival {
    at_ns: u64,
    digest: super::content::Digested,
}

/// State shared by the workers of a flow.
struct Shared<'a> {
    job: &'a Job,
    listener: &'a Socket,
    live: &'a Live,
    limits: &'a Limits,
    order: Order<'a>,
    next: AtomicUsize,
    senders_left: AtomicU64,
    /// Arrivals by the sender's port, which the sender takes out.
    arrivals: Mutex<HashMap<u16, Arrival>>,
}

/// Runs the flow.
pub(super) fn run(
    job: &Job,
    sizes: &[u64],
    count: Option<u32>,
    listener: &Socket,
    live: &Live,
    limits: &Limits,
) -> Outcome {
    let shared = Shared {
        job,
        listener,
        live,
        limits,
        order: match count {
            Some(count) => Order::All(shuffled(sizes, count, seed_of(job, u64::MAX))),
            None => Order::Rounds(sizes),
        },
        next: AtomicUsize::new(0),
        senders_left: AtomicU64::new(job.connections.into()),
        arrivals: Mutex::default(),
    };
    let shared = &shared;
    let mut outcome = thread::scope(|scope| {
        let mut workers = Vec::new();
        for _ in 0..job.connections {
            workers.push(scope.spawn(move || receive(shared)));
            workers.push(scope.spawn(move || send(shared)));
        }
        join_workers(workers)
    });
    if let Order::All(order) = &shared.order {
        let begun = shared.next.load(Ordering::Relaxed).min(order.len());
        if begun < order.len() && outcome.errors.is_empty() {
            outcome.errors.push(format!(
                "{} transfers were left when the run ended; make `duration` longer",
                order.len() - begun
            ));
        }
    }
    outcome
}

/// The order of the transfer sizes.
enum Order<'a> {
    /// These sizes, one after the other.
    All(Vec<u64>),
    /// Endless rounds, each with every size once in a new order.
    Rounds(&'a [u64]),
}

impl Order<'_> {
    /// The size of a transfer; `None` after the last.
    fn size(&self, job: &Job, index: usize) -> Option<u64> {
        match self {
            Order::All(order) => order.get(index).copied(),
            Order::Rounds(sizes) => {
                let round = (index / sizes.len()) as u64;
                let order = shuffled(sizes, 1, seed_of(job, u64::MAX - 1 - round));
                order.get(index % sizes.len()).copied()
            }
        }
    }
}

/// Every size `count` times, in an order that the seed determines (Fisher–Yates shuffle).
fn shuffled(sizes: &[u64], count: u32, seed: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..count).flat_map(|_| sizes.iter().copied()).collect();
    let mut rng = Rng::new(seed);
    for last in (1..order.len()).rev() {
        let other = rng.below(last as u64 + 1) as usize;
        order.swap(last, other);
    }
    order
}

fn send(shared: &Shared<'_>) -> Outcome {
    let before = thread_cpu_ns();
    let mut own = 0;
    let mut outcome = Outcome::default();
    let (mut right, mut bytes) = (true, 0);
    if let Err(error) = shared.limits.sleep_until(shared.job.start_ns) {
        outcome.errors.push(error.to_string());
    }
    while outcome.errors.is_empty() && now_ns() < shared.job.stop_ns {
        let index = shared.next.fetch_add(1, Ordering::Relaxed);
        let Some(size) = shared.order.size(shared.job, index) else {
            break;
        };
        match transfer(shared, index, size, &mut outcome, &mut own) {
            Ok(same) => {
                right &= same;
                bytes += size;
                if !same {
                    outcome
                        .errors
                        .push(format!(
"the received bytes of transfer {index} ({size} bytes) differ from those sent"));
                }
            }
            Err(error) => {
                outcome.unfinished += 1;
                outcome
                    .errors
                    .push(format!("transfer {index} of {size} bytes: {error}"));
            }
        }
    }
    shared.senders_left.fetch_sub(1, Ordering::Relaxed);
    outcome.content = Some(Content {
        ok: right && outcome.errors.is_empty(),
        sha256: None,
        bytes,
    });
    outcome.cpu_from_ns = cpu_since(before, own);
    outcome
}

fn transfer(
    shared: &Shared<'_>,
    index: usize,
    size: u64,
    outcome: &mut Outcome,
    own: &mut u64,
) -> Result<bool, String> {
    let describe = |error: io::Error| error.to_string();
    let began = now_ns();
    let mut connection = connect(shared.job, &shared.job.from, true, shared.limits)?;
    let port = connection.local_port().map_err(describe)?;
    outcome.first_ns.get_or_insert(began);
    let mut producer = Producer::new(seed_of(shared.job, index as u64));
    let mut chunk = vec![0; CHUNK];
    let mut left = size;
    while left > 0 {
        let size = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
        producer.fill(&mut chunk[..size]);
        connection.write_all(&chunk[..size]).map_err(describe)?;
        producer.sent(&chunk[..size]);
        left -= size as u64;
    }
    connection.end().map_err(describe)?;
    // The receiver records the arrival before it closes its side.
    connection.wait_for_end().map_err(describe)?;
    if let Ok(info) = tcpinfo::of_socket(connection.socket().as_fd()) {
        outcome.finals.push(info);
    }
    let arrival = shared
        .arrivals
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .remove(&port)
        .ok_or("the receiver did not see the end of the connection")?;
    let sent = producer.finish();
    *own += sent.own_cpu_ns;
    outcome.last_ns = outcome.last_ns.max(Some(arrival.at_ns));
    outcome.transfers.push(Transfer {
        bytes: size,
        time_ns: arrival.at_ns.saturating_sub(began),
    });
    Ok(sent.bytes == arrival.digest.bytes && sent.sha256 == arrival.digest.sha256)
}

fn receive(shared: &Shared<'_>) -> Outcome {
    let before = thread_cpu_ns();
    let mut own = 0;
    let mut outcome = Outcome::default();
    let mut buffer = vec![0; CHUNK];
    while shared.senders_left.load(Ordering::Relaxed) > 0 {
        // Short waits, to notice when the senders are done.
        let brief = Limits {
            deadline_ns: shared.limits.deadline_ns.min(now_ns() + 100_000_000),
            ..shared.limits.clone()
        };
        let mut connection = match accept(shared.listener, &brief) {
            Ok(connection) => connection,
            Err(error) if error.kind() == io::ErrorKind::TimedOut && !shared.limits.over() => {
                continue;
            }
            Err(error) => {
                outcome.errors.push(format!("accepting: {error}"));
                break;
            }
        };
        connection.set_limits(shared.limits.clone());
        let taken = (|| -> io::Result<()> {
            let port = connection.peer_port()?;
            let mut tally = Tally::default();
            let mut at_ns = now_ns();
            loop {
                match connection.read(&mut buffer)? {
                    0 => break,
                    count => {
                        at_ns = now_ns();
                        tally.add(&buffer[..count]);
                        shared.live.received(count);
                        outcome.bytes += count as u64;
                    }
                }
            }
            let digest = tally.finish();
            own += digest.own_cpu_ns;
            shared
                .arrivals
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(port, Arrival { at_ns, digest });
            connection.end()
        })();
        if let Err(error) = taken {
            outcome.errors.push(format!("receiving: {error}"));
        }
    }
    outcome.cpu_to_ns = cpu_since(before, own);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_comes_as_often_as_asked() {
        let order = shuffled(&[1, 2, 3], 100, 5);
        for size in 1..=3 {
            assert_eq!(order.iter().filter(|&&one| one == size).count(), 100);
        }
        assert_eq!(order, shuffled(&[1, 2, 3], 100, 5));
        assert_ne!(order, shuffled(&[1, 2, 3], 100, 6));
    }
}
