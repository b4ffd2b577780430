//! Round numbers for axes.

/// Round numbers from 0 to `highest`, four to eight of them; only 0 if there is nothing above it.
pub fn ticks(highest: f64) -> Vec<f64> {
    if highest <= 0.0 {
        return vec![0.0];
    }
    let rough = highest / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|s| s * power).find(|s| *s >= rough).unwrap_or(rough);
    let digits = 10f64.powf((-step.log10().floor()).max(0.0));
    (0..=(highest / step + 1e-9) as usize).map(|i| (i as f64 * step * digits).round() / digits).collect()
}

#[cfg(test)]
mod tests {
    use super::ticks;

    #[test]
    fn ticks_are_round_and_start_at_zero() {
        assert_eq!(ticks(10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(2.0), [0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(ticks(0.5), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]);
        assert_eq!(ticks(0.0), [0.0]);
    }
}
