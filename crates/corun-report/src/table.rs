//! A small table for benches, studies and screens: the same rows as aligned text or as Markdown.

use comfy_table::{presets, CellAlignment};

/// Rows of text under a header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    header: Vec<String>,
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns; a name that starts with `>` makes its column right-aligned (numbers).
    pub fn new(columns: &[&str]) -> Table {
        Table {
            header: columns.iter().map(|c| c.trim_start_matches('>').to_owned()).collect(),
            right: columns.iter().map(|c| c.starts_with('>')).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells are empty.
    ///
    /// # Panics
    /// If the row has more cells than the table has columns.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert!(row.len() <= self.header.len(), "a row of {} cells in {:?}", row.len(), self.header);
        row.resize(self.header.len(), String::new());
        self.rows.push(row);
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Aligned lines without rules, the header first; every line has the same width on the screen.
    pub fn lines(&self) -> Vec<String> {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(self.header.iter().map(String::as_str));
        table.add_rows(self.rows.iter().map(|r| r.iter().map(String::as_str)));
        for (i, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            column.set_cell_alignment(if self.right[i] { CellAlignment::Right } else { CellAlignment::Left });
        }
        table.lines().collect()
    }

    /// Aligned text, for a terminal.
    pub fn text(&self) -> String {
        self.lines().iter().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    /// A Markdown table.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let escaped: Vec<String> = cells.iter().map(|c| c.replace('|', "\\|")).collect();
            format!("| {} |\n", escaped.join(" | "))
        };
        let rule: Vec<String> =
            self.right.iter().map(|&r| if r { "---:" } else { "---" }.to_owned()).collect();
        let rows = self.rows.iter().map(|r| line(r));
        [line(&self.header), line(&rule)].into_iter().chain(rows).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_rows() -> Table {
        let mut t = Table::new(&["tool", ">ratio"]);
        t.row(["corun", "1.10"]);
        t.row(["a|b", "12.5"]);
        t
    }

    #[test]
    fn text_is_aligned_and_numbers_are_on_the_right() {
        assert_eq!(two_rows().text(), "tool   ratio\ncorun   1.10\na|b     12.5\n");
    }

    #[test]
    fn markdown_escapes_what_would_break_it() {
        assert_eq!(
            two_rows().markdown(),
            "| tool | ratio |\n| --- | ---: |\n| corun | 1.10 |\n| a\\|b | 12.5 |\n"
        );
    }
}
