//! Quantities computed from time series.

use ackwise_scenario::record::Series;

/// Mean of a series' values over the intervals that end in (`from`, `to`], in seconds; `None` if
/// there are none.
pub(crate) fn mean(t_s: &[f64], values: &[Option<f64>], from: f64, to: f64) -> Option<f64> {
    let known: Vec<f64> = t_s
        .iter()
        .zip(values)
        // Sample times are sums of intervals: allow for their rounding.
        .filter(|(t, _)| **t > from + 1e-9 && **t <= to + 1e-9)
        .filter_map(|(_, v)| *v)
        .collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// Rate of the packets that reached the receiver, in bits per second of IP packets of `packet_bytes`.
///
/// It counts headers and duplicates, like the sinks of ns-2 (`bytes_`).
pub(crate) fn wire_rate_bps(series: &Series, packet_bytes: f64, from: f64, to: f64) -> Option<f64> {
    Some(mean(&series.t_s, &series.data_rate_hz, from, to)? * packet_bytes * 8.0)
}

/// Times in seconds at which a window fell from above `floor` to at most `floor`.
pub(crate) fn resets(t_s: &[f64], window: &[Option<f64>], floor: f64) -> Vec<f64> {
    let mut times = Vec::new();
    let mut above = false;
    for (t, w) in t_s.iter().zip(window) {
        let Some(w) = w else { continue };
        if *w > floor {
            above = true;
        } else if above {
            above = false;
            times.push(*t);
        }
    }
    times
}

/// Times in seconds at which a window had fallen to at most `share` of its maximum since the previous
/// fall. A window that continues to fall counts once.
pub(crate) fn falls(t_s: &[f64], window: &[Option<f64>], share: f64) -> Vec<f64> {
    let mut times = Vec::new();
    let (mut largest, mut last) = (0.0_f64, 0.0);
    let mut falling = false;
    for (t, w) in t_s.iter().zip(window) {
        let Some(w) = *w else { continue };
        falling &= w <= last;
        if falling {
            largest = w;
        } else if w <= share * largest {
            times.push(*t);
            (falling, largest) = (true, w);
        }
        largest = largest.max(w);
        last = w;
    }
    times
}

/// Mean interval between ascending times; `None` for fewer than two.
pub(crate) fn mean_interval(times: &[f64]) -> Option<f64> {
    let (first, last) = (times.first()?, times.last()?);
    (times.len() > 1).then(|| (last - first) / (times.len() - 1) as f64)
}

/// Mean and standard deviation.
pub(crate) fn moments(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
    if values.is_empty() {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    Some((mean, variance.sqrt()))
}

/// Jain's index of fairness; 1 is equal shares.
pub(crate) fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|v| v * v).sum();
    if squares == 0.0 {
        return 1.0;
    }
    sum * sum / (shares.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_over_intervals_that_end_inside() {
        let t = [1.0, 2.0, 3.0, 4.0];
        let v = [Some(1.0), Some(2.0), None, Some(4.0)];
        assert_eq!(mean(&t, &v, 2.0, 4.0), Some(4.0));
        assert_eq!(mean(&t, &v, 1.0, 2.0), Some(2.0));
        assert_eq!(mean(&t, &v, 4.0, 9.0), None);
        let series = Series {
            t_s: t.to_vec(),
            data_rate_hz: vec![Some(100.0); 4],
            ..Series::default()
        };
        assert_eq!(wire_rate_bps(&series, 1500.0, 0.0, 4.0), Some(1.2e6));
    }

    #[test]
    fn a_reset_is_a_fall_and_counts_once() {
        let t: Vec<f64> = (0..8).map(f64::from).collect();
        let w = [1.0, 2.0, 8.0, 1.0, 1.0, 9.0, 2.0, 8.0].map(Some);
        assert_eq!(resets(&t, &w, 2.0), [3.0, 6.0]);
        assert_eq!(mean_interval(&[3.0, 6.0, 10.0]), Some(3.5));
        assert_eq!(mean_interval(&[3.0]), None);
    }

    #[test]
    fn a_window_that_goes_on_falling_falls_once() {
        let t: Vec<f64> = (0..10).map(f64::from).collect();
        let w = [4.0, 10.0, 8.0, 7.0, 5.0, 5.0, 6.0, 10.0, 5.0, 4.9].map(Some);
        assert_eq!(falls(&t, &w, 0.75), [3.0, 8.0]);
        assert_eq!(falls(&t[..3], &[None, Some(9.0), None], 0.75), [0.0; 0]);
    }

    #[test]
    fn fairness_and_moments() {
        assert_eq!(jain(&[1.0, 1.0]), 1.0);
        assert_eq!(jain(&[1.0, 0.0]), 0.5);
        assert_eq!(jain(&[0.0, 0.0]), 1.0);
        assert_eq!(moments([1.0, 3.0, f64::NAN]), Some((2.0, 1.0)));
        assert_eq!(moments([]), None);
    }
}
