//! What happened between two snapshots, and its history.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ackwise_datapath::FlowStats;
use ackwise_switchback::median_rtt_us;

use crate::linux::lookup::flow_rtt;

use super::snapshot::{Backlog, Counters, Id, MAX_FLOWS, Snapshot, Source};

/// How far back the history goes.
pub const HISTORY: Duration = Duration::from_secs(300);
/// A flow without an ACK for longer than this does not count for its interface's round-trip time.
const IDLE_MS: u64 = 3_000;

/// The measures of one source between two snapshots.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measures {
    /// ACKs per second that arrived.
    pub acks: f64,
    /// The share of the ACKs that did not leave as packets, 0 to 1.
    pub saved: Option<f64>,
    /// Bytes per second that were saved.
    pub bytes_saved: f64,
    /// The queue at the end of the interval.
    pub backlog: Option<Backlog>,
    /// The round-trip time at the end of the interval, µs: for an attachment the median of the
    /// flows in use, for a tunnel that of its first peer.
    pub rtt_us: Option<f64>,
    /// Events per second by name, for this interval only, the most frequent first.
    pub events: Vec<(String, f64)>,
    /// ACKs and data bytes per second of each flow, in the order of its list.
    pub flows: Vec<FlowRates>,
}

/// The rates of one flow between two snapshots.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FlowRates {
    pub acks: f64,
    pub saved: Option<f64>,
    pub data: f64,
}

/// The growth of a monotonic counter. A value smaller than before belongs to a new process, and all
/// of it is new.
fn grown(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64).min(1.0))
}

/// Compares two states of one source, `elapsed` apart. Returns `None` if either is unknown.
pub fn between(before: &Source, now: &Source, elapsed: Duration) -> Option<Measures> {
    let seconds = elapsed.as_secs_f64().max(1e-3);
    let mut measures = match (&before.counters, &now.counters) {
        (Ok(Counters::Attachment(before)), Ok(Counters::Attachment(now))) => {
            attachment(before, now, seconds)
        }
        (Ok(Counters::Gateway(before)), Ok(Counters::Gateway(now))) => {
            gateway(before, now, seconds)
        }
        (Ok(Counters::Tunnel(before)), Ok(Counters::Tunnel(now))) => tunnel(before, now, seconds),
        _ => return None,
    };
    measures.backlog = now.backlog;
    Some(measures)
}

type Status = ackwise_datapath::control::Status;

fn attachment(before: &Status, now: &Status, seconds: f64) -> Measures {
    let (b, n) = (&before.stats, &now.stats);
    let acks = grown(b.acks, n.acks);
    let key = |flow: &FlowStats| (flow.ack_sender.clone(), flow.data_sender.clone());
    let earlier: BTreeMap<_, _> = before.flows.iter().map(|flow| (key(flow), flow)).collect();
    // Only the flows with most ACKs are read: a flow that was not among them need not be new.
    let all_read = before.flows.len() < MAX_FLOWS;
    let flow_rates = |flow: &FlowStats| {
        let earlier = earlier.get(&key(flow));
        if earlier.is_none() && !all_read {
            return FlowRates::default();
        }
        let since = |count: fn(&FlowStats) -> u64| {
            grown(earlier.map_or(0, |flow| count(flow)), count(flow))
        };
        let acks = since(|f| f.acks);
        FlowRates {
            acks: acks as f64 / seconds,
            saved: share(since(|f| f.packets_saved), acks),
            data: since(|f| f.data_bytes) as f64 / seconds,
        }
    };
    Measures {
        acks: acks as f64 / seconds,
        saved: share(grown(b.packets_saved, n.packets_saved), acks),
        bytes_saved: grown(b.bytes_saved, n.bytes_saved) as f64 / seconds,
        backlog: None,
        rtt_us: median_rtt_us(now.flows.iter().map(flow_rtt), IDLE_MS),
        events: events(
            n.reasons
                .iter()
                .map(|(name, now)| (name.clone(), b.reasons.get(name).copied(), *now)),
            seconds,
        ),
        flows: now.flows.iter().map(flow_rates).collect(),
    }
}

fn gateway(
    before: &ackwise_gateway::Stats,
    now: &ackwise_gateway::Stats,
    seconds: f64,
) -> Measures {
    let judged = |stats: &ackwise_gateway::Stats| stats.reasons.values().sum::<u64>();
    let acks = grown(judged(before), judged(now));
    let counts = [
        ("sent", before.sent.packets, now.sent.packets),
        (
            "ACKs filtered",
            before.filtered.packets,
            now.filtered.packets,
        ),
        ("marked", before.marked, now.marked),
    ];
    let counts = counts.map(|(name, before, now)| (name.to_owned(), Some(before), now));
    let dropped = before
        .dropped
        .causes()
        .into_iter()
        .zip(now.dropped.causes());
    let dropped = dropped.map(|(before, now)| {
        let name = format!("dropped: {}", now.words);
        (name, Some(before.packets), now.packets)
    });
    Measures {
        acks: acks as f64 / seconds,
        saved: share(grown(before.filtered.packets, now.filtered.packets), acks),
        bytes_saved: grown(before.filtered.bytes, now.filtered.bytes) as f64 / seconds,
        events: events(counts.into_iter().chain(dropped), seconds),
        ..Measures::default()
    }
}

fn tunnel(before: &ackwise_tunneld::Stats, now: &ackwise_tunneld::Stats, seconds: f64) -> Measures {
    let sum = |stats: &ackwise_tunneld::Stats, count: fn(&ackwise_tunneld::PeerStats) -> u64| {
        stats.peers.iter().map(count).sum::<u64>()
    };
    let since =
        |count: fn(&ackwise_tunneld::PeerStats) -> u64| grown(sum(before, count), sum(now, count));
    let acks = since(|peer| peer.packets_in.packets);
    let bundles = since(|peer| peer.bundles_out.packets);
    let bytes = since(|peer| peer.packets_in.bytes);
    let counts = [
        ("ACKs in", acks),
        ("bundles out", bundles),
        ("bundles in", since(|peer| peer.bundles_in)),
        ("restored", since(|peer| peer.packets_out.packets)),
        ("expedited", since(|peer| peer.expedited)),
        ("bypassed", since(|peer| peer.bypassed)),
    ];
    Measures {
        acks: acks as f64 / seconds,
        saved: share(acks.saturating_sub(bundles), acks),
        bytes_saved: bytes.saturating_sub(since(|peer| peer.bundles_out.bytes)) as f64 / seconds,
        rtt_us: now
            .peers
            .first()
            .and_then(|peer| peer.rtt_ms)
            .map(|ms| ms * 1e3),
        events: events(
            counts
                .map(|(name, grown)| (name.to_owned(), Some(0), grown))
                .into_iter(),
            seconds,
        ),
        ..Measures::default()
    }
}

fn events(
    counts: impl Iterator<Item = (String, Option<u64>, u64)>,
    seconds: f64,
) -> Vec<(String, f64)> {
    let mut events: Vec<_> = counts
        .map(|(name, before, now)| (name, grown(before.unwrap_or(0), now)))
        .filter(|(_, grown)| *grown > 0)
        .map(|(name, grown)| (name, grown as f64 / seconds))
        .collect();
    events.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    events
}

/// The recent history of one source.
#[derive(Debug, Clone, Default)]
pub struct History {
    past: VecDeque<(Duration, Measures)>,
}

impl History {
    fn push(&mut self, at: Duration, measures: Measures) {
        self.past.push_back((at, measures));
        while self
            .past
            .front()
            .is_some_and(|(first, _)| at.saturating_sub(*first) > HISTORY)
        {
            self.past.pop_front();
        }
    }

    /// The measures of the last interval.
    pub fn last(&self) -> Option<&Measures> {
        self.past.back().map(|(_, measures)| measures)
    }

    /// The mean of a value in each of `bins` equal parts of the last [`HISTORY`], the oldest first;
    /// `None` for a part without values.
    pub fn bins(&self, bins: usize, value: fn(&Measures) -> Option<f64>) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0_u32); bins];
        let Some((end, _)) = self.past.back() else {
            return vec![None; bins];
        };
        let width = HISTORY.as_secs_f64() / bins.max(1) as f64;
        for (at, measures) in &self.past {
            let back = end.saturating_sub(*at).as_secs_f64() / width;
            let bin = bins.checked_sub(1 + back as usize);
            if let (Some(bin), Some(value)) = (bin, value(measures)) {
                sums[bin].0 += value;
                sums[bin].1 += 1;
            }
        }
        sums.iter()
            .map(|(sum, n)| (*n > 0).then(|| sum / f64::from(*n)))
            .collect()
    }
}

/// The histories of all running sources.
#[derive(Debug, Clone, Default)]
pub struct Histories {
    by_source: BTreeMap<Id, History>,
}

impl Histories {
    /// Adds what happened between two snapshots. The history of an ended source is dropped.
    pub fn add(&mut self, before: &Snapshot, now: &Snapshot) {
        self.by_source
            .retain(|id, _| now.sources.iter().any(|source| source.id == *id));
        let elapsed = now.at.saturating_sub(before.at);
        for source in &now.sources {
            let earlier = before.sources.iter().find(|s| s.id == source.id);
            if let Some(measures) = earlier.and_then(|earlier| between(earlier, source, elapsed)) {
                let history = self.by_source.entry(source.id.clone()).or_default();
                history.push(now.at, measures);
            }
        }
    }

    pub fn of(&self, id: &Id) -> Option<&History> {
        self.by_source.get(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restarted_process_counts_from_zero() {
        assert_eq!(grown(100, 130), 30);
        assert_eq!(grown(100, 30), 30);
    }

    #[test]
    fn a_gateway_whose_interface_is_down_says_so() {
        let before = ackwise_gateway::Stats::default();
        let mut now = before.clone();
        (now.dropped.down, now.dropped.refused) = (10, 4);
        let measures = gateway(&before, &now, 2.0);
        let expected = [("interface down", 5.0), ("interface refused", 2.0)]
            .map(|(cause, per_s)| (format!("dropped: {cause}"), per_s));
        assert_eq!(measures.events, expected);
    }

    #[test]
    fn bins_are_means_and_gaps_stay_gaps() {
        let mut history = History::default();
        for second in [0, 1, 298, 299, 300] {
            let acks = f64::from(second);
            let measures = Measures {
                acks,
                ..Measures::default()
            };
            history.push(Duration::from_secs(second as u64), measures);
        }
        let acks = |m: &Measures| Some(m.acks);
        let bins = history.bins(100, acks);
        assert_eq!(bins.len(), 100);
        // Three seconds each: 298 to 300 are in the last bin. 0 is just too old.
        assert_eq!(bins[99], Some(299.0));
        assert_eq!(bins[0], Some(1.0));
        assert_eq!(bins.iter().flatten().count(), 2);
        assert_eq!(history.bins(0, acks), []);
        // Entries older than the history are dropped.
        history.push(Duration::from_secs(900), Measures::default());
        assert_eq!(history.past.len(), 1);
    }
}
