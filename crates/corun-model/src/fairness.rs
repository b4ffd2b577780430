//! Jain's index: how evenly something is shared.
//!
//! Jain, Chiu and Hawe, 1984; Controlled Contention, eq. 1.

/// `(Σ x)² / (n Σ x²)` of these amounts: 1 if all are equal, 1/n if one has everything. `None` for an empty list, or if all are 0.
pub fn jain(amounts: &[f64]) -> Option<f64> {
    let sum: f64 = amounts.iter().sum();
    let squares: f64 = amounts.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (amounts.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_amounts_are_fair_and_a_single_owner_is_not() {
        assert_eq!(jain(&[2.0, 2.0, 2.0]), Some(1.0));
        assert!((jain(&[1e9, 1.0, 1.0, 1.0]).unwrap() - 0.25).abs() < 1e-6);
        assert_eq!(jain(&[]), None);
        assert_eq!(jain(&[0.0, 0.0]), None);
    }
}
