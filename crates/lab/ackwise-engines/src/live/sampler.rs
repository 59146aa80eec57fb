//! Samples every flow at fixed intervals.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ackwise_scenario::IpVersion;

use crate::clock::now_ns;
use crate::tcpinfo::{SockDiag, TcpInfo};
use crate::traffic::Live;

/// An `iperf3` connection with fewer bytes is its control connection.
const DATA_CONNECTION_BYTES: u64 = 64 * 1024;

/// Where a flow can be sampled.
pub(super) struct Subject {
    pub live: Arc<Live>,
    /// Set if the sockets belong to another program.
    pub foreign: Option<Foreign>,
}

/// The sockets of another program.
pub(super) struct Foreign {
    /// Lists the sockets of their namespace.
    pub diag: SockDiag,
    /// The port to which they are connected.
    pub port: u16,
    pub version: IpVersion,
}

/// A sample of a flow.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Sample {
    pub at_ns: u64,
    /// Bytes that have arrived by then.
    pub bytes: u64,
    /// Smoothed round-trip time of each connection.
    pub rtts_us: Vec<u32>,
    pub cwnd: u64,
    /// `None` while a connection has no threshold, or without connections.
    pub ssthresh: Option<u64>,
    pub inflight: u64,
    pub retransmits: u64,
}

impl Sample {
    fn new(at_ns: u64, bytes: u64, infos: &[TcpInfo]) -> Self {
        Self {
            at_ns,
            bytes,
            rtts_us: infos
                .iter()
                .map(|info| info.rtt_us)
                .filter(|&rtt| rtt > 0)
                .collect(),
            cwnd: infos.iter().map(|info| u64::from(info.cwnd)).sum(),
            ssthresh: if infos.is_empty() {
                None
            } else {
                infos.iter().map(|info| info.ssthresh.map(u64::from)).sum()
            },
            inflight: infos.iter().map(|info| u64::from(info.inflight)).sum(),
            retransmits: infos.iter().map(|info| u64::from(info.total_retrans)).sum(),
        }
    }
}

/// The samples of a flow, and the last `TCP_INFO` of its connections if they are not the lab's own.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub samples: Vec<Sample>,
    pub foreign_finals: Vec<TcpInfo>,
    pub errors: Vec<String>,
}

/// Takes samples at `start_ns` plus multiples of `interval_ns` until told to stop.
pub(super) fn sample(
    mut subjects: Vec<Subject>,
    start_ns: u64,
    interval_ns: u64,
    stop: &AtomicBool,
) -> Vec<Seen> {
    let mut seen: Vec<Seen> = subjects.iter().map(|_| Seen::default()).collect();
    let mut finals: Vec<HashMap<u16, TcpInfo>> = subjects.iter().map(|_| HashMap::new()).collect();
    let mut next = start_ns + interval_ns;
    while !stop.load(Ordering::Relaxed) {
        let left = next.saturating_sub(now_ns());
        if left > 0 {
            thread::sleep(Duration::from_nanos(left.min(50_000_000)));
            continue;
        }
        for ((subject, seen), finals) in subjects.iter_mut().zip(&mut seen).zip(&mut finals) {
            let at_ns = now_ns();
            let sample = match &mut subject.foreign {
                None => {
                    let infos = subject.live.tcp_infos();
                    Sample::new(at_ns, subject.live.bytes.load(Ordering::Relaxed), &infos)
                }
                Some(foreign) => match foreign.diag.connections_to(foreign.port, foreign.version) {
                    Ok(entries) => {
                        let data = entries
                            .iter()
                            .filter(|entry| entry.info.bytes_sent > DATA_CONNECTION_BYTES);
                        finals.extend(data.clone().map(|entry| (entry.source_port, entry.info)));
                        let infos: Vec<TcpInfo> = data.map(|entry| entry.info).collect();
                        let bytes = finals.values().map(|info| info.bytes_acked).sum();
                        Sample::new(at_ns, bytes, &infos)
                    }
                    Err(error) => {
                        if seen.errors.is_empty() {
                            seen.errors.push(format!("sock_diag: {error}"));
                        }
                        continue;
                    }
                },
            };
            seen.samples.push(sample);
        }
        // A missed sample is not made up for.
        let late = now_ns().saturating_sub(next);
        next += (late / interval_ns + 1) * interval_ns;
    }
    for (seen, finals) in seen.iter_mut().zip(finals) {
        seen.foreign_finals = finals.into_values().collect();
    }
    seen
}
