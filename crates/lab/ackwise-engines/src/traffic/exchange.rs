//! Requests and responses, one after the other.

use std::io;
use std::os::fd::AsFd;
use std::thread;

use ackwise_scenario::record::Content;
use socket2::Socket;

use super::content::{CHUNK, Digested, Producer, Tally};
use super::socket::{Connection, Limits, accept};
use super::{Job, Live, Outcome, Transfer, connect, cpu_since, join_workers, seed_of};
use crate::clock::{now_ns, thread_cpu_ns};
use crate::tcpinfo;

/// Writes the next `bytes` bytes of a stream.
fn put(connection: &mut Connection, producer: &mut Producer, bytes: u64) -> io::Result<()> {
    let mut left = bytes;
    let mut chunk = [0; CHUNK];
    while left > 0 {
        let size = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
        producer.fill(&mut chunk[..size]);
        connection.write_all(&chunk[..size])?;
        producer.sent(&chunk[..size]);
        left -= size as u64;
    }
    Ok(())
}

/// Reads `bytes` bytes; returns `false` if the stream ended before the first.
fn get(connection: &mut Connection, tally: &mut Tally, bytes: u64) -> io::Result<bool> {
    let mut left = bytes;
    let mut chunk = [0; CHUNK];
    while left > 0 {
        let size = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
        match connection.read(&mut chunk[..size])? {
            0 if left == bytes => return Ok(false),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                tally.add(&chunk[..count]);
                left -= count as u64;
            }
        }
    }
    Ok(true)
}

/// Requests and responses on one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    /// Bytes per request.
    pub request: u64,
    /// Bytes per response.
    pub response: u64,
    /// Number of requests, one after the other; as many as there is time for if `None`.
    pub count: Option<u32>,
}

/// Runs the flow: `to` asks, `from` answers.
pub(super) fn run(
    job: &Job,
    size: Exchange,
    listener: &Socket,
    live: &Live,
    limits: &Limits,
) -> Outcome {
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for _ in 0..job.connections {
            workers.push(scope.spawn(move || answer(job, size, listener, live, limits)));
        }
        for index in 0..job.connections {
            workers.push(scope.spawn(move || ask(job, index, size, live, limits)));
        }
        join_workers(workers)
    })
}

/// Index of the seed of the responses, known to both sides.
const RESPONSE_SEED: u64 = 1 << 40;

fn answer(job: &Job, size: Exchange, listener: &Socket, live: &Live, limits: &Limits) -> Outcome {
    let before = thread_cpu_ns();
    let mut outcome = Outcome::default();
    let mut producer = Producer::new(seed_of(job, RESPONSE_SEED));
    let mut tally = Tally::default();
    let ended = (|| -> io::Result<()> {
        let mut connection = accept(listener, limits)?;
        connection.no_delay()?;
        let _watch = live.watch(connection.socket());
        while get(&mut connection, &mut tally, size.request)? {
            put(&mut connection, &mut producer, size.response)?;
        }
        if let Ok(info) = tcpinfo::of_socket(connection.socket().as_fd()) {
            outcome.finals.push(info);
        }
        connection.end()
    })();
    if let Err(error) = ended {
        limits.fail();
        outcome.errors.push(format!("answering: {error}"));
    }
    let own = producer.finish().own_cpu_ns + tally.finish().own_cpu_ns;
    outcome.cpu_from_ns = cpu_since(before, own);
    outcome
}

fn ask(job: &Job, index: u32, size: Exchange, live: &Live, limits: &Limits) -> Outcome {
    let before = thread_cpu_ns();
    let mut outcome = Outcome::default();
    let mut producer = Producer::new(seed_of(job, u64::from(index)));
    let mut tally = Tally::default();
    let mut begun = 0;
    let ended = (|| -> Result<(), String> {
        limits
            .sleep_until(job.start_ns)
            .map_err(|error| error.to_string())?;
        let mut connection = connect(job, &job.to, false, limits)?;
        let describe = |error: io::Error| format!("the client: {error}");
        connection.no_delay().map_err(describe)?;
        outcome.first_ns = Some(now_ns());
        while size.count.is_none_or(|count| begun < count) && now_ns() < job.stop_ns {
            begun += 1;
            let requested_at = now_ns();
            put(&mut connection, &mut producer, size.request).map_err(describe)?;
            if !get(&mut connection, &mut tally, size.response).map_err(describe)? {
                return Err("the client: the server ended the connection early".to_owned());
            }
            let answered_at = now_ns();
            live.received(usize::try_from(size.response).unwrap_or(usize::MAX));
            outcome.last_ns = Some(answered_at);
            outcome.transfers.push(Transfer {
                // As in the simulator, the size of a transfer is the size of the response.
                bytes: size.response,
                time_ns: answered_at - requested_at,
            });
        }
        connection.end().map_err(describe)?;
        connection.wait_for_end().map_err(describe)
    })();
    let completed = outcome.transfers.len() as u64;
    outcome.unfinished = u64::from(begun) - completed;
    match ended {
        Err(error) => {
            limits.fail();
            outcome.errors.push(error);
        }
        Ok(()) => {
            let left = size.count.map_or(0, |count| count - begun);
            if left > 0 {
                outcome.errors.push(format!(
                    "{left} exchanges were left when the run ended; make `duration` longer"
                ));
            }
        }
    }
    // Produces the expected stream again.
    let got = tally.finish();
    let expected = reproduce(seed_of(job, RESPONSE_SEED), size.response, completed);
    let ok = got.bytes == expected.bytes && got.sha256 == expected.sha256;
    if !ok && outcome.errors.is_empty() {
        outcome
            .errors
            .push("the received answers differ from those sent".to_owned());
    }
    outcome.bytes = got.bytes;
    outcome.content = Some(Content {
        ok,
        sha256: Some(super::content::hex(&got.sha256)),
        bytes: got.bytes,
    });
    let own = producer.finish().own_cpu_ns + got.own_cpu_ns + expected.own_cpu_ns;
    outcome.cpu_to_ns = cpu_since(before, own);
    outcome
}

fn reproduce(seed: u64, response: u64, count: u64) -> Digested {
    let mut producer = Producer::new(seed);
    let mut chunk = [0; CHUNK];
    for _ in 0..count {
        let mut left = response;
        while left > 0 {
            let size = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
            producer.fill(&mut chunk[..size]);
            producer.sent(&chunk[..size]);
            left -= size as u64;
        }
    }
    producer.finish()
}
