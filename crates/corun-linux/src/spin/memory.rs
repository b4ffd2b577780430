//! The memory of a watched process: its code, and the pointers through which it calls shared libraries.
//!
//! It is read through `/proc/PID/mem`, which works for code from a JIT compiler as well as for files. Pages
//! are kept for a while, since many samples fall into few of them. If that is refused (another user's
//! process, Yama), code that was mapped from a file is read from the file, and pointers are unknown.

use crate::root::Root;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const PAGE_BYTES: u64 = 4096;

/// What code is read from.
pub trait Memory {
    /// Copies the bytes at `address`; returns how many were available, 0 if none.
    fn read(&mut self, address: u64, into: &mut [u8]) -> usize;

    /// The pointer at `address`.
    fn pointer(&mut self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.read(address, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
    }
}

/// A part of a process's memory that is code.
#[derive(Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address after it.
    pub end: u64,
    /// Where it begins in its file.
    pub offset: u64,
    /// Its file, if it still exists.
    pub path: Option<String>,
}

impl Mapping {
    /// One line of `/proc/PID/maps`; `None` if it is not code.
    pub fn parse(line: &str) -> Option<Mapping> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let executable = fields.next()?.as_bytes().get(2) == Some(&b'x');
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let offset = hex(fields.next()?)?;
        let path = fields.nth(2).unwrap_or_default().trim_start();
        let whole = path.starts_with('/') && !path.ends_with(" (deleted)");
        let path = whole.then(|| path.to_owned());
        executable.then_some(Mapping { start: hex(start)?, end: hex(end)?, offset, path })
    }

    /// Opens its file. The process may live in another mount namespace, so its paths start at its own root.
    pub fn open(&self, root: &Root, pid: u32) -> Option<File> {
        let path = self.path.as_ref()?;
        let file = File::open(root.path(format!("/proc/{pid}/root{path}")));
        file.or_else(|_| File::open(root.path(path))).ok()
    }
}

enum Source {
    Process(File),
    Files(Vec<(Mapping, File)>),
}

/// A running process's memory.
pub struct ProcessMemory {
    source: Source,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl ProcessMemory {
    /// Opens the memory of `pid`.
    ///
    /// # Errors
    /// The kernel's error, if neither the memory nor any file that is mapped as code may be read.
    pub fn open(root: &Root, pid: u32) -> io::Result<ProcessMemory> {
        let refused = match File::open(root.path(format!("/proc/{pid}/mem"))) {
            Ok(file) => return Ok(ProcessMemory { source: Source::Process(file), pages: BTreeMap::new() }),
            Err(e) => e,
        };
        let maps = root.read(format!("/proc/{pid}/maps")).unwrap_or_default();
        let opened = |m: Mapping| Some((m.open(root, pid)?, m));
        let files: Vec<(Mapping, File)> =
            maps.lines().filter_map(Mapping::parse).filter_map(opened).map(|(f, m)| (m, f)).collect();
        if files.is_empty() {
            return Err(refused);
        }
        Ok(ProcessMemory { source: Source::Files(files), pages: BTreeMap::new() })
    }

    /// Reads everything again from now on: a JIT compiler keeps writing to the same places.
    pub fn forget(&mut self) {
        self.pages.clear();
    }

    fn page(&mut self, at: u64) -> &[u8] {
        let source = &self.source;
        self.pages.entry(at).or_insert_with(|| {
            let mut bytes = vec![0; PAGE_BYTES as usize];
            let read = match source {
                Source::Process(file) => file.read_at(&mut bytes, at).ok(),
                Source::Files(files) => files
                    .iter()
                    .find(|(m, _)| (m.start..m.end).contains(&at))
                    .and_then(|(m, file)| file.read_at(&mut bytes, at - m.start + m.offset).ok()),
            };
            bytes.truncate(read.unwrap_or(0));
            bytes
        })
    }
}

impl Memory for ProcessMemory {
    fn read(&mut self, address: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        while done < into.len() {
            let Some(at) = address.checked_add(done as u64) else { break };
            let page = self.page(at & !(PAGE_BYTES - 1));
            let Some(rest) = page.get((at % PAGE_BYTES) as usize..).filter(|rest| !rest.is_empty()) else {
                break;
            };
            let n = rest.len().min(into.len() - done);
            into[done..done + n].copy_from_slice(&rest[..n]);
            done += n;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_reads_its_own_code() {
        let mut memory = ProcessMemory::open(&Root::new("/"), std::process::id()).unwrap();
        let word = Box::new(0x1122_3344_5566_7788_u64);
        assert_eq!(memory.pointer(&raw const *word as u64), Some(*word));
        assert_eq!(memory.read(0, &mut [0; 4]), 0, "nothing is mapped at address 0");
    }

    #[test]
    fn if_memory_may_not_be_read_code_comes_from_the_mapped_file() {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path().join("proc/7");
        std::fs::create_dir_all(&proc).unwrap();
        std::fs::create_dir_all(dir.path().join("lib")).unwrap();
        let mut code = vec![0_u8; 8192];
        code[5000..5004].copy_from_slice(&[0xf3, 0x90, 0xeb, 0xfc]);
        std::fs::write(dir.path().join("lib/a b.so"), code).unwrap();
        let lines = "7f0000000000-7f0000001000 r--p 00000000 fe:00 1  /lib/a b.so\n\
                     7f0000001000-7f0000002000 r-xp 00001000 fe:00 1  /lib/a b.so\n\
                     7ffe00000000-7ffe00001000 rw-p 00000000 00:00 0  [stack]\n";
        std::fs::write(proc.join("maps"), lines).unwrap();
        let mut memory = ProcessMemory::open(&Root::new(dir.path()), 7).unwrap();
        let mut found = [0; 4];
        assert_eq!(memory.read(0x7f00_0000_1000 + 5000 - 4096, &mut found), 4);
        assert_eq!(found, [0xf3, 0x90, 0xeb, 0xfc]);
        assert_eq!(memory.read(0x7ffe_0000_0000, &mut found), 0, "data is not in any file");
        assert!(ProcessMemory::open(&Root::new(dir.path()), 8).is_err());
    }
}
