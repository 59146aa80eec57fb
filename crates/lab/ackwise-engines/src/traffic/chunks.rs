//! Sends a chunk per period, like live video, and counts the chunks that arrive late.

use std::io;
use std::thread;
use std::time::Duration;

use socket2::Socket;

use super::bulk::{DigestLog, compare, end_receiving, send_by};
use super::content::{CHUNK, Producer, Tally};
use super::socket::{Connection, Limits, accept};
use super::{Job, Live, Outcome, Transfer, join_workers};
use crate::clock::{nanos, now_ns, thread_cpu_ns};

/// The chunks of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunks {
    /// Bytes per chunk.
    pub bytes: u64,
    /// Time between two chunks.
    pub period: Duration,
    /// Maximum time from when a chunk is due at the sender to its arrival.
    pub deadline: Duration,
}

impl Chunks {
    /// When a chunk is due at the sender.
    fn due_ns(self, job: &Job, index: u64) -> u64 {
        let after = index.saturating_mul(nanos(self.period));
        job.start_ns.saturating_add(after)
    }

    /// Number of chunks whose deadline is within the run.
    fn judged(self, job: &Job) -> u64 {
        let span = job.stop_ns.saturating_sub(job.start_ns);
        match span.checked_sub(nanos(self.deadline)) {
            Some(left) => left / nanos(self.period).max(1) + 1,
            None => 0,
        }
    }
}

/// Runs the flow.
pub(super) fn run(
    job: &Job,
    chunks: Chunks,
    listener: &Socket,
    live: &Live,
    limits: &Limits,
) -> Outcome {
    let (sent, received) = <(DigestLog, DigestLog)>::default();
    let mut outcome = thread::scope(|scope| {
        let mut workers = Vec::new();
        for index in 0..job.connections {
            let (sent, received) = (&sent, &received);
            workers
                .push(scope.spawn(move || receive(job, chunks, listener, live, limits, received)));
            workers.push(scope.spawn(move || send(job, index, chunks, live, limits, sent)));
        }
        join_workers(workers)
    });
    outcome.content = Some(compare(&sent, &received, &mut outcome.errors));
    outcome
}

fn send(
    job: &Job,
    index: u32,
    chunks: Chunks,
    live: &Live,
    limits: &Limits,
    ledger: &DigestLog,
) -> Outcome {
    send_by(job, index, live, limits, ledger, |connection, producer| {
        for number in 0.. {
            let due = chunks.due_ns(job, number);
            if due >= job.stop_ns {
                break;
            }
            limits.sleep_until(due)?;
            if !put(connection, producer, chunks.bytes, job.stop_ns)? {
                break;
            }
        }
        Ok(())
    })
}

/// Writes a chunk; returns `false` if the time was over before.
fn put(
    connection: &mut Connection,
    producer: &mut Producer,
    bytes: u64,
    until_ns: u64,
) -> io::Result<bool> {
    let mut left = bytes;
    let mut buffer = vec![0; CHUNK];
    while left > 0 {
        let size = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
        producer.fill(&mut buffer[..size]);
        let written = connection.write_until(&buffer[..size], until_ns)?;
        producer.sent(&buffer[..written]);
        left -= written as u64;
        if written < size {
            return Ok(false);
        }
    }
    Ok(true)
}

fn receive(
    job: &Job,
    chunks: Chunks,
    listener: &Socket,
    live: &Live,
    limits: &Limits,
    ledger: &DigestLog,
) -> Outcome {
    let before = thread_cpu_ns();
    let mut outcome = Outcome::default();
    let mut tally = Tally::default();
    let mut port = None;
    let judged = chunks.judged(job);
    let (mut whole, mut in_time) = (0, 0);
    let ended = (|| -> io::Result<()> {
        let mut connection = accept(listener, limits)?;
        port = Some(connection.peer_port()?);
        connection.wait_in_reads()?;
        let mut buffer = vec![0; CHUNK];
        loop {
            let count = connection.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            let now = now_ns();
            tally.add(&buffer[..count]);
            live.received(count);
            outcome.last_ns = Some(now);
            while whole < judged && tally.bytes() >= (whole + 1) * chunks.bytes {
                let time_ns = now.saturating_sub(chunks.due_ns(job, whole));
                in_time += u64::from(time_ns <= nanos(chunks.deadline));
                whole += 1;
                outcome.transfers.push(Transfer {
                    bytes: chunks.bytes,
                    time_ns,
                });
            }
        }
    })();
    if let Err(error) = ended {
        limits.fail();
        outcome.errors.push(format!("receiving: {error}"));
    }
    outcome.unfinished = judged - whole;
    outcome.late = Some(judged - in_time);
    end_receiving(&mut outcome, tally, before, port, ledger);
    outcome
}
