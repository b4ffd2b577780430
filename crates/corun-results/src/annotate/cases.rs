//! Reads the test cases of a JUnit file as a stream.

use crate::unread::{Problem, MOST_TEXT_MIB};
use crate::when::{seconds_ns, Stamp};
use quick_xml::events::{BytesStart, Event};
use quick_xml::{escape, Reader};
use std::io::{BufRead, Read};

/// The deepest nesting of elements. No test runner writes more.
const MOST_DEEP: usize = 256;
/// The most suites in a file, since a few numbers are kept for each.
const MOST_SUITES: usize = 100_000;

/// An event while a file is read.
pub(super) enum Seen {
    /// A suite begins.
    Suite { stamp: Option<(String, Stamp)>, time_ns: Option<i64> },
    /// A test case has ended.
    Case(Found),
    /// The file was made from output of `go test`.
    MadeByGo,
}

/// A test case, and its place in the file.
#[derive(Default)]
pub(super) struct Found {
    class: String,
    own_name: String,
    /// Its timestamp: as text, and as a time.
    pub stamp: Option<(String, Stamp)>,
    pub time_ns: Option<i64>,
    pub has_failed: bool,
    /// The number of its suite, from 0.
    pub suite: usize,
    /// The name of the element, as written.
    pub element: String,
    /// The end of its start tag, in bytes.
    pub opened_at: u64,
    /// Whether the start tag is the whole element.
    pub is_empty: bool,
    /// Its element of properties: the end of the start tag, the name, and whether the tag is the whole element.
    pub properties: Option<(u64, String, bool)>,
}

impl Found {
    pub fn name(&self) -> String {
        match self.class.as_str() {
            "" => self.own_name.clone(),
            class => format!("{class}.{}", self.own_name),
        }
    }
}

/// Reads a file to its end. Errors come with their place, in bytes.
pub(super) fn walk<R: BufRead>(
    mut input: R,
    mut tell: impl FnMut(Seen) -> Result<(), Problem>,
) -> Result<(), (Problem, u64)> {
    let io = |error: std::io::Error| (Problem::Io(error.to_string()), 0);
    let start = input.fill_buf().map_err(io)?;
    let marked = if start.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        return Err((Problem::Damaged("it is not UTF-8".into()), 0));
    }
    input.consume(marked);
    let mut reader = Reader::from_reader(OneText { input, left: 0 });
    let mut walker = Walker::default();
    let mut buffer = Vec::new();
    loop {
        reader.get_mut().left = MOST_TEXT_MIB << 20;
        let begin = reader.buffer_position();
        let event = match reader.read_event_into(&mut buffer) {
            Ok(event) => event,
            Err(_) if reader.get_ref().left == 0 => return Err((Problem::LongText, begin + marked as u64)),
            Err(quick_xml::Error::Io(error)) => return Err((Problem::Io(error.to_string()), 0)),
            Err(error) => {
                return Err((Problem::Damaged(error.to_string()), reader.error_position() + marked as u64));
            }
        };
        let at = reader.buffer_position() + marked as u64;
        let is_end = matches!(event, Event::Eof);
        walker.take(event, at, &mut tell).map_err(|problem| (problem, at))?;
        if is_end {
            return Ok(());
        }
        buffer.clear();
    }
}

/// A reader that limits the length of one text.
struct OneText<R> {
    input: R,
    /// How many bytes of the text may still follow.
    left: usize,
}

impl<R: BufRead> BufRead for OneText<R> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        match self.left {
            0 => Err(std::io::Error::other("a text is too long")),
            _ => self.input.fill_buf(),
        }
    }

    fn consume(&mut self, n: usize) {
        self.left = self.left.saturating_sub(n);
        self.input.consume(n);
    }
}

impl<R: BufRead> Read for OneText<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let mut text = self.fill_buf()?;
        let n = text.read(out)?;
        self.consume(n);
        Ok(n)
    }
}

/// The line number of a byte in a file.
pub(super) fn line_of(mut input: impl BufRead, at: u64) -> std::io::Result<u64> {
    let (mut line, mut left) = (1, at);
    loop {
        let chunk = input.fill_buf()?;
        let n = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        line += chunk[..n].iter().filter(|&&b| b == b'\n').count() as u64;
        left -= n as u64;
        if n == 0 {
            return Ok(line);
        }
        input.consume(n);
    }
}

#[derive(Default)]
struct Walker {
    /// The number of open elements.
    depth: usize,
    has_root: bool,
    /// The numbers of the open suites, with their depths.
    open: Vec<(usize, usize)>,
    suites: usize,
    /// The open test case, and its depth.
    case: Option<(Found, usize)>,
}

impl Walker {
    fn take(
        &mut self,
        event: Event,
        at: u64,
        tell: &mut impl FnMut(Seen) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        match event {
            Event::Start(tag) => {
                self.begin(&tag, at, false, tell)?;
                self.depth += 1;
                if self.depth > MOST_DEEP {
                    return Err(Problem::Damaged(format!(
                        "more than {MOST_DEEP} elements within each other"
                    )));
                }
            }
            Event::Empty(tag) => {
                self.begin(&tag, at, true, tell)?;
                self.end(tell)?;
            }
            Event::End(_) => {
                self.depth = self.depth.saturating_sub(1);
                self.end(tell)?;
            }
            Event::Eof if self.depth > 0 => return Err(Problem::Damaged("it ends in the middle".into())),
            Event::Eof if !self.has_root => return Err(Problem::Empty),
            Event::Text(text) if self.depth == 0 && !text.iter().all(u8::is_ascii_whitespace) => {
                return Err(Problem::Damaged("this is not XML".into()));
            }
            _ => {}
        }
        Ok(())
    }

    /// A start tag. `depth` does not count it yet.
    fn begin(
        &mut self,
        tag: &BytesStart,
        at: u64,
        is_empty: bool,
        tell: &mut impl FnMut(Seen) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let local = tag.local_name();
        let local = local.as_ref();
        if self.depth == 0 {
            if self.has_root {
                return Err(Problem::Damaged("it has more than one root".into()));
            }
            self.has_root = true;
            if local != b"testsuites" && local != b"testsuite" {
                return Err(Problem::NotJUnit(String::from_utf8_lossy(local).into_owned()));
            }
        }
        let element = || String::from_utf8_lossy(tag.name().as_ref()).into_owned();
        if let Some((case, depth)) = &mut self.case {
            if self.depth == *depth + 1 {
                match local {
                    b"failure" | b"error" => case.has_failed = true,
                    b"properties" if case.properties.is_none() => {
                        case.properties = Some((at, element(), is_empty))
                    }
                    _ => {}
                }
            }
            return Ok(());
        }
        match local {
            b"testsuite" if self.suites >= MOST_SUITES => {
                return Err(Problem::Damaged(format!("more than {MOST_SUITES} suites")));
            }
            b"testsuite" => {
                let Attributes { stamp, time_ns, .. } = Attributes::of(tag)?;
                self.open.push((self.suites, self.depth));
                self.suites += 1;
                tell(Seen::Suite { stamp, time_ns })?;
            }
            b"testcase" => {
                if self.open.is_empty() {
                    // Cases directly below the root form their own suite.
                    self.open.push((self.suites, 0));
                    self.suites += 1;
                    tell(Seen::Suite { stamp: None, time_ns: None })?;
                }
                let suite = self.open.last().map_or(0, |(suite, _)| *suite);
                let Attributes { class, name, stamp, time_ns } = Attributes::of(tag)?;
                let found = Found {
                    class,
                    own_name: name,
                    stamp,
                    time_ns,
                    suite,
                    element: element(),
                    opened_at: at,
                    is_empty,
                    ..Found::default()
                };
                self.case = Some((found, self.depth));
            }
            b"property" if Attributes::of(tag)?.name == "go.version" => tell(Seen::MadeByGo)?,
            _ => {}
        }
        Ok(())
    }

    /// The end of the element at this depth.
    fn end(&mut self, tell: &mut impl FnMut(Seen) -> Result<(), Problem>) -> Result<(), Problem> {
        if let Some((found, _)) = self.case.take_if(|(_, depth)| *depth == self.depth) {
            tell(Seen::Case(found))?;
        }
        self.open.pop_if(|(_, depth)| *depth == self.depth);
        Ok(())
    }
}

/// The relevant attributes of a tag.
#[derive(Default)]
struct Attributes {
    class: String,
    name: String,
    stamp: Option<(String, Stamp)>,
    time_ns: Option<i64>,
}

impl Attributes {
    fn of(tag: &BytesStart) -> Result<Attributes, Problem> {
        let mut found = Attributes::default();
        for attribute in tag.attributes() {
            let attribute = attribute.map_err(|error| Problem::Damaged(error.to_string()))?;
            let text = String::from_utf8_lossy(&attribute.value).into_owned();
            // A name with an unknown entity is shown as written.
            let text = escape::unescape(&text).map_or_else(|_| text.clone(), |text| text.into_owned());
            match attribute.key.as_ref() {
                b"name" => found.name = text,
                b"classname" => found.class = text,
                b"timestamp" => found.stamp = Stamp::parse(&text).map(|stamp| (text, stamp)),
                // surefire writes 1,234.5 for a time.
                b"time" => found.time_ns = text.trim().replace(',', "").parse().ok().and_then(seconds_ns),
                _ => {}
            }
        }
        Ok(found)
    }
}
