//! What is measured in a block.

use std::fs;
use std::time::Instant;

use ackwise_datapath::{FlowStats, Position, Stats};
use ackwise_netdev::netlink::Netlink;
use ackwise_switchback::{Better, Block};
use serde::Serialize;

use super::subject::Subject;

/// A flow without an ACK for longer does not count for the round-trip time.
const IDLE_MS: u64 = 1_000;
/// As many flows are looked at for the round-trip time.
const FLOWS: usize = 4_096;
/// One block.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Whether the policy was on.
    pub policy: Block,
    /// Seconds from the beginning of the experiment to that of the block.
    pub at_s: f64,
    /// Seconds that counted.
    pub seconds: f64,
    /// Payload of the flows whose ACKs are thinned, bytes a second.
    pub data_bytes_per_s: f64,
    /// What passes in the direction of the ACKs and is no ACK of these flows, bytes a second.
    pub reverse_bytes_per_s: f64,
    /// The mean over the block of the median round-trip time of the flows in use, milliseconds.
    pub rtt_ms: Option<f64>,
    /// ACKs that the policy withheld, a second; 0 while it is off.
    pub withheld_per_s: f64,
    /// ACKs that left, packets a second.
    pub acks_per_s: f64,
    /// Their bytes a second, from the IP header on.
    pub ack_bytes_per_s: f64,
    /// The mean length of the interface's queue, bytes.
    pub queue_bytes: Option<f64>,
    /// Segments that came twice (receiver) or were sent again (sender), a second. Of all
    /// connections of the host; a router does not know.
    pub retransmissions_per_s: Option<f64>,
    /// The share of the host's CPU time that was not idle.
    pub cpu_share: Option<f64>,
}

/// A metric of an [`Outcome`].
pub struct Metric {
    pub name: &'static str,
    pub better: Better,
    /// Whether the verdict depends on it.
    pub judged: bool,
    pub value: fn(&Outcome) -> Option<f64>,
}

/// All metrics; those that are judged come first.
pub const METRICS: [Metric; 8] = [
    Metric {
        name: "data",
        better: Better::Higher,
        judged: true,
        value: |o| Some(o.data_bytes_per_s),
    },
    Metric {
        name: "reverse data",
        better: Better::Higher,
        judged: true,
        value: |o| Some(o.reverse_bytes_per_s),
    },
    Metric {
        name: "RTT",
        better: Better::Lower,
        judged: true,
        value: |o| o.rtt_ms,
    },
    Metric {
        name: "ACKs",
        better: Better::Lower,
        judged: false,
        value: |o| Some(o.acks_per_s),
    },
    Metric {
        name: "ACK bytes",
        better: Better::Lower,
        judged: false,
        value: |o| Some(o.ack_bytes_per_s),
    },
    Metric {
        name: "queue",
        better: Better::Lower,
        judged: false,
        value: |o| o.queue_bytes,
    },
    Metric {
        name: "retransmissions",
        better: Better::Lower,
        judged: false,
        value: |o| o.retransmissions_per_s,
    },
    Metric {
        name: "CPU",
        better: Better::Lower,
        judged: false,
        value: |o| o.cpu_share,
    },
];

/// The counters at one moment.
struct Reading {
    at: Instant,
    stats: Stats,
    retransmissions: Option<u64>,
    /// Busy and all time of the CPUs, in ticks.
    cpu: Option<(u64, u64)>,
}

/// Measures blocks.
pub struct Meter {
    position: Position,
    netlink: Option<Netlink>,
}

/// A block that is being measured.
pub struct Measuring {
    begin: Reading,
    rtts_us: Vec<f64>,
    queues: Vec<f64>,
}

impl Meter {
    pub fn new(position: Position) -> Self {
        Self {
            position,
            // Without it the queue is not known.
            netlink: Netlink::open().ok(),
        }
    }

    pub fn begin(&self, subject: &impl Subject) -> anyhow::Result<Measuring> {
        Ok(Measuring {
            begin: self.read(subject)?,
            rtts_us: Vec::new(),
            queues: Vec::new(),
        })
    }

    /// Looks at what has no counter.
    pub fn sample(
        &mut self,
        subject: &impl Subject,
        measuring: &mut Measuring,
    ) -> anyhow::Result<()> {
        measuring
            .rtts_us
            .extend(median_rtt_us(&subject.flows(FLOWS)?));
        let index = measuring.begin.stats.ifindex;
        let queues = self.netlink.as_mut().map(Netlink::qdisc_stats);
        let root = queues.and_then(Result::ok).and_then(|queues| {
            let mut roots = queues.into_iter();
            roots.find(|queue| queue.interface == index && queue.parent.is_none())
        });
        measuring
            .queues
            .extend(root.map(|queue| f64::from(queue.bytes)));
        Ok(())
    }

    /// Ends a block. `policy` says what it was.
    pub fn end(
        &self,
        subject: &impl Subject,
        measuring: Measuring,
        policy: Block,
        began: Instant,
    ) -> anyhow::Result<Outcome> {
        let (before, now) = (measuring.begin, self.read(subject)?);
        let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
        let per_s = |n: u64| n as f64 / seconds;
        let since = |count: fn(&Stats) -> u64| {
            let (before, now) = (count(&before.stats), count(&now.stats));
            now.saturating_sub(before)
        };
        // What carries data is no ACK here, although the datapath follows it as one.
        let acks = since(|s| s.acks)
            .saturating_sub(since(|s| s.payload_segments))
            .saturating_sub(since(|s| s.packets_saved));
        let ack_bytes = since(|s| s.ack_bytes)
            .saturating_sub(since(|s| s.payload_bytes))
            .saturating_sub(since(|s| s.bytes_saved));
        let mean = |values: &[f64]| {
            let n = values.len();
            (n > 0).then(|| values.iter().sum::<f64>() / n as f64)
        };
        let retransmissions = now.retransmissions.zip(before.retransmissions);
        let cpu = now.cpu.zip(before.cpu).and_then(|(now, before)| {
            let all = now.1.saturating_sub(before.1);
            (all > 0).then(|| now.0.saturating_sub(before.0) as f64 / all as f64)
        });
        Ok(Outcome {
            policy,
            at_s: before.at.duration_since(began).as_secs_f64(),
            seconds,
            data_bytes_per_s: per_s(since(|s| s.data_bytes)),
            reverse_bytes_per_s: per_s(since(|s| s.other_bytes)),
            rtt_ms: mean(&measuring.rtts_us).map(|us| us / 1e3),
            withheld_per_s: per_s(since(|s| s.withheld)),
            acks_per_s: per_s(acks),
            ack_bytes_per_s: per_s(ack_bytes),
            queue_bytes: mean(&measuring.queues),
            retransmissions_per_s: retransmissions
                .map(|(now, before)| per_s(now.saturating_sub(before))),
            cpu_share: cpu,
        })
    }

    fn read(&self, subject: &impl Subject) -> anyhow::Result<Reading> {
        Ok(Reading {
            at: Instant::now(),
            stats: subject.stats()?,
            retransmissions: self.retransmissions(),
            cpu: fs::read_to_string("/proc/stat")
                .ok()
                .and_then(|stat| cpu(&stat)),
        })
    }

    fn retransmissions(&self) -> Option<u64> {
        let (file, group, names): (_, _, &[&str]) = match self.position {
            Position::Receiver => (
                "/proc/self/net/netstat",
                "TcpExt:",
                &["TCPDSACKOldSent", "TCPDSACKOfoSent"],
            ),
            Position::Sender => ("/proc/self/net/snmp", "Tcp:", &["RetransSegs"]),
            Position::Router => return None,
        };
        counters(&fs::read_to_string(file).ok()?, group, names)
    }
}

fn median_rtt_us(flows: &[FlowStats]) -> Option<f64> {
    let in_use = flows
        .iter()
        .filter(|flow| flow.srtt_us > 0 && flow.idle_ms < IDLE_MS);
    let mut rtts: Vec<_> = in_use.map(|flow| flow.srtt_us).collect();
    rtts.sort_unstable();
    rtts.get(rtts.len() / 2).map(|us| f64::from(*us))
}

/// The sum of counters of a group in the format of /proc/net/snmp: a line of names, a line of
/// values.
fn counters(text: &str, group: &str, wanted: &[&str]) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(group));
    let (names, values) = (lines.next()?, lines.next()?);
    let all = names.split_whitespace().zip(values.split_whitespace());
    let mut found = all.filter(|(name, _)| wanted.contains(name)).peekable();
    found.peek()?;
    found.map(|(_, value)| value.parse::<u64>().ok()).sum()
}

/// Busy and all ticks of the first line of /proc/stat.
fn cpu(stat: &str) -> Option<(u64, u64)> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = fields
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    // user nice system idle iowait irq softirq steal; guest times are parts of the first two.
    let all: u64 = ticks.iter().take(8).sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    (ticks.len() >= 5).then_some((all - idle, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_name() {
        let text = "Ip: A B\nIp: 1 2\nTcp: InSegs RetransSegs OutRsts\nTcp: 10 7 3\n";
        assert_eq!(counters(text, "Tcp:", &["RetransSegs"]), Some(7));
        assert_eq!(counters(text, "Tcp:", &["InSegs", "OutRsts"]), Some(13));
        assert_eq!(counters(text, "Tcp:", &["Nothing"]), None);
        assert_eq!(counters(text, "TcpExt:", &["RetransSegs"]), None);
    }

    #[test]
    fn busy_time_is_all_but_idle_and_waiting() {
        let stat = "cpu  10 1 5 80 4 2 3 0 6 0\ncpu0 1 2 3 4\n";
        assert_eq!(cpu(stat), Some((21, 105)));
        assert_eq!(cpu("cpu  1 2\n"), None);
        assert_eq!(cpu(""), None);
    }
}
