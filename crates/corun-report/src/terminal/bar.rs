//! Bars of letters: a ledger's parts next to each other, or one share of a whole.

use super::Style;
use crate::category::parts;
use crate::profile::schema::Ledger;

/// A ledger as a bar of exactly `width` letters; every edge is rounded once, so errors do not add up.
pub fn ledger(l: &Ledger, width: usize, style: &Style) -> String {
    let mut out = String::new();
    let (mut sum_ns, mut from) = (0u64, 0);
    for (category, ns) in parts(l) {
        sum_ns += ns;
        let to = (sum_ns as f64 / l.total_ns as f64 * width as f64).round() as usize;
        let filled: String = std::iter::repeat_n(style.fill(category), to - from).collect();
        out.push_str(&style.category(category, &filled));
        from = to;
    }
    out
}

/// `part` of `whole` as a bar of at most `width` letters; a non-zero part gets at least one letter if there
/// is room.
pub fn share(part: u64, whole: u64, width: usize, style: &Style) -> String {
    if part == 0 || whole == 0 || width == 0 {
        return String::new();
    }
    let letters = ((part as f64 / whole as f64 * width as f64).round() as usize).clamp(1, width);
    std::iter::repeat_n(if style.unicode { '█' } else { '#' }, letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_its_width_however_the_parts_fall() {
        for steal_ns in 1..50 {
            let l = Ledger {
                compute_ns: 100,
                steal_ns,
                block_ns: 7,
                unknown_ns: 1,
                total_ns: 108 + steal_ns,
                ..Ledger::default()
            };
            assert_eq!(ledger(&l, 33, &Style::plain(80)).chars().count(), 33);
        }
    }

    #[test]
    fn a_ledger_without_time_has_no_bar() {
        assert_eq!(ledger(&Ledger::default(), 30, &Style::plain(80)), "");
        assert_eq!(share(0, 0, 10, &Style::plain(80)), "");
        assert_eq!(share(1, 1_000_000, 10, &Style::plain(80)), "█");
    }
}
