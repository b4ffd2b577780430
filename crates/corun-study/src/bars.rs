//! A bar chart as SVG: groups of stacked bars, with marks for the numbers of a paper.
//!
//! Coordinates are rounded to a tenth, so equal values give equal bytes.

use corun_report::html::escape;
use std::borrow::Cow;
use std::fmt::Write;

const HEIGHT: f64 = 300.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 44.0;
const BAR: f64 = 26.0;
const GAP: f64 = 6.0;
const BETWEEN: f64 = 30.0;

/// A kind of segment: its name in the legend and its color (after Okabe and Ito, as in the reports).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its color, as in CSS.
    pub colour: &'static str,
}

/// Computing.
pub const COMPUTE: Part = Part { name: Cow::Borrowed("compute"), colour: "#0072b2" };
/// Waiting for a sibling thread, spinning or blocked.
pub const SYNC: Part = Part { name: Cow::Borrowed("sync"), colour: "#f0c000" };
/// Ready to run while another held the CPU.
pub const STEAL: Part = Part { name: Cow::Borrowed("steal"), colour: "#d55e00" };

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Its label.
    pub name: String,
    /// Its segments from the bottom up, each at least 0.
    pub parts: Vec<(Part, f64)>,
    /// The height of the bar in the paper, if the paper gives a number.
    pub paper: Option<f64>,
}

/// Bars that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The label of the group.
    pub name: String,
    /// Its bars.
    pub bars: Vec<Bar>,
}

/// Draws the chart. `unit` is the label of the vertical axis.
pub fn chart(title: &str, unit: &str, groups: &[Group]) -> String {
    let bars: usize = groups.iter().map(|g| g.bars.len()).sum();
    let width = LEFT + bars as f64 * (BAR + GAP) + groups.len() as f64 * BETWEEN + 20.0;
    let width = width.max(520.0);
    let heights = groups.iter().flat_map(|g| &g.bars).flat_map(|b| [height(b), b.paper.unwrap_or(0.0)]);
    let most = heights.fold(0.0, f64::max).max(1e-9);
    let step = step(most);
    let top = (most / step).ceil() * step;
    let decimals = if (step * 10.0).fract() == 0.0 { 1 } else { 2 };
    let y = |value: f64| TOP + HEIGHT * (1.0 - value / top);

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{:.0}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"15\">{}</text>\n",
        TOP + HEIGHT + 90.0,
        escape(title)
    );
    let mut line = 0.0;
    while line <= top * 1.0001 {
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{line:.decimals$}</text>",
            width - 10.0,
            y(line),
            y(line),
            LEFT - 6.0,
            y(line) + 4.0
        );
        line += step;
    }
    let _ = writeln!(
        svg,
        "<text x=\"14\" y=\"{:.1}\" transform=\"rotate(-90 14 {:.1})\" text-anchor=\"middle\">{}</text>",
        TOP + HEIGHT / 2.0,
        TOP + HEIGHT / 2.0,
        escape(unit)
    );
    let mut x = LEFT + BETWEEN / 2.0;
    for group in groups {
        let begin = x;
        for bar in &group.bars {
            draw(&mut svg, bar, x, &y);
            x += BAR + GAP;
        }
        let middle = (begin + x - GAP) / 2.0;
        let _ = writeln!(
            svg,
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-weight=\"bold\">{}</text>",
            TOP + HEIGHT + 52.0,
            escape(&group.name)
        );
        x += BETWEEN;
    }
    legend(&mut svg, groups);
    svg.push_str("</svg>\n");
    svg
}

fn height(bar: &Bar) -> f64 {
    bar.parts.iter().map(|p| p.1).sum()
}

/// A round step that gives about five lines.
fn step(most: f64) -> f64 {
    let steps = [0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 2.5, 5.0, 10.0, 20.0, 50.0, 100.0];
    steps.into_iter().find(|s| most / s <= 6.0).unwrap_or(most / 5.0)
}

fn draw(svg: &mut String, bar: &Bar, x: f64, y: &impl Fn(f64) -> f64) {
    let mut below = 0.0;
    for (part, value) in &bar.parts {
        let (top, bottom) = (y(below + value), y(below));
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{BAR}\" height=\"{:.1}\" fill=\"{}\"><title>{} {}: {value:.3}</title></rect>",
            bottom - top,
            part.colour,
            escape(&bar.name),
            escape(&part.name)
        );
        below += value;
    }
    if let Some(paper) = bar.paper {
        let at = y(paper);
        let _ = writeln!(
            svg,
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#000\" stroke-width=\"3\"><title>paper: {paper:.3}</title></line>",
            x - 3.0,
            x + BAR + 3.0
        );
    }
    let (tx, ty) = (x + BAR / 2.0, TOP + HEIGHT + 14.0);
    let _ = writeln!(svg, "<text x=\"{tx:.1}\" y=\"{ty:.1}\" text-anchor=\"end\" font-size=\"10\" transform=\"rotate(-35 {tx:.1} {ty:.1})\">{}</text>", escape(&bar.name));
}

fn legend(svg: &mut String, groups: &[Group]) {
    let mut seen: Vec<Part> = Vec::new();
    let bars = || groups.iter().flat_map(|g| &g.bars);
    for (part, _) in bars().flat_map(|b| &b.parts) {
        if !seen.contains(part) {
            seen.push(part.clone());
        }
    }
    let y = TOP + HEIGHT + 76.0;
    let mut x = LEFT;
    for part in seen {
        let _ = writeln!(svg, "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"11\" height=\"11\" fill=\"{}\"/><text x=\"{:.1}\" y=\"{y:.1}\">{}</text>", y - 10.0, part.colour, x + 16.0, escape(&part.name));
        // A letter is at most this wide, on average.
        x += (26.0 + 7.0 * part.name.chars().count() as f64).max(90.0);
    }
    if bars().any(|b| b.paper.is_some()) {
        let _ = writeln!(svg, "<line x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#000\" stroke-width=\"3\"/><text x=\"{:.1}\" y=\"{y:.1}\">the paper's number</text>", x + 20.0, y - 4.0, y - 4.0, x + 26.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_high_as_its_parts_together_and_names_are_escaped() {
        let name = "a<b\u{8}".into();
        let bar = Bar { name, parts: vec![(COMPUTE, 1.0), (STEAL, 1.0)], paper: Some(1.5) };
        let svg = chart("t", "u", &[Group { name: "g".into(), bars: vec![bar] }]);
        assert!(svg.contains("a&lt;b\u{fffd} steal: 1.000") && !svg.contains("a<b"));
        assert!(svg.contains("height=\"150.0\" fill=\"#0072b2\""), "half of 300 for one of two: {svg}");
        assert!(svg.contains("paper: 1.500") && svg.contains("the paper's number"));
    }

    #[test]
    fn lines_are_at_the_numbers_of_their_labels() {
        let lines = |height: f64| -> Vec<(f64, f64)> {
            let bar = Bar { name: "b".into(), parts: vec![(COMPUTE, height)], paper: None };
            let svg = chart("t", "u", &[Group { name: "g".into(), bars: vec![bar] }]);
            let of = |line: &str| -> Option<(f64, f64)> {
                let (_, y) = line.strip_prefix("<line")?.split_once("y1=\"")?;
                let number = line.strip_suffix("</text>")?.rsplit('>').next()?;
                Some((y.split('"').next()?.parse().ok()?, number.parse().ok()?))
            };
            svg.lines().filter_map(of).collect()
        };
        for height in [0.3, 0.7, 1.3, 1.7, 2.0, 13.0, 70.0] {
            let lines = lines(height);
            assert!((4..=8).contains(&lines.len()), "{height}: {lines:?}");
            let per = (lines[0].0 - lines[1].0) / lines[1].1;
            assert!(lines.iter().all(|(y, n)| (lines[0].0 - y - n * per).abs() < 0.2), "{height}: {lines:?}");
        }
    }

    #[test]
    fn names_in_a_legend_do_not_run_into_each_other() {
        let part = |name: &str| (Part { name: name.to_owned().into(), colour: "#000" }, 1.0);
        let parts = ["run-queue latency", "CPI × CPU share", "steal"].map(part).to_vec();
        let svg = chart(
            "t",
            "u",
            &[Group { name: "g".into(), bars: vec![Bar { name: "b".into(), parts, paper: None }] }],
        );
        let x = |name: &str| -> f64 {
            let line = svg.lines().rfind(|l| l.contains(name)).unwrap();
            line.split_once("<rect x=\"").unwrap().1.split('"').next().unwrap().parse().unwrap()
        };
        let between = [x("CPI") - x("run-queue"), x("steal") - x("CPI")];
        assert!(between[0] > 17.0 * 7.0 && between[1] > 15.0 * 7.0, "{between:?}");
    }

    #[test]
    fn an_empty_chart_is_still_a_picture() {
        assert!(chart("t", "u", &[]).ends_with("</svg>\n"));
    }
}
