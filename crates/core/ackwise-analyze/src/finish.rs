//! Turns the totals of an analyzer into findings.

use ackwise_policy::{Config, Policy, Reason};

use crate::advice::advise;
use crate::analysis::{
    Advice, Airtime, Analysis, FLOWS_LISTED, FlowFinding, Line, PolicyFinding, ReasonCount,
    StretchClass, Tcp, ThinnedAlready, Unread, WITH_DATA,
};
use crate::analyzer::{Analyzer, Connection, Endpoint};
use crate::data_direction::{DataDirection, STRETCH_CLASSES};

impl Analyzer {
    /// Ends the analysis and returns the findings.
    #[must_use]
    pub fn finish(mut self) -> Analysis {
        self.expire();
        findings(&self)
    }
}

pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

fn findings(a: &Analyzer) -> Analysis {
    let t = &a.totals;
    let directions = || a.connections.iter().flat_map(|c| &c.directions);
    let mut flows = flows(&a.connections);
    let flows_left_out = flows.len().saturating_sub(FLOWS_LISTED) as u64;
    flows.truncate(FLOWS_LISTED);
    if t.untimed == t.packets {
        for flow in &mut flows {
            (flow.srtt_us, flow.min_rtt_us) = (None, None);
        }
    }
    let mut analysis = Analysis {
        packets: t.packets,
        bytes: t.bytes,
        seconds: (t.last_ns - t.first_ns.unwrap_or(t.last_ns).min(t.last_ns)) as f64 / 1e9,
        connections: a.connections.len() as u64,
        tcp: Tcp {
            packets: t.tcp_packets,
            acks: t.acks,
            ack_bytes: t.ack_bytes,
            ack_share_of_packets: share(t.acks, t.packets),
            ack_share_of_bytes: share(t.ack_frame_bytes, t.bytes),
        },
        unread: Unread {
            not_tcp: t.not_tcp,
            fragments: t.fragments,
            cut: t.cut,
            malformed: t.malformed,
            encrypted: t.encrypted,
            unsupported: t.unsupported.map_or(0, |(_, n)| n),
            unsupported_link_type: t.unsupported.map(|(link, _)| link.0),
            time_went_back: t.backwards,
            without_time: t.untimed,
        },
        line: line(a),
        airtime: a.channel.as_ref().map(|channel| {
            let (acks, others) = (channel.acks, channel.others);
            Airtime {
                acks_alone_s: acks.alone_ns as f64 / 1e9,
                acks_shared_s: acks.shared_ns as f64 / 1e9,
                ack_share_alone: share(acks.alone_ns, acks.alone_ns + others.alone_ns),
                ack_share_shared: share(acks.shared_ns, acks.shared_ns + others.shared_ns),
            }
        }),
        thinned_already: thinned_already(&a.connections),
        stretch: stretch(directions()),
        policies: policies(a),
        flows,
        flows_left_out,
        advice: Advice::default(),
    };
    analysis.advice = advise(&analysis, &a.options);
    analysis
}

fn line(a: &Analyzer) -> Line {
    let peak = a.peak.bps();
    let directions = || a.connections.iter().flat_map(|c| &c.directions);
    let sum = |count: fn(&DataDirection) -> u64| directions().map(count).sum::<u64>();
    let data = share(
        sum(|h| h.counts.data_ip_bytes),
        sum(|h| h.counts.data_segments),
    );
    let ack = share(a.totals.ack_bytes, a.totals.acks);
    let k = match (a.options.up_bps, a.options.down_bps) {
        (Some(up), Some(down)) if up > 0 && data > 0.0 && ack > 0.0 => {
            Some(down as f64 / up as f64 / (data / ack))
        }
        _ => None,
    };
    Line {
        ack_peak_bps: peak,
        ack_peak_share_of_uplink: a.options.up_bps.map(|up| share(peak, up)),
        k,
    }
}

fn thinned_already(connections: &[Connection]) -> ThinnedAlready {
    let (mut acked, mut acks, mut data, mut aggregated, mut guessed) = (0.0, 0, 0, 0, 0);
    let (mut counting, mut missing, mut seen) = (false, 0, 0);
    for connection in connections {
        for (at, direction) in connection.directions.iter().enumerate() {
            let c = &direction.counts;
            data += c.data_packets;
            aggregated += c.aggregated;
            // Only flows of some length show how ACKs are made.
            if c.acks < MIN_FLOW_ACKS {
                continue;
            }
            guessed += u64::from(direction.segment_size_is_guess());
            acked += c.acked_bytes as f64 / f64::from(direction.segment_size().max(1));
            acks += c.stretch.iter().sum::<u64>();
            // And only if the receiver sends little else do its IDs show missing ACKs.
            let sends = connection.directions[1 - at].counts.data_packets;
            if direction.ip_ids.are_sequential() && sends * 10 <= c.acks {
                counting = true;
                missing += direction.ip_ids.missing;
                seen += direction.ip_ids.in_order + direction.ip_ids.out_of_order;
            }
        }
    }
    ThinnedAlready {
        segments_per_ack: (acks > 0).then(|| acked / acks as f64),
        aggregated_packets: aggregated,
        aggregated_share: share(aggregated, data),
        guessed_sizes: guessed,
        missing_by_ip_id: counting.then_some(missing),
        missing_share: counting.then(|| share(missing, seen + missing)),
    }
}

/// The number of ACKs from which on a flow shows how its receiver acknowledges.
const MIN_FLOW_ACKS: u64 = 20;

fn stretch<'a>(directions: impl Iterator<Item = &'a DataDirection>) -> Vec<StretchClass> {
    let mut sums = [0; STRETCH_CLASSES.len()];
    for direction in directions {
        for (sum, n) in sums.iter_mut().zip(direction.counts.stretch) {
            *sum += n;
        }
    }
    let mut from = 1;
    let mut classes = Vec::new();
    for (acks, to) in sums.into_iter().zip(STRETCH_CLASSES) {
        let to = (to != u32::MAX).then_some(to);
        classes.push(StretchClass { from, to, acks });
        from = to.map_or(u32::MAX, |to| to + 1);
    }
    classes
}

fn policies(a: &Analyzer) -> Vec<PolicyFinding> {
    let configs = a.options.policies.iter();
    configs
        .zip(&a.policies.counters)
        .map(|(config, c)| {
            let mut reasons: Vec<_> = Reason::all()
                .zip(&c.reasons)
                .filter(|(_, n)| **n > 0)
                .map(|(reason, n)| ReasonCount {
                    reason: reason.name(),
                    what: reason.what(),
                    acks: *n,
                })
                .collect();
            reasons.sort_by_key(|r| std::cmp::Reverse(r.acks));
            let with_data = reasons.iter().find(|r| r.reason == WITH_DATA);
            let pure_acks = c.acks - with_data.map_or(0, |r| r.acks);
            let default =
                Config::new(Policy::by_name(config.policy().name()).expect("its own name"));
            let text = if config.raw().param == default.raw().param {
                config.policy().name().to_owned()
            } else {
                config.to_string()
            };
            PolicyFinding {
                policy: text,
                acks: c.acks,
                pure_acks,
                withheld: c.withheld,
                replaced: c.replaced,
                superseded: c.superseded,
                reemitted: c.reemitted,
                cloned: c.cloned,
                saved: c.saved(),
                saved_share: share(c.saved(), pure_acks),
                saved_bytes: c.saved_bytes(),
                reasons,
            }
        })
        .collect()
}

fn flows(connections: &[Connection]) -> Vec<FlowFinding> {
    let mut flows = Vec::new();
    for connection in connections {
        for (at, direction) in connection.directions.iter().enumerate() {
            let c = &direction.counts;
            if c.acks == 0 && c.data_packets == 0 {
                continue;
            }
            flows.push(FlowFinding {
                from: endpoint_text(connection.ends[at]),
                to: endpoint_text(connection.ends[1 - at]),
                seconds: (connection.last_ns - connection.first_ns) as f64 / 1e9,
                data_segments: c.data_segments,
                data_bytes: c.data_bytes,
                acks: c.acks,
                ack_bytes: c.ack_bytes,
                sack_acks: c.sack_acks,
                still_acks: c.still_acks,
                segment_size: direction.segment_size(),
                segment_size_guessed: direction.segment_size_is_guess(),
                stretch: c.stretch.to_vec(),
                srtt_us: direction.flow().and_then(ackwise_policy::Flow::srtt_us),
                min_rtt_us: direction.flow().and_then(ackwise_policy::Flow::min_rtt_us),
                saved: direction
                    .saved()
                    .iter()
                    .map(|s| s.withheld.saturating_sub(s.reemitted))
                    .collect(),
            });
        }
    }
    flows.sort_by_key(|f| std::cmp::Reverse((f.acks, f.data_bytes)));
    flows
}

fn endpoint_text(end: Endpoint) -> String {
    std::net::SocketAddr::new(end.0, end.1).to_string()
}
