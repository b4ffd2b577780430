//! Text that is safe inside HTML, and the class names that carry the palette.

use crate::category::Category;
use crate::words::steers;
use std::fmt::Write;

/// A self-contained page without scripts; its own content policy forbids every load.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>corun: {title}</title>\n<style>\n{css}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        title = escape(title),
        css = include_str!("page.css"),
    )
}

/// A part of a page under a heading; `lead` says what it shows and may be empty. Both are markup already.
pub fn section(title: &str, lead: &str, content: &str) -> String {
    let lead = if lead.is_empty() { String::new() } else { format!("<p class=\"lead\">{lead}</p>\n") };
    format!("<section>\n<h2>{title}</h2>\n{lead}{content}</section>\n")
}

/// Text for element content and quoted attributes: a process may have the name `<script>`.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if steers(c) && c != '\n' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The same, with numbers that keep their percent sign.
pub fn sentence(text: &str) -> String {
    escape(text).replace(" %", "\u{a0}%")
}

/// JSON for a `<script>` element: no string in it can end the element.
pub fn script_json(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// The class of a category's color.
pub fn class(c: Category) -> &'static str {
    match c {
        Category::Compute => "compute",
        Category::Spin => "spin",
        Category::Steal => "steal",
        Category::Throttled => "throttled",
        Category::Stopped => "stopped",
        Category::Frozen => "frozen",
        Category::Parked => "parked",
        Category::Block => "block",
        Category::Unknown => "unknown",
    }
}

/// A colored square for legends.
pub fn key(class: &str) -> String {
    format!("<span class=\"key {class}\"></span>")
}

/// Pieces of SVG in the order they were drawn.
#[derive(Default)]
pub struct Drawing(String);

impl Drawing {
    /// A filled rectangle; nothing when it has no area.
    pub fn rect(&mut self, class: &str, (x, y): (f64, f64), (w, h): (f64, f64), title: &str) {
        if w > 0.0 && h > 0.0 {
            let title = tooltip(title);
            let _ = write!(
                self.0,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\">{title}</rect>"
            );
        }
    }

    /// A straight line.
    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = write!(
            self.0,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    /// A label; `anchor` is `start`, `middle` or `end`.
    pub fn text(&mut self, class: &str, anchor: &str, (x, y): (f64, f64), text: &str) {
        let text = escape(text);
        let _ = write!(
            self.0,
            "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"
        );
    }

    /// A filled shape through points.
    pub fn shape(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(self.0, "<polygon class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }

    /// The finished picture, `width` by `height`, with a description for people who cannot see it.
    pub fn finish(self, width: f64, height: f64, label: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">{}</svg>\n",
            escape(label),
            self.0
        )
    }
}

fn tooltip(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("<title>{}</title>", escape(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_process_becomes_markup() {
        assert_eq!(escape("<script>'\"&\x1b"), "&lt;script&gt;&#39;&quot;&amp;\u{fffd}");
        assert_eq!(script_json(r#"{"n":"</script>"}"#), r#"{"n":"\u003c/script>"}"#);
    }
}
