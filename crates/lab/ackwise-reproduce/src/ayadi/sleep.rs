//! The same chain with sleeping radios: what fewer ACKs save there.

use ackwise_radio::scenario::RadioRun;
use ackwise_report::Experiment;

use super::points::{Metric, Place, Points, experiment};
use crate::{Error, Reproduced};

/// Seeds in a short version.
pub(super) const QUICK_SEEDS: u64 = 2;

/// Current of an idle radio in mA, with a description: the paper's Table 2, and a radio that uses as
/// much for listening as for receiving.
const CURRENTS: [(&str, f64, &str); 2] = [
    ("table-2", 1.38, "idle 1.38 mA"),
    ("listening", 19.6, "idle 19.6 mA"),
];
/// Groups of arms, with the seconds between two wake-ups.
const GROUPS: [(&str, Option<f64>, &str); 3] = [
    ("on", None, "always on"),
    ("8-hz", Some(0.125), "8 wake-ups a second"),
    ("32-hz", Some(0.031_25), "32 wake-ups a second"),
];
const ARMS: [(&str, &str); 5] = [
    ("tcp-d2", "TCP, d = 2"),
    ("dda", "DDA"),
    ("daa", "DAA"),
    ("dca", "DCA"),
    ("tda", "TDA"),
];
const HOPS: [u64; 4] = [2, 4, 6, 10];
const SLEEP_MA: f64 = 0.06;
const VOLTS: f64 = 3.0;
/// Duration of two checks of 192 µs each.
const CHECKS_S: f64 = 384e-6;

/// Power in watts of all nodes when they have nothing to send.
fn idle_watts(idle_ma: f64, interval: Option<f64>, hops: u64) -> f64 {
    let ma = interval.map_or(idle_ma, |every| {
        (CHECKS_S * idle_ma + (every - CHECKS_S) * SLEEP_MA) / every
    });
    (hops + 1) as f64 * VOLTS * ma * 1e-3
}

/// Adds the runs with each current, in the order of `CURRENTS`.
pub(super) fn add(currents: &[Points], all: &mut Reproduced) -> Result<(), Error> {
    for (points, (current, idle_ma, called)) in currents.iter().zip(CURRENTS) {
        for (group, interval, words) in GROUPS {
            let part = format!("Not in the paper: radios {words}, {called}");
            let row = |id: String, what: String, unit: &str, values| -> Experiment {
                experiment(format!("ayadi/sleep/{current}/{group}/{id}"), what, values)
                    .part(part.as_str())
                    .unit(unit)
                    .setup("sim; the chain of Fig. 1 with static routes, means of ten seeds")
            };
            for hops in HOPS {
                let at = Place::new(hops, 1);
                let tcp = format!("{group}/tcp");
                let above =
                    |run: &RadioRun| run.energy_j - run.end_s * idle_watts(idle_ma, interval, hops);
                for (arm, title) in [("tcp", "TCP, d = 1")].into_iter().chain(ARMS) {
                    let name = format!("{group}/{arm}");
                    let values = |of: &dyn Fn(&RadioRun) -> f64| points.values(&name, at, of);
                    for (id, what, unit, of) in [
                        (
                            "energy",
                            "energy",
                            "J",
                            &(|run: &RadioRun| run.energy_j) as &dyn Fn(&RadioRun) -> f64,
                        ),
                        (
                            "above-idle",
                            "energy beyond that of an idle network for as long",
                            "J",
                            &above,
                        ),
                        ("throughput", "throughput", "kbit/s", &|run| {
                            Metric::Throughput.of(run)
                        }),
                        (
                            "acks",
                            "ACKs for a segment",
                            "",
                            &RadioRun::acks_per_segment,
                        ),
                    ] {
                        let id = format!("{id}/{arm}/{hops}-hops");
                        let what = format!("{what}: {title}, {hops} hops");
                        all.experiments.push(row(id, what, unit, values(of)?));
                    }
                    if arm == "tcp" {
                        continue;
                    }
                    let gains = points.gains(&name, &tcp, at, Metric::Energy)?;
                    let id = format!("saved/{arm}/{hops}-hops");
                    let what = format!("energy of {title} against TCP, d = 1, {hops} hops");
                    all.experiments.push(row(id, what, "%", gains));
                }
                let shares = points.values(&tcp, at, |run| 100.0 * run.asleep.unwrap_or(0.0))?;
                let id = format!("asleep/tcp/{hops}-hops");
                let what = format!("share of time asleep: TCP, d = 1, {hops} hops");
                all.experiments.push(row(id, what, "%", shares));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes: 8.28 mW on; asleep (0.384 · 1.38 + 124.616 · 0.06) / 125 = 0.064055 mA each.
    #[test]
    fn an_idle_network() {
        assert!((idle_watts(1.38, None, 1) - 8.28e-3).abs() < 1e-12);
        let asleep = 2.0 * 3.0 * 0.064_055_04e-3;
        assert!((idle_watts(1.38, Some(0.125), 1) - asleep).abs() < 1e-12);
    }
}
