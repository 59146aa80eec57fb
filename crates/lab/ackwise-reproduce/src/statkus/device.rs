//! The slow device: its machine, its jobs, and what is computed from its records.

use ackwise_engines::LabError;
use ackwise_engines::emulated::{self, Between, First, Job, Machine, Record, Span};

use crate::series::moments;
use crate::{Error, Lab};

/// Its name in errors.
const NAME: &str = "slow device";
/// `tcp_ack_limit`: segments before limiting starts, and of a measurement. The paper has 2000
/// in runs of 100 s; an eighth of that lets the search end within 2 s.
pub(super) const LIMIT: u32 = 250;
/// `tcp_ack_limit` where the search must end within 1 s.
pub(super) const SHORT: u32 = 100;
/// 125 million instructions per second: 8 ns each.
pub(super) const SHIFT: u8 = 3;
/// `tcp_ack_hold_us` of an unconfigured kernel.
pub(super) const HOLD_US: u32 = 25_000;
/// Two full segments, so that the receiver can answer between two writes.
const CHUNK: u32 = 2 * 1448;

/// ACK rule of the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arm {
    /// The unmodified rule.
    Stock,
    /// The algorithm with its defects fixed.
    RateLimit,
    /// The algorithm as printed.
    Literal,
    /// One ACK per 16 segments.
    EveryN,
    /// The default of the datapath.
    Adaptive,
}

impl Arm {
    pub(super) const ALL: [Arm; 5] = [
        Arm::Stock,
        Arm::RateLimit,
        Arm::Literal,
        Arm::EveryN,
        Arm::Adaptive,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Arm::Stock => "unmodified",
            Arm::RateLimit => "rate-limit",
            Arm::Literal => "rate-limit-literal",
            Arm::EveryN => "every-n (16)",
            Arm::Adaptive => "adaptive",
        }
    }

    /// The part of an experiment's id.
    pub(super) fn id(self) -> &'static str {
        match self {
            Arm::Stock => "unmodified",
            Arm::EveryN => "every-16",
            other => other.name(),
        }
    }

    fn policy(self) -> &'static str {
        match self {
            Arm::Stock => "none",
            Arm::RateLimit => "rate-limit",
            Arm::Literal => "rate-limit-literal",
            Arm::EveryN => "every-n:n=16",
            Arm::Adaptive => "adaptive",
        }
    }
}

/// Parameters of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub arm: Arm,
    pub shift: u8,
    pub first: First,
    /// Length in seconds of the guest.
    pub seconds: u64,
    /// The application's rate; as fast as possible if `None`.
    pub write_bps: Option<u64>,
    /// Bytes of a write.
    pub chunk: u32,
    pub limit: u32,
    /// Maximum hold of an ACK in µs; 0 means until the delayed-ACK timer.
    pub hold_us: u32,
    pub trace: bool,
}

impl Case {
    /// A sender that is the bottleneck and sends as fast as possible.
    pub(super) fn new(arm: Arm, seconds: u64) -> Case {
        Case {
            arm,
            shift: SHIFT,
            first: First::Receiver,
            seconds,
            write_bps: None,
            chunk: CHUNK,
            limit: LIMIT,
            // The delayed-ACK timer, which is the paper's only bound.
            hold_us: 0,
            trace: false,
        }
    }

    fn job(&self) -> Job {
        let sysctl = |name: &str, value: String| (format!("net.ipv4.{name}"), value);
        let receiver = [
            sysctl("tcp_ack_limit", self.limit.to_string()),
            sysctl("tcp_ack_hold_us", self.hold_us.to_string()),
            sysctl("tcp_ack_policy", self.arm.policy().to_owned()),
        ];
        Job {
            duration_ms: self.seconds * 1000,
            write_bps: self.write_bps,
            chunk_bytes: self.chunk,
            first: self.first,
            trace: self.trace,
            cc: "cubic".to_owned(),
            sample_ms: (self.seconds * 10).max(100),
            sender_sysctls: Vec::new(),
            receiver_sysctls: receiver.into(),
            between: Between::Wire,
        }
    }
}

/// A function that computes a value of a time span.
pub(super) type Rate = fn(&Span) -> f64;

/// A finished run.
pub(super) struct Ran {
    pub case: Case,
    pub record: Record,
}

impl Ran {
    /// The span after the first quarter, which is the steady part.
    pub(super) fn steady(&self) -> Result<Span, Error> {
        let from = self.case.seconds * 1_000_000_000 / 4;
        self.record
            .span(from, self.case.seconds * 1_000_000_000)
            .filter(|span| span.bytes > 0)
            .ok_or_else(|| {
                lacks(&format!(
                    "bytes after the first quarter of {}",
                    self.case.arm.name()
                ))
            })
    }

    /// Mean of the sender's smoothed round-trip time over the same part, in ms.
    pub(super) fn rtt_ms(&self) -> Result<f64, Error> {
        let from = self.case.seconds * 1_000_000_000 / 4;
        let samples = self.record.samples.iter();
        let rtts: Vec<f64> = samples
            .filter(|sample| sample.at_ns >= from && sample.rtt_us > 0)
            .map(|sample| f64::from(sample.rtt_us) / 1000.0)
            .collect();
        if rtts.is_empty() {
            let name = self.case.arm.name();
            return Err(lacks(&format!(
                "round-trip time after the first quarter of {name}"
            )));
        }
        Ok(rtts.iter().sum::<f64>() / rtts.len() as f64)
    }

    /// A value of each interval between two samples, with the interval's end in seconds.
    pub(super) fn over_time(&self, value: Rate) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.record.samples.windows(2).filter_map(move |pair| {
            let (from, to) = (pair[0].at_ns, pair[1].at_ns);
            Some((to as f64 / 1e9, value(&self.record.span(from, to)?)))
        })
    }

    /// Standard deviation of the goodput between samples, divided by its mean, after the first quarter.
    /// The last interval is excluded, because the transfer ends in it.
    pub(super) fn uneven(&self) -> f64 {
        let from = self.case.seconds * 1_000_000_000 / 4;
        let samples = &self.record.samples;
        let whole = &samples[..samples.len().saturating_sub(1)];
        let rates = whole.windows(2).filter(|pair| pair[0].at_ns >= from);
        let rates = rates.filter_map(|pair| {
            let span = self.record.span(pair[0].at_ns, pair[1].at_ns)?;
            Some(span.goodput_bps())
        });
        moments(rates).map_or(f64::NAN, |(mean, deviation)| deviation / mean)
    }

    /// Instructions per megabyte: of both hosts together (including what belongs to neither),
    /// of the sender, and of the receiver.
    pub(super) fn instructions(&self) -> Result<[f64; 3], Error> {
        let span = self.steady()?;
        let per_mb = |ns| {
            span.instructions_per_mb(ns, self.case.shift)
                .unwrap_or(f64::NAN)
        };
        Ok([span.busy_ns, span.sender_ns, span.receiver_ns].map(per_mb))
    }
}

/// The emulated machine on this computer.
pub(super) struct Device {
    machine: Machine,
}

impl Device {
    /// Finds QEMU, the kernel, and this program, which is the first one of the guest.
    pub(super) fn find() -> Result<Device, Error> {
        emulated::qemu_version().map_err(failed)?;
        let kernel = emulated::kernel_image().map_err(failed)?;
        let program = std::env::current_exe().map_err(|error| Error::Engine {
            scenario: NAME.to_owned(),
            source: Box::new(error),
        })?;
        Ok(Device {
            machine: Machine::new(kernel, program, SHIFT),
        })
    }

    pub(super) fn run(&self, lab: &Lab<'_>, case: Case) -> Result<Ran, Error> {
        let machine = Machine {
            shift: case.shift,
            ..self.machine.clone()
        };
        lab.step(&format!(
            "{} s at {} MIPS, {}",
            case.seconds,
            machine.mips(),
            case.arm.name()
        ));
        let record = emulated::run(&machine, &case.job(), &lab.cancel()).map_err(failed)?;
        Ok(Ran { case, record })
    }
}

fn failed(error: LabError) -> Error {
    match error {
        LabError::Cancelled => Error::Cancelled,
        error => Error::Engine {
            scenario: NAME.to_owned(),
            source: Box::new(error),
        },
    }
}

fn lacks(what: &str) -> Error {
    Error::Record {
        scenario: NAME.to_owned(),
        what: format!("the record has no {what}"),
    }
}

#[cfg(test)]
mod tests {
    use ackwise_engines::emulated::Sample;

    use super::*;

    /// A run with this many bytes in each second.
    fn ran(bytes: &[u64]) -> Ran {
        let mut samples = vec![Sample::default()];
        for (second, bytes) in bytes.iter().enumerate() {
            samples.push(Sample {
                at_ns: (second as u64 + 1) * 1_000_000_000,
                bytes: samples[second].bytes + bytes,
                ..Sample::default()
            });
        }
        Ran {
            case: Case::new(Arm::Stock, bytes.len() as u64),
            record: Record {
                kernel: String::new(),
                samples,
            },
        }
    }

    #[test]
    fn the_first_quarter_and_the_end_of_a_transfer_are_not_uneven() {
        assert_eq!(ran(&[1, 5, 9, 9, 9, 9, 9, 3]).uneven(), 0.0);
        assert_eq!(
            ran(&[9, 9, 6, 12, 6, 12, 9, 9]).uneven(),
            7.2_f64.sqrt() / 9.0
        );
        assert!(ran(&[]).uneven().is_nan());
    }

    #[test]
    fn a_run_without_round_trips_has_no_mean_of_them() {
        let mut with = ran(&[1, 1, 1, 1]);
        assert!(with.rtt_ms().is_err());
        with.record.samples[4].rtt_us = 2000;
        assert_eq!(with.rtt_ms().ok(), Some(2.0));
    }
}
