//! The job that the host gives to a guest, and the record that it gets back.

use serde::{Deserialize, Serialize};

/// The job of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// How long the sender writes, in the guest's time.
    pub duration_ms: u64,
    /// The rate at which the application writes; unlimited if `None`.
    pub write_bps: Option<u64>,
    /// Bytes per write and per read.
    pub chunk_bytes: u32,
    /// Which host the CPU serves first.
    pub first: First,
    /// Whether the policy's state is sampled (it costs a little for each ACK).
    pub trace: bool,
    /// Congestion control of the sender.
    pub cc: String,
    /// Time between two samples.
    pub sample_ms: u64,
    /// Kernel parameters of the sender's namespace.
    pub sender_sysctls: Vec<(String, String)>,
    /// Kernel parameters of the receiver's namespace, the policy among them.
    pub receiver_sysctls: Vec<(String, String)>,
    /// What lies between them.
    pub between: Between,
}

/// The network between the two hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Between {
    /// A wire.
    #[default]
    Wire,
    /// A router and, between it and the receiver, a bridge that may police ACKs: half of Fig. 2 of
    /// Pavilanskas 2010.
    Router {
        /// Rate to which the sender's egress is shaped, packet by packet, bit/s.
        shape_bps: u64,
        /// Rate of pure ACKs that the bridge lets pass, in bits of Ethernet frames per second; all
        /// if `None`.
        acks_bps: Option<u64>,
    },
}

impl Between {
    /// Number of wires in a row; each is a pair of interfaces.
    pub(super) fn wires(self) -> usize {
        match self {
            Self::Wire => 1,
            Self::Router { .. } => 3,
        }
    }
}

/// Which host the CPU serves first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum First {
    /// A slow sender: the receiver answers each packet at once, like a host with time to spare, and
    /// the rest of the CPU is the sender's.
    Receiver,
    /// Two slow hosts: the scheduler shares the CPU between them.
    Neither,
}

/// The report of a guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// `uname -sr` in the guest.
    pub kernel: String,
    /// Samples at equal intervals from the start of the flow to its end.
    pub samples: Vec<Sample>,
}

/// State at one moment; counters start when the guest starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Time since the flow began, ns.
    pub at_ns: u64,
    /// Bytes that the receiving application has read.
    pub bytes: u64,
    /// Segments that the sender sent, retransmissions included.
    pub data_segments: u64,
    /// Segments that the receiver sent: its ACKs.
    pub acks: u64,
    /// Segments that the sender retransmitted.
    pub retransmits: u64,
    /// Time that the CPU was idle, ns (in steps of 10 ms).
    pub idle_ns: u64,
    /// CPU time of the sending host: its application and its interface.
    pub sender_ns: u64,
    /// CPU time of the receiving host: its application and its interface.
    pub receiver_ns: u64,
    /// CPU time of the router: its two interfaces. 0 without one.
    pub router_ns: u64,
    /// Packets that the router forwarded, in either direction.
    pub forwarded: u64,
    /// The sender's smoothed round-trip time, µs.
    pub rtt_us: u32,
    /// The sender's congestion window, segments.
    pub cwnd: u32,
    /// The sender's slow-start threshold, segments; 0 while it has none.
    pub ssthresh: u32,
    /// The policy's `r` (`ack_rate_val` of the paper), if it is traced and has one.
    pub ack_rate: Option<u32>,
    /// The upper bound of `r` (`ack_rate_max` of the paper).
    pub ack_rate_max: Option<u32>,
}

/// Differences between two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Length, ns.
    pub ns: u64,
    /// Bytes that the receiving application read.
    pub bytes: u64,
    /// Segments that the sender sent.
    pub data_segments: u64,
    /// ACKs sent.
    pub acks: u64,
    /// Retransmissions.
    pub retransmits: u64,
    /// Time that the CPU worked, ns.
    pub busy_ns: u64,
    /// CPU time of the sending host, ns.
    pub sender_ns: u64,
    /// CPU time of the receiving host, ns.
    pub receiver_ns: u64,
    /// CPU time of the router, ns.
    pub router_ns: u64,
    /// Packets that the router forwarded.
    pub forwarded: u64,
}

impl Record {
    /// Differences between two moments of the flow: from the first sample at or after `from_ns` to
    /// the first at or after `to_ns`, or to the last sample. `None` if they are the same sample.
    #[must_use]
    pub fn span(&self, from_ns: u64, to_ns: u64) -> Option<Span> {
        let last = self.samples.last()?;
        let at = |ns: u64| self.samples.iter().find(|sample| sample.at_ns >= ns);
        let (a, b) = (at(from_ns)?, at(to_ns).unwrap_or(last));
        let ns = b.at_ns.checked_sub(a.at_ns).filter(|&ns| ns > 0)?;
        Some(Span {
            ns,
            bytes: b.bytes.saturating_sub(a.bytes),
            data_segments: b.data_segments.saturating_sub(a.data_segments),
            acks: b.acks.saturating_sub(a.acks),
            retransmits: b.retransmits.saturating_sub(a.retransmits),
            busy_ns: ns.saturating_sub(b.idle_ns.saturating_sub(a.idle_ns)),
            sender_ns: b.sender_ns.saturating_sub(a.sender_ns),
            receiver_ns: b.receiver_ns.saturating_sub(a.receiver_ns),
            router_ns: b.router_ns.saturating_sub(a.router_ns),
            forwarded: b.forwarded.saturating_sub(a.forwarded),
        })
    }
}

impl Span {
    /// Goodput at the receiving application, bit/s.
    #[must_use]
    pub fn goodput_bps(&self) -> f64 {
        self.bytes as f64 * 8e9 / self.ns as f64
    }

    /// Share of the time that the CPU worked, 0…1.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.busy_ns as f64 / self.ns as f64
    }

    /// Share of the time that the threads of the two hosts worked, 0…1; this excludes idle time and
    /// what belongs to neither host.
    #[must_use]
    pub fn load_of_hosts(&self) -> f64 {
        (self.sender_ns + self.receiver_ns) as f64 / self.ns as f64
    }

    /// Data segments per ACK; `None` without ACKs.
    #[must_use]
    pub fn segments_per_ack(&self) -> Option<f64> {
        (self.acks > 0).then(|| self.data_segments as f64 / self.acks as f64)
    }

    /// Guest instructions per megabyte (10⁶ B) delivered, for the CPU time `ns` on a machine with
    /// this `shift`; `None` if nothing was delivered.
    #[must_use]
    pub fn instructions_per_mb(&self, ns: u64, shift: u8) -> Option<f64> {
        let instructions = ns as f64 / f64::from(1_u32 << shift.min(31));
        (self.bytes > 0).then(|| instructions * 1e6 / self.bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let sample = |at_ms: u64, bytes: u64, idle_ms: u64| Sample {
            at_ns: at_ms * 1_000_000,
            bytes,
            data_segments: bytes / 1000,
            acks: bytes / 2000,
            idle_ns: idle_ms * 1_000_000,
            ..Sample::default()
        };
        Record {
            kernel: String::new(),
            samples: vec![
                sample(0, 0, 50),
                sample(500, 1_000_000, 50),
                sample(1000, 4_000_000, 300),
            ],
        }
    }

    #[test]
    fn a_span_is_what_lies_between() {
        let span = record().span(400_000_000, u64::MAX).unwrap();
        assert_eq!(
            (span.ns, span.bytes, span.busy_ns),
            (500_000_000, 3_000_000, 250_000_000)
        );
        assert_eq!(span.goodput_bps(), 48e6);
        assert_eq!(span.load(), 0.5);
        assert_eq!(span.segments_per_ack(), Some(2.0));
        let span = Span {
            sender_ns: 100_000_000,
            receiver_ns: 25_000_000,
            ..span
        };
        assert_eq!(span.load_of_hosts(), 0.25);
        // 250 ms at 8 ns per instruction, for 3 MB.
        let per_mb = span.instructions_per_mb(span.busy_ns, 3).unwrap();
        assert!((per_mb - 31_250_000.0 / 3.0).abs() < 1e-3, "{per_mb}");
    }

    #[test]
    fn no_span_without_two_samples() {
        assert_eq!(record().span(500_000_000, 500_000_000), None);
        assert_eq!(record().span(2_000_000_000, u64::MAX), None);
        let empty = Record {
            kernel: String::new(),
            samples: Vec::new(),
        };
        assert_eq!(empty.span(0, 1), None);
    }
}
