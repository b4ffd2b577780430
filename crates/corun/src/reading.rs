//! Files written by people, or by corun for itself, read whole.

use corun_model::run_log::file::MOST_BYTES;
use std::io::{Error, Read, Result};
use std::path::Path;

/// Nobody writes more than this by hand, in MiB.
const TEXT_MIB: u64 = 16;
/// No benchmark tool writes more than this, in MiB: a million iterations of hyperfine take 20. Once read they
/// take several times as much memory.
const RESULTS_OF_TOOL_MIB: u64 = 32;
/// No result is longer than this, in MiB.
const RESULT_MIB: u64 = 256;

/// No recording of a run is longer than this, in MiB.
const RECORDING_MIB: u64 = MOST_BYTES >> 20;

/// The text of a file written by people; an endless file is not read to its end.
///
/// # Errors
/// The kernel's error; or the file is longer than anybody writes, or not text.
pub fn text_of(path: &Path) -> Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take((TEXT_MIB << 20) + 1).read_to_string(&mut text)?;
    fits(text, TEXT_MIB, "name a file that people wrote")
}

/// The same for a file that corun wrote for itself, plain or compressed with gzip.
///
/// # Errors
/// The kernel's error; or the file is longer than any result, or not text.
pub fn result_of(path: &Path) -> Result<String> {
    let text = corun_study::kept::read(path, RESULT_MIB << 20)?;
    fits(text, RESULT_MIB, "name the result.json of a record")
}

/// The same for a file that a benchmark tool wrote.
///
/// # Errors
/// As [`text_of`].
pub fn results_of_tool(path: &Path) -> Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take((RESULTS_OF_TOOL_MIB << 20) + 1).read_to_string(&mut text)?;
    fits(text, RESULTS_OF_TOOL_MIB, "have the tool measure less at once")
}

/// A recording of a run.
///
/// # Errors
/// The kernel's error; or the file is longer than any recording.
pub fn recording_of(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take((RECORDING_MIB << 20) + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > RECORDING_MIB << 20 {
        true => Err(Error::other(format!(
            "it is longer than {RECORDING_MIB} MiB; name what `corun record` wrote"
        ))),
        false => Ok(bytes),
    }
}

fn fits(text: String, mib: u64, remedy: &str) -> Result<String> {
    match text.len() as u64 > mib << 20 {
        true => Err(Error::other(format!("it is longer than {mib} MiB; {remedy}"))),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_report::places::unread;

    #[test]
    fn a_file_that_is_not_text_is_refused_in_words_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("text"), "a = 1\n").unwrap();
        assert_eq!(text_of(&file("text")).unwrap(), "a = 1\n");
        std::fs::write(file("bytes"), [0xff, 0xfe]).unwrap();
        let said = |path: &Path| unread(path, &text_of(path).unwrap_err());
        assert!(said(&file("none")).starts_with("No such file or directory; name"));
        assert!(said(&file("bytes")).starts_with("it is not text in UTF-8; name"));
        assert!(said(folder.path()).starts_with("it is a folder; name"));
    }

    #[test]
    fn an_endless_file_is_not_read_to_its_end() {
        let endless = Path::new("/dev/zero");
        let said = unread(endless, &text_of(endless).unwrap_err());
        assert_eq!(said, "it is longer than 16 MiB; name a file that people wrote");
        let said = unread(endless, &result_of(endless).unwrap_err());
        assert_eq!(said, "it is longer than 256 MiB; name the result.json of a record");
    }
}
