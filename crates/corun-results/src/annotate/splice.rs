//! Inserts properties between the bytes of a file.

use super::cases::Found;
use super::Property;
use crate::unread::Problem;
use std::io::{self, BufRead, Read, Write};

/// Copies a file, and inserts text on the way.
pub(super) struct Splice<'a, R> {
    input: R,
    out: &'a mut dyn Write,
    at: u64,
}

impl<'a, R: BufRead> Splice<'a, R> {
    pub fn new(input: R, out: &'a mut dyn Write) -> Splice<'a, R> {
        Splice { input, out, at: 0 }
    }

    /// Inserts properties into a test case that has been read to its end.
    pub fn put(&mut self, case: &Found, properties: &[Property]) -> Result<(), Problem> {
        if properties.is_empty() {
            return Ok(());
        }
        let own: String = properties
            .iter()
            .map(|(name, value)| format!("<property name=\"{name}\" value=\"{}\"/>", attribute(value)))
            .collect();
        let put = match &case.properties {
            Some((at, _, false)) => self.insert(*at, &own),
            Some((at, element, true)) => self.open(*at, &format!("{own}</{element}>")),
            None if case.is_empty => {
                self.open(case.opened_at, &format!("<properties>{own}</properties></{}>", case.element))
            }
            None => self.insert(case.opened_at, &format!("<properties>{own}</properties>")),
        };
        put.map_err(|error| Problem::Io(error.to_string()))
    }

    /// Copies the rest.
    pub fn finish(mut self) -> io::Result<()> {
        io::copy(&mut self.input, &mut self.out)?;
        self.out.flush()
    }

    fn insert(&mut self, at: u64, text: &str) -> io::Result<()> {
        self.copy_to(at)?;
        self.out.write_all(text.as_bytes())
    }

    /// Changes `<a/>`, which ends here, to `<a>`, and inserts the text after it.
    fn open(&mut self, at: u64, text: &str) -> io::Result<()> {
        const SHUT: u64 = "/>".len() as u64;
        self.copy_to(at - SHUT)?;
        io::copy(&mut self.input.by_ref().take(SHUT), &mut io::sink())?;
        self.at += SHUT;
        self.out.write_all(b">")?;
        self.out.write_all(text.as_bytes())
    }

    fn copy_to(&mut self, at: u64) -> io::Result<()> {
        let length = at.saturating_sub(self.at);
        let copied = io::copy(&mut self.input.by_ref().take(length), &mut self.out)?;
        self.at += copied;
        if copied < length {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was read",
            ));
        }
        Ok(())
    }
}

/// A value as an XML attribute, in ASCII, which every encoding of the file contains.
pub(crate) fn attribute(value: &str) -> String {
    let mut out = String::new();
    for c in value.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            ' '..='~' => out.push(c),
            // XML cannot express these characters, not even by reference.
            '\0'..='\x1f' | '\x7f' | '\u{fffe}' | '\u{ffff}' => out.push('?'),
            c => out.push_str(&format!("&#x{:x};", u32::from(c))),
        }
    }
    out
}
