//! What a block of an experiment had, worked out from counters that only grow.

use serde::{Deserialize, Serialize};

use crate::{Better, Block};

/// A flow without an ACK for so long does not count for the round-trip time of a block, ms.
pub const IDLE_MS: u64 = 1_000;

/// One block.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
    /// Its name in reports.
    pub name: &'static str,
    /// Which way it should go.
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

    /// The metrics on which a verdict depends.
    #[must_use]
    pub fn judged() -> &'static [Metric] {
        const JUDGED: usize = 3;
        &METRICS[..JUDGED]
    }
}

/// All metrics; those that are judged come first.
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

/// The counters of an interface at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    /// Payload of the flows whose ACKs pass here, bytes.
    pub data_bytes: u64,
    /// Frames in the direction of the ACKs that are no ACK of these flows, bytes.
    pub other_bytes: u64,
    /// Segments of these flows in the direction of the ACKs.
    pub acks: u64,
    /// Their bytes, from the IP header on.
    pub ack_bytes: u64,
    /// Those of these segments that carry data.
    pub payload_segments: u64,
    /// Their bytes, from the IP header on.
    pub payload_bytes: u64,
    /// ACKs that were withheld.
    pub withheld: u64,
    /// Withheld ones that never left.
    pub packets_saved: u64,
    /// Their bytes.
    pub bytes_saved: u64,
    /// Segments that came twice or were sent again, where the host counts them.
    pub retransmissions: Option<u64>,
    /// The time of the host's CPUs, where it counts it.
    pub cpu: Option<CpuTime>,
}

/// Time of the CPUs of a host since it was started, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTime {
    /// Not idle.
    pub busy: u64,
    /// All.
    pub all: u64,
}

/// What has no counter and is looked at now and then.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// Round-trip times of the flows in use, microseconds.
    pub rtts_us: Vec<f64>,
    /// Lengths of the queue, bytes.
    pub queues: Vec<f64>,
}

/// One flow when the round-trip time is looked at.
#[derive(Debug, Clone, Copy)]
pub struct FlowRtt {
    /// Smoothed round-trip time, microseconds; 0 if unknown.
    pub srtt_us: u32,
    /// Milliseconds since its last ACK.
    pub idle_ms: u64,
}

/// The median of the round-trip times of the flows in use, microseconds: of those that had an ACK in
/// the last `idle_ms`.
pub fn median_rtt_us(flows: impl Iterator<Item = FlowRtt>, idle_ms: u64) -> Option<f64> {
    let in_use = flows.filter(|flow| flow.srtt_us > 0 && flow.idle_ms < idle_ms);
    let mut rtts: Vec<_> = in_use.map(|flow| flow.srtt_us).collect();
    rtts.sort_unstable();
    rtts.get(rtts.len() / 2).map(|us| f64::from(*us))
}

/// When a block was measured.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Seconds from the beginning of the experiment to that of the block.
    pub at_s: f64,
    /// Seconds that counted.
    pub seconds: f64,
}

impl Outcome {
    /// The outcome of a block, from the counters at its beginning and at its end.
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
        // What carries data is no ACK here, although the datapath follows it as one.
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
