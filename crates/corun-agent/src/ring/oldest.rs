//! The start of a ring's oldest window, without reading the ring: segments are in order, so the beginning of
//! the oldest one has it.

use super::entry::time_of;
use super::segment::{scan, Fault};
use super::segments;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The part of a segment that is read at first: a window with a thousand tenants is smaller.
const BEGINNING: u64 = 1 << 20;

/// In nanoseconds since 1970; `None` if it holds no window, or cannot be read.
pub fn oldest_ns(folder: &Path) -> Option<u64> {
    segments(folder).ok()?.iter().find_map(|(_, path)| first_ns(path, BEGINNING))
}

/// The start of a segment's first window, searched in this many of its bytes, and in all if it ends after
/// these.
fn first_ns(path: &Path, most: u64) -> Option<u64> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    let seen = scan(&bytes);
    let first = seen.frames.into_iter().find_map(|place| Some(time_of(&bytes[place])?.start));
    match seen.fault {
        Some((Fault::Frame, _)) if first.is_none() && most != u64::MAX => first_ns(path, u64::MAX),
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::{frame_header, header};
    use super::*;

    #[test]
    fn a_window_that_does_not_end_in_the_part_read_at_first_is_read_whole() {
        let mut payload = [7u64.to_le_bytes(), 9u64.to_le_bytes()].concat();
        payload.resize(2 * BEGINNING as usize, 1);
        let frame = [&frame_header(3, &payload)[..], &payload].concat();
        let segment = [&header(3, 4 << 20)[..], &frame].concat();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &segment).unwrap();
        assert_eq!(first_ns(file.path(), BEGINNING), Some(7));
        std::fs::write(file.path(), &segment[..segment.len() - 1]).unwrap();
        assert_eq!(first_ns(file.path(), BEGINNING), None, "it is cut");
    }
}
