//! A page in the gzip format, put together from parts that were compressed separately.
//!
//! All parts are one stream, because some readers stop at the end of the first stream of several. Each part ends at a whole byte, and
//! refers to no other part. So a part that many pages have in common is compressed once.

use crc32fast::Hasher;
use flate2::write::DeflateEncoder;
use flate2::Compression;
use std::io::Write;
use std::sync::Arc;

/// The head of a stream: the method is "deflate"; there is no name, and no time.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// The last block of a stream, which is empty.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// A compressed part of a page.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its blocks.
    pub bytes: Arc<Vec<u8>>,
    sum: Hasher,
    /// Its length before, as gzip counts it.
    length: u32,
}

impl Part {
    /// Compresses these bytes into the given room.
    pub fn of(bytes: &[u8], room: Vec<u8>) -> Part {
        let mut encoder = DeflateEncoder::new(room, Compression::fast());
        let written = encoder.write_all(bytes).and_then(|()| encoder.flush());
        written.expect("memory takes all that is written");
        let blocks = std::mem::take(encoder.get_mut());
        let mut sum = Hasher::new();
        sum.update(bytes);
        Part { bytes: blocks.into(), sum, length: bytes.len() as u32 }
    }
}

/// The page that consists of these parts.
pub fn joined(parts: &[Part]) -> Vec<Arc<Vec<u8>>> {
    let (mut sum, mut length) = (Hasher::new(), 0u32);
    for part in parts {
        sum.combine(&part.sum);
        length = length.wrapping_add(part.length);
    }
    let tail = [&LAST_BLOCK[..], &sum.finalize().to_le_bytes(), &length.to_le_bytes()].concat();
    let blocks = parts.iter().map(|part| part.bytes.clone());
    std::iter::once(HEAD.to_vec().into()).chain(blocks).chain([tail.into()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    /// The text of the first stream. What follows it is an error.
    fn read(page: &[Arc<Vec<u8>>]) -> Vec<u8> {
        let bytes: Vec<u8> = page.iter().flat_map(|part| part.to_vec()).collect();
        let (mut text, mut decoder) = (Vec::new(), GzDecoder::new(&bytes[..]));
        decoder.read_to_end(&mut text).unwrap();
        assert!(decoder.into_inner().is_empty(), "there is more than one stream");
        text
    }

    #[test]
    fn parts_of_any_length_are_one_stream_and_may_be_used_again() {
        let text: Vec<u8> = (0..300_000u32).map(|n| (n % 251 * (n >> 12)) as u8).collect();
        for (first, second) in [(0, 0), (0, 9), (1, 0), (5, 7), (100_000, 1), (3, 299_000)] {
            let (first, second) = (&text[..first], &text[text.len() - second..]);
            let (a, b) = (Part::of(first, Vec::new()), Part::of(second, Vec::new()));
            assert_eq!(read(&joined(&[a.clone(), b.clone()])), [first, second].concat());
            assert_eq!(read(&joined(&[b, a.clone(), a])), [second, first, first].concat());
        }
        assert_eq!(read(&joined(&[])), b"");
    }
}
