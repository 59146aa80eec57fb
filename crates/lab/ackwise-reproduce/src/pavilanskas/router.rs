//! Figs. 6 and 7 on the slow device: the cost of forwarding for a router, in instructions.

use ackwise_engines::LabError;
use ackwise_engines::emulated::{self, Between, First, Job, Machine, Span};
use ackwise_report::{Axis, Experiment, Figure, Line, Style, Tolerance};

use super::CC;
use crate::tolerances::{above, below, range, share};
use crate::{Error, Lab, Reproduced};

/// 500 million instructions per second: 2 ns each. Every host has time to spare.
const SHIFT: u8 = 1;
const MBPS: [u32; 7] = [1, 4, 8, 16, 32, 65, 90];
const QUICK: [u32; 2] = [16, 90];
/// Segments before the measurement, and in it.
const WARM: u64 = 500;
const MEASURED: u64 = 2000;
const SEGMENT: f64 = 1448.0;
/// Bytes of the frames of a full segment and of an ACK, with timestamps.
const DATA_FRAME: u64 = 1514;
const ACK_FRAME: u64 = 66;
const PART: &str = "Figs. 6, 7: instructions of the router before the bridge";

/// R² of a load that is linear in the rate.
pub(super) const LINEAR: Tolerance = above(0.99);
/// A load as a share of the load that it is said to be below.
pub(super) const LOWER: Tolerance = below(1.0);
/// The tolerance of the share of the load that is saved: a fifth of the published share.
pub(super) const SAVED: Tolerance = share(0.2);
/// The cost of an ACK, in % of a data packet's, if packets count and not their length.
pub(super) const AS_MUCH: Tolerance = range(80.0, 125.0);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arm {
    All,
    /// The bridge lets a fifth of the ACKs pass.
    Dropped,
    /// The receiver sends one ACK per ten segments, where the contract lets it wait that long.
    Held,
}

impl Arm {
    fn id(self) -> &'static str {
        match self {
            Arm::All => "all",
            Arm::Dropped => "dropped-80",
            Arm::Held => "held",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Arm::All => "all ACKs",
            Arm::Dropped => "80 % dropped",
            Arm::Held => "every-n (10) in the receiver's kernel",
        }
    }
}

const ARMS: [Arm; 3] = [Arm::All, Arm::Dropped, Arm::Held];

fn rates(lab: &Lab<'_>) -> &'static [u32] {
    if lab.quick() { &QUICK } else { &MBPS }
}

/// How many machines will run.
pub(super) fn machines(lab: &Lab<'_>) -> usize {
    ARMS.len() * rates(lab).len()
}

/// Time in ms that this many segments take at a rate.
fn millis(segments: u64, mbps: u32) -> u64 {
    segments * DATA_FRAME * 8 / (u64::from(mbps) * 1000)
}

fn job(arm: Arm, mbps: u32) -> Job {
    let shape_bps = u64::from(mbps) * 1_000_000;
    let sysctl = |name: &str, value: &str| (format!("net.ipv4.{name}"), value.to_owned());
    let held = (arm == Arm::Held).then(|| sysctl("tcp_ack_policy", "every-n:n=10"));
    Job {
        duration_ms: millis(WARM + MEASURED, mbps),
        write_bps: None,
        chunk_bytes: 16 * 1024,
        first: First::Receiver,
        trace: false,
        cc: CC.to_owned(),
        sample_ms: millis(MEASURED, mbps) / 20,
        // Linux 2.6.32 had no tail-loss probe.
        sender_sysctls: vec![sysctl("tcp_early_retrans", "0")],
        receiver_sysctls: held.into_iter().collect(),
        between: Between::Router {
            shape_bps,
            // A fifth of one ACK per two segments.
            acks_bps: (arm == Arm::Dropped).then_some(shape_bps * ACK_FRAME / (10 * DATA_FRAME)),
        },
    }
}

/// Work of a router per segment that arrived.
#[derive(Debug, Clone, Copy)]
struct Cost {
    instructions: f64,
    acks: f64,
    /// Segments per second; then the share of the CPU.
    rate: f64,
    load: f64,
}

impl Cost {
    fn of(span: &Span) -> Cost {
        let segments = span.bytes as f64 / SEGMENT;
        let seconds = span.ns as f64 / 1e9;
        Cost {
            instructions: span.router_ns as f64 / f64::from(1_u32 << SHIFT) / segments,
            acks: (span.forwarded as f64 - segments) / segments,
            rate: segments / seconds,
            load: span.router_ns as f64 / span.ns as f64,
        }
    }

    /// Instructions per ACK and per segment, computed from two costs.
    fn apart(self, other: Cost) -> [f64; 2] {
        let ack = (self.instructions - other.instructions) / (self.acks - other.acks);
        [ack, self.instructions - ack * self.acks]
    }
}

pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    let machine = match machine() {
        Ok(machine) => machine,
        Err(why) => {
            all.missing
                .push(format!("CPU load of the routers (Figs. 6 and 7): {why}"));
            return Ok(());
        }
    };
    let rates = rates(lab);
    let cases: Vec<(Arm, u32)> = ARMS
        .into_iter()
        .flat_map(|arm| rates.iter().map(move |&mbps| (arm, mbps)))
        .collect();
    let costs = lab.each("router", &cases, |&(arm, mbps)| {
        measure(lab, &machine, arm, mbps)
    })?;
    let [whole, others @ ..] = &costs.chunks(rates.len()).collect::<Vec<_>>()[..] else {
        return Ok(());
    };
    for (&arm, costs) in ARMS[1..].iter().zip(others) {
        if arm == Arm::Dropped {
            all.experiments.extend(gain(whole, costs));
        }
        for ((&mbps, few), all_acks) in rates.iter().zip(*costs).zip(*whole) {
            all.experiments.push(saved(arm, mbps, *all_acks, *few));
            if arm == Arm::Dropped && mbps == QUICK[0] {
                all.experiments.push(price(*all_acks, *few));
            }
        }
    }
    let mut figure = Figure::new(
        "slow-load",
        "Fig. 6: load of the router over the rate",
        Axis::new("data packets a second"),
        Axis::new("CPU load, %"),
    )
    .caption(
        "Published: lines through the origin, the lower one with 80 % of the ACKs dropped. The CPU \
         does 500 million instructions a second.",
    );
    let line = |costs: &[Cost]| -> Vec<(f64, f64)> {
        let points = costs.iter().map(|cost| (cost.rate, 100.0 * cost.load));
        points.collect()
    };
    all.experiments.push(
        lower(
            "pavilanskas/slow/lower",
            &line(whole),
            &line(others.first().unwrap_or(whole)),
        )
        .part(PART)
        .setup("slow device"),
    );
    for (arm, costs) in ARMS.iter().zip(costs.chunks(rates.len())) {
        let points = line(costs);
        let id = format!("pavilanskas/slow/linear/{}", arm.id());
        let row = linear(id, arm.title(), &points)
            .part(PART)
            .setup("slow device");
        // The paper drops ACKs, and holds none.
        all.experiments.push(match arm {
            Arm::Held => row.variant(),
            Arm::All | Arm::Dropped => row,
        });
        figure = figure.line(Line::new(arm.title(), Style::Line, points));
    }
    all.figures.push(figure);
    all.notes.push(NOTE.to_owned());
    Ok(())
}

const NOTE: &str = "The router of Figs. 6 and 7 is Linux 6.12 on an emulated CPU that counts \
                    instructions (QEMU, -icount), between e1000 interfaces without offloads: the \
                    same numbers every time. Counted are the threads that poll its interfaces: \
                    receiving, routing, sending, and freeing what was sent; not the interrupt \
                    that wakes them. The sender is shaped packet by packet; the bridge and the \
                    hosts are on the same CPU and do not count.";

/// Finds QEMU, the kernel, and this program, which is the first one of the guest.
fn machine() -> Result<Machine, String> {
    emulated::qemu_version().map_err(|error| error.to_string())?;
    let kernel = emulated::kernel_image().map_err(|error| error.to_string())?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(Machine::new(kernel, program, SHIFT))
}

fn measure(lab: &Lab<'_>, machine: &Machine, arm: Arm, mbps: u32) -> Result<Cost, Error> {
    let job = job(arm, mbps);
    let record = emulated::run(machine, &job, &lab.cancel()).map_err(|error| match error {
        LabError::Cancelled => Error::Cancelled,
        error => Error::Engine {
            scenario: "router".to_owned(),
            source: Box::new(error),
        },
    })?;
    let span = record.span(millis(WARM, mbps) * 1_000_000, job.duration_ms * 1_000_000);
    let span = span.filter(|span| span.bytes > 0 && span.forwarded > 0);
    span.map(|span| Cost::of(&span)).ok_or(Error::Record {
        scenario: "router".to_owned(),
        what: format!("nothing was forwarded at {mbps} Mbit/s"),
    })
}

fn saved(arm: Arm, mbps: u32, all: Cost, few: Cost) -> Experiment {
    Experiment::new(
        format!("pavilanskas/slow/load/{}/{mbps}", arm.id()),
        format!("{mbps} Mbit/s, {}: instructions saved", arm.title()),
        100.0 * (1.0 - few.instructions / all.instructions),
    )
    .part(PART)
    .unit("%")
    .setup(format!(
        "slow device; {:.0} against {:.0} instructions a data packet; ACKs a segment {:.2} \
         against {:.2}",
        all.instructions, few.instructions, all.acks, few.acks
    ))
}

/// The mean saving over the rates, and the load at which it is reached. Fig. 7 plots the one over
/// the other, and its loads are greater.
fn gain(all: &[Cost], few: &[Cost]) -> [Experiment; 2] {
    let saved = |(all, few): (&Cost, &Cost)| 100.0 * (1.0 - few.instructions / all.instructions);
    let each: Vec<f64> = all.iter().zip(few).map(saved).collect();
    let mean = each.iter().sum::<f64>() / each.len() as f64;
    let loads = |cost: fn(f64, f64) -> f64| {
        let loads = all.iter().map(|cost| 100.0 * cost.load);
        loads.reduce(cost).unwrap_or(f64::NAN)
    };
    let setup = format!(
        "slow device; loads of {:.0} to {:.0} %",
        loads(f64::min),
        loads(f64::max)
    );
    let row = |id: &str, what: &str, value: f64| {
        let row = Experiment::new(format!("pavilanskas/slow/{id}"), what, value);
        row.part(PART).unit("%").setup(&setup)
    };
    [
        row("gain", "instructions saved, mean over the rates", mean)
            .published(30.0)
            .tolerance(SAVED)
            .note(
                "Published for a load of 25 % of a Cisco 881. 26.7 % is the most if an ACK costs as \
                 much as a data packet.",
            ),
        row("gain-load", "greatest load at which it is saved", loads(f64::max))
            .published(25.0)
            .not_comparable(
                "sender, bridge and receiver share the CPU of the router, so \
                 it never reaches a load of 25 %; the saving is the same at every load that was run",
            ),
    ]
}

/// How well a line fits the load over the rate (R²), for Fig. 6.
pub(super) fn linear(id: String, title: &str, points: &[(f64, f64)]) -> Experiment {
    let what = format!("{title}: R² of the load over the rate");
    let row = Experiment::new(id, what, fit(points))
        .published("linear")
        .tolerance(LINEAR);
    match points.len() {
        0..3 => row.not_comparable("a line fits any two rates; without --quick there are seven"),
        _ => row,
    }
}

/// Fig. 6 has one line below the other: the maximum over the rates of the load with 80 % dropped,
/// relative to the load with all ACKs.
pub(super) fn lower(id: &str, all: &[(f64, f64)], few: &[(f64, f64)]) -> Experiment {
    let ratios = few.iter().zip(all).map(|(few, all)| few.1 / all.1);
    let greatest = ratios.reduce(f64::max).unwrap_or(f64::NAN);
    let what = "80 % dropped: load, of that with all ACKs, at the rate where it is greatest";
    Experiment::new(id, what, greatest)
        .published("lower")
        .tolerance(LOWER)
}

/// The share of the variance that a line explains (R²).
fn fit(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let xy = sum(&|p| (p.0 - x) * (p.1 - y));
    let (xx, yy) = (sum(&|p| (p.0 - x).powi(2)), sum(&|p| (p.1 - y).powi(2)));
    xy * xy / (xx * yy)
}

fn price(all: Cost, few: Cost) -> Experiment {
    let [ack, data] = all.apart(few);
    Experiment::new(
        "pavilanskas/slow/price",
        "an ACK costs, of what a data packet costs",
        100.0 * ack / data,
    )
    .part(PART)
    .unit("%")
    .published("as much")
    .tolerance(AS_MUCH)
    .setup(format!(
        "slow device; 16 Mbit/s; {ack:.0} and {data:.0} instructions"
    ))
    .note("Published in words: the load depends on packets, not on their length.")
}

#[cfg(test)]
mod tests {
    use ackwise_report::Verdict;

    use super::*;

    #[test]
    fn a_fifth_of_the_acks_is_let_pass() {
        let Between::Router { acks_bps, .. } = job(Arm::Dropped, 90).between else {
            panic!("no router");
        };
        let acks_a_second = acks_bps.unwrap() / 8 / ACK_FRAME;
        let segments_a_second = 90_000_000 / 8 / DATA_FRAME;
        assert_eq!(segments_a_second / acks_a_second, 10);
        assert!(QUICK.iter().all(|mbps| MBPS.contains(mbps)));
    }

    #[test]
    fn a_line_is_told_from_a_curve() {
        let points = |of: fn(f64) -> f64| [1.0, 2.0, 3.0, 4.0].map(|x| (x, of(x)));
        assert!(fit(&points(|x| 3.0 * x + 1.0)) > 0.999_999);
        let bent = fit(&points(|x| x.powi(3)));
        assert!(bent < 0.95, "{bent}");
    }

    #[test]
    fn a_load_is_lower_only_if_it_is_so_at_each_rate() {
        let line = |loads: [f64; 3]| [1.0, 2.0, 3.0].into_iter().zip(loads).collect::<Vec<_>>();
        let all = line([10.0, 20.0, 30.0]);
        let row = |loads| lower("x", &all, &line(loads));
        let below = row([8.0, 14.0, 27.0]);
        assert_eq!(below.measured.number(), Some(0.9));
        assert_eq!(below.verdict(), Verdict::Within);
        assert_eq!(row([8.0, 21.0, 27.0]).verdict(), Verdict::Outside);
    }

    #[test]
    fn what_is_saved_is_not_said_of_the_published_load() {
        let cost = |instructions, load| Cost {
            instructions,
            load,
            acks: 0.5,
            rate: 1.0,
        };
        let all = [cost(1000.0, 0.01), cost(1000.0, 0.16)];
        let [gain, load] = gain(&all, &all.map(|one| cost(700.0, one.load)));
        assert_eq!(gain.measured.number().map(f64::round), Some(30.0));
        assert_eq!(gain.verdict(), Verdict::Within);
        assert_eq!(load.measured.number(), Some(16.0));
        assert_eq!(load.verdict(), Verdict::NotComparable);
    }

    #[test]
    fn costs_are_told_apart() {
        let cost = |acks: f64| Cost {
            instructions: 700.0 + 500.0 * acks,
            acks,
            rate: 1.0,
            load: 0.1,
        };
        let [ack, data] = cost(0.5).apart(cost(0.1));
        assert!((ack - 500.0).abs() < 1e-9 && (data - 700.0).abs() < 1e-9);
    }

    #[test]
    fn a_span_is_counted_by_segments_that_arrived() {
        let span = Span {
            ns: 1_000_000_000,
            bytes: 1_448_000,
            data_segments: 1100,
            acks: 500,
            retransmits: 0,
            busy_ns: 0,
            sender_ns: 0,
            receiver_ns: 0,
            router_ns: 20_000_000,
            forwarded: 1100,
        };
        let cost = Cost::of(&span);
        assert_eq!(
            (cost.instructions, cost.rate, cost.load),
            (10_000.0, 1000.0, 0.02)
        );
        assert!((cost.acks - 0.1).abs() < 1e-12);
    }
}
