//! Whether a program loads libraries when it starts. Only then can `LD_PRELOAD` load one first.

use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use object::Endianness;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Where program headers are, in every file that a linker writes.
const BEGINNING_BYTES: u64 = 64 << 10;

/// Whether a program is an ELF file of 64 bits that names no dynamic linker. A file that cannot be read does
/// not count as one.
pub fn is_static(program: &Path) -> bool {
    let mut bytes = Vec::new();
    let read = File::open(program).and_then(|file| file.take(BEGINNING_BYTES).read_to_end(&mut bytes));
    read.is_ok() && names_linker(&bytes) == Some(false)
}

/// `None` if the bytes are not the beginning of such a file, or too few.
fn names_linker(elf: &[u8]) -> Option<bool> {
    let header = FileHeader64::<Endianness>::parse(elf).ok()?;
    let endian = header.endian().ok()?;
    let parts = header.program_headers(endian, elf).ok()?;
    Some(parts.iter().any(|part| part.p_type(endian) == PT_INTERP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_static_only_if_its_headers_say_so() {
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(names_linker(&this), Some(true));
        // The same without program headers.
        let mut none = this.clone();
        none[56..58].fill(0);
        assert_eq!(names_linker(&none), Some(false));
        for unknown in [&b""[..], b"#!/bin/sh\n", &this[..40], &this[..64]] {
            assert_eq!(names_linker(unknown), None);
        }
        assert!(!is_static(Path::new("/no such file")));
    }
}
