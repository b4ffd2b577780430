//! The series that a collector knows: those of the last delivered export. A series that no longer exists has
//! ended, and the next export says so.

use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use flate2::Compression;
use std::collections::{BTreeMap, HashSet};
use std::io::{Read, Write};

/// By metric, its series: the bytes of their attributes, each with its length in front. Compressed, they take a tenth of a request.
#[derive(Debug, Default)]
pub struct Known(BTreeMap<&'static str, Vec<u8>>);

impl Known {
    /// A metric has these series.
    pub fn add(&mut self, metric: &'static str, series: &[Vec<u8>]) {
        let mut compressed = ZlibEncoder::new(Vec::new(), Compression::fast());
        let mut length = Vec::new();
        let written = series.iter().try_for_each(|one| {
            length.clear();
            prost::encode_length_delimiter(one.len(), &mut length)?;
            compressed.write_all(&length)?;
            compressed.write_all(one)
        });
        let bytes = written.and_then(|()| compressed.finish()).expect("memory takes all that is written");
        self.0.insert(metric, bytes);
    }

    /// The series of a metric that are not among these.
    pub fn ended(&self, metric: &str, there: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let Some(compressed) = self.0.get(metric) else { return Vec::new() };
        let mut bytes = Vec::new();
        ZlibDecoder::new(&**compressed).read_to_end(&mut bytes).expect("it is what was compressed");
        let there: HashSet<&[u8]> = there.iter().map(Vec::as_slice).collect();
        let mut left = &*bytes;
        let next = || {
            let length = prost::decode_length_delimiter(&mut left).ok()?;
            let (one, after) = left.split_at_checked(length)?;
            left = after;
            Some(one)
        };
        std::iter::from_fn(next).filter(|one| !there.contains(one)).map(<[u8]>::to_vec).collect()
    }
}
