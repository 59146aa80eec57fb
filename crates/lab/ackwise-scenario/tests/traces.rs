//! Generated traces have the statistics of their sources.

use ackwise_scenario::trace::{Generator, Recipe, SPAN_NS, Trace, parse};

const MEAN: u64 = 20_000_000;

/// Rates relative to the mean, one per tick of 20 ms (15 s for a satellite).
fn shares(generator: Generator, seed: u64, span_ns: u64) -> Vec<f64> {
    let recipe = Recipe {
        generator,
        mean_bps: MEAN,
        seed,
    };
    let Trace::Steps { steps, period } = recipe.make(span_ns) else {
        panic!("a generated trace is made of steps");
    };
    assert_eq!(period, Some(span_ns));
    let rates = steps.iter().map(|step| step.value as f64 / MEAN as f64);
    rates.collect()
}

struct Statistics {
    mean: f64,
    /// The coefficient of variation.
    cov: f64,
    /// The autocorrelation at each lag, in ticks.
    acf: Vec<f64>,
}

/// Over many seeds; deviations are from the mean of all.
fn statistics(generator: Generator, lags: &[usize]) -> Statistics {
    let traces: Vec<Vec<f64>> = (0..400)
        .map(|seed| shares(generator, seed, SPAN_NS))
        .collect();
    let count = traces.iter().map(Vec::len).sum::<usize>() as f64;
    let mean = traces.iter().flatten().sum::<f64>() / count;
    let product = |lag: usize| {
        let pairs = traces
            .iter()
            .flat_map(|trace| trace.iter().zip(&trace[lag..]));
        let sum: f64 = pairs.map(|(a, b)| (a - mean) * (b - mean)).sum();
        sum / traces.iter().map(|trace| trace.len() - lag).sum::<usize>() as f64
    };
    let variance = product(0);
    Statistics {
        mean,
        cov: variance.sqrt() / mean,
        acf: lags.iter().map(|&lag| product(lag) / variance).collect(),
    }
}

/// Brownian motion between two walls: uniformly distributed, so that the standard deviation is 1/√3
/// of the mean, and by its heat equation ρ(t) = 96/π⁴ Σ over odd n of exp(−n² π² σ² t / 2) / n⁴,
/// where σ is Sprout's 200 of 1000 packets/s per √s.
#[test]
fn lte_has_the_statistics_of_sprout_s_model() {
    let lags = [50, 250, 500];
    let found = statistics(Generator::Lte, &lags);
    assert!((found.mean - 1.0).abs() < 0.03, "{}", found.mean);
    assert!(
        (found.cov - 1.0 / 3f64.sqrt()).abs() < 0.02,
        "{}",
        found.cov
    );
    let pi = std::f64::consts::PI;
    for (lag, found) in lags.iter().zip(found.acf) {
        let t = *lag as f64 * 0.02;
        let each = (0..50)
            .map(|k| f64::from(2 * k + 1))
            .map(|n| (-n * n * pi * pi * 0.04 * t / 2.0).exp() / n.powi(4));
        let expected = 96.0 / pi.powi(4) * each.sum::<f64>();
        assert!(
            (found - expected).abs() < 0.03,
            "{t} s: {found}, not {expected}"
        );
    }
}

/// 2^(rate) is Gaussian in dB: mean and deviation from sampled quantiles of the normal distribution
/// (Abramowitz and Stegun 26.2.23), not by the generator's integral.
#[test]
fn a_5g_cell_has_the_statistics_of_its_shadowing() {
    let quantile = |p: f64| {
        let t = (-2.0 * p.min(1.0 - p).ln()).sqrt();
        let x = t
            - (2.515_517 + t * (0.802_853 + t * 0.010_328))
                / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)));
        if p < 0.5 { -x } else { x }
    };
    let rate = |p: f64| {
        let snr_db = 15.0 + 7.82 * quantile(p);
        match snr_db < -10.0 {
            true => 0.0,
            false => (1.0 + 10f64.powf(snr_db.min(30.0) / 10.0)).log2(),
        }
    };
    let rates: Vec<f64> = (0..100_000)
        .map(|k| rate((f64::from(k) + 0.5) / 1e5))
        .collect();
    let mean = rates.iter().sum::<f64>() / 1e5;
    let square = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / 1e5;
    let cov = square.sqrt() / mean;
    // 13 m at 3 km/h are 15.6 s.
    let found = statistics(Generator::Nr, &[780]);
    assert!((found.mean - 1.0).abs() < 0.03, "{}", found.mean);
    assert!((found.cov - cov).abs() < 0.02, "{}, not {cov}", found.cov);
    // The shadowing's autocorrelation is 1/e; a nonlinear curve has a little less.
    assert!((0.30..0.39).contains(&found.acf[0]), "{}", found.acf[0]);
}

#[test]
fn a_satellite_s_rate_holds_for_fifteen_seconds() {
    let found = statistics(Generator::Leo, &[1]);
    assert!((found.mean - 1.0).abs() < 0.02, "{}", found.mean);
    // Uniform from 100 to 250 about 175: 150 / √12 / 175.
    assert!((found.cov - 0.2474).abs() < 0.01, "{}", found.cov);
    assert!(found.acf[0].abs() < 0.03, "{}", found.acf[0]);
    assert_eq!(shares(Generator::Leo, 1, SPAN_NS).len(), 40);
}

#[test]
fn a_trace_is_a_function_of_its_seed_and_a_longer_one_begins_alike() {
    for generator in Generator::ALL {
        let long = shares(generator, 7, SPAN_NS);
        assert_eq!(long, shares(generator, 7, SPAN_NS));
        assert_ne!(long, shares(generator, 8, SPAN_NS));
        let short = shares(generator, 7, 60_000_000_000);
        assert_eq!(short[..], long[..short.len()]);
    }
    // The values are the same in every version and on every machine.
    let first = |generator| shares(generator, 1, 40_000_000)[0] * MEAN as f64;
    let drawn = Generator::ALL.map(first).map(|rate| rate.round() as u64);
    assert_eq!(drawn, [2_975_140, 5_957_033, 28_371_383]);
}

#[test]
fn what_is_written_is_what_is_read() {
    for generator in Generator::ALL {
        let recipe = Recipe {
            generator,
            mean_bps: MEAN,
            seed: 3,
        };
        let trace = recipe.make(30_000_000_000);
        assert_eq!(parse(&trace.text()).unwrap(), trace);
        // In mahimahi's format it carries the same, up to one opportunity of 1500 bytes.
        let chances = trace.opportunities().unwrap();
        assert_eq!(parse(&chances.text()).unwrap(), chances);
        let [steps, chances] = [trace, chances].map(|it| it.schedule(0).unwrap());
        assert_eq!(chances.period_ns(), steps.period_ns());
        let apart = steps.mean_bps() - chances.mean_bps();
        assert!(apart <= 1500 * 8 / 30 + 1, "{apart}");
    }
}
