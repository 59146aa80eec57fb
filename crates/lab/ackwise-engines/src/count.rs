//! Counts data segments and ACKs where they cross a wire.

use std::collections::HashMap;

use ackwise_scenario::record::{AckKinds, StretchBin};

use crate::frame::{Segment, flag};

/// Longest stretch with a bar of its own in the histogram.
const MAX_STRETCH: usize = 4096;
/// Segment size that is assumed if no SYN was seen.
const USUAL_MSS: u32 = 1448;
/// Maximum number of values in a series.
const MAX_BUCKETS: usize = 1_000_000;

/// Identifies a flow by the port of its listening side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowPort {
    /// The port.
    pub port: u16,
    /// Whether data flow towards the port; otherwise the listening side sends the data.
    pub data_to_port: bool,
}

/// What was counted for one flow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlowCount {
    /// Data segments that entered the wire's queue, including dropped ones.
    pub data_offered: u64,
    /// Retransmitted data segments that entered the wire's queue, including dropped ones.
    pub retransmits: u64,
    /// Data segments that arrived.
    pub data_segments: u64,
    /// ACKs put on the wire, by kind.
    pub acks: AckKinds,
    /// ACKs that found the queue full.
    pub acks_dropped: u64,
    /// Bytes of the ACKs on the wire, counted as IP packets.
    pub ack_ip_bytes: u64,
    /// Bytes of the ACKs on the wire, counted as frames.
    pub ack_frame_bytes: u64,
    /// `stretch[n]`: ACKs that newly acknowledged *n* segments.
    stretch: Vec<u64>,
    /// ACKs in each interval.
    pub ack_series: Vec<u32>,
    /// Data segments that arrived in each interval.
    pub data_series: Vec<u32>,
}

impl FlowCount {
    /// The stretch histogram without empty bars.
    #[must_use]
    pub fn stretch(&self) -> Vec<StretchBin> {
        self.stretch
            .iter()
            .enumerate()
            .filter(|&(_, &acks)| acks > 0)
            .map(|(segments, &acks)| StretchBin {
                segments: segments as u32,
                acks,
            })
            .collect()
    }
}

/// State of a connection.
#[derive(Debug, Clone, Default)]
struct Connection {
    /// Smallest MSS that either side announced.
    mss: Option<u32>,
    /// Largest payload seen in a single segment.
    segment: u32,
    /// Highest sequence number that data have reached.
    data_end: Option<u32>,
    /// Highest acknowledgment number; `window` is that of the last ACK.
    acked: Option<u32>,
    window: u16,
}

impl Connection {
    /// The number of segments that this many bytes make.
    fn segments(&self, bytes: u32) -> u32 {
        let size = match self.segment {
            0 => USUAL_MSS,
            size => size,
        };
        bytes.div_ceil(size).max(1)
    }

    /// Handles a SYN or SYN-ACK that entered the link. A SYN resets the connection's state.
    fn on_syn(&mut self, segment: &Segment) {
        if segment.flags & flag::ACK == 0 {
            *self = Self::default();
        }
        if let Some(mss) = segment.mss.map(u32::from) {
            self.mss = Some(self.mss.map_or(mss, |least| least.min(mss)));
        }
    }

    /// Handles data of the flow that entered the link. Returns the number of segments.
    fn on_data(&mut self, segment: &Segment, count: &mut FlowCount) -> u32 {
        let largest = self
            .mss
            .map_or(USUAL_MSS, |mss| mss.saturating_sub(segment.options_len));
        self.segment = self.segment.max(segment.payload_len.min(largest));
        let segments = self.segments(segment.payload_len);
        count.data_offered += u64::from(segments);
        match self.data_end {
            Some(end) if before(segment.seq, end) => {
                let again = if before(end, segment.seq_end()) {
                    end.wrapping_sub(segment.seq)
                } else {
                    segment.payload_len
                };
                count.retransmits += u64::from(self.segments(again));
                if before(end, segment.seq_end()) {
                    self.data_end = Some(segment.seq_end());
                }
            }
            _ => self.data_end = Some(segment.seq_end()),
        }
        segments
    }

    /// Handles data of the other direction, which acknowledge too.
    fn on_data_of_receiver(&mut self, segment: &Segment) {
        if segment.flags & flag::ACK == 0 {
            return;
        }
        if self.acked.is_none_or(|acked| before(acked, segment.ack)) {
            self.acked = Some(segment.ack);
        }
        self.window = segment.window;
    }

    /// Handles a pure ACK that the link's queue accepted: counts its kind and its stretch.
    fn on_ack(&mut self, segment: &Segment, count: &mut FlowCount) {
        let advance = match self.acked {
            Some(acked) if before(acked, segment.ack) => segment.ack.wrapping_sub(acked),
            _ => 0,
        };
        if advance > 0 {
            let bar = (self.segments(advance) as usize).min(MAX_STRETCH);
            if count.stretch.len() <= bar {
                count.stretch.resize(bar + 1, 0);
            }
            count.stretch[bar] += 1;
        }
        let kinds = &mut count.acks;
        let kind = match self.acked {
            _ if segment.sack => &mut kinds.sack,
            None => &mut kinds.other,
            Some(_) if advance > 0 => &mut kinds.pure,
            Some(acked) if before(segment.ack, acked) => &mut kinds.old,
            Some(_) if segment.window != self.window => &mut kinds.window_update,
            Some(_) => &mut kinds.dup,
        };
        *kind += 1;
        if advance > 0 || self.acked.is_none() {
            self.acked = Some(segment.ack);
        }
        self.window = segment.window;
    }
}

/// Identifies a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ConnectionKey {
    /// Port of the listening side.
    listening: u16,
    /// Port of the other side.
    other: u16,
}

impl ConnectionKey {
    /// The connection of a segment to the listening side, or from it.
    fn of(segment: &Segment, to_listening: bool) -> Self {
        match to_listening {
            true => Self {
                listening: segment.destination,
                other: segment.source,
            },
            false => Self {
                listening: segment.source,
                other: segment.destination,
            },
        }
    }
}

/// A data segment in flight: what to count when it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    flow: u16,
    segments: u32,
}

/// Counts the segments of known flows on one link.
#[derive(Debug)]
pub struct WireCounter {
    ports: Vec<FlowPort>,
    flows: Vec<FlowCount>,
    connections: HashMap<ConnectionKey, Connection>,
    start_ns: u64,
    interval_ns: u64,
}

/// Whether `a` is before `b` in sequence space (RFC 9293 §3.4).
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

fn add_to_bucket(series: &mut Vec<u32>, bucket: usize, by: u32) {
    if bucket >= MAX_BUCKETS {
        return;
    }
    if series.len() <= bucket {
        series.resize(bucket + 1, 0);
    }
    series[bucket] = series[bucket].saturating_add(by);
}

impl WireCounter {
    /// Counts these flows. Series begin at `start_ns` and have one value per `interval_ns`.
    #[must_use]
    pub fn new(ports: Vec<FlowPort>, start_ns: u64, interval_ns: u64) -> Self {
        Self {
            flows: vec![FlowCount::default(); ports.len()],
            ports,
            connections: HashMap::new(),
            start_ns,
            interval_ns: interval_ns.max(1),
        }
    }

    /// The counts, flow by flow.
    #[must_use]
    pub fn flows(&self) -> &[FlowCount] {
        &self.flows
    }

    fn bucket(&self, now_ns: u64) -> usize {
        usize::try_from(now_ns.saturating_sub(self.start_ns) / self.interval_ns)
            .unwrap_or(usize::MAX)
    }

    /// Whether a segment carries data of a flow that is counted.
    #[must_use]
    pub fn is_data(&self, segment: &Segment) -> bool {
        segment.payload_len > 0 && self.classify(segment).is_some()
    }

    /// The flow and connection of a segment that travels from the data's sender to its receiver.
    fn classify(&self, segment: &Segment) -> Option<(usize, ConnectionKey)> {
        self.ports.iter().enumerate().find_map(|(flow, known)| {
            let key = ConnectionKey::of(segment, known.data_to_port);
            (key.listening == known.port).then_some((flow, key))
        })
    }

    /// A segment entered the link; `accepted` is false if its queue was full. Returns the mark for
    /// [`arrived`](Self::arrived) if it carries data.
    pub fn entered(
        &mut self,
        segment: &Segment,
        frame_len: u32,
        accepted: bool,
        now_ns: u64,
    ) -> Option<Mark> {
        let (flow, to_port) = self.ports.iter().enumerate().find_map(|(flow, known)| {
            if segment.destination == known.port {
                Some((flow, true))
            } else if segment.source == known.port {
                Some((flow, false))
            } else {
                None
            }
        })?;
        let known = self.ports[flow];
        let key = ConnectionKey::of(segment, to_port);
        let bucket = self.bucket(now_ns);
        let connection = self.connections.entry(key).or_default();
        if segment.flags & flag::SYN != 0 {
            connection.on_syn(segment);
            return None;
        }
        let count = &mut self.flows[flow];
        if to_port == known.data_to_port {
            return (segment.payload_len > 0).then(|| Mark {
                flow: flow as u16,
                segments: connection.on_data(segment, count),
            });
        }
        if !segment.is_ack_only() {
            connection.on_data_of_receiver(segment);
        } else if accepted {
            count.ack_ip_bytes += u64::from(segment.ip_len);
            count.ack_frame_bytes += u64::from(frame_len);
            add_to_bucket(&mut count.ack_series, bucket, 1);
            connection.on_ack(segment, count);
        } else {
            count.acks_dropped += 1;
        }
        None
    }

    /// Counts a segment that left the link at its far end, for callers that did not keep the mark
    /// from [`entered`](Self::entered).
    pub fn delivered(&mut self, segment: &Segment, now_ns: u64) {
        if segment.payload_len == 0 {
            return;
        }
        let Some((flow, key)) = self.classify(segment) else {
            return;
        };
        if let Some(connection) = self.connections.get(&key) {
            let mark = Mark {
                flow: flow as u16,
                segments: connection.segments(segment.payload_len),
            };
            self.arrived(mark, 1, now_ns);
        }
    }

    /// Counts data that reached the far end, `copies` times.
    pub fn arrived(&mut self, mark: Mark, copies: u32, now_ns: u64) {
        let bucket = self.bucket(now_ns);
        if let Some(count) = self.flows.get_mut(usize::from(mark.flow)) {
            let segments = mark.segments * copies;
            count.data_segments += u64::from(segments);
            add_to_bucket(&mut count.data_series, bucket, segments);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{parse, tests::frame_v4};

    const DATA: (u16, u16) = (4000, 5001);
    const REVERSE: (u16, u16) = (5001, 4000);

    struct Wire(WireCounter);

    impl Wire {
        fn new() -> Self {
            let port = FlowPort {
                port: 5001,
                data_to_port: true,
            };
            let mut wire = Self(WireCounter::new(vec![port], 0, 1000));
            let mss = [2, 4, 5, 180];
            wire.put(DATA, 99, 0, flag::SYN, 1, &mss, 0);
            wire.put(REVERSE, 499, 100, flag::SYN | flag::ACK, 1, &mss, 0);
            wire
        }

        #[allow(clippy::too_many_arguments)]
        fn put(
            &mut self,
            ports: (u16, u16),
            seq: u32,
            ack: u32,
            flags: u8,
            window: u16,
            options: &[u8],
            payload: usize,
        ) {
            let frame = frame_v4(ports, seq, ack, flags, window, options, payload);
            let segment = parse(&frame, frame.len()).unwrap();
            if let Some(mark) = self.0.entered(&segment, frame.len() as u32, true, 2500) {
                self.0.arrived(mark, 1, 3500);
            }
        }

        fn data(&mut self, seq: u32, bytes: usize) {
            self.put(DATA, seq, 500, flag::ACK, 9, &[], bytes);
        }

        fn ack(&mut self, ack: u32, window: u16, options: &[u8]) {
            self.put(REVERSE, 500, ack, flag::ACK, window, options, 0);
        }

        fn count(&self) -> &FlowCount {
            &self.0.flows()[0]
        }
    }

    #[test]
    fn every_kind_of_ack_is_told_apart() {
        let sack = [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        let mut wire = Wire::new();
        wire.data(100, 1460);
        wire.data(1560, 1460);
        wire.ack(100, 50, &[]); // the first ACK: nothing to compare with
        wire.ack(3020, 50, &[]); // pure, two segments
        wire.ack(3020, 50, &[]); // duplicate
        wire.ack(3020, 60, &[]); // window update
        wire.ack(1560, 60, &[]); // overtaken
        wire.ack(3020, 60, &sack);
        let count = wire.count();
        assert_eq!(
            count.acks,
            AckKinds {
                sack: 1,
                pure: 1,
                window_update: 1,
                dup: 1,
                old: 1,
                other: 1
            }
        );
        assert_eq!(
            count.stretch(),
            [StretchBin {
                segments: 2,
                acks: 1
            }]
        );
        assert_eq!(count.ack_ip_bytes, 5 * 40 + 52);
        assert_eq!(count.ack_frame_bytes, count.ack_ip_bytes + 6 * 14);
        assert_eq!(count.ack_series, [0, 0, 6]);
        assert_eq!(count.data_series, [0, 0, 0, 2]);
    }

    #[test]
    fn what_leaves_a_link_counts_without_a_mark() {
        let mut wire = Wire::new();
        wire.data(100, 1460);
        let parsed = |ports, payload| {
            let frame = frame_v4(ports, 1560, 500, flag::ACK, 9, &[], payload);
            parse(&frame, frame.len()).unwrap()
        };
        let (data, ack) = (parsed(DATA, 1460), parsed(REVERSE, 0));
        assert!(wire.0.is_data(&data) && !wire.0.is_data(&ack));
        assert!(!wire.0.is_data(&parsed(REVERSE, 10)));
        wire.0.delivered(&data, 2500);
        wire.0.delivered(&ack, 2500);
        assert_eq!(wire.count().data_segments, 2);
    }

    #[test]
    fn retransmissions_are_seen() {
        let mut wire = Wire::new();
        wire.data(100, 1460);
        wire.data(1560, 1460);
        wire.data(100, 1460);
        assert_eq!(
            (wire.count().data_segments, wire.count().retransmits),
            (3, 1)
        );
        // Half old, half new.
        wire.data(1560, 2920);
        assert_eq!(
            (wire.count().data_segments, wire.count().retransmits),
            (5, 2)
        );
        wire.data(4480, 1000);
        assert_eq!(
            (wire.count().data_segments, wire.count().retransmits),
            (6, 2)
        );
    }

    #[test]
    fn retransmissions_across_the_wrap() {
        let mut wire = Wire::new();
        wire.data(u32::MAX - 999, 1460);
        wire.data(460, 1460);
        assert_eq!(wire.count().retransmits, 0);
        wire.data(u32::MAX - 999, 1460);
        assert_eq!(wire.count().retransmits, 1);
    }

    #[test]
    fn a_super_segment_counts_as_what_it_will_be_cut_into() {
        let mut wire = Wire::new();
        wire.data(100, 14_600);
        assert_eq!(wire.count().data_segments, 10);
        wire.ack(100, 9, &[]);
        wire.ack(14_700, 9, &[]);
        assert_eq!(
            wire.count().stretch(),
            [StretchBin {
                segments: 10,
                acks: 1
            }]
        );
    }

    #[test]
    fn what_a_full_queue_drops_was_not_on_the_wire() {
        let mut wire = Wire::new();
        let frame = frame_v4(REVERSE, 500, 100, flag::ACK, 9, &[], 0);
        let segment = parse(&frame, frame.len()).unwrap();
        assert_eq!(wire.0.entered(&segment, 54, false, 0), None);
        assert_eq!(wire.count().acks.total(), 0);
        assert_eq!(wire.count().acks_dropped, 1);
    }

    #[test]
    fn other_flows_and_the_handshake_do_not_count() {
        let mut wire = Wire::new();
        wire.put((1, 2), 0, 0, flag::ACK, 1, &[], 100);
        wire.put(REVERSE, 500, 100, flag::ACK | flag::FIN, 1, &[], 0);
        wire.put(DATA, 100, 500, flag::ACK, 1, &[], 0);
        assert_eq!(*wire.count(), FlowCount::default());
    }
}
