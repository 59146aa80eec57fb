//! The counters of the BPF programs, with names.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ackwise_autorate::Measured;
use ackwise_policy::Reason;
use serde::{Deserialize, Serialize};

use crate::{AttachMode, Position, sys};

/// The statistics of an attachment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// The name of the interface.
    pub ifname: String,
    /// The index of the interface.
    pub ifindex: u32,
    /// The policy with its parameters.
    pub policy: String,
    /// The position of the interface: receiver, router or sender.
    pub position: Position,
    /// How the programs are attached; never `auto`.
    pub attach: AttachMode,
    /// Why clsact is used although tcx was preferred, if so.
    pub attach_fallback: Option<String>,
    /// Whether this is a dry run: nothing is withheld, and the counters say what would be.
    pub dry_run: bool,
    /// Whether it is paused: every ACK passes, and flows are tracked.
    #[serde(skip_serializing_if = "is_false")]
    pub paused: bool,
    /// Whether the interface still exists.
    pub interface_alive: bool,
    /// Whether the re-emitting thread runs with SCHED_FIFO.
    pub realtime: bool,
    /// Seconds since the attachment was made.
    pub uptime_s: f64,
    /// Packets seen at both hooks.
    pub packets: u64,
    /// Bytes of all packets seen.
    pub bytes: u64,
    /// Packets that are not TCP.
    pub not_tcp: u64,
    /// IP fragments, which always pass.
    pub fragments: u64,
    /// Packets that could not be parsed, which always pass.
    pub unparsable: u64,
    /// Data segments of tracked flows; each segment of an aggregated packet counts.
    pub data_segments: u64,
    /// Payload bytes of the data segments.
    pub data_bytes: u64,
    /// Segments of tracked flows in the direction of the ACKs.
    pub acks: u64,
    /// Bytes of the segments in `acks`, from the IP header on.
    pub ack_bytes: u64,
    /// Segments in `acks` that carry data. This and the next two are used only inside the
    /// process.
    #[serde(skip)]
    pub payload_segments: u64,
    /// Bytes of the segments in `payload_segments`, from the IP header on.
    #[serde(skip)]
    pub payload_bytes: u64,
    /// Bytes of frames in the direction of the ACKs that are not an ACK of a tracked flow: the
    /// segments in `payload_segments`, and everything outside tracked flows.
    #[serde(skip)]
    pub other_bytes: u64,
    /// Segments in the direction of the ACKs before their flow's first pure ACK.
    pub no_flow: u64,
    /// Pure ACKs of flows outside the match.
    pub unmatched: u64,
    /// SYNs in both directions.
    pub syns: u64,
    /// ACKs that were withheld.
    pub withheld: u64,
    /// Bytes of withheld ACKs.
    pub withheld_bytes: u64,
    /// Withheld ACKs that left at their deadline.
    pub reemitted: u64,
    /// Bytes of withheld ACKs that left at their deadline.
    pub reemitted_bytes: u64,
    /// ACKs that were saved: withheld minus re-emitted.
    pub packets_saved: u64,
    /// Bytes of ACKs that were saved.
    pub bytes_saved: u64,
    /// Holds that ended because a newer ACK left.
    pub superseded: u64,
    /// Held ACKs that were replaced by a newer held one.
    pub replaced: u64,
    /// Re-emissions that were dropped because a newer ACK had already left.
    pub reemit_stale: u64,
    /// Duplicate ACKs that were sent twice, once for the held original.
    pub cloned: u64,
    /// Data segments whose window field was set to the sender's congestion window.
    #[serde(skip_serializing_if = "is_zero")]
    pub cwnd_hints: u64,
    /// Data packets sent with the bit that asks for an immediate ACK.
    #[serde(skip_serializing_if = "is_zero")]
    pub ack_requests: u64,
    /// Requests for an ACK rate, or for an immediate ACK, that were obeyed.
    #[serde(skip_serializing_if = "is_zero")]
    pub ack_rate_requests: u64,
    /// ACKs that left with the mark that says they cover more than the peer's R because none was
    /// made in between (ACK congestion control).
    #[serde(skip_serializing_if = "is_zero")]
    pub acks_skipped: u64,
    /// Flows that were tracked since the start.
    pub flows_created: u64,
    /// Flows that could not be tracked. Their ACKs pass.
    pub flows_failed: u64,
    /// ACKs that passed because they could not be held, by cause. Those of `busy` passed before any
    /// decision, because another CPU had the flow's lock or its entry; no other counter includes
    /// them.
    pub fail_open: BTreeMap<String, u64>,
    /// The release of held ACKs.
    pub release: Release,
    /// Segments in the direction of the ACKs, by reason (`enum aw_reason`).
    pub reasons: BTreeMap<String, u64>,
    /// How much later than its deadline a held ACK passed the hook.
    pub lateness: Lateness,
    /// How long holds lasted, from the first withheld ACK until a newer one left or the
    /// re-emission.
    pub hold_times: HoldTimes,
    /// The rate of the queue behind the programs, if it is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_rate: Option<Measured>,
    /// Kernel memory of all maps, in bytes.
    pub memory_bytes: u64,
    /// Kernel memory of each map, in bytes.
    pub memory: BTreeMap<String, u64>,
}

/// How held ACKs are released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Release {
    /// How often the timer ran.
    pub ticks: u64,
    /// How often the ring buffer was full because user space was too slow.
    pub ring_full: u64,
    /// ACKs that were handed to user space again because they had not passed the hook.
    pub retried: u64,
    /// ACKs that were given up after the last try.
    pub lost: u64,
    /// Re-emissions that left although another CPU held the flow's lock for too long. The flow's
    /// next ACK then counts as its first.
    pub unlocked: u64,
    /// Frames that user space sent.
    pub sent: u64,
    /// Frames that the kernel refused.
    pub send_errors: u64,
    /// Partial checksums that were completed.
    pub checksums_filled: u64,
    /// Frames whose checksum was wrong before they were held.
    pub checksums_wrong: u64,
}

/// How late re-emitted ACKs were after their deadline, in microseconds, as upper bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lateness {
    /// The number of re-emitted ACKs.
    pub count: u64,
    /// The median.
    pub p50_us: u64,
    /// The 90th percentile.
    pub p90_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
    /// The maximum.
    pub max_us: u64,
}

/// A histogram of hold times.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HoldTimes {
    /// The number of holds.
    pub count: u64,
    /// The sum of all hold times, in microseconds.
    pub sum_us: u64,
    /// An upper bound of the median, in microseconds.
    pub p50_us: u64,
    /// An upper bound of the 99th percentile, in microseconds.
    pub p99_us: u64,
    /// Counts by upper bound, ascending, up to the last that is not zero. The last bucket has no
    /// bound.
    pub buckets: Vec<HoldBucket>,
}

/// A bucket of the histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HoldBucket {
    /// The upper bound in microseconds, exclusive; `None` if there is none.
    pub below_us: Option<u64>,
    /// The number of holds in the bucket.
    pub count: u64,
}

pub(crate) fn hold_times(counts: &[u64], sum_ns: u64) -> HoldTimes {
    let bound = |i: usize| ((i as u64 + 1) << sys::AW_HOLD_BUCKET_SHIFT) / 1000;
    let count: u64 = counts.iter().sum();
    let quantile = |percent: u64| {
        let mut below = 0;
        for (i, n) in counts.iter().enumerate() {
            below += n;
            if *n > 0 && below * 100 >= count * percent {
                return bound(i);
            }
        }
        0
    };
    let used = counts
        .iter()
        .rposition(|n| *n > 0)
        .map_or(0, |last| last + 1);
    HoldTimes {
        count,
        sum_us: sum_ns / 1000,
        p50_us: quantile(50),
        p99_us: quantile(99),
        buckets: counts[..used]
            .iter()
            .enumerate()
            .map(|(i, n)| HoldBucket {
                below_us: (i + 1 < counts.len()).then(|| bound(i)),
                count: *n,
            })
            .collect(),
    }
}

/// The statistics of one flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowStats {
    /// The address that sends the ACKs.
    pub ack_sender: String,
    /// The address that sends the data.
    pub data_sender: String,
    /// Segments in the direction of the ACKs.
    pub acks: u64,
    /// Segments that passed at once.
    pub passed: u64,
    /// ACKs that were withheld.
    pub withheld: u64,
    /// Withheld ACKs that were re-emitted at their deadline.
    pub reemitted: u64,
    /// ACKs that were saved: withheld minus re-emitted.
    pub packets_saved: u64,
    /// Bytes of ACKs that the flow saved.
    pub bytes_saved: u64,
    /// Data segments.
    pub data_segments: u64,
    /// Payload bytes of the data segments.
    pub data_bytes: u64,
    /// Smoothed round-trip time in microseconds; 0 if unknown.
    pub srtt_us: u32,
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// The data sender's window field in bytes: its receive window, or with a window hint its
    /// congestion window.
    pub data_window: u32,
    /// Milliseconds since the flow's last ACK.
    pub idle_ms: u64,
}

/// Omits a flag that is rarely true.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Omits counters that are 0 in most attachments.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(count: &u64) -> bool {
    *count == 0
}

pub(crate) fn lateness(buckets: &[u64], max_us: u64) -> Lateness {
    let count: u64 = buckets.iter().sum();
    let upper = |i: usize| -> u64 {
        let fine = u64::from(sys::AW_LATE_FINE);
        let i = i as u64;
        if i + 1 == buckets.len() as u64 {
            max_us
        } else if i < fine {
            (i + 1) * 16
        } else {
            fine * 16 + (i + 1 - fine) * 256
        }
    };
    let quantile = |q: f64| -> u64 {
        #[allow(clippy::cast_precision_loss)]
        let want = q * count as f64;
        let mut below = 0;
        for (i, n) in buckets.iter().enumerate() {
            below += n;
            #[allow(clippy::cast_precision_loss)]
            if *n > 0 && below as f64 >= want {
                return upper(i).min(max_us);
            }
        }
        0
    };
    Lateness {
        count,
        p50_us: quantile(0.5),
        p90_us: quantile(0.9),
        p99_us: quantile(0.99),
        max_us,
    }
}

fn add_bytes(sum: &mut sys::aw_counters, one: &sys::aw_counters) {
    let max = sum.late_max_us.max(one.late_max_us);
    let words = size_of::<sys::aw_counters>() / 8;
    // SAFETY: aw_counters is a struct of u64 only (asserted below), so it can be read as an array
    // of u64.
    let (to, from) = unsafe {
        (
            std::slice::from_raw_parts_mut(std::ptr::from_mut(sum).cast::<u64>(), words),
            std::slice::from_raw_parts(std::ptr::from_ref(one).cast::<u64>(), words),
        )
    };
    for (to, from) in to.iter_mut().zip(from) {
        *to = to.wrapping_add(*from);
    }
    sum.late_max_us = max;
}

const _: () =
    assert!(align_of::<sys::aw_counters>() == 8 && size_of::<sys::aw_counters>().is_multiple_of(8));

/// Sums the counters of all CPUs.
pub(crate) fn total(per_cpu: &[sys::aw_percpu]) -> sys::aw_counters {
    let mut sum = sys::aw_counters::default();
    for one in per_cpu {
        add_bytes(&mut sum, &one.counters);
    }
    // Each ACK has one reason.
    sum.acks = sum.reason.iter().sum();
    sum.withheld = sum.reason[sys::AW_R_HELD as usize] + sum.reason[sys::AW_R_DROPPED as usize];
    sum
}

impl Stats {
    pub(crate) fn count(&mut self, c: &sys::aw_counters) {
        self.packets = c.packets;
        self.cwnd_hints = c.cwnd_hints;
        self.ack_requests = c.ack_requests;
        self.ack_rate_requests = c.ack_rate_requests;
        self.acks_skipped = c.acks_skipped;
        self.bytes = c.bytes;
        self.not_tcp = c.not_tcp;
        self.fragments = c.fragments;
        self.unparsable = c.unparsable;
        self.data_segments = c.data_segments;
        self.data_bytes = c.data_bytes;
        self.acks = c.acks;
        self.ack_bytes = c.ack_bytes;
        self.payload_segments = c.payload_segments;
        self.payload_bytes = c.payload_bytes;
        self.other_bytes = c.other_bytes;
        self.no_flow = c.no_flow;
        self.unmatched = c.unmatched;
        self.syns = c.syns;
        self.withheld = c.withheld;
        self.withheld_bytes = c.withheld_bytes;
        self.reemitted = c.reemitted;
        self.reemitted_bytes = c.reemitted_bytes;
        self.packets_saved = c.withheld.saturating_sub(c.reemitted + c.cloned);
        self.bytes_saved = c.withheld_bytes.saturating_sub(c.reemitted_bytes);
        self.superseded = c.superseded;
        self.replaced = c.replaced;
        self.reemit_stale = c.reemit_stale;
        self.cloned = c.cloned;
        self.flows_created = c.flows_created;
        self.flows_failed = c.flows_failed;
        self.fail_open = [
            ("stale-heartbeat", c.open_stale_heartbeat),
            ("no-slot", c.open_no_slot),
            ("queue-full", c.open_queue_full),
            ("timer", c.open_timer),
            ("hold-too-short", c.open_too_short),
            ("frame", c.open_frame),
            ("busy", c.open_busy),
        ]
        .map(|(name, n)| (name.to_owned(), n))
        .into();
        self.release.ticks = c.ticks;
        self.release.ring_full = c.ring_full;
        self.release.retried = c.retried;
        self.release.lost = c.lost;
        self.release.unlocked = c.unlocked;
        self.reasons = Reason::all()
            .zip(c.reason)
            .map(|(reason, n)| (reason.name().to_owned(), n))
            .collect();
        self.lateness = lateness(&c.late, c.late_max_us);
        self.hold_times = hold_times(&c.held, c.held_ns);
    }
}

fn endpoint(address: &sys::aw_addr, port: u16, v4: bool) -> String {
    let mut bytes = [0_u8; 16];
    for (b, w) in bytes.chunks_exact_mut(4).zip(address.w) {
        b.copy_from_slice(&w.to_ne_bytes());
    }
    let ip = if v4 {
        IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
    } else {
        IpAddr::V6(Ipv6Addr::from(bytes))
    };
    std::net::SocketAddr::new(ip, u16::from_be(port)).to_string()
}

/// In a dry run: whether the ACK that would be held would have left by now.
pub(crate) fn is_overdue(flow: &sys::aw_entry, now_ns: u64) -> bool {
    flow.dry_until_ns != 0 && flow.dry_until_ns < now_ns
}

impl FlowStats {
    pub(crate) fn new(key: &sys::aw_key, e: &sys::aw_entry, now_ns: u64) -> Self {
        let v4 = [&key.acks, &key.data].iter().all(|a| a.w[1..] == [0; 3]);
        let far = e.flow.rtt.far_min.min;
        let near = e.flow.rtt.near_srtt;
        let (late, late_bytes) = if is_overdue(e, now_ns) {
            (1, u64::from(e.dry_len))
        } else {
            (0, 0)
        };
        let reemitted = e.count.reemitted + late;
        Self {
            ack_sender: endpoint(&key.acks, key.acks_port, v4),
            data_sender: endpoint(&key.data, key.data_port, v4),
            acks: e.count.acks,
            passed: e.count.acks.saturating_sub(e.count.withheld),
            withheld: e.count.withheld,
            reemitted,
            packets_saved: e.count.withheld.saturating_sub(reemitted),
            bytes_saved: e
                .count
                .withheld_bytes
                .saturating_sub(e.count.reemitted_bytes + late_bytes),
            data_segments: e.count.data_segments,
            data_bytes: e.count.data_bytes,
            srtt_us: match (near, far) {
                (0, _) => e.flow.hs.rtt_us,
                (n, u32::MAX) => n,
                (n, f) => n.saturating_add(f),
            },
            mss: e.flow.data.mss,
            data_window: e.flow.data.wnd,
            idle_ms: now_ns.saturating_sub(e.count.last_ns) / 1_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hold_times_are_bounded_from_above() {
        let mut counts = [0; sys::AW_HOLD_BUCKETS as usize];
        assert_eq!(hold_times(&counts, 0), HoldTimes::default());
        counts[0] = 98; // below 524 us
        counts[3] = 1; // below 2097 us
        counts[63] = 1;
        let h = hold_times(&counts, 90_000);
        assert_eq!(
            (h.count, h.sum_us, h.p50_us, h.p99_us),
            (100, 90, 524, 2097)
        );
        assert_eq!(h.buckets.len(), 64);
        assert_eq!((h.buckets[3].below_us, h.buckets[3].count), (Some(2097), 1));
        assert_eq!((h.buckets[63].below_us, h.buckets[63].count), (None, 1));
        counts[63] = 0;
        assert_eq!(hold_times(&counts, 0).buckets.len(), 4);
    }

    #[test]
    fn quantiles_name_upper_bounds() {
        let mut b = vec![0; sys::AW_LATE_BUCKETS as usize];
        b[0] = 90; // below 16 us
        b[10] = 9; // below 176 us
        b[sys::AW_LATE_FINE as usize] = 1; // below 1280 us
        let l = lateness(&b, 1100);
        assert_eq!(
            (l.count, l.p50_us, l.p90_us, l.p99_us, l.max_us),
            (100, 16, 16, 176, 1100)
        );
        b[sys::AW_LATE_BUCKETS as usize - 1] = 900;
        assert_eq!(lateness(&b, 77_000).p50_us, 77_000);
        assert_eq!(lateness(&[0; 8], 0), Lateness::default());
    }
}
