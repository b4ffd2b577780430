//! The window over time: the activity of the subject, and the occupants of the CPUs.

use super::markup::{class, escape, key, Drawing};
use super::scale::ticks;
use super::tenants::{Tenants, REST};
use crate::category::{parts, Category};
use crate::profile::schema::{ProfileReport, Slot};
use corun_model::duration::human_ns;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 44.0;
const BELOW: f64 = 24.0;

/// One layer of a stack: its color, and its height in every slot.
struct Layer {
    class: &'static str,
    heights: Vec<f64>,
}

/// The activity of the subject's tasks in each part of the window; blocked time is only in the tooltips.
pub fn subject(report: &ProfileReport) -> String {
    let wanting = Category::ALL.into_iter().filter(|c| *c != Category::Block);
    let layers: Vec<Layer> = wanting
        .map(|c| Layer {
            class: class(c),
            heights: report.timeline.iter().map(|s| per_time(c.of(&s.ledger).unwrap_or(0), s)).collect(),
        })
        .filter(Layer::is_drawn)
        .collect();
    let titles: Vec<String> = report.timeline.iter().map(subject_title).collect();
    stack(report, &layers, &titles, 0.0, "tasks", "What the subject's tasks did over time")
}

fn subject_title(s: &Slot) -> String {
    let said: Vec<String> =
        parts(&s.ledger).map(|(c, ns)| format!("{} {}", c.name(), human_ns(ns))).collect();
    format!("{}\n{}", when(s), said.join("\n"))
}

/// Who held the CPUs in each part of the window, with its legend.
pub fn holders(report: &ProfileReport, tenants: &Tenants) -> String {
    let mut layers: Vec<Layer> = tenants
        .coloured()
        .into_iter()
        .map(|id| Layer {
            class: tenants.class(id),
            heights: report.timeline.iter().map(|s| per_time(held_ns(s, |t| t == id), s)).collect(),
        })
        .collect();
    layers.push(Layer {
        class: REST,
        heights: report
            .timeline
            .iter()
            .map(|s| per_time(held_ns(s, |t| tenants.class(t) == REST), s))
            .collect(),
    });
    layers.retain(Layer::is_drawn);
    let titles: Vec<String> = report.timeline.iter().map(|s| holders_title(s, tenants)).collect();
    let picture = stack(report, &layers, &titles, report.cpus as f64, "CPUs", "Who held the CPUs over time");
    picture + &legend(&layers, tenants)
}

fn held_ns(s: &Slot, whose: impl Fn(u32) -> bool) -> u64 {
    s.held.iter().filter(|h| whose(h.tenant)).map(|h| h.on_cpu_ns).sum()
}

fn holders_title(s: &Slot, tenants: &Tenants) -> String {
    let mut lines = vec![when(s)];
    let named = s.held.iter().take(8);
    lines.extend(named.map(|h| format!("{} {}", tenants.name(h.tenant), human_ns(h.on_cpu_ns))));
    lines.extend(s.idle_ns.map(|ns| format!("idle {}", human_ns(ns))));
    lines.join("\n")
}

fn legend(layers: &[Layer], tenants: &Tenants) -> String {
    let entry = |class: &str, name: &str| format!("<li>{}{}</li>", key(class), escape(name));
    let named: String = tenants
        .coloured()
        .into_iter()
        .filter(|id| layers.iter().any(|l| l.class == tenants.class(*id)))
        .map(|id| entry(tenants.class(id), &tenants.name(id)))
        .collect();
    let rest =
        if layers.iter().any(|l| l.class == REST) { entry(REST, "everybody else") } else { String::new() };
    format!("<ul class=\"legend\">{named}{rest}</ul>\n")
}

impl Layer {
    fn is_drawn(&self) -> bool {
        self.heights.iter().any(|h| *h > 0.0)
    }
}

fn when(s: &Slot) -> String {
    format!("{} to {}", human_ns(s.start_ns), human_ns(s.end_ns))
}

/// Time divided by time: how many tasks or CPUs that is on average.
fn per_time(ns: u64, s: &Slot) -> f64 {
    ns as f64 / (s.end_ns - s.start_ns).max(1) as f64
}

/// Steps stacked on each other over the window, with a tooltip for every slot.
fn stack(
    report: &ProfileReport,
    layers: &[Layer],
    titles: &[String],
    at_least: f64,
    unit: &str,
    label: &str,
) -> String {
    let slots = &report.timeline;
    let sum = |i: usize| layers.iter().map(|l| l.heights[i]).sum::<f64>();
    let highest = (0..slots.len()).map(sum).fold(at_least, f64::max).max(1e-9);
    let x = |ns: u64| LEFT + (WIDTH - LEFT) * ns as f64 / report.window_ns.max(1) as f64;
    let y = |value: f64| HEIGHT - (HEIGHT - 8.0) * value / highest;
    let mut d = Drawing::default();
    for tick in ticks(highest) {
        d.line("grid", (LEFT, y(tick)), (WIDTH, y(tick)));
        d.text("", "end", (LEFT - 8.0, y(tick) + 4.5), &format!("{tick}"));
    }
    let mut base = vec![0.0; slots.len()];
    for layer in layers {
        let top: Vec<f64> = base.iter().zip(&layer.heights).map(|(b, h)| b + h).collect();
        d.shape(layer.class, &outline(slots, &base, &top, x, y));
        base = top;
    }
    d.line("axis", (LEFT, HEIGHT), (WIDTH, HEIGHT));
    for tick in ticks(report.window_ns as f64 / 1e9) {
        let at = x((tick * 1e9) as u64);
        d.line("axis", (at, HEIGHT), (at, HEIGHT + 4.0));
        let anchor = if at > WIDTH - 20.0 { "end" } else { "middle" };
        d.text("", anchor, (at, HEIGHT + 19.0), &format!("{tick} s"));
    }
    d.text("strong", "start", (LEFT, -4.0), unit);
    for (s, title) in slots.iter().zip(titles) {
        d.rect("hover", (x(s.start_ns), 8.0), (x(s.end_ns) - x(s.start_ns), HEIGHT - 8.0), title);
    }
    format!("<div style=\"padding-top:14px\">{}</div>", d.finish(WIDTH, HEIGHT + BELOW, label))
}

/// A layer's outline: along its top from left to right, back along its base.
fn outline(
    slots: &[Slot],
    base: &[f64],
    top: &[f64],
    x: impl Fn(u64) -> f64,
    y: impl Fn(f64) -> f64,
) -> Vec<(f64, f64)> {
    let steps = |heights: &[f64]| -> Vec<(f64, f64)> {
        slots.iter().zip(heights).flat_map(|(s, h)| [(x(s.start_ns), y(*h)), (x(s.end_ns), y(*h))]).collect()
    };
    let mut points = steps(top);
    points.extend(steps(base).into_iter().rev());
    points
}
