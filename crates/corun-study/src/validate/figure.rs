//! The scatter plot of a study: modelled against live slowdown, both logarithmic, as SVG.
//!
//! On the diagonal the model is right. The band around it is the target for the 90th percentile. Filled points are the unseen half.
//! Coordinates are rounded, so equal results give equal bytes.

use crate::validate::cell::Half;
use crate::validate::cell_outcome::CellOutcome;
use crate::validate::text::TARGETS;
use corun_report::html::escape;
use std::fmt::Write;

const SIDE: f64 = 560.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 56.0;
const RIGHT: f64 = 20.0;
const TICKS: [f64; 11] = [0.5, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0];
/// Colors of the three ways to wait, distinct for color-blind readers too.
const COLOURS: [(&str, &str); 3] =
    [("spin-then-block", "#117733"), ("spin", "#cc3311"), ("block", "#0077bb")];

struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn share(&self, x: f64) -> f64 {
        (x.clamp(self.low, self.high).ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
    }

    fn x(&self, x: f64) -> f64 {
        LEFT + self.share(x) * SIDE
    }

    fn y(&self, y: f64) -> f64 {
        TOP + (1.0 - self.share(y)) * SIDE
    }
}

/// Draws the cells that have both slowdowns.
pub fn scatter(title: &str, cells: &[CellOutcome]) -> String {
    let points: Vec<(f64, f64, &CellOutcome)> = cells
        .iter()
        .filter_map(|c| Some((c.live.as_ref()?.slowdown()?, c.modelled.as_ref()?.slowdown, c)))
        .collect();
    let most = points.iter().map(|p| p.0.max(p.1)).fold(1.5, f64::max);
    let least = points.iter().map(|p| p.0.min(p.1)).fold(1.0, f64::min);
    let axis = Axis { low: least * 0.95, high: most * 1.1 };
    let (width, height) = (LEFT + SIDE + RIGHT, TOP + SIDE + BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{}</text>\n",
        escape(title)
    );
    band(&mut svg, &axis);
    for tick in TICKS.into_iter().filter(|t| (axis.low..=axis.high).contains(t)) {
        let (x, y, end_x, end_y) = (axis.x(tick), axis.y(tick), LEFT + SIDE, TOP + SIDE);
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {TOP}V{end_y}M{LEFT} {y:.1}H{end_x}\" stroke=\"#ddd\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>",
            end_y + 16.0,
            LEFT - 6.0,
            y + 4.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">live slowdown (bars: least and most)</text>\
         <text transform=\"translate(18 {:.1}) rotate(-90)\" text-anchor=\"middle\">modelled slowdown</text>",
        LEFT + SIDE / 2.0,
        height - 14.0,
        TOP + SIDE / 2.0
    );
    points.iter().for_each(|p| point(&mut svg, &axis, p));
    legend(&mut svg);
    svg + "</svg>\n"
}

/// The diagonal, and the target band around it.
fn band(svg: &mut String, axis: &Axis) {
    let at = |x: f64, by: f64| format!("{:.1} {:.1}", axis.x(x), axis.y(x * by));
    let (low, high, by) = (axis.low, axis.high, 1.0 + TARGETS.1);
    let _ = writeln!(
        svg,
        "<path d=\"M{}L{}L{}L{}Z\" fill=\"#eef3ee\"/><path d=\"M{}L{}\" stroke=\"#555\"/>",
        at(low, by),
        at(high / by, by),
        at(high, 2.0 - by),
        at(low / (2.0 - by), 2.0 - by),
        at(low, 1.0),
        at(high, 1.0)
    );
}

fn point(svg: &mut String, axis: &Axis, (live, modelled, cell): &(f64, f64, &CellOutcome)) {
    let wait = &cell.cell.subject.wait;
    let colour = COLOURS.iter().find(|(w, _)| w == wait).map_or("#555", |(_, c)| c);
    let fill = if cell.cell.half == Half::Unseen { colour } else { "#fff" };
    let all = || cell.live.iter().flat_map(|l| &l.runs).map(|r| r.slowdown);
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let (x, y) = (axis.x(*live), axis.y(*modelled));
    let _ = writeln!(
        svg,
        "<path d=\"M{:.1} {y:.1}H{:.1}\" stroke=\"{colour}\" stroke-opacity=\"0.35\"/>\
         <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{fill}\" stroke=\"{colour}\" fill-opacity=\"0.8\">\
         <title>{}: live {live:.2}, modelled {modelled:.2}</title></circle>",
        axis.x(least),
        axis.x(most),
        escape(&cell.cell.name)
    );
}

fn legend(svg: &mut String) {
    let (x, mut y) = (LEFT + 14.0, TOP + 20.0);
    let entries = COLOURS
        .iter()
        .map(|(w, c)| (*w, *c, *c))
        .chain([("fit half", "#fff", "#555"), ("unseen half", "#555", "#555")]);
    for (what, fill, stroke) in entries {
        let _ = writeln!(
            svg,
            "<circle cx=\"{x}\" cy=\"{:.1}\" r=\"4\" fill=\"{fill}\" stroke=\"{stroke}\"/><text x=\"{}\" y=\"{y}\">{what}</text>",
            y - 4.0,
            x + 12.0
        );
        y += 18.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_diagonal_is_where_both_slowdowns_are_equal() {
        let axis = Axis { low: 1.0, high: 10.0 };
        for x in [1.0, 2.0, 10.0] {
            assert!((axis.x(x) - LEFT + axis.y(x) - TOP - SIDE).abs() < 1e-9);
        }
        assert!(axis.x(3.0) > axis.x(2.0) && axis.y(3.0) < axis.y(2.0));
    }

    #[test]
    fn a_figure_without_cells_is_a_figure_and_titles_are_escaped() {
        let svg = scatter("a < b", &[]);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains("a &lt; b"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
