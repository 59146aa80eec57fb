//! One direction of data of a connection: its segments, its ACKs, and what the policies would have
//! done with them.

use ackwise_policy::{FlowConfig, Handshake, Segment, TcpFlags};

use crate::dry_run::{Counters, DryRun, Saved};
use crate::segment_size::SegmentSize;

/// Upper bounds of the classes of the stretch histogram, in segments; the last class is open.
pub const STRETCH_CLASSES: [u32; 7] = [1, 2, 4, 8, 16, 32, u32::MAX];
/// A larger step of the IP ID is another counter rather than a gap.
const MAX_GAP: u16 = 64;

/// How the IP IDs of one sender of IPv4 packets progress. Linux counts them per socket, so missing
/// IDs were lost or withheld between the sender and the capture.
#[derive(Debug, Clone, Copy, Default)]
pub struct IpIds {
    expected: Option<u16>,
    /// Packets whose ID was the next one or followed a gap.
    pub in_order: u64,
    /// Packets whose ID was neither.
    pub out_of_order: u64,
    /// IDs that were skipped.
    pub missing: u64,
}

impl IpIds {
    /// Takes the ID of a packet of this many segments.
    pub fn packet(&mut self, id: u16, segments: u32) {
        if let Some(expected) = self.expected {
            let gap = id.wrapping_sub(expected);
            if gap <= MAX_GAP {
                self.in_order += 1;
                self.missing += u64::from(gap);
            } else {
                self.out_of_order += 1;
            }
        }
        let step = u16::try_from(segments.max(1)).unwrap_or(u16::MAX);
        self.expected = Some(id.wrapping_add(step));
    }

    /// Another socket sends from here on.
    fn restart(&mut self) {
        self.expected = None;
    }

    /// Whether the sender counts its IDs: nearly all of them are in order.
    #[must_use]
    pub fn are_sequential(&self) -> bool {
        self.in_order >= 20 && self.out_of_order * 50 <= self.in_order
    }
}

/// Counts of one direction of data.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Packets that carry data.
    pub data_packets: u64,
    /// Bytes of payload.
    pub data_bytes: u64,
    /// Bytes from the IP header on.
    pub data_ip_bytes: u64,
    /// Segments on the wire; an aggregated packet counts as several.
    pub data_segments: u64,
    /// Packets of more than one segment: merged by the host or its interface (GRO, LRO), or not yet
    /// cut (TSO).
    pub aggregated: u64,
    /// Pure ACKs.
    pub acks: u64,
    /// Bytes of the pure ACKs, from the IP header on.
    pub ack_bytes: u64,
    /// Pure ACKs with SACK blocks.
    pub sack_acks: u64,
    /// Pure ACKs that acknowledge no new data.
    pub still_acks: u64,
    /// Pure ACKs by the number of segments that they acknowledge; see [`STRETCH_CLASSES`].
    pub stretch: [u64; STRETCH_CLASSES.len()],
    /// Bytes that were acknowledged.
    pub acked_bytes: u64,
}

/// One direction of data.
#[derive(Debug, Default)]
pub struct DataDirection {
    /// What was seen.
    pub counts: Counts,
    /// IP IDs of the side that sends the ACKs.
    pub ip_ids: IpIds,
    handshake: Option<Handshake>,
    runs: Option<Box<[DryRun]>>,
    /// Totals of flows that have ended.
    ended: Box<[Saved]>,
    last_ack: Option<u32>,
    size: SegmentSize,
}

/// The policies to try, and their counters.
pub struct Policies {
    /// Each policy with its bounds on the hold.
    pub configs: Vec<FlowConfig>,
    /// The counters of each policy.
    pub counters: Vec<Counters>,
    /// Segments of the ACK direction for which no flow is kept.
    pub no_flow: u64,
    /// Flows that were created.
    pub flows: u64,
}

impl DataDirection {
    /// Payload bytes of a full segment, as far as they are known.
    pub fn segment_size(&self) -> u32 {
        self.size.bytes()
    }

    /// Whether the size is a guess from the sizes of packets.
    pub fn segment_size_is_guess(&self) -> bool {
        self.size.is_guess()
    }

    fn segments(&self, payload: u32) -> u32 {
        payload.div_ceil(self.segment_size().max(1)).max(1)
    }

    /// Takes a segment from the data sender.
    pub fn on_data(&mut self, s: &Segment, policies: &Policies, now_ns: u64) -> u32 {
        let payload = s.payload();
        self.size.on_payload(payload);
        let segments = self.segments(payload);
        if payload > 0 {
            let c = &mut self.counts;
            c.data_packets += 1;
            c.data_bytes += u64::from(payload);
            c.data_ip_bytes += u64::from(s.ip_len());
            c.data_segments += u64::from(segments);
            c.aggregated += u64::from(segments > 1);
        }
        let syn = s.flags().contains(TcpFlags::SYN);
        match &mut self.runs {
            Some(runs) if !syn => {
                for (run, config) in runs.iter_mut().zip(&policies.configs) {
                    run.on_data(config, s, segments, now_ns);
                }
            }
            _ => self.handshake(s, false, now_ns),
        }
        segments
    }

    /// Takes a segment of the ACK direction.
    pub fn on_ack(&mut self, s: &Segment, policies: &mut Policies, now_ns: u64) {
        if s.flags().contains(TcpFlags::SYN) {
            let timestamps = 12 * u32::from(s.timestamps().is_some());
            let mss = u32::from(s.raw().mss).saturating_sub(timestamps);
            self.size.set_mss(mss);
            self.handshake(s, true, now_ns);
            return;
        }
        if is_pure_ack(s) {
            self.count_ack(s);
        }
        if self.runs.is_none() && !self.begin(s, policies, now_ns) {
            return;
        }
        let Policies {
            configs, counters, ..
        } = policies;
        for ((run, config), counters) in self.runs.iter_mut().flatten().zip(configs).zip(counters) {
            run.on_ack(config, s, now_ns, counters);
        }
    }

    /// The first pure ACK of a flow creates its state.
    fn begin(&mut self, s: &Segment, policies: &mut Policies, now_ns: u64) -> bool {
        let kinds = TcpFlags::ACK | TcpFlags::FIN | TcpFlags::RST;
        if s.payload() > 0 || s.flags() & kinds != TcpFlags::ACK {
            policies.no_flow += 1;
            self.handshake(s, true, now_ns);
            return false;
        }
        if let Some(handshake) = &mut self.handshake {
            handshake.on_segment(s, true, now_ns / 1000);
        }
        let run = DryRun::new(self.handshake.as_ref(), now_ns);
        self.runs = Some(vec![run; policies.configs.len()].into());
        policies.flows += 1;
        true
    }

    /// Takes a SYN, a SYN-ACK, or a segment after them until the flow is created.
    fn handshake(&mut self, s: &Segment, acks: bool, now_ns: u64) {
        if s.flags() & (TcpFlags::SYN | TcpFlags::ACK) == TcpFlags::SYN {
            self.end_flow();
            // A new connection on the same ports has its own numbers.
            self.last_ack = None;
            self.ip_ids.restart();
        }
        if self.handshake.is_none() && s.flags().contains(TcpFlags::SYN) {
            self.handshake = Some(Handshake::default());
        }
        if let Some(handshake) = &mut self.handshake {
            handshake.on_segment(s, acks, now_ns / 1000);
        }
    }

    fn count_ack(&mut self, s: &Segment) {
        let size = self.segment_size().max(1);
        let c = &mut self.counts;
        c.acks += 1;
        c.ack_bytes += u64::from(s.ip_len());
        c.sack_acks += u64::from(s.sack().next().is_some());
        let advance = self.last_ack.map(|last| s.ack().wrapping_sub(last));
        match advance {
            // For the first ACK of a capture it is unknown what it newly acknowledges.
            None => {}
            Some(0) => c.still_acks += 1,
            Some(bytes) if bytes < 1 << 31 => {
                let segments = bytes.div_ceil(size);
                let class = STRETCH_CLASSES.partition_point(|end| *end < segments);
                c.stretch[class] += 1;
                c.acked_bytes += u64::from(bytes);
            }
            Some(_) => {
                c.still_acks += 1;
                return; // an older one, reordered
            }
        }
        self.last_ack = Some(s.ack());
    }

    /// Releases withheld ACKs whose deadlines have passed.
    pub fn expire(&mut self, policies: &mut Policies, now_ns: u64) {
        let Policies {
            configs, counters, ..
        } = policies;
        for ((run, config), counters) in self.runs.iter_mut().flatten().zip(configs).zip(counters) {
            run.expire(config, now_ns, counters);
        }
    }

    /// The flow has ended; only its totals are kept.
    pub fn end_flow(&mut self) {
        if self.runs.is_some() {
            self.ended = self.saved().into();
            self.runs = None;
        }
    }

    /// What each policy would have saved of this direction's ACKs.
    pub fn saved(&self) -> Vec<Saved> {
        let now = self.runs.iter().flatten().map(|run| run.saved);
        if self.ended.is_empty() {
            return now.collect();
        }
        let mut sums = self.ended.to_vec();
        for (sum, now) in sums.iter_mut().zip(now) {
            sum.withheld += now.withheld;
            sum.reemitted += now.reemitted;
        }
        sums
    }

    /// The flow in the state of the first policy, while it lasts.
    pub fn flow(&self) -> Option<&ackwise_policy::Flow> {
        self.runs.as_ref()?.first().map(DryRun::flow)
    }
}

/// Whether a segment is an ACK without payload that neither opens nor closes a connection.
pub fn is_pure_ack(s: &Segment) -> bool {
    let kinds = TcpFlags::ACK | TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
    s.payload() == 0 && s.flags() & kinds == TcpFlags::ACK
}
