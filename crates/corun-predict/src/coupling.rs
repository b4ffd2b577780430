//! How tightly a program's tasks are bound together, from how their waiting comes and goes.
//!
//! Method: over windows, the share of life that tasks spend waiting for siblings is regressed on the share in which a
//! sibling was stolen from while they were not. If co-runners cause the waiting, the two go together with a slope of
//! one; if the program waits for reasons of its own, they do not. What a steal causes may show later than the steal (a
//! thread meets a late sibling only at the next barrier), so the slope is taken over windows merged to longer and longer
//! bins, and the largest counts that is sure to be there.
//!
//! Limits: where steal never changes there is nothing to see; then tasks are taken to be bound ([`Coupling::unknown`]),
//! which the two bounds in [`crate::alone`] keep from doing harm, and the interval is made wider.

use crate::useful_work::Window;

/// How tightly tasks are bound: 0 not at all, 1 completely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coupling {
    /// Best estimate.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

impl Coupling {
    /// Nothing is known: bound, but unsure.
    pub fn unknown() -> Coupling {
        Coupling { value: 1.0, error: 0.5 }
    }
}

/// One bin: share of life waiting for siblings, and beside a sibling that was stolen from.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    life_ns: f64,
    waiting_ns: f64,
    beside_ns: f64,
}

/// Fewest bins for a regression.
const FEWEST: usize = 12;

/// Slope and its standard error, for each length of bins.
pub fn slopes<'a>(windows: impl Iterator<Item = &'a Window>) -> Vec<(usize, f64, f64)> {
    let mut bins: Vec<Bin> = windows
        .map(|w| {
            let all = w.total();
            Bin { life_ns: all.life_ns, waiting_ns: all.waiting_ns(), beside_ns: all.beside_stolen_ns }
        })
        .filter(|b| b.life_ns > 0.0)
        .collect();
    let mut found = Vec::new();
    let mut merged = 1;
    while bins.len() >= FEWEST {
        if let Some((slope, error)) = slope(&bins) {
            found.push((merged, slope, error));
        }
        bins = bins
            .chunks_exact(2)
            .map(|b| Bin {
                life_ns: b[0].life_ns + b[1].life_ns,
                waiting_ns: b[0].waiting_ns + b[1].waiting_ns,
                beside_ns: b[0].beside_ns + b[1].beside_ns,
            })
            .collect();
        merged *= 2;
    }
    found
}

fn slope(bins: &[Bin]) -> Option<(f64, f64)> {
    let n = bins.len() as f64;
    let x = |b: &Bin| b.beside_ns / b.life_ns;
    let y = |b: &Bin| b.waiting_ns / b.life_ns;
    let mean = |f: &dyn Fn(&Bin) -> f64| bins.iter().map(f).sum::<f64>() / n;
    let (mx, my) = (mean(&x), mean(&y));
    let sxx = bins.iter().map(|b| (x(b) - mx).powi(2)).sum::<f64>();
    if (sxx / n).sqrt() < 0.01 {
        return None;
    }
    let slope = bins.iter().map(|b| (x(b) - mx) * (y(b) - my)).sum::<f64>() / sxx;
    let residual = bins.iter().map(|b| (y(b) - my - slope * (x(b) - mx)).powi(2)).sum::<f64>();
    Some((slope, (residual / (n - 2.0) / sxx).sqrt()))
}
