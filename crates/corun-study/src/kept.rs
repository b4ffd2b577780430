//! Records in the repository: `studies/runs/NAME/result.json.gz`. Every reader of a `result.json` also reads this form.

use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};
use std::path::Path;

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads a file, plain or compressed with gzip: at most one byte more than `most`, so that a caller can detect an excess.
///
/// # Errors
/// The kernel's error; the file is not text, or its compressed data is damaged.
pub fn read(path: &Path, most: u64) -> Result<String> {
    let mut file = BufReader::new(File::open(path)?);
    let is_compressed = file.fill_buf()?.starts_with(&GZIP);
    let mut text = String::new();
    let most = most.saturating_add(1);
    match is_compressed {
        true => MultiGzDecoder::new(file).take(most).read_to_string(&mut text)?,
        false => file.take(most).read_to_string(&mut text)?,
    };
    Ok(text)
}

/// Reads the result in the folder of a record: `result.json`, or `result.json.gz` if the first does not exist.
///
/// # Errors
/// As [`read`], or neither exists.
pub fn record(folder: &Path) -> Result<String> {
    let plain = folder.join("result.json");
    let read = read(&if plain.exists() { plain } else { folder.join("result.json.gz") }, u64::MAX);
    read.map_err(|e| match e.kind() {
        ErrorKind::NotFound => Error::new(e.kind(), "there is neither result.json nor result.json.gz in it"),
        _ => e,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use flate2::Compression;
    use std::io::Write;

    #[test]
    fn a_result_is_read_plain_and_compressed_and_no_further_than_requested() {
        let folder = tempfile::tempdir().unwrap();
        let text = "{\"runs\": []}\n".repeat(1_000);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(text.as_bytes()).unwrap();
        let packed = gzip.finish().unwrap();
        std::fs::write(folder.path().join("result.json.gz"), &packed).unwrap();
        assert_eq!(record(folder.path()).unwrap(), text);
        assert_eq!(read(&folder.path().join("result.json.gz"), 99).unwrap().len(), 100);
        std::fs::write(folder.path().join("result.json"), "{}").unwrap();
        assert_eq!(record(folder.path()).unwrap(), "{}");
        std::fs::write(folder.path().join("half"), &packed[..packed.len() / 2]).unwrap();
        assert!(read(&folder.path().join("half"), u64::MAX).is_err());
    }
}
