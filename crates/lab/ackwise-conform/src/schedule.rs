//! The cases, several times each, on one line of time.

use std::collections::HashMap;

use crate::case::{Case, Script, Variant};
use crate::packet::{Flow, Side};

/// Runs of each case: half of them over IPv4, half over IPv6.
pub(crate) const RUNS: u32 = 4;
/// Silence between two runs, so that all has left every queue and every hold is over.
const BETWEEN_NS: u64 = 700_000_000;
const FIRST_PORT: u16 = 10_000;
/// Ports that a run may use.
const PORTS: u16 = 4;

/// The thin way of the ACKs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shaper {
    /// Bits a second; with `None` nothing waits for its turn.
    pub rate_bps: Option<u64>,
    /// Bytes of a packet beyond its IP packet.
    pub overhead: u64,
    /// What a packet may be later than in a plain queue.
    pub slack_ns: u64,
}

impl Shaper {
    /// The one of the suite: some 750 ACKs a second on Ethernet. A device may withhold an ACK
    /// for 25 ms, and is granted 10 ms for ticks and bursts.
    pub const SUITE: Self = Self {
        rate_bps: Some(400_000),
        overhead: 14,
        slack_ns: 35_000_000,
    };

    /// The shaper of a device on this machine's clock: late is what a delayed ACK must not be,
    /// 500 ms (RFC 9293 §3.8.6.3).
    pub const REAL_TIME: Self = Self {
        rate_bps: None,
        overhead: 14,
        slack_ns: 500_000_000,
    };
}

/// A packet that leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// When, in nanoseconds from the schedule's start.
    pub at_ns: u64,
    /// From which end.
    pub from: Side,
    /// From its IP header on.
    pub packet: Vec<u8>,
}

/// One run of a case.
#[derive(Debug)]
pub(crate) struct Run {
    pub case: Case,
    pub script: Script,
    pub start_ns: u64,
}

/// What leaves when.
#[derive(Debug)]
pub struct Schedule {
    pub(crate) runs: Vec<Run>,
    flows: HashMap<Flow, usize>,
}

impl Schedule {
    /// Each case several times, with other addresses and numbers of ACKs each time.
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
                start_ns += length + BETWEEN_NS;
            }
        }
        Self { runs, flows }
    }

    /// All packets in the order of time.
    pub fn departures(&self) -> impl Iterator<Item = Departure> + '_ {
        self.runs.iter().flat_map(|run| {
            run.script.steps.iter().map(|step| Departure {
                at_ns: run.start_ns + step.at_ns,
                from: step.segment.from,
                packet: step.segment.to_packet(),
            })
        })
    }

    /// When it is over: nothing can arrive any more.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        let last = self.runs.last();
        last.map_or(0, |run| {
            run.start_ns + run.script.steps.last().map_or(0, |it| it.at_ns) + BETWEEN_NS
        })
    }

    /// Which run a connection is part of.
    pub(crate) fn run_of(&self, flow: Flow) -> Option<usize> {
        self.flows.get(&flow).copied()
    }
}

impl Run {
    /// When each step must have arrived, on the schedule's clock: a plain queue of the
    /// shaper's rate, and what a device is granted.
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
