//! Which tenants were parked when, as a picture: a lane per tenant, colored while it may run and gray while
//! it is parked.
//!
//! In a long run slots are narrower than pixels. Then a lane shows how much of each moment its tenant was
//! parked: gray fills that part of the lane from the top.

use super::history::History;
use crate::html::markup::{key, Drawing};
use crate::html::scale::ticks;
use crate::html::tenants::Tenants;
use crate::words::{name, percent};
use corun_model::duration::human_ns;
use corun_model::TenantId;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 150.0;
const LANE: f64 = 26.0;
const GAP: f64 = 7.0;
const BELOW: f64 = 24.0;
/// The number of moments when stretches are narrower than pixels.
const MOMENTS: u64 = 400;
/// The most parked stretches that are drawn one by one.
const MOST_DRAWN: usize = 400;

/// Lanes for these tenants between two times, in nanoseconds since the beginning.
pub(super) fn lanes(
    history: &History,
    tenants: &Tenants,
    shown: &[TenantId],
    from_ns: u64,
    to_ns: u64,
    label: &str,
) -> String {
    let x = |ns: u64| LEFT + (WIDTH - LEFT) * (ns - from_ns) as f64 / (to_ns - from_ns).max(1) as f64;
    let mut d = Drawing::default();
    let mut y = 0.0;
    let without: Vec<(u64, u64)> =
        history.periods().iter().filter(|p| !p.with).map(|p| (p.from_ns, p.to_ns)).collect();
    if !without.is_empty() {
        lane(&mut d, "the policy", "compute", &[(from_ns, to_ns, 1.0)], y, &x, "in force");
        grey(&mut d, &clipped(without.into_iter(), from_ns, to_ns), y, &x, "not in force");
        y += LANE + GAP;
    }
    for &tenant in shown {
        let (id, who) = (tenant.0, tenants.name(tenant.0));
        lane(&mut d, &who, tenants.class(id), &[(from_ns, to_ns, 1.0)], y, &x, "may run");
        let stops = clipped(history.stops(tenant), from_ns, to_ns);
        match stops.len() <= MOST_DRAWN {
            true => grey(&mut d, &stops, y, &x, "parked"),
            false => grey(&mut d, &by_moments(history, tenant, from_ns, to_ns), y, &x, "parked"),
        }
        y += LANE + GAP;
    }
    d.line("axis", (LEFT, y), (WIDTH, y));
    let sign = if from_ns > 0 { "+" } else { "" };
    for tick in ticks((to_ns - from_ns) as f64 / 1e9) {
        let at = x(from_ns + (tick * 1e9) as u64);
        d.line("axis", (at, y), (at, y + 4.0));
        let anchor = if at > WIDTH - 20.0 { "end" } else { "middle" };
        d.text("", anchor, (at, y + 19.0), &format!("{sign}{tick} s"));
    }
    let legend =
        format!("<ul class=\"legend\"><li>colored: may run</li><li>{}gray: parked</li></ul>\n", key("block"));
    d.finish(WIDTH, y + BELOW, label) + &legend
}

/// Stretches of time with the gray part of each, 0..=1.
type Shares = Vec<(u64, u64, f64)>;

fn lane(
    d: &mut Drawing,
    who: &str,
    class: &str,
    all: &[(u64, u64, f64)],
    y: f64,
    x: &impl Fn(u64) -> f64,
    what: &str,
) {
    d.text("strong", "end", (LEFT - 10.0, y + LANE / 2.0 + 4.5), &name(who, 20));
    for (from_ns, to_ns, _) in all {
        d.rect(class, (x(*from_ns), y), (x(*to_ns) - x(*from_ns), LANE), &format!("{who}: {what}"));
    }
}

fn grey(d: &mut Drawing, shares: &Shares, y: f64, x: &impl Fn(u64) -> f64, what: &str) {
    for (from_ns, to_ns, share) in shares.iter().filter(|s| s.2 > 0.0) {
        let of_it = match *share < 0.999 {
            true => format!("{} % of ", percent((share * 1e6) as u64, 1_000_000)),
            false => String::new(),
        };
        let title = format!("{what} {of_it}{} to {}", human_ns(*from_ns), human_ns(*to_ns));
        d.rect("block", (x(*from_ns), y), (x(*to_ns) - x(*from_ns), LANE * share), &title);
    }
}

fn clipped(stretches: impl Iterator<Item = (u64, u64)>, from_ns: u64, to_ns: u64) -> Shares {
    stretches
        .map(|(from, to)| (from.max(from_ns), to.min(to_ns), 1.0))
        .filter(|(from, to, _)| from < to)
        .collect()
}

/// How much of each moment a tenant was parked; equal neighbors are merged.
fn by_moments(history: &History, tenant: TenantId, from_ns: u64, to_ns: u64) -> Shares {
    let edge = |i: u64| from_ns + (u128::from(to_ns - from_ns) * u128::from(i) / u128::from(MOMENTS)) as u64;
    let mut parked_ns = vec![0u64; MOMENTS as usize];
    let length_ns = (to_ns - from_ns).max(1);
    for (from, to, _) in clipped(history.stops(tenant), from_ns, to_ns) {
        let moment =
            |ns: u64| (u128::from(ns - from_ns) * u128::from(MOMENTS) / u128::from(length_ns)) as u64;
        for i in moment(from)..=moment(to - 1).min(MOMENTS - 1) {
            parked_ns[i as usize] += to.min(edge(i + 1)).saturating_sub(from.max(edge(i)));
        }
    }
    let mut shares: Shares = Vec::new();
    for i in 0..MOMENTS {
        let width_ns = (edge(i + 1) - edge(i)).max(1);
        // In fiftieths: half a pixel of the lane.
        let share = (parked_ns[i as usize] as f64 / width_ns as f64 * 50.0).round() / 50.0;
        match shares.last_mut() {
            Some(last) if last.2 == share => last.1 = edge(i + 1),
            _ => shares.push((edge(i), edge(i + 1), share)),
        }
    }
    shares
}

/// The detail: a stretch of about twenty turns in the middle of the parking and of one period, or none if all
/// of it can be seen anyway.
pub(super) fn closer(history: &History) -> Option<(u64, u64)> {
    let most = history.ever_parked().into_iter().max_by_key(|&t| (history.stops(t).count(), t))?;
    let stops: Vec<(u64, u64)> = history.stops(most).collect();
    let mut lengths: Vec<u64> = stops.iter().map(|(from, to)| to - from).collect();
    lengths.sort_unstable();
    let length_ns = (lengths[lengths.len() / 2] * 20).max(1_000_000);
    let from_ns = stops[stops.len() / 2].0;
    let period = history.periods().iter().find(|p| p.with && (p.from_ns..p.to_ns).contains(&from_ns));
    let end_ns = period.map_or(history.length_ns(), |p| p.to_ns);
    let to_ns = (from_ns + length_ns).min(end_ns);
    (history.length_ns() > 2 * length_ns && from_ns < to_ns).then_some((from_ns, to_ns))
}
