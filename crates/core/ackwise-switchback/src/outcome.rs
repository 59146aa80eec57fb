//! The outcome of a block, computed from monotonic counters.

use serde::{Deserialize, Serialize};

use crate::{Better, Block};

/// A flow without an ACK for this long does not count for the round-trip time of a block, ms.
pub const IDLE_MS: u64 = 1_000;

/// One block.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether the policy was on.
    pub policy: Block,
    /// Seconds from the start of the experiment to the start of the block.
    pub at_s: f64,
    /// Seconds that counted.
    pub seconds: f64,
    /// Payload of the flows whose ACKs are thinned, bytes per second.
    pub data_bytes_per_s: f64,
    /// Traffic in the direction of the ACKs except the ACKs of these flows, bytes per second.
    pub reverse_bytes_per_s: f64,
    /// The mean over the block of the median round-trip time of active flows, milliseconds.
    pub rtt_ms: Option<f64>,
    /// ACKs that the policy withheld per second; 0 while it is off.
    pub withheld_per_s: f64,
    /// ACKs sent, packets per second.
    pub acks_per_s: f64,
    /// Bytes of the ACKs sent per second, from the IP header on.
    pub ack_bytes_per_s: f64,
    /// The mean length of the interface's queue, bytes.
    pub queue_bytes: Option<f64>,
    /// Segments per second received twice (at the receiver) or retransmitted (at the sender), over
    /// all connections of the host; a router does not know them.
    pub retransmissions_per_s: Option<f64>,
    /// The share of the host's CPU time that was not idle.
    pub cpu_share: Option<f64>,
}

/// A metric of an [`Outcome`].
pub struct Metric {
    /// Its name in reports.
    pub name: &'static str,
    /// The direction of an improvement.
    pub better: Better,
    /// Whether the verdict depends on it.
    pub judged: bool,
    /// Its value in a block, if it is known.
    pub value: fn(&Outcome) -> Option<f64>,
}

impl Metric {
    const fn new(
        name: &'static str,
        better: Better,
        judged: bool,
        value: fn(&Outcome) -> Option<f64>,
    ) -> Self {
        Self {
            name,
            better,
            judged,
            value,
        }
    }

    /// The metrics that the verdict depends on.
    #[must_use]
    pub fn judged() -> &'static [Metric] {
        const JUDGED: usize = 3;
        &METRICS[..JUDGED]
    }
}

/// All metrics; the judged ones come first.
pub static METRICS: [Metric; 8] = [
    Metric::new("data", Better::Higher, true, |o| Some(o.data_bytes_per_s)),
    Metric::new("reverse data", Better::Higher, true, |o| {
        Some(o.reverse_bytes_per_s)
    }),
    Metric::new("RTT", Better::Lower, true, |o| o.rtt_ms),
    Metric::new("ACKs", Better::Lower, false, |o| Some(o.acks_per_s)),
    Metric::new("ACK bytes", Better::Lower, false, |o| {
        Some(o.ack_bytes_per_s)
    }),
    Metric::new("queue", Better::Lower, false, |o| o.queue_bytes),
    Metric::new("retransmissions", Better::Lower, false, |o| {
        o.retransmissions_per_s
    }),
    Metric::new("CPU", Better::Lower, false, |o| o.cpu_share),
];

/// The counters of an interface at one point in time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    /// Payload of the flows whose ACKs pass here, bytes.
    pub data_bytes: u64,
    /// Frames in the direction of the ACKs, except the ACKs of these flows, bytes.
    pub other_bytes: u64,
    /// Segments of these flows in the direction of the ACKs.
    pub acks: u64,
    /// The bytes of `acks`, from the IP header on.
    pub ack_bytes: u64,
    /// The segments among `acks` that carry data.
    pub payload_segments: u64,
    /// The bytes of `payload_segments`, from the IP header on.
    pub payload_bytes: u64,
    /// ACKs that were withheld.
    pub withheld: u64,
    /// Withheld ACKs that never left.
    pub packets_saved: u64,
    /// The bytes of `packets_saved`.
    pub bytes_saved: u64,
    /// Segments received twice or retransmitted, if the host counts them.
    pub retransmissions: Option<u64>,
    /// The CPU time of the host, if it is known.
    pub cpu: Option<CpuTime>,
}

/// CPU time of a host since boot, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTime {
    /// Time not idle.
    pub busy: u64,
    /// Total time.
    pub all: u64,
}

/// Quantities without a counter, which are sampled.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// Round-trip times of active flows, microseconds.
    pub rtts_us: Vec<f64>,
    /// Lengths of the queue, bytes.
    pub queues: Vec<f64>,
}

/// A flow when round-trip times are sampled.
#[derive(Debug, Clone, Copy)]
pub struct FlowRtt {
    /// Smoothed round-trip time, microseconds; 0 if unknown.
    pub srtt_us: u32,
    /// Milliseconds since its last ACK.
    pub idle_ms: u64,
}

/// The median round-trip time of active flows in microseconds: those with an ACK in the last
/// `idle_ms`.
pub fn median_rtt_us(flows: impl Iterator<Item = FlowRtt>, idle_ms: u64) -> Option<f64> {
    let in_use = flows.filter(|flow| flow.srtt_us > 0 && flow.idle_ms < idle_ms);
    let mut rtts: Vec<_> = in_use.map(|flow| flow.srtt_us).collect();
    rtts.sort_unstable();
    rtts.get(rtts.len() / 2).map(|us| f64::from(*us))
}

/// The time of a block.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Seconds from the start of the experiment to the start of the block.
    pub at_s: f64,
    /// Seconds that counted.
    pub seconds: f64,
}

impl Outcome {
    /// The outcome of a block, from the counters at its start and end.
    #[must_use]
    pub fn between(
        policy: Block,
        span: Span,
        before: &Counters,
        now: &Counters,
        samples: &Samples,
    ) -> Self {
        let seconds = span.seconds.max(1e-3);
        let per_s = |n: u64| n as f64 / seconds;
        let since = |count: fn(&Counters) -> u64| count(now).saturating_sub(count(before));
        // A segment with data is not an ACK here, although the datapath tracks it as one.
        let acks = since(|c| c.acks)
            .saturating_sub(since(|c| c.payload_segments))
            .saturating_sub(since(|c| c.packets_saved));
        let ack_bytes = since(|c| c.ack_bytes)
            .saturating_sub(since(|c| c.payload_bytes))
            .saturating_sub(since(|c| c.bytes_saved));
        let retransmissions = now.retransmissions.zip(before.retransmissions);
        let cpu = now.cpu.zip(before.cpu).and_then(|(now, before)| {
            let all = now.all.saturating_sub(before.all);
            (all > 0).then(|| now.busy.saturating_sub(before.busy) as f64 / all as f64)
        });
        Self {
            policy,
            at_s: span.at_s,
            seconds,
            data_bytes_per_s: per_s(since(|c| c.data_bytes)),
            reverse_bytes_per_s: per_s(since(|c| c.other_bytes)),
            rtt_ms: mean(&samples.rtts_us).map(|us| us / 1e3),
            withheld_per_s: per_s(since(|c| c.withheld)),
            acks_per_s: per_s(acks),
            ack_bytes_per_s: per_s(ack_bytes),
            queue_bytes: mean(&samples.queues),
            retransmissions_per_s: retransmissions
                .map(|(now, before)| per_s(now.saturating_sub(before))),
            cpu_share: cpu,
        }
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    let n = values.len();
    (n > 0).then(|| values.iter().sum::<f64>() / n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_over_the_seconds_that_counted() {
        let before = Counters {
            data_bytes: 1_000,
            acks: 100,
            ack_bytes: 5_200,
            retransmissions: Some(3),
            cpu: Some(CpuTime { busy: 10, all: 100 }),
            ..Counters::default()
        };
        let now = Counters {
            data_bytes: 9_000,
            other_bytes: 500,
            acks: 160,
            ack_bytes: 8_400,
            payload_segments: 10,
            payload_bytes: 700,
            withheld: 30,
            packets_saved: 20,
            bytes_saved: 1_040,
            retransmissions: Some(7),
            cpu: Some(CpuTime { busy: 60, all: 200 }),
        };
        let span = Span {
            at_s: 5.0,
            seconds: 2.0,
        };
        let samples = Samples {
            rtts_us: vec![1_000.0, 3_000.0],
            queues: Vec::new(),
        };
        let o = Outcome::between(Block::On, span, &before, &now, &samples);
        let seen = (o.data_bytes_per_s, o.reverse_bytes_per_s, o.acks_per_s);
        assert_eq!(seen, (4_000.0, 250.0, 15.0));
        assert_eq!((o.ack_bytes_per_s, o.withheld_per_s), (730.0, 15.0));
        assert_eq!((o.rtt_ms, o.queue_bytes), (Some(2.0), None));
        let host = (o.retransmissions_per_s, o.cpu_share);
        assert_eq!(host, (Some(2.0), Some(0.5)));
    }

    #[test]
    fn the_median_is_that_of_flows_in_use() {
        let flow = |srtt_us, idle_ms| FlowRtt { srtt_us, idle_ms };
        let flows = [flow(0, 0), flow(900, 5), flow(10, 2_000), flow(300, 999)];
        assert_eq!(median_rtt_us(flows.into_iter(), 1_000), Some(900.0));
        assert_eq!(median_rtt_us(flows.into_iter(), 3_000), Some(300.0));
        assert_eq!(median_rtt_us([].into_iter(), 1_000), None);
    }

    #[test]
    fn judged_metrics_come_first() {
        let judged = Metric::judged();
        assert!(judged.iter().all(|metric| metric.judged));
        assert!(METRICS[judged.len()..].iter().all(|metric| !metric.judged));
    }
}
