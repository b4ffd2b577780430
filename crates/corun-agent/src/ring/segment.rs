//! The bytes of a segment: a header, frames one after another, and zeros up to its length.
//!
//! ```text
//! header   magic "corunrng" · format u32 · length u32 · number u64 · 0 u32 · CRC-32 of these 28 bytes
//! frame    length u32 (not 0) · CRC-32 of segment number, length and payload · payload, filled up to a multiple of 8
//! ```
//!
//! Numbers are little-endian. The header has the same layout in every format. A frame's own header is written
//! after its payload and lies in one page of memory, so a reader that sees it can read the payload as well.
//!
//! Every byte counts: any change is noticed, even among the zeros, and a truncated file is shorter than its
//! header says. The part before the error is valid.

use std::ops::Range;

/// The format that this version writes and reads.
pub const FORMAT: u32 = 1;

const MAGIC: [u8; 8] = *b"corunrng";
/// Bytes of a segment's header.
pub(super) const HEADER: usize = 32;
/// Bytes of a frame's header, and the alignment of frames.
pub(super) const FRAME: usize = 8;

/// The error in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It begins like no segment.
    NoHeader,
    /// Another version of corun wrote it, in this format.
    OtherFormat(u32),
    /// A frame has changed since it was written.
    Frame,
    /// Bytes follow the last frame: an unfinished one, or one whose length was lost.
    Unfinished,
    /// The file is shorter than it was.
    Cut,
}

/// The content of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Its number; `None` if it was never begun.
    pub number: Option<u64>,
    /// Bytes that were reserved for it.
    pub length: u64,
    /// The payloads of its frames, as places in its bytes.
    pub frames: Vec<Range<usize>>,
    /// Where the next frame would begin.
    pub end: u64,
    /// The error in it, and its byte.
    pub fault: Option<(Fault, u64)>,
}

/// The header of a segment.
pub(super) fn header(number: u64, length: u32) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[12..16].copy_from_slice(&length.to_le_bytes());
    bytes[16..24].copy_from_slice(&number.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..28]);
    bytes[28..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The header of a frame.
pub(super) fn frame_header(number: u64, payload: &[u8]) -> [u8; FRAME] {
    let mut bytes = [0; FRAME];
    let length = payload.len() as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4..].copy_from_slice(&checksum(number, length, payload).to_le_bytes());
    bytes
}

/// Bytes of a payload of this length with its header.
pub(super) fn framed(payload: usize) -> u64 {
    (FRAME + payload.next_multiple_of(FRAME)) as u64
}

fn checksum(number: u64, length: u32, payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&number.to_le_bytes());
    crc.update(&length.to_le_bytes());
    crc.update(payload);
    crc.finalize()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn first_not_zero(bytes: &[u8], from: usize) -> Option<usize> {
    bytes.get(from..)?.iter().position(|b| *b != 0).map(|at| from + at)
}

/// Reads the bytes of a segment. For any bytes, it returns the valid part.
pub fn scan(bytes: &[u8]) -> Scan {
    let faulty = |fault, at| Scan { fault: Some((fault, at as u64)), ..Scan::default() };
    if bytes.len() < HEADER {
        return if first_not_zero(bytes, 0).is_some() { faulty(Fault::NoHeader, 0) } else { Scan::default() };
    }
    let is_whole = u32_at(bytes, 28) == Some(crc32fast::hash(&bytes[..28]));
    let format = u32_at(bytes, 8).unwrap_or_default();
    match (is_whole, bytes.starts_with(&MAGIC)) {
        (true, true) if format == FORMAT => frames(bytes),
        (true, true) => faulty(Fault::OtherFormat(format), 8),
        _ => match first_not_zero(bytes, 0) {
            // Reserved, and not begun.
            None => Scan::default(),
            Some(_) => faulty(Fault::NoHeader, 0),
        },
    }
}

fn frames(bytes: &[u8]) -> Scan {
    let number = u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes"));
    let length = u64::from(u32_at(bytes, 12).unwrap_or_default());
    let mut scan = Scan { number: Some(number), length, ..Scan::default() };
    let cut = (bytes.len() as u64) < length;
    let bytes = &bytes[..bytes.len().min(length.max(HEADER as u64) as usize)];
    let mut at = HEADER;
    loop {
        scan.end = at as u64;
        let Some(payload) = u32_at(bytes, at).filter(|n| *n > 0) else {
            let rest = first_not_zero(bytes, at).map(|_| (Fault::Unfinished, scan.end));
            scan.fault = rest.or(cut.then_some((Fault::Cut, bytes.len() as u64)));
            return scan;
        };
        let place = at + FRAME..at + FRAME + payload as usize;
        let filled = at + framed(payload as usize) as usize;
        let good = bytes.get(place.clone()).is_some_and(|payload_bytes| {
            u32_at(bytes, at + 4) == Some(checksum(number, payload, payload_bytes))
                && bytes.get(place.end..filled).is_some_and(|fill| fill.iter().all(|b| *b == 0))
        });
        if !good {
            scan.fault = Some((Fault::Frame, at as u64));
            return scan;
        }
        scan.frames.push(place);
        at = filled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment with these payloads.
    fn segment(payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = header(7, 256).to_vec();
        for payload in payloads {
            bytes.extend(frame_header(7, payload));
            bytes.extend(*payload);
            bytes.resize(bytes.len().next_multiple_of(FRAME), 0);
        }
        bytes.resize(256, 0);
        bytes
    }

    fn payloads<'a>(bytes: &'a [u8], scan: &Scan) -> Vec<&'a [u8]> {
        scan.frames.iter().map(|place| &bytes[place.clone()]).collect()
    }

    const THREE: [&[u8]; 3] = [b"1", b"twelve bytes", b"three"];

    #[test]
    fn a_whole_segment_has_its_frames_and_room_for_the_next() {
        let bytes = segment(&THREE);
        let scan = scan(&bytes);
        assert_eq!((scan.number, scan.length, scan.fault), (Some(7), 256, None));
        assert_eq!(payloads(&bytes, &scan), THREE);
        assert_eq!(scan.end, 32 + 16 + 24 + 16);
    }

    #[test]
    fn any_changed_byte_is_noticed_and_the_part_before_it_is_read() {
        let whole = segment(&THREE);
        let ends: Vec<u64> =
            scan(&whole).frames.iter().map(|f| f.end.next_multiple_of(FRAME) as u64).collect();
        for at in 0..whole.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= change;
                let scan = scan(&bytes);
                let (_, noticed) = scan.fault.unwrap_or_else(|| panic!("byte {at} was not noticed"));
                assert!(noticed <= at as u64, "byte {at} was noticed at {noticed}");
                let before = ends.iter().filter(|end| **end <= at as u64).count();
                let expected = if at < HEADER { 0 } else { before };
                assert_eq!(payloads(&bytes, &scan), THREE[..expected], "byte {at}");
            }
        }
    }

    #[test]
    fn wherever_it_is_truncated_the_rest_is_read_and_the_cut_is_noticed() {
        let whole = segment(&THREE);
        for length in 1..whole.len() {
            let scan = scan(&whole[..length]);
            assert!(scan.fault.is_some(), "{length} bytes");
            let read = payloads(&whole, &scan);
            assert_eq!(read, THREE[..read.len()], "{length} bytes");
            assert!(length < 88 || read.len() == 3, "{length} bytes hold all three");
        }
        assert_eq!(scan(&[]), Scan::default(), "one that was never begun");
        assert_eq!(scan(&[0; 100]), Scan::default(), "nor was this");
    }

    #[test]
    fn another_format_is_named_and_another_number_is_not_read() {
        let mut bytes = segment(&THREE);
        bytes[8] = 9;
        let crc = crc32fast::hash(&bytes[..28]);
        bytes[28..32].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(scan(&bytes).fault, Some((Fault::OtherFormat(9), 8)));
        let mut bytes = segment(&THREE);
        bytes[..HEADER].copy_from_slice(&header(8, 256));
        assert_eq!(scan(&bytes).fault, Some((Fault::Frame, 32)), "its frames are left from before");
    }
}
