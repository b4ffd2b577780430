//! Text that fits: cut and padded to its columns on a terminal, where some letters take two.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The columns that a text takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// At most this many columns of a text; `~` marks a cut.
pub fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut taken = 0;
    for c in text.chars() {
        let columns = c.width().unwrap_or(0);
        if taken + columns + 1 > most {
            break;
        }
        taken += columns;
        out.push(c);
    }
    if most > 0 {
        out.push('~');
    }
    out
}

/// Exactly this many columns, aligned left.
pub fn left(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let rest = columns - width(&text);
    text + &" ".repeat(rest)
}

/// Exactly this many columns, aligned right.
pub fn right(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    " ".repeat(columns - width(&text)) + &text
}

/// Breaks a sentence at its spaces into lines of at most this many columns, and at most this many lines. A
/// number keeps its unit.
pub fn wrap(text: &str, columns: usize, most: usize) -> Vec<String> {
    const UNITS: [&str; 7] = [" ns", " µs", " ms", " s", " h", " %", " CPUs"];
    let mut kept: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let is_unit = UNITS.iter().any(|unit| {
            let unit = unit.trim_start();
            word.strip_prefix(unit).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_punctuation()))
        });
        let of_number = kept.last().is_some_and(|last| last.ends_with(|c: char| c.is_ascii_digit()));
        match kept.last_mut() {
            Some(last) if is_unit && of_number => {
                last.push(' ');
                last.push_str(word);
            }
            _ => kept.push(word.to_owned()),
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for word in kept {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(&word) <= columns => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(cut(&word, columns)),
        }
    }
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            *last = cut(&format!("{last} …"), columns);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_takes_its_given_columns_whatever_its_letters_take() {
        for text in ["", "web", "a-rather-long-name", "数据库服务器", "émile", "数a据b库"] {
            for columns in 0..12 {
                assert_eq!(width(&left(text, columns)), columns, "{text} in {columns}");
                assert_eq!(width(&right(text, columns)), columns, "{text} in {columns}");
            }
        }
        assert_eq!(cut("数据库", 5), "数据~");
        assert_eq!(cut("数据库", 4), "数~");
    }

    #[test]
    fn lines_break_at_spaces_and_a_number_keeps_its_unit() {
        assert_eq!(wrap("it waited 412 ms for others", 14, 9), ["it waited", "412 ms for", "others"]);
        assert_eq!(wrap("one two three", 5, 2), ["one", "two …"]);
        assert!(wrap("数据库 waits", 4, 9).iter().all(|line| width(line) <= 4));
    }
}
