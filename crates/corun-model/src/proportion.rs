//! A share from a count, with its interval.
//!
//! Wilson's interval stays within 0 to 1 and keeps its width at either end: zero of fifty is not certainly zero.

/// The two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_964;

/// Wilson's 95 % interval of a share: `hits` of `all` were seen. Counts may be fractions. `all` is above 0.
pub fn wilson(hits: f64, all: f64) -> (f64, f64) {
    let p = hits / all;
    let z2 = Z * Z / all;
    let middle = (p + z2 / 2.0) / (1.0 + z2);
    let half = Z / (1.0 + z2) * (p * (1.0 - p) / all + z2 / (4.0 * all)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_wilsons() {
        let (low, high) = wilson(10.0, 100.0);
        assert!((low - 0.0552).abs() < 1e-4 && (high - 0.1744).abs() < 1e-4, "{low} {high}");
        let (low, high) = wilson(0.0, 50.0);
        assert!(low == 0.0 && (high - 0.0713).abs() < 1e-4, "none of fifty is not a certain nothing: {high}");
    }
}
