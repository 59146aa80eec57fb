//! One long stream per connection, with every byte checked.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::thread;

use ackwise_scenario::record::Content;
use socket2::Socket;

use super::content::{CHUNK, Digested, Producer, Tally, hex};
use super::socket::{Connection, Limits, accept};
use super::{
    Job, Live, Outcome, connect, cpu_since, join_workers, misbehave_reading, misbehave_writing,
    seed_of,
};
use crate::clock::{now_ns, thread_cpu_ns};
use crate::tcpinfo;

/// The digests of one side's connections, by the sender's port.
pub(super) type DigestLog = Mutex<HashMap<u16, Digested>>;

/// Records the digest of one side of a connection.
fn record_digest(ledger: &DigestLog, port: u16, digested: Digested) {
    ledger
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(port, digested);
}

/// Runs the flow.
pub(super) fn run(
    job: &Job,
    bytes: Option<u64>,
    listener: &Socket,
    live: &Live,
    limits: &Limits,
) -> Outcome {
    let (sent, received) = <(DigestLog, DigestLog)>::default();
    let mut outcome = thread::scope(|scope| {
        let mut workers = Vec::new();
        for index in 0..job.connections {
            let (sent, received) = (&sent, &received);
            workers.push(scope.spawn(move || receive(job, listener, live, limits, received)));
            workers.push(scope.spawn(move || send(job, index, bytes, live, limits, sent)));
        }
        join_workers(workers)
    });
    outcome.content = Some(compare(&sent, &received, &mut outcome.errors));
    outcome
}

/// Checks that both sides have the same digest for each connection.
pub(super) fn compare(sent: &DigestLog, received: &DigestLog, errors: &mut Vec<String>) -> Content {
    let sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
    let received = received.lock().unwrap_or_else(PoisonError::into_inner);
    let mut ok = !sent.is_empty() && sent.len() == received.len();
    for (port, mine) in sent.iter() {
        let same = received
            .get(port)
            .is_some_and(|theirs| theirs.bytes == mine.bytes && theirs.sha256 == mine.sha256);
        if let Some(theirs) = received.get(port).filter(|_| !same) {
            errors.push(format!(
                "the received bytes differ from those sent ({} of {} bytes arrived)",
                theirs.bytes, mine.bytes
            ));
        }
        ok &= same;
    }
    Content {
        ok,
        sha256: match received.values().collect::<Vec<_>>()[..] {
            [only] => Some(hex(&only.sha256)),
            _ => None,
        },
        bytes: received.values().map(|theirs| theirs.bytes).sum(),
    }
}

fn receive(
    job: &Job,
    listener: &Socket,
    live: &Live,
    limits: &Limits,
    ledger: &DigestLog,
) -> Outcome {
    let before = thread_cpu_ns();
    let mut outcome = Outcome::default();
    let mut tally = Tally::default();
    let mut port = None;
    let ended = (|| -> io::Result<()> {
        let mut connection = accept(listener, limits)?;
        port = Some(connection.peer_port()?);
        connection.wait_in_reads()?;
        let mut buffer = vec![0; CHUNK];
        let mut misbehaved = Vec::new();
        loop {
            let count = connection.read(&mut buffer)?;
            if count == 0 {
                // Data and FIN mostly arrive together, so there is no need to read the clock at
                // each segment.
                let idle_ns = tcpinfo::of_socket(connection.socket().as_fd())
                    .map_or(0, |info| u64::from(info.idle_ms) * 1_000_000);
                outcome.last_ns = (tally.bytes() > 0).then(|| now_ns() - idle_ns);
                return Ok(());
            }
            tally.add(&buffer[..count]);
            live.received(count);
            misbehave_reading(job, &mut misbehaved, tally.bytes(), limits)?;
        }
    })();
    if let Err(error) = ended {
        outcome.last_ns = (tally.bytes() > 0).then(now_ns);
        limits.fail();
        outcome.errors.push(format!("receiving: {error}"));
    }
    end_receiving(&mut outcome, tally, before, port, ledger);
    outcome
}

/// Records the results of a receiving thread that had used `before` ns of CPU when it began.
pub(super) fn end_receiving(
    outcome: &mut Outcome,
    tally: Tally,
    before: u64,
    port: Option<u16>,
    ledger: &DigestLog,
) {
    let digested = tally.finish();
    outcome.bytes = digested.bytes;
    outcome.cpu_to_ns = cpu_since(before, digested.own_cpu_ns);
    if let Some(port) = port {
        record_digest(ledger, port, digested);
    }
}

fn send(
    job: &Job,
    index: u32,
    bytes: Option<u64>,
    live: &Live,
    limits: &Limits,
    ledger: &DigestLog,
) -> Outcome {
    let mut left = bytes.unwrap_or(u64::MAX);
    let mut outcome = send_by(job, index, live, limits, ledger, |connection, producer| {
        let mut chunk = vec![0; CHUNK];
        let mut misbehaved = Vec::new();
        while left > 0 && now_ns() < job.stop_ns {
            misbehave_writing(job, &mut misbehaved, limits)?;
            let size = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
            producer.fill(&mut chunk[..size]);
            let written = connection.write_until(&chunk[..size], job.stop_ns)?;
            producer.sent(&chunk[..written]);
            left -= written as u64;
            if written < size {
                break;
            }
        }
        Ok(())
    });
    if outcome.errors.is_empty() && bytes.is_some() && left > 0 {
        outcome.errors.push(format!(
            "{left} bytes were left to send when the run ended; make `duration` longer"
        ));
    }
    outcome
}

/// Connects when the flow begins, lets `write` send, waits until the receiver has everything, and
/// records what was sent.
pub(super) fn send_by(
    job: &Job,
    index: u32,
    live: &Live,
    limits: &Limits,
    ledger: &DigestLog,
    write: impl FnOnce(&mut Connection, &mut Producer) -> io::Result<()>,
) -> Outcome {
    let before = thread_cpu_ns();
    let mut outcome = Outcome::default();
    let mut producer = Producer::new(seed_of(job, u64::from(index)));
    let mut port = None;
    let ended = (|| -> Result<(), String> {
        limits
            .sleep_until(job.start_ns)
            .map_err(|error| error.to_string())?;
        let mut connection = connect(job, &job.from, true, limits)?;
        let describe = |error: io::Error| format!("sending: {error}");
        port = Some(connection.local_port().map_err(describe)?);
        connection.limit_unsent().map_err(describe)?;
        let watch = live.watch(connection.socket());
        outcome.first_ns = Some(now_ns());
        write(&mut connection, &mut producer).map_err(describe)?;
        connection.end().map_err(describe)?;
        connection
            .wait_for_end()
            .map_err(|error| format!("waiting for the receiver to finish: {error}"))?;
        if let Ok(info) = tcpinfo::of_socket(connection.socket().as_fd()) {
            outcome.finals.push(info);
        }
        drop(watch);
        Ok(())
    })();
    if let Err(error) = ended {
        limits.fail();
        outcome.errors.push(error);
    }
    let digested = producer.finish();
    outcome.cpu_from_ns = cpu_since(before, digested.own_cpu_ns);
    if let Some(port) = port {
        record_digest(ledger, port, digested);
    }
    outcome
}
