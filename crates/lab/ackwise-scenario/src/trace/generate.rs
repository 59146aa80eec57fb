//! Generates traces from published statistics and a seed.
//!
//! A trace is a function of its kind, its mean and its seed, the same on every machine: the
//! functions of `libm` use only basic IEEE 754 operations. A longer trace begins like a shorter
//! one. `docs/links.md` has the sources and what is left out.

use ackwise_queue::Step;
use ackwise_rng::Rng;

use super::Trace;

/// The kinds of generated traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Generator {
    /// A device in an LTE cell, by the model of Sprout (Winstein, Sivaraman and Balakrishnan,
    /// NSDI 2013, §3.1): the rate is a Brownian motion.
    Lte,
    /// A pedestrian in a 5G cell: shadowing by 3GPP TR 38.901, rate by 3GPP TR 38.803.
    Nr,
    /// A terminal of a low-orbit constellation, which changes its satellite every 15 s.
    Leo,
}

/// The parameters of a generated trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    /// The kind of trace.
    pub generator: Generator,
    /// The mean of the rate over all seeds, in bits per second. The mean of a single trace differs.
    pub mean_bps: u64,
    /// Seed of the draws.
    pub seed: u64,
}

/// The span of a trace in a scenario, after which it repeats, in nanoseconds: ten minutes.
pub const SPAN_NS: u64 = 600_000_000_000;

/// The tick of Sprout, the time between two rates.
const TICK_NS: u64 = 20_000_000;
/// Starlink's reconfiguration interval.
const INTERVAL_NS: u64 = 15_000_000_000;

/// Sprout's noise, 200 packets/s per √s, as a share of its maximum rate, 1000 packets/s.
const SPROUT_SIGMA: f64 = 200.0 / 1000.0;

/// The standard deviation of shadowing, dB (TR 38.901 table 7.4.1-1, UMi street canyon, NLOS).
const SHADOWING_DB: f64 = 7.82;
/// Its correlation distance, m (TR 38.901 table 7.5-6, UMi, NLOS).
const CORRELATION_M: f64 = 13.0;
/// The speed of a pedestrian, m/s: 3 km/h.
const SPEED_M_S: f64 = 3.0 / 3.6;
/// The mean signal-to-noise ratio, dB. It is our choice between the limits below.
const MEAN_SNR_DB: f64 = 15.0;
/// Signal-to-noise ratios below which there is no throughput, and above which it does not grow, dB
/// (TR 38.803 §5.2.7).
const SNR_DB: [f64; 2] = [-10.0, 30.0];

/// The minimum and maximum rate of an interval relative to the mean: 100 to 250 Mbit/s (Michel et
/// al., "A First Look at Starlink Performance", IMC 2022), with a mean of 175.
const LEO_RANGE: [f64; 2] = [100.0 / 175.0, 250.0 / 175.0];

impl Generator {
    /// All kinds.
    pub const ALL: [Generator; 3] = [Generator::Lte, Generator::Nr, Generator::Leo];

    /// The name in scenario files and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Generator::Lte => "lte",
            Generator::Nr => "5g",
            Generator::Leo => "leo",
        }
    }
}

impl Recipe {
    /// Makes a trace of that span, which repeats. It is at least one step long.
    #[must_use]
    pub fn make(&self, span_ns: u64) -> Trace {
        let mut draws = Rng::stream(self.seed, self.generator as u64 + 1);
        match self.generator {
            Generator::Lte => self.lte(&mut draws, span_ns),
            Generator::Nr => self.nr(&mut draws, span_ns),
            Generator::Leo => {
                let [least, most] = LEO_RANGE;
                self.steps(span_ns, INTERVAL_NS, || {
                    least + (most - least) * fraction(&mut draws)
                })
            }
        }
    }

    fn lte(&self, draws: &mut Rng, span_ns: u64) -> Trace {
        let step = SPROUT_SIGMA * libm::sqrt(TICK_NS as f64 / 1e9);
        // Between walls at 0 and at the maximum, every rate is equally likely.
        let mut share = fraction(draws);
        self.steps(span_ns, TICK_NS, || {
            let now = share;
            share = reflected(share + step * gaussian(draws));
            2.0 * now
        })
    }

    fn nr(&self, draws: &mut Rng, span_ns: u64) -> Trace {
        let moved = SPEED_M_S * TICK_NS as f64 / 1e9;
        // Gudmundson's model (Electronics Letters 27, 1991), as in TR 38.901 §7.4.4.
        let keep = libm::exp(-moved / CORRELATION_M);
        let fresh = libm::sqrt(1.0 - keep * keep);
        let mean = mean_efficiency();
        let mut shadowing = gaussian(draws);
        self.steps(span_ns, TICK_NS, || {
            let now = efficiency(MEAN_SNR_DB + SHADOWING_DB * shadowing) / mean;
            shadowing = keep * shadowing + fresh * gaussian(draws);
            now
        })
    }

    /// Steps of `tick_ns`, each with a multiple of the mean.
    fn steps(&self, span_ns: u64, tick_ns: u64, mut next: impl FnMut() -> f64) -> Trace {
        let span_ns = span_ns.max(1);
        let mean = self.mean_bps as f64;
        let starts = (0..span_ns.div_ceil(tick_ns)).map(|number| number * tick_ns);
        let mut steps: Vec<Step<u64>> = starts
            .map(|at_ns| Step {
                at_ns,
                value: (mean * next()).round() as u64,
            })
            .collect();
        // A trace that repeats must carry something.
        if let Some(first) = steps.first_mut() {
            first.value = first.value.max(1);
        }
        Trace::Steps {
            steps,
            period: Some(span_ns),
        }
    }
}

/// A uniform draw from 0 to 1.
fn fraction(draws: &mut Rng) -> f64 {
    (draws.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A standard normal draw (Box and Muller 1958).
fn gaussian(draws: &mut Rng) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - fraction(draws)));
    radius * libm::cos(std::f64::consts::TAU * fraction(draws))
}

/// Reflects a number into the range from 0 to 1.
fn reflected(share: f64) -> f64 {
    let folded = share.abs() % 2.0;
    if folded > 1.0 { 2.0 - folded } else { folded }
}

/// The throughput at a signal-to-noise ratio, up to a factor: Shannon's bound, attenuated and
/// truncated (TR 38.803 §5.2.7).
fn efficiency(snr_db: f64) -> f64 {
    let [least, most] = SNR_DB;
    if snr_db < least {
        return 0.0;
    }
    libm::log2(1.0 + libm::pow(10.0, snr_db.min(most) / 10.0))
}

/// The mean of [`efficiency`] over the shadowing, by the rectangle rule over six standard
/// deviations.
fn mean_efficiency() -> f64 {
    let points = (-600..=600).map(|point| f64::from(point) / 100.0);
    let weighted = points.map(|x| {
        let weight = libm::exp(-x * x / 2.0);
        (weight * efficiency(MEAN_SNR_DB + SHADOWING_DB * x), weight)
    });
    let (sum, weights) = weighted.fold((0.0, 0.0), |(sum, all), (one, weight)| {
        (sum + one, all + weight)
    });
    sum / weights
}
