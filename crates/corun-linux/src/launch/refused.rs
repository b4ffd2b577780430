//! Why the kernel does not execute a program, and what helps. The kernel's messages are ambiguous. "No such
//! file or directory" stands for a missing program and for a missing interpreter; "Permission denied" stands
//! for a folder and for a file without the executable bit.

use crate::root::in_words;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The kernel looks no further for a script's interpreter, and the headers of a program lie there.
const BEGINNING: u64 = 4096;

/// Why a program was refused, with a remedy; `None` if there is no such program.
pub(super) fn why(program: &OsStr, error: &io::Error) -> Option<String> {
    let found = located(program);
    let shown = program.to_string_lossy();
    Some(match (error.kind(), found) {
        (ErrorKind::NotFound | ErrorKind::PermissionDenied, None) => return None,
        (ErrorKind::NotFound, Some(path)) => missing_interpreter(&path)?,
        (ErrorKind::PermissionDenied, Some(path)) if path.is_dir() => {
            "it is a folder; name a program in it".to_owned()
        }
        (ErrorKind::PermissionDenied, Some(path)) if is_unmarked(&path) => {
            format!("Permission denied; `chmod +x {shown}` makes it a program")
        }
        (ErrorKind::ArgumentListTooLong, _) => {
            "its arguments and variables are longer than the kernel takes; shorten them, or raise `ulimit -s`"
                .to_owned()
        }
        _ => format!("{}; name a program that you may run", in_words(error)),
    })
}

/// Whether there is such a command.
pub(super) fn is_found(program: &OsStr) -> bool {
    located(program).is_some()
}

/// The location of a command: the first folder of `$PATH` that has it, or its own path.
fn located(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|path| path.exists());
    }
    let folders: OsString = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&folders).map(|folder| folder.join(program));
    candidates.find(|path| !program.is_empty() && path.exists())
}

/// Whether it is a file that nobody may execute.
fn is_unmarked(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 == 0)
}

fn missing_interpreter(path: &Path) -> Option<String> {
    let mut beginning = Vec::new();
    File::open(path).ok()?.take(BEGINNING).read_to_end(&mut beginning).ok()?;
    let interpreter = interpreter(&beginning)?;
    let shown = interpreter.to_string_lossy();
    Some(match beginning.starts_with(b"#!") {
        true => format!("its first line names `{shown}`, which does not exist; correct that, or install it"),
        false => format!("it needs `{shown}`, which does not exist; install the libraries it was built for"),
    })
}

/// The program in a script's first line, or the loader that an ELF file names.
fn interpreter(file: &[u8]) -> Option<OsString> {
    let text = match file.strip_prefix(b"#!") {
        Some(rest) => {
            let line = rest.split(|b| *b == b'\n').next()?.trim_ascii();
            line.split(u8::is_ascii_whitespace).next()?
        }
        None => loader(file)?,
    };
    (!text.is_empty()).then(|| OsStr::from_bytes(text).to_owned())
}

/// The text of the program header `PT_INTERP` of a little-endian ELF file.
fn loader(file: &[u8]) -> Option<&[u8]> {
    const PT_INTERP: u64 = 3;
    let number = |at: usize, bytes: usize| {
        let field = file.get(at..at.checked_add(bytes)?)?;
        Some(field.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b)))
    };
    let is_64 = match (file.get(..4)? == b"\x7fELF", file.get(4)?, file.get(5)?) {
        (true, 1, 1) => false,
        (true, 2, 1) => true,
        _ => return None,
    };
    // The start of the headers, the length of each, their number; in each, the location of the text's offset
    // and length.
    let [(begin, word), each, count] =
        if is_64 { [(32, 8), (54, 2), (56, 2)] } else { [(28, 4), (42, 2), (44, 2)] };
    let (place, length) = if is_64 { (8, 32) } else { (4, 16) };
    let begin = usize::try_from(number(begin, word)?).ok()?;
    let (each, count) = (number(each.0, each.1)? as usize, number(count.0, count.1)? as usize);
    let mut headers = (0..count).filter_map(|n| begin.checked_add(n * each));
    let header = headers.find(|at| number(*at, 4) == Some(PT_INTERP))?;
    let field = |offset: usize| usize::try_from(number(header.checked_add(offset)?, word)?).ok();
    let (place, length) = (field(place)?, field(length)?);
    file.get(place..place.checked_add(length)?)?.split(|b| *b == 0).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with this content and mode in a folder of its own.
    fn refused(content: &[u8], mode: u32, error: i32) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        why(path.as_os_str(), &io::Error::from_raw_os_error(error)).unwrap()
    }

    #[test]
    fn a_refused_program_differs_from_a_missing_one() {
        let nowhere = io::Error::from_raw_os_error(libc::ENOENT);
        for program in ["no-such-command", "/no/such/command", ""] {
            assert_eq!(why(OsStr::new(program), &nowhere), None, "{program:?}");
        }
        let denied = io::Error::from_raw_os_error(libc::EACCES);
        assert!(why(OsStr::new("/"), &denied).unwrap().contains("is a folder"));
        assert!(refused(b"", 0o644, libc::EACCES).contains("chmod +x"));
        assert!(!refused(b"", 0o755, libc::EACCES).contains("chmod"), "it is marked: chmod helps nobody");
        assert!(refused(b"", 0o755, libc::E2BIG).contains("ulimit -s"));
        let script = refused(b"#! /no/such/shell -x\necho\n", 0o755, libc::ENOENT);
        assert!(script.contains("`/no/such/shell`"), "{script}");
    }

    #[test]
    fn the_loader_of_this_test_is_found_and_half_a_file_names_none() {
        let own = fs::read("/proc/self/exe").unwrap();
        let found = interpreter(&own[..BEGINNING as usize]);
        // A statically linked test has none.
        if let Some(found) = &found {
            assert!(Path::new(found).exists(), "{found:?}");
        }
        for length in 0..200 {
            let _ = interpreter(&own[..length]);
        }
        let mut wild = own[..BEGINNING as usize].to_vec();
        for at in 0..64 {
            let kept = std::mem::replace(&mut wild[at], 0xff);
            let _ = interpreter(&wild);
            wild[at] = kept;
        }
    }

    #[test]
    fn a_32_bit_program_names_its_loader() {
        let mut file = vec![0u8; 200];
        file[..6].copy_from_slice(b"\x7fELF\x01\x01");
        // Two headers of 32 bytes from byte 52 on; the second one is the loader's, whose name is at 150.
        (file[28], file[42], file[44], file[84], file[88], file[100]) = (52, 32, 2, 3, 150, 15);
        file[150..165].copy_from_slice(b"/lib/ld-32.so\0\0");
        assert_eq!(interpreter(&file), Some("/lib/ld-32.so".into()));
    }
}
