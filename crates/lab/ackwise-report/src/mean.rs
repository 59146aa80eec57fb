//! Means of a few runs, with confidence intervals.

/// The 97.5th percentile of Student's t, for 1 … 30 degrees of freedom.
const T975: [f64; 30] = [
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010,
    2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687,
    2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
];
/// The 97.5th percentile of the normal distribution.
const Z975: f64 = 1.959_964;

/// A mean with its 95 % confidence interval, by Student's t.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval; `None` for a single value.
    pub half: Option<f64>,
    /// Number of values.
    pub count: usize,
}

impl Mean {
    /// The mean of values in any order. Values that are not finite are left out; `None` if nothing
    /// is left.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Mean> {
        let values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        let count = values.len();
        if count == 0 {
            return None;
        }
        let n = count as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let half = (count > 1).then(|| t975(count - 1) * (squares / (n - 1.0) / n).sqrt());
        Some(Mean { mean, half, count })
    }

    /// Lower and upper end of the interval; `None` for a single value.
    pub fn ci95(&self) -> Option<[f64; 2]> {
        self.half.map(|half| [self.mean - half, self.mean + half])
    }
}

/// The 97.5th percentile of Student's t. Above 30 degrees of freedom it uses two terms of the
/// expansion in their inverse (Abramowitz and Stegun 26.7.5), accurate to four digits.
fn t975(freedom: usize) -> f64 {
    let nu = freedom as f64;
    let z = Z975;
    let expansion = || {
        z + (z.powi(3) + z) / (4.0 * nu)
            + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * nu * nu)
    };
    let listed = freedom.checked_sub(1).and_then(|at| T975.get(at));
    listed.copied().unwrap_or_else(expansion)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_by_hand() {
        // Values 1 … 5: standard deviation 1.5811, standard error 0.7071, t for 4 degrees of
        // freedom 2.7764.
        let mean = Mean::of((1..=5).map(f64::from)).unwrap();
        assert_eq!((mean.mean, mean.count), (3.0, 5));
        assert!((mean.half.unwrap() - 1.9632).abs() < 1e-4);
        let [low, high] = mean.ci95().unwrap();
        assert!((low - 1.0368).abs() < 1e-4 && (high - 4.9632).abs() < 1e-4);
        assert_eq!(Mean::of([7.0]).unwrap().ci95(), None);
        assert_eq!(Mean::of([f64::NAN]), None);
    }

    #[test]
    fn the_list_and_the_expansion_meet() {
        assert_eq!(t975(9), 2.2622);
        assert!((t975(31) - 2.0395).abs() < 1e-4);
        assert!((t975(120) - 1.9799).abs() < 1e-4);
    }
}
