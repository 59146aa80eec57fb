//! One flow from the sender to the receiver, and its samples.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::super::record::{First, Job, Sample};
use super::between::{Middle, RouterCost};
use super::cost::{self, Busy, Counters, Idle, Worker};
use super::hosts::Hosts;
use super::trace::Trace;
use crate::clock::now_ns;
use crate::error::LabError;
use crate::netns::Entrance;
use crate::tcpinfo;

/// Interval at which a paced application writes what is due.
const PACING_INTERVAL: Duration = Duration::from_millis(10);
/// Real-time priority of NAPI threads: packets come before applications.
const NAPI_PRIORITY: i32 = 20;
const APPLICATION_PRIORITY: i32 = 10;
/// How much longer than the flow a receiver waits.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// State shared by the threads of a flow.
#[derive(Default)]
struct Shared {
    read: AtomicU64,
    over: AtomicBool,
    socket: OnceLock<OwnedFd>,
    sender: Worker,
    receiver: Worker,
}

/// Runs the flow and returns samples from its start to its end.
///
/// # Errors
/// A socket or a file of `/proc` cannot be used.
pub fn run(job: &Job, hosts: &Hosts) -> Result<Vec<Sample>, LabError> {
    let shared = Shared::default();
    let timeout = Duration::from_millis(job.duration_ms) + CONNECT_TIMEOUT;
    let listener = hosts
        .receiver
        .namespace
        .inside(|| listen(hosts.server, timeout))?;
    let (from, to) = (
        hosts.sender.namespace.entrance()?,
        hosts.receiver.namespace.entrance()?,
    );
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let done = shared
                .receiver
                .account(|| receive(job, &to, &listener, &shared));
            shared.over.store(true, Ordering::Relaxed);
            done
        });
        let sender = scope.spawn(|| {
            let done = shared
                .sender
                .account(|| send(job, hosts.server, &from, &shared));
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
        // If both failed, the receiver failed because the sender did.
        sent.and(received)?;
        samples
    })
}

fn tcp_socket() -> io::Result<Socket> {
    Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))
}

fn listen(server: SocketAddr, timeout: Duration) -> Result<Socket, LabError> {
    let open = || {
        let socket = tcp_socket()?;
        // The timeout also applies to `accept`: a sender that never connects must not hang the
        // guest.
        socket.set_read_timeout(Some(timeout))?;
        socket.bind(&SockAddr::from(server))?;
        socket.listen(1)?;
        Ok(socket)
    };
    open().map_err(LabError::os(format!("cannot listen on {server}")))
}

/// Reads to the end of the stream.
fn receive(job: &Job, to: &Entrance, listener: &Socket, shared: &Shared) -> Result<(), LabError> {
    to.enter()?;
    if job.first == First::Receiver {
        cost::serve_first(0, APPLICATION_PRIORITY)?;
    }
    let (mut socket, _) = listener
        .accept()
        .map_err(LabError::os("no sender connected to the receiver"))?;
    let mut buffer = vec![0_u8; job.chunk_bytes as usize];
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
fn send(job: &Job, server: SocketAddr, from: &Entrance, shared: &Shared) -> Result<(), LabError> {
    from.enter()?;
    let failed = || LabError::os("the sender cannot write");
    let mut socket = tcp_socket().map_err(failed())?;
    socket
        .set_tcp_congestion(job.cc.as_bytes())
        .map_err(LabError::os(format!(
            "cannot use congestion control `{}`",
            job.cc
        )))?;
    socket
        .connect(&SockAddr::from(server))
        .map_err(LabError::os(format!("cannot connect to {server}")))?;
    let copy = socket.as_fd().try_clone_to_owned().map_err(failed())?;
    let _ = shared.socket.set(copy);
    let chunk = vec![0_u8; job.chunk_bytes as usize];
    let start = now_ns();
    let end = start + job.duration_ms * 1_000_000;
    let mut written = 0_u64;
    loop {
        let now = now_ns();
        if now >= end || shared.over.load(Ordering::Relaxed) {
            break;
        }
        let due = match job.write_bps {
            None => chunk.len(),
            Some(rate) => due(rate, now - start, written).min(chunk.len()),
        };
        // Whole chunks only: smaller writes would keep the CPU busy with small segments.
        if due < chunk.len() {
            thread::sleep(PACING_INTERVAL);
            continue;
        }
        written += socket.write(&chunk[..due]).map_err(failed())? as u64;
    }
    socket.shutdown(std::net::Shutdown::Write).map_err(failed())
}

/// Bytes that an application with this rate should write now.
fn due(rate_bps: u64, elapsed_ns: u64, written: u64) -> usize {
    let total = u128::from(rate_bps) * u128::from(elapsed_ns) / 8_000_000_000;
    let left = total.saturating_sub(u128::from(written));
    usize::try_from(left).unwrap_or(usize::MAX)
}

/// Takes samples until the flow is over, and a last one at its end.
fn watch(job: &Job, hosts: &Hosts, shared: &Shared) -> Result<Vec<Sample>, LabError> {
    if job.first == First::Receiver {
        let middle = hosts.middle.iter().flat_map(Middle::threads);
        for napi in [&hosts.sender.napi, &hosts.receiver.napi]
            .into_iter()
            .chain(middle)
        {
            cost::serve_first(napi.tid(), NAPI_PRIORITY)?;
        }
    }
    let gauges = Gauges::open(job, hosts)?;
    while shared.socket.get().is_none() && !shared.over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(1));
    }
    let start = now_ns();
    let mut samples = Vec::new();
    let mut next = start;
    loop {
        let over = shared.over.load(Ordering::Relaxed);
        samples.push(gauges.sample(start, shared)?);
        if over {
            return Ok(samples);
        }
        next += job.sample_ms.max(1) * 1_000_000;
        let wait = next.saturating_sub(now_ns());
        thread::sleep(Duration::from_nanos(wait));
    }
}

/// The sources of the samples.
struct Gauges {
    sender: Counters,
    receiver: Counters,
    idle: Idle,
    napi: [Busy; 2],
    router: Option<RouterCost>,
    trace: Option<Trace>,
}

impl Gauges {
    fn open(job: &Job, hosts: &Hosts) -> Result<Self, LabError> {
        let named = |sysctl: &&(String, String)| sysctl.0 == "net.ipv4.tcp_ack_policy";
        let policy = job.receiver_sysctls.iter().rev().find(named);
        let policy = policy.map_or("none", |sysctl| sysctl.1.as_str());
        Ok(Self {
            sender: hosts.sender.namespace.inside(Counters::open)?,
            receiver: hosts.receiver.namespace.inside(Counters::open)?,
            idle: Idle::open()?,
            napi: [hosts.sender.napi.busy()?, hosts.receiver.napi.busy()?],
            router: hosts.middle.as_ref().map(Middle::router).transpose()?,
            trace: job.trace.then(|| Trace::start(policy)).transpose()?,
        })
    }

    fn sample(&self, start: u64, shared: &Shared) -> Result<Sample, LabError> {
        let (data, acks) = (self.sender.read()?, self.receiver.read()?);
        let info = shared
            .socket
            .get()
            .and_then(|socket| tcpinfo::of_socket(socket.as_fd()).ok())
            .unwrap_or_default();
        let rates = self.trace.as_ref().map(Trace::last).transpose()?.flatten();
        let router = self.router.as_ref().map(RouterCost::read).transpose()?;
        let (router_ns, forwarded) = router.unwrap_or_default();
        Ok(Sample {
            at_ns: now_ns() - start,
            bytes: shared.read.load(Ordering::Relaxed),
            data_segments: data.out + data.retransmitted,
            acks: acks.out,
            retransmits: data.retransmitted,
            idle_ns: self.idle.ns()?,
            sender_ns: shared.sender.ns()? + self.napi[0].ns()?,
            receiver_ns: shared.receiver.ns()? + self.napi[1].ns()?,
            router_ns,
            forwarded,
            rtt_us: info.rtt_us,
            cwnd: info.cwnd,
            ssthresh: info.ssthresh.unwrap_or(0),
            ack_rate: rates.map(|rates| rates.value),
            ack_rate_max: rates.map(|rates| rates.max),
        })
    }
}
