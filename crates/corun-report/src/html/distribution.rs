//! Histograms on a logarithmic time axis; the overflow bucket is hatched and labeled "and longer".

use super::markup::Drawing;
use crate::profile::schema::{Bound, Histogram};
use crate::words::{bound, thousands};
use corun_model::duration::human_ns;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 150.0;
const BELOW: f64 = 24.0;
/// The number of buckets between two labeled edges.
const LABELLED: usize = 4;

/// The picture of one histogram; `class` sets its color.
pub fn histogram(h: &Histogram, edges_ns: &[u64], class: &str, label: &str) -> String {
    let Some((first, last)) = span(h) else {
        return "<p class=\"lead\">None in this window.</p>\n".to_owned();
    };
    let shown = last - first + 1;
    let overflow = h.counts.len() - 1;
    let width = WIDTH / shown as f64;
    let largest = h.counts.iter().max().copied().unwrap_or(0).max(1) as f64;
    let x = |bucket: usize| (bucket - first) as f64 * width;
    let mut d = Drawing::default();
    for bucket in first..=last {
        let (n, from) = (h.counts[bucket], edges_ns.get(bucket).copied().unwrap_or(0));
        let height = (HEIGHT - 22.0) * n as f64 / largest;
        let height = if n > 0 { height.max(1.5) } else { 0.0 };
        let at = (x(bucket) + 1.0, HEIGHT - height);
        let range = match edges_ns.get(bucket + 1) {
            Some(to) => format!("{} to {}", human_ns(from), human_ns(*to)),
            None => format!("{} and longer", human_ns(from)),
        };
        d.rect(&format!("hist {class}"), at, (width - 2.0, height), &format!("{range}: {}", thousands(n)));
        if bucket == overflow && n > 0 {
            hatch(&mut d, at, (width - 2.0, height));
            d.text("strong", "end", (x(bucket) + width, at.1 - 6.0), "and longer");
        }
        if (bucket - first) % LABELLED == 0 {
            d.line("axis", (x(bucket), HEIGHT), (x(bucket), HEIGHT + 4.0));
            d.text(
                "",
                if bucket == first { "start" } else { "middle" },
                (x(bucket), HEIGHT + 18.0),
                &human_ns(from),
            );
        }
    }
    d.line("axis", (0.0, HEIGHT), (WIDTH, HEIGHT));
    format!("{}<p class=\"lead\">{}</p>\n", d.finish(WIDTH, HEIGHT + BELOW, label), quantiles(h))
}

/// First and last bucket to draw: all that have content, and at least eight so that a bar stays a bar.
fn span(h: &Histogram) -> Option<(usize, usize)> {
    let first = h.counts.iter().position(|n| *n > 0)?;
    let last = h.counts.iter().rposition(|n| *n > 0)?;
    let last = last.max(first + 7).min(h.counts.len() - 1);
    Some((first.min(last.saturating_sub(7)), last))
}

/// Diagonal stripes over a bar.
fn hatch(d: &mut Drawing, (x, y): (f64, f64), (w, h): (f64, f64)) {
    let mut offset = 4.0;
    while offset < w + h {
        let from = (x + offset.min(w), y + (offset - w).max(0.0));
        let to = (x + (offset - h).max(0.0), y + offset.min(h));
        d.line("hatch", from, to);
        offset += 6.0;
    }
}

fn quantiles(h: &Histogram) -> String {
    let said: Vec<String> = [("p50", h.p50), ("p90", h.p90), ("p99", h.p99)]
        .into_iter()
        .filter_map(|(q, edge)| edge.map(|edge: Bound| format!("{q} {}", bound(edge))))
        .collect();
    format!("{} in all; {}", thousands(h.total), said.join(", "))
}
