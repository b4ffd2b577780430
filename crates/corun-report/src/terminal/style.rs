//! The width, the colors and the letters of the screen.

use crate::category::Category;
use std::io::IsTerminal;

/// The terminal that a report is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns; at least 60 are assumed.
    pub width: usize,
    /// Whether color escape sequences are supported and wanted.
    pub colour: bool,
    /// Whether more than ASCII can be displayed.
    pub unicode: bool,
}

impl Style {
    /// Plain text of a width, without color.
    pub fn plain(width: usize) -> Style {
        Style { width, colour: false, unicode: true }
    }

    /// The settings from standard output and the environment: color only on a terminal and never with
    /// `NO_COLOR`, ASCII if the locale is not UTF-8, 100 columns by default.
    pub fn of_stdout() -> Style {
        Style::of(std::io::stdout().is_terminal(), &console::Term::stdout())
    }

    /// The same for standard error, which gets the report of a command: standard output belongs to the
    /// command.
    pub fn of_stderr() -> Style {
        Style::of(std::io::stderr().is_terminal(), &console::Term::stderr())
    }

    fn of(terminal: bool, term: &console::Term) -> Style {
        let columns = term.size_checked().map(|(_, columns)| usize::from(columns));
        Style::from_environment(|key| std::env::var(key).ok(), terminal, columns)
    }

    fn from_environment(
        variable: impl Fn(&str) -> Option<String>,
        terminal: bool,
        columns: Option<usize>,
    ) -> Style {
        let set = |key: &str| variable(key).filter(|value| !value.is_empty());
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        Style {
            width: columns.unwrap_or(100).clamp(60, 120),
            colour: terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|t| t != "dumb"),
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    /// Bold, where color is wanted.
    pub(super) fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Faint, where color is wanted.
    pub(super) fn faint(&self, text: &str) -> String {
        self.paint("2", text)
    }

    /// In a category's color, if color is wanted.
    pub(super) fn category(&self, c: Category, text: &str) -> String {
        self.paint(&format!("38;5;{}", colour(c)), text)
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// The letter that fills a category's part of a bar: without color it alone must identify the category.
    pub(super) fn fill(&self, c: Category) -> char {
        let (unicode, ascii) = match c {
            Category::Compute => ('█', '#'),
            Category::Spin => ('▚', '%'),
            Category::Steal => ('▒', 'x'),
            Category::Throttled => ('┼', '+'),
            Category::Stopped => ('╎', '!'),
            Category::Frozen => ('∗', '*'),
            Category::Parked => ('═', '='),
            Category::Block => ('·', '.'),
            Category::Unknown => ('?', '?'),
        };
        if self.unicode {
            unicode
        } else {
            ascii
        }
    }
}

/// The palette of the HTML report, in the nearest of a terminal's 256 colors.
fn colour(c: Category) -> u8 {
    match c {
        Category::Compute => 32,
        Category::Spin => 80,
        Category::Steal => 166,
        Category::Throttled => 178,
        Category::Stopped => 131,
        Category::Frozen => 116,
        Category::Parked => 175,
        Category::Block => 246,
        Category::Unknown => 241,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(variables: &[(&str, &str)], terminal: bool) -> Style {
        let get = |key: &str| variables.iter().find(|(k, _)| *k == key).map(|(_, v)| (*v).to_owned());
        Style::from_environment(get, terminal, None)
    }

    #[test]
    fn color_needs_a_terminal_and_no_objection() {
        assert!(style(&[], true).colour);
        assert!(!style(&[], false).colour);
        assert!(!style(&[("NO_COLOR", "1")], true).colour);
        assert!(style(&[("NO_COLOR", "")], true).colour, "an empty NO_COLOR is no objection");
        assert!(!style(&[("TERM", "dumb")], true).colour);
    }

    #[test]
    fn letters_follow_the_locale_and_lc_all_wins() {
        assert!(style(&[("LANG", "en_GB.UTF-8")], true).unicode);
        assert!(style(&[("LANG", "C.utf8")], true).unicode);
        assert!(!style(&[("LANG", "en_GB.UTF-8"), ("LC_ALL", "C")], true).unicode);
        assert!(!style(&[], true).unicode);
    }
}
