//! One flow from the sender to the receiver, and someone who takes notes.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::super::record::{Job, Sample};
use super::cost::{Busy, Counters, Idle};
use super::hosts::{Host, Hosts, SERVER};
use crate::clock::now_ns;
use crate::error::LabError;
use crate::netns::Entrance;
use crate::tcpinfo;

/// Bytes of a write and of a read, as iperf's.
const CHUNK: usize = 128 * 1024;
/// A paced application writes what is due this often.
const PACE: Duration = Duration::from_millis(10);
/// A receiver waits this much longer than the flow lasts.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// What the threads of a flow tell one another.
#[derive(Default)]
struct Shared {
    read: AtomicU64,
    over: AtomicBool,
    socket: OnceLock<OwnedFd>,
    sender: OnceLock<Busy>,
    receiver: OnceLock<Busy>,
}

/// Runs the flow; samples from its start to its end.
///
/// # Errors
/// A socket or a file of `/proc` refuses.
pub fn run(job: &Job, hosts: &Hosts) -> Result<Vec<Sample>, LabError> {
    let shared = Shared::default();
    let patience = Duration::from_millis(job.duration_ms) + CONNECT_WITHIN;
    let listener = hosts.receiver.namespace.inside(|| listen(patience))?;
    let (from, to) = (
        hosts.sender.namespace.entrance()?,
        hosts.receiver.namespace.entrance()?,
    );
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let done = receive(&to, &listener, &shared);
            shared.over.store(true, Ordering::Relaxed);
            done
        });
        let sender = scope.spawn(|| {
            let done = send(job, &from, &shared);
            if done.is_err() {
                shared.over.store(true, Ordering::Relaxed);
            }
            done
        });
        let samples = watch(job, hosts, &shared);
        let sent = sender
            .join()
            .map_err(|_| LabError::Panicked("the sender"))?;
        let received = receiver
            .join()
            .map_err(|_| LabError::Panicked("the receiver"))?;
        // If both failed, the receiver did because the sender did.
        sent.and(received)?;
        samples
    })
}

fn tcp_socket() -> io::Result<Socket> {
    Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))
}

fn listen(patience: Duration) -> Result<Socket, LabError> {
    let open = || {
        let socket = tcp_socket()?;
        // `accept` obeys it: a sender that never comes must not hang the guest.
        socket.set_read_timeout(Some(patience))?;
        socket.bind(&SockAddr::from(SERVER))?;
        socket.listen(1)?;
        Ok(socket)
    };
    open().map_err(LabError::os(format!("cannot listen on {SERVER}")))
}

/// Reads to the end.
fn receive(to: &Entrance, listener: &Socket, shared: &Shared) -> Result<(), LabError> {
    to.enter()?;
    let _ = shared.receiver.set(Busy::of_this_thread()?);
    let (mut socket, _) = listener
        .accept()
        .map_err(LabError::os("nobody connected to the receiver"))?;
    let mut buffer = vec![0_u8; CHUNK];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                shared.read.fetch_add(length as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(LabError::os("the receiver cannot read")(error)),
        }
    }
}

/// Writes for as long as the job says.
fn send(job: &Job, from: &Entrance, shared: &Shared) -> Result<(), LabError> {
    from.enter()?;
    let _ = shared.sender.set(Busy::of_this_thread()?);
    let failed = || LabError::os("the sender cannot send");
    let mut socket = tcp_socket().map_err(failed())?;
    socket
        .set_tcp_congestion(job.cc.as_bytes())
        .map_err(LabError::os(format!("no congestion control `{}`", job.cc)))?;
    socket
        .connect(&SockAddr::from(SERVER))
        .map_err(LabError::os(format!("cannot connect to {SERVER}")))?;
    let copy = socket.as_fd().try_clone_to_owned().map_err(failed())?;
    let _ = shared.socket.set(copy);
    let chunk = vec![0_u8; CHUNK];
    let start = now_ns();
    let end = start + job.duration_ms * 1_000_000;
    let mut written = 0_u64;
    loop {
        let now = now_ns();
        if now >= end || shared.over.load(Ordering::Relaxed) {
            break;
        }
        let due = match job.write_bps {
            None => CHUNK,
            Some(rate) => due(rate, now - start, written),
        };
        if due == 0 {
            thread::sleep(PACE);
            continue;
        }
        written += socket.write(&chunk[..due]).map_err(failed())? as u64;
    }
    socket.shutdown(std::net::Shutdown::Write).map_err(failed())
}

/// Bytes that an application that writes at a rate should write now.
fn due(rate_bps: u64, elapsed_ns: u64, written: u64) -> usize {
    let total = u128::from(rate_bps) * u128::from(elapsed_ns) / 8_000_000_000;
    let left = total.saturating_sub(u128::from(written));
    usize::try_from(left).unwrap_or(CHUNK).min(CHUNK)
}

/// Counters of both hosts.
struct Counts {
    sender: Counters,
    receiver: Counters,
}

/// Takes samples until the flow is over, and one at its end.
fn watch(job: &Job, hosts: &Hosts, shared: &Shared) -> Result<Vec<Sample>, LabError> {
    let counts = Counts {
        sender: hosts.sender.namespace.inside(Counters::open)?,
        receiver: hosts.receiver.namespace.inside(Counters::open)?,
    };
    let idle = Idle::open()?;
    let napi = [busy(&hosts.sender)?, busy(&hosts.receiver)?];
    while shared.socket.get().is_none() && !shared.over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(1));
    }
    let start = now_ns();
    let mut samples = Vec::new();
    let mut next = start;
    loop {
        let over = shared.over.load(Ordering::Relaxed);
        samples.push(sample(start, shared, &counts, &idle, &napi)?);
        if over {
            return Ok(samples);
        }
        next += job.sample_ms.max(1) * 1_000_000;
        let wait = next.saturating_sub(now_ns());
        thread::sleep(Duration::from_nanos(wait));
    }
}

fn busy(host: &Host) -> Result<Busy, LabError> {
    host.napi.busy()
}

fn sample(
    start: u64,
    shared: &Shared,
    counts: &Counts,
    idle: &Idle,
    napi: &[Busy; 2],
) -> Result<Sample, LabError> {
    let (data, acks) = (counts.sender.read()?, counts.receiver.read()?);
    let info = shared
        .socket
        .get()
        .and_then(|socket| tcpinfo::of_socket(socket.as_fd()).ok())
        .unwrap_or_default();
    // A thread that has just ended has no file any more: its last is lost.
    let of = |slot: &OnceLock<Busy>| slot.get().and_then(|busy| busy.ns().ok()).unwrap_or(0);
    Ok(Sample {
        at_ns: now_ns() - start,
        bytes: shared.read.load(Ordering::Relaxed),
        data_segments: data.out + data.retransmitted,
        acks: acks.out,
        retransmits: data.retransmitted,
        idle_ns: idle.ns()?,
        sender_ns: of(&shared.sender) + napi[0].ns()?,
        receiver_ns: of(&shared.receiver) + napi[1].ns()?,
        rtt_us: info.rtt_us,
        cwnd: info.cwnd,
        ssthresh: info.ssthresh.unwrap_or(0),
    })
}
