//! The cases, several runs of each, on one time line.

use std::collections::HashMap;

use crate::case::{Case, Script, Variant};
use crate::packet::{Flow, Side};

/// Runs of each case: half of them over IPv4, half over IPv6.
pub(crate) const RUNS: u32 = 4;
/// Silence between two runs, in which every queue empties and every hold ends.
const GAP_NS: u64 = 700_000_000;
const FIRST_PORT: u16 = 10_000;
/// Number of ports that a run may use.
const PORTS: u16 = 4;

/// The bottleneck of the ACKs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shaper {
    /// Bits per second; with `None` no packet waits for its turn.
    pub rate_bps: Option<u64>,
    /// Bytes of a packet beyond its IP packet.
    pub overhead: u64,
    /// How much later than in a plain queue a packet may be.
    pub slack_ns: u64,
}

impl Shaper {
    /// The shaper of the suite: some 750 ACKs/s on Ethernet. A device may withhold an ACK for 25
    /// ms, and is granted 10 ms for ticks and bursts.
    pub const SUITE: Self = Self {
        rate_bps: Some(400_000),
        overhead: 14,
        slack_ns: 35_000_000,
    };

    /// The shaper of a device in real time: a packet is late after 500 ms, the limit for a delayed
    /// ACK (RFC 9293 §3.8.6.3).
    pub const REAL_TIME: Self = Self {
        rate_bps: None,
        overhead: 14,
        slack_ns: 500_000_000,
    };
}

/// A packet to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// Time of departure, in nanoseconds from the schedule's start.
    pub at_ns: u64,
    /// The end that sends it.
    pub from: Side,
    /// The packet from its IP header on.
    pub packet: Vec<u8>,
}

/// One run of a case.
#[derive(Debug)]
pub(crate) struct Run {
    pub case: Case,
    pub script: Script,
    pub start_ns: u64,
}

/// All packets with their times.
#[derive(Debug)]
pub struct Schedule {
    pub(crate) runs: Vec<Run>,
    flows: HashMap<Flow, usize>,
}

impl Schedule {
    /// Schedules each case several times, with different addresses and numbers of ACKs.
    #[must_use]
    pub fn new(cases: &[Case]) -> Self {
        let mut runs = Vec::new();
        let mut flows = HashMap::new();
        let mut start_ns = 0;
        for (index, case) in cases.iter().enumerate() {
            for phase in 0..RUNS {
                let number = (index as u32 * RUNS + phase) as u16;
                let flow = Flow {
                    v6: phase % 2 == 1,
                    host: 1,
                    port: FIRST_PORT + PORTS * number,
                    peer_port: 443,
                };
                let variant = Variant { flow, phase };
                let script = (case.script)(variant);
                for step in &script.steps {
                    flows.insert(step.segment.flow, runs.len());
                }
                let length = script.steps.last().map_or(0, |step| step.at_ns);
                runs.push(Run {
                    case: *case,
                    script,
                    start_ns,
                });
                start_ns += length + GAP_NS;
            }
        }
        Self { runs, flows }
    }

    /// All packets in order of time.
    pub fn departures(&self) -> impl Iterator<Item = Departure> + '_ {
        self.runs.iter().flat_map(|run| {
            run.script.steps.iter().map(|step| Departure {
                at_ns: run.start_ns + step.at_ns,
                from: step.segment.from,
                packet: step.segment.to_packet(),
            })
        })
    }

    /// The end of the schedule, after which nothing can arrive.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        let last = self.runs.last();
        last.map_or(0, |run| {
            run.start_ns + run.script.steps.last().map_or(0, |it| it.at_ns) + GAP_NS
        })
    }

    /// The run to which a connection belongs.
    pub(crate) fn run_of(&self, flow: Flow) -> Option<usize> {
        self.flows.get(&flow).copied()
    }
}

impl Run {
    /// When each step must have arrived, on the schedule's clock: its departure from a plain queue
    /// of the shaper's rate, plus the slack.
    pub fn due_ns(&self, shaper: Shaper) -> Vec<u64> {
        let mut free_ns = 0;
        let due = self.script.steps.iter().map(|step| {
            let mut at = self.start_ns + step.at_ns;
            if let (Side::Receiver, Some(rate)) = (step.segment.from, shaper.rate_bps) {
                let bytes = step.segment.to_packet().len() as u64 + shaper.overhead;
                free_ns = at.max(free_ns) + bytes * 8 * 1_000_000_000 / rate.max(1);
                at = free_ns;
            }
            at + shaper.slack_ns
        });
        due.collect()
    }
}
