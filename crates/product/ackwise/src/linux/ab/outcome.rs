//! Measures blocks on a live interface.

use std::fs;
use std::time::Instant;

use ackwise_datapath::{Position, Stats};
use ackwise_netdev::netlink::Netlink;
use ackwise_switchback::{
    Block, Counters, CpuTime, IDLE_MS, Outcome, Samples, Span, median_rtt_us,
};

use super::subject::Subject;
use crate::linux::lookup::{flow_rtt, root_queue};

/// The maximum number of flows sampled for the round-trip time.
const MAX_FLOWS: usize = 4_096;

/// The counters at one moment.
struct Snapshot {
    at: Instant,
    ifindex: u32,
    counters: Counters,
}

/// Measures blocks.
pub struct BlockMeter {
    position: Position,
    netlink: Option<Netlink>,
}

/// A block that is being measured.
pub struct BlockMeasurement {
    begin: Snapshot,
    samples: Samples,
}

impl BlockMeter {
    pub fn new(position: Position) -> Self {
        Self {
            position,
            // Without netlink the queue is not known.
            netlink: Netlink::open().ok(),
        }
    }

    pub fn begin(&self, subject: &impl Subject) -> anyhow::Result<BlockMeasurement> {
        Ok(BlockMeasurement {
            begin: self.read(subject)?,
            samples: Samples::default(),
        })
    }

    /// Samples what has no counter.
    pub fn sample(
        &mut self,
        subject: &impl Subject,
        measuring: &mut BlockMeasurement,
    ) -> anyhow::Result<()> {
        let flows = subject.flows(MAX_FLOWS)?;
        let rtts = flows.iter().map(flow_rtt);
        let samples = &mut measuring.samples;
        samples.rtts_us.extend(median_rtt_us(rtts, IDLE_MS));
        let queues = self.netlink.as_mut().map(Netlink::qdisc_stats);
        let queues = queues.and_then(Result::ok).unwrap_or_default();
        let root = root_queue(&queues, measuring.begin.ifindex);
        samples
            .queues
            .extend(root.map(|queue| f64::from(queue.bytes)));
        Ok(())
    }

    /// Ends a block. `policy` says whether the policy was on.
    pub fn end(
        &self,
        subject: &impl Subject,
        measuring: BlockMeasurement,
        policy: Block,
        began: Instant,
    ) -> anyhow::Result<Outcome> {
        let (before, now) = (measuring.begin, self.read(subject)?);
        let span = Span {
            at_s: before.at.duration_since(began).as_secs_f64(),
            seconds: now.at.duration_since(before.at).as_secs_f64(),
        };
        Ok(Outcome::between(
            policy,
            span,
            &before.counters,
            &now.counters,
            &measuring.samples,
        ))
    }

    fn read(&self, subject: &impl Subject) -> anyhow::Result<Snapshot> {
        let at = Instant::now();
        let stats = subject.stats()?;
        let host = fs::read_to_string("/proc/stat").ok();
        Ok(Snapshot {
            at,
            ifindex: stats.ifindex,
            counters: Counters {
                retransmissions: self.retransmissions(),
                cpu: host.and_then(|stat| cpu(&stat)),
                ..of_interface(&stats)
            },
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

/// The counters of the datapath.
fn of_interface(stats: &Stats) -> Counters {
    Counters {
        data_bytes: stats.data_bytes,
        other_bytes: stats.other_bytes,
        acks: stats.acks,
        ack_bytes: stats.ack_bytes,
        payload_segments: stats.payload_segments,
        payload_bytes: stats.payload_bytes,
        withheld: stats.withheld,
        packets_saved: stats.packets_saved,
        bytes_saved: stats.bytes_saved,
        retransmissions: None,
        cpu: None,
    }
}

/// The sum of counters of a group in the format of /proc/net/snmp: a line of names and a line of
/// values.
fn counters(text: &str, group: &str, wanted: &[&str]) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(group));
    let (names, values) = (lines.next()?, lines.next()?);
    let all = names.split_whitespace().zip(values.split_whitespace());
    let mut found = all.filter(|(name, _)| wanted.contains(name)).peekable();
    found.peek()?;
    found.map(|(_, value)| value.parse::<u64>().ok()).sum()
}

/// Busy ticks and all ticks, from the first line of /proc/stat.
fn cpu(stat: &str) -> Option<CpuTime> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = fields
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    // user nice system idle iowait irq softirq steal; guest times are included in the first two.
    let all: u64 = ticks.iter().take(8).sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    (ticks.len() >= 5).then_some(CpuTime {
        busy: all - idle,
        all,
    })
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
        let time = CpuTime { busy: 21, all: 105 };
        assert_eq!(cpu(stat), Some(time));
        assert_eq!(cpu("cpu  1 2\n"), None);
        assert_eq!(cpu(""), None);
    }
}
