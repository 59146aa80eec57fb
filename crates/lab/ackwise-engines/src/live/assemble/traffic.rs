//! The part of a record about a flow, or about all flows together.

use std::collections::BTreeMap;

use ackwise_scenario::App;
use ackwise_scenario::record::{
    AckKinds, Completion, CompletionOfSize, Quantiles, Series, StretchBin, Traffic,
};

use super::super::sampler::{Sample, Seen};
use super::Measured;
use crate::clock::seconds;
use crate::count::FlowCount;
use crate::traffic::{Outcome, Transfer};

/// Maximum number of points of a distribution of completion times.
const CDF_POINTS: usize = 200;

/// The measurements of a flow, or of all flows together.
#[derive(Default)]
pub(super) struct Part<'a> {
    counts: Vec<&'a FlowCount>,
    retransmits: u64,
    outcomes: Vec<&'a Outcome>,
    seen: Vec<&'a Seen>,
    /// For each flow, ACK bytes in frames, and the narrowest line on the ACKs' path.
    narrowest: Vec<(u64, Option<Line>)>,
    has_transfers: bool,
}

/// One direction of a link, in the order of the rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    rate_bps: u64,
    link: usize,
    ingress_end: usize,
}

impl<'a> Part<'a> {
    pub fn of_flow(measured: &'a Measured<'_>, index: usize) -> Self {
        let paths = &measured.paths[index];
        let on = |link: usize| {
            measured
                .wired
                .iter()
                .find(|wired| wired.link == link)
                .map(|wired| &wired.counter.flows()[index])
        };
        // The counted link nearest to the sender saw everything that it sent.
        let retransmits = paths
            .data
            .iter()
            .find_map(|hop| on(hop.link))
            .map_or(0, |count| count.retransmits);
        let narrow = paths
            .acks
            .iter()
            .filter_map(|hop| {
                let link = &measured.scenario.links[hop.link];
                let direction = if hop.ingress_end == 0 {
                    &link.forward
                } else {
                    &link.reverse
                };
                Some(Line {
                    rate_bps: direction.rate_bps?,
                    link: hop.link,
                    ingress_end: hop.ingress_end,
                })
            })
            .min();
        let counted = on(paths.counted_on);
        let ack_frames = narrow
            .and_then(|line| on(line.link))
            .or(counted)
            .map_or(0, |count| count.ack_frame_bytes);
        Self {
            counts: counted.into_iter().collect(),
            retransmits,
            outcomes: vec![&measured.outcomes[index]],
            seen: vec![&measured.seen[index]],
            narrowest: vec![(ack_frames, narrow)],
            has_transfers: matches!(
                measured.scenario.flows[index].app,
                App::RequestResponse { .. } | App::ShortFlows { .. } | App::Chunks { .. }
            ),
        }
    }

    pub fn of_all(parts: &[Part<'a>]) -> Self {
        let mut all = Self::default();
        for part in parts {
            all.counts.extend(&part.counts);
            all.retransmits += part.retransmits;
            all.outcomes.extend(&part.outcomes);
            all.seen.extend(&part.seen);
            all.narrowest.extend(&part.narrowest);
            all.has_transfers |= part.has_transfers;
        }
        all
    }

    pub fn traffic(&self, measured: &Measured<'_>) -> Traffic {
        let first = self
            .outcomes
            .iter()
            .filter_map(|outcome| outcome.first_ns)
            .min();
        let last = self
            .outcomes
            .iter()
            .filter_map(|outcome| outcome.last_ns)
            .max();
        let duration_s = match (first, last) {
            (Some(first), Some(last)) => seconds(last.saturating_sub(first)),
            _ => 0.0,
        };
        let bytes = self
            .outcomes
            .iter()
            .map(|outcome| outcome.bytes)
            .sum::<u64>();
        let acks = self.ack_kinds();
        let data_segments = self
            .counts
            .iter()
            .map(|count| count.data_segments)
            .sum::<u64>();
        let per_second = |value: f64| {
            if duration_s > 0.0 {
                value / duration_s
            } else {
                0.0
            }
        };
        Traffic {
            duration_s,
            bytes,
            goodput_bps: per_second(bytes as f64 * 8.0),
            data_segments,
            acks_on_wire: acks.total(),
            retransmits: self.retransmits,
            rtt_us: self.rtts(),
            acks: Some(acks),
            ack_bytes_on_wire: Some(self.counts.iter().map(|count| count.ack_ip_bytes).sum()),
            uplink_share: self.uplink_share(duration_s),
            segments_per_ack: (acks.total() > 0)
                .then(|| data_segments as f64 / acks.total() as f64),
            stretch: Some(self.stretch()),
            jain: None,
            timeouts: self.timeouts(),
            completion: self.completion(),
            content: self.content(),
            series: measured
                .scenario
                .record
                .series
                .then(|| self.series(measured)),
        }
    }

    fn ack_kinds(&self) -> AckKinds {
        let mut all = AckKinds::default();
        for count in &self.counts {
            all.sack += count.acks.sack;
            all.pure += count.acks.pure;
            all.window_update += count.acks.window_update;
            all.dup += count.acks.dup;
            all.old += count.acks.old;
            all.other += count.acks.other;
        }
        all
    }

    fn stretch(&self) -> Vec<StretchBin> {
        let mut bars: BTreeMap<u32, u64> = BTreeMap::new();
        for bar in self.counts.iter().flat_map(|count| count.stretch()) {
            *bars.entry(bar.segments).or_default() += bar.acks;
        }
        bars.into_iter()
            .map(|(segments, acks)| StretchBin { segments, acks })
            .collect()
    }

    /// The share of their narrowest line that the ACKs of the flows take together. If flows have
    /// several narrowest lines of one rate, this is the fullest of these; `None` if the rates differ.
    fn uplink_share(&self, duration_s: f64) -> Option<f64> {
        uplink_share(&self.narrowest, duration_s)
    }

    fn rtts(&self) -> Option<Quantiles> {
        let sampled = self.seen.iter().flat_map(|seen| {
            seen.samples
                .iter()
                .flat_map(|sample| sample.rtts_us.iter().copied())
        });
        let mut rtts: Vec<f64> = sampled.map(f64::from).collect();
        if rtts.is_empty() {
            // Connections that ended before the first sample.
            let finals = self.outcomes.iter().flat_map(|outcome| &outcome.finals);
            rtts.extend(
                finals
                    .map(|info| f64::from(info.rtt_us))
                    .filter(|&rtt| rtt > 0.0),
            );
        }
        Quantiles::of(&rtts)
    }

    fn timeouts(&self) -> Option<u64> {
        let finals = self.outcomes.iter().flat_map(|outcome| &outcome.finals);
        let foreign = self.seen.iter().flat_map(|seen| &seen.foreign_finals);
        finals
            .chain(foreign)
            .map(|info| info.timeouts.map(u64::from))
            .sum()
    }

    fn completion(&self) -> Option<Completion> {
        if !self.has_transfers {
            return None;
        }
        let transfers: Vec<&Transfer> = self
            .outcomes
            .iter()
            .flat_map(|outcome| &outcome.transfers)
            .collect();
        let mut by_size: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for transfer in &transfers {
            by_size
                .entry(transfer.bytes)
                .or_default()
                .push(transfer.time_ns as f64 / 1000.0);
        }
        let all: Vec<f64> = by_size.values().flatten().copied().collect();
        Some(Completion {
            time_us: Quantiles::of(&all).unwrap_or_default(),
            count: transfers.len() as u64,
            unfinished: self.outcomes.iter().map(|outcome| outcome.unfinished).sum(),
            late: self
                .outcomes
                .iter()
                .filter_map(|outcome| outcome.late)
                .reduce(|a, b| a + b),
            by_size: by_size
                .into_iter()
                .filter_map(|(bytes, times)| CompletionOfSize::of(bytes, &times, CDF_POINTS))
                .collect(),
        })
    }

    fn content(&self) -> Option<ackwise_scenario::record::Content> {
        let mut contents = self
            .outcomes
            .iter()
            .filter_map(|outcome| outcome.content.as_ref());
        let first = contents.next()?.clone();
        Some(contents.fold(first, |mut all, one| {
            all.ok &= one.ok;
            all.sha256 = None;
            all.bytes += one.bytes;
            all
        }))
    }

    fn series(&self, measured: &Measured<'_>) -> Series {
        let mut series = Series::default();
        let length = self
            .seen
            .iter()
            .map(|seen| seen.samples.len())
            .max()
            .unwrap_or(0);
        let mut before: (u64, u64) = (measured.start_ns, 0);
        for index in 0..length {
            let samples: Vec<&Sample> = self
                .seen
                .iter()
                .filter_map(|seen| seen.samples.get(index))
                .collect();
            let Some(at_ns) = samples.iter().map(|sample| sample.at_ns).max() else {
                continue;
            };
            let sum = |of: fn(&Sample) -> u64| samples.iter().map(|sample| of(sample)).sum::<u64>();
            let bytes = sum(|sample| sample.bytes);
            let span_s = seconds(at_ns.saturating_sub(before.0)).max(1e-9);
            let goodput = bytes.saturating_sub(before.1) as f64 * 8.0 / span_s;
            before = (at_ns, bytes);
            let bucket = usize::try_from(
                (at_ns.saturating_sub(measured.start_ns) / measured.interval_ns).saturating_sub(1),
            )
            .unwrap_or(usize::MAX);
            let rate = |of: fn(&FlowCount) -> &Vec<u32>| {
                let packets: u64 = self
                    .counts
                    .iter()
                    .filter_map(|count| of(count).get(bucket))
                    .map(|&packets| u64::from(packets))
                    .sum();
                packets as f64 / seconds(measured.interval_ns)
            };
            let rtts: Vec<f64> = samples
                .iter()
                .flat_map(|sample| sample.rtts_us.iter().copied().map(f64::from))
                .collect();
            let connected = !rtts.is_empty();
            series
                .t_s
                .push(seconds(at_ns.saturating_sub(measured.start_ns)));
            series.goodput_bps.push(Some(goodput));
            series
                .ack_rate_hz
                .push(Some(rate(|count| &count.ack_series)));
            series
                .data_rate_hz
                .push(Some(rate(|count| &count.data_series)));
            series
                .rtt_us
                .push(connected.then(|| rtts.iter().sum::<f64>() / rtts.len() as f64));
            let known = |value: u64| connected.then_some(value as f64);
            series.cwnd_segments.push(known(sum(|sample| sample.cwnd)));
            series.ssthresh_segments.push(
                samples
                    .iter()
                    .map(|sample| sample.ssthresh)
                    .sum::<Option<u64>>()
                    .map(|ssthresh| ssthresh as f64),
            );
            series
                .inflight_segments
                .push(known(sum(|sample| sample.inflight)));
            series
                .retransmits
                .push(known(sum(|sample| sample.retransmits)));
        }
        series
    }
}

fn uplink_share(narrowest: &[(u64, Option<Line>)], duration_s: f64) -> Option<f64> {
    let rate = narrowest.first()?.1?.rate_bps;
    let mut bits: BTreeMap<Line, u64> = BTreeMap::new();
    for (bytes, line) in narrowest {
        let line = line.filter(|line| line.rate_bps == rate)?;
        *bits.entry(line).or_default() += bytes * 8;
    }
    let most = *bits.values().max().filter(|_| duration_s > 0.0)?;
    Some((most as f64 / duration_s / rate as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_different_lines_are_not_added() {
        let line = |rate_bps, link, ingress_end| {
            Some(Line {
                rate_bps,
                link,
                ingress_end,
            })
        };
        let share = |lines: &[(u64, Option<Line>)]| uplink_share(lines, 1.0);
        let (one, other, back) = (line(8000, 0, 0), line(8000, 1, 0), line(8000, 0, 1));
        assert_eq!(share(&[(500, one), (250, one)]), Some(0.75));
        assert_eq!(share(&[(500, one), (600, other)]), Some(0.6));
        assert_eq!(share(&[(500, one), (600, back), (200, one)]), Some(0.7));
        assert_eq!(share(&[(500, one), (600, line(9000, 1, 0))]), None);
        assert_eq!(share(&[(500, one), (600, None)]), None);
        assert_eq!(uplink_share(&[(500, one)], 0.0), None);
    }
}
