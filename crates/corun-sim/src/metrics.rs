//! The metrics of a co-run: pure formulas.
//!
//! | figure | formula | source |
//! | --- | --- | --- |
//! | slowdown of tenant j | `S_j = T_co,j / T_solo,j` | |
//! | fairness | Jain's index `(Σ S_j)² / (n Σ S_j²)` ([`corun_model::fairness`]) | Controlled Contention, eq. 1 |
//! | system throughput | `Σ T_solo,j / T_co,j` | Controlled Contention, eq. 2 (Eyerman and Eeckhout, 2008) |
//! | relative speed-up against a baseline | `n / Σ (T_co,j / T_base,j)`: harmonic mean of the speed-ups | Controlled Contention, eq. 3 |
//! | geometric-mean speed-up, least, most | of `T_solo,j / T_co,j` | ATC'16 §5 |
//! | variation | standard deviation divided by mean | |
//! | interval | mean ± t × s / √n, 95 % | Student |
//!
//! Floating point is used only here: no decision of the modelled machine depends on it.

/// System throughput: how many tenants' worth of solo progress the machine makes. `None` without any.
pub fn throughput(slowdowns: &[f64]) -> Option<f64> {
    (!slowdowns.is_empty()).then(|| slowdowns.iter().map(|s| 1.0 / s).sum())
}

/// Relative speed-up against a baseline, from pairs of (slowdown here, slowdown under the baseline). Both are
/// relative to the same solo time, so their quotient is that of the times. `None` without any pair.
pub fn relative_speedup(pairs: &[(f64, f64)]) -> Option<f64> {
    let sum: f64 = pairs.iter().map(|(here, baseline)| here / baseline).sum();
    (sum > 0.0).then(|| pairs.len() as f64 / sum)
}

/// The geometric mean; `None` without values.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| (values.iter().map(|v| v.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// How much some values vary: their standard deviation divided by their mean; `None` for fewer than two.
pub fn variation(values: &[f64]) -> Option<f64> {
    Some(variance(values)?.sqrt() / mean(values))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// For two values or more.
fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    (values.len() > 1).then(|| squares / (values.len() - 1) as f64)
}

/// Geometric mean, least and greatest of some speed-ups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speedups {
    /// Geometric mean.
    pub mean: f64,
    /// The tenant with the lowest.
    pub min: f64,
    /// The tenant with the highest.
    pub max: f64,
}

/// The speed-ups that belong to some slowdowns. `None` without any.
pub fn speedups(slowdowns: &[f64]) -> Option<Speedups> {
    let speedups: Vec<f64> = slowdowns.iter().map(|s| 1.0 / s).collect();
    Some(Speedups {
        mean: geometric_mean(&speedups)?,
        min: speedups.iter().copied().reduce(f64::min)?,
        max: speedups.iter().copied().reduce(f64::max)?,
    })
}

/// A figure over several seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % interval of the mean; `None` for a single seed.
    pub half_width: Option<f64>,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
    /// The number of seeds.
    pub n: usize,
}

/// The estimate from one value for each seed. `None` without any.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let n = values.len();
    Some(Estimate {
        mean: mean(values),
        half_width: variance(values).map(|variance| student_975(n - 1) * (variance / n as f64).sqrt()),
        min: values.iter().copied().reduce(f64::min)?,
        max: values.iter().copied().reduce(f64::max)?,
        n,
    })
}

/// The 0.975 quantile of Student's t distribution.
fn student_975(degrees: usize) -> f64 {
    use statrs::distribution::{ContinuousCDF, StudentsT};
    StudentsT::new(0.0, 1.0, degrees as f64).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_counts_progress_in_tenants() {
        assert_eq!(throughput(&[2.0, 2.0]), Some(1.0));
        assert_eq!(throughput(&[1.0, 4.0]), Some(1.25));
    }

    #[test]
    fn relative_speedup_is_the_harmonic_mean_of_the_speedups() {
        // Twice as fast and half as fast: speed-ups 2 and 0.5, whose harmonic mean is 0.8.
        assert_eq!(relative_speedup(&[(1.0, 2.0), (2.0, 1.0)]), Some(0.8));
        assert_eq!(relative_speedup(&[(3.0, 3.0)]), Some(1.0));
    }

    #[test]
    fn speedups_have_a_geometric_mean_between_their_ends() {
        let s = speedups(&[1.0, 4.0]).unwrap();
        assert!((s.mean - 0.5).abs() < 1e-12 && s.min == 0.25 && s.max == 1.0);
    }

    #[test]
    fn a_mean_of_nothing_and_the_variation_of_one_value_are_unknown() {
        assert!((geometric_mean(&[2.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
        assert!((variation(&[1.0, 3.0]).unwrap() - 0.5f64.sqrt()).abs() < 1e-12);
        assert_eq!((geometric_mean(&[]), variation(&[2.0]), speedups(&[])), (None, None, None));
    }

    #[test]
    fn an_interval_needs_two_seeds_and_has_students_width() {
        assert_eq!(estimate(&[3.0]).unwrap().half_width, None);
        let e = estimate(&[1.0, 3.0]).unwrap();
        // s = √2, n = 2, t(1) = 12.706.
        assert!((e.half_width.unwrap() - 12.706).abs() < 0.01 && e.mean == 2.0);
        assert_eq!(estimate(&[]), None);
    }
}
