//! Waits inside a message-passing library (MPI): its progress engine polls every transport until a message
//! comes.
//!
//! Such an engine is too complex for `wait_loop`: it calls through tables of function pointers, counts its
//! rounds in memory and reads clocks. Three conditions together show that a sample waits:
//!
//! 1. the sampled instruction lies in a library of message passing (by its file's name: [`TRANSPORTS`]);
//!    the rest of a call, such as copying in the C library or in the kernel, is work;
//! 2. the stack holds a return address inside a function `MPI_…` or `PMPI_…`, the names of the standard;
//! 3. the process has been seen to wait there. That is, [`STILL`] times two samples of a thread in a row
//!    found the same call, and not a bit had changed in the program's frames beyond it. A wait that never
//!    lasts from sample to sample does not count.
//!
//! Names alone are hints: without the third condition nothing is found.
//!
//! Limits: libraries linked into the program itself are not found, nor engines that run in a thread of their
//! own. Once a process is known to wait, all its time in the libraries' own code counts as waiting, including
//! matching and packing. So the waiting of a program that passes messages at full speed is overestimated. If
//! all waits of a program are shorter than the time between two samples (some milliseconds), no waiting is
//! found at all.

use super::memory::Mapping;
use super::sample::Sample;
use crate::root::Root;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSegment, ObjectSymbol};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::ops::Range;

/// The prefixes of the files of message-passing libraries and of the transports under them: Open MPI, MPICH
/// and its kin, UCX, libfabric, PSM, verbs.
const TRANSPORTS: [&str; 10] = [
    "libmpi",
    "libpmpi",
    "libopen-pal",
    "libopen-rte",
    "mca_",
    "libuc",
    "libfabric",
    "libpsm",
    "libibverbs",
    "libmpl",
];

/// The prefixes of the files with the functions of the standard.
const STANDARD: &str = "libmpi";

/// The shortest time between two searches for libraries, in nanoseconds.
const AGAIN_NS: u64 = 50_000_000;

/// A process must be seen to wait this often before its calls count as waiting.
const STILL: u32 = 2;

/// Bytes of the program's frames that are compared, beyond the return address.
const COMPARED_BYTES: usize = 256;

/// Calls of a process into message passing.
#[derive(Debug)]
pub struct MessagePassing {
    /// All code: a sample outside shows that libraries have been loaded since.
    code: Vec<Range<u64>>,
    transports: Vec<Range<u64>>,
    /// Functions of the standard, by their start addresses.
    calls: Vec<Range<u64>>,
    /// The times of the first search and of the next permitted one, in nanoseconds.
    since_ns: u64,
    again_ns: u64,
    /// By thread, the place of its last waiting sample, and the frames beyond.
    last: HashMap<u32, (u64, u64)>,
    /// How often a thread was in the same call as one sample before.
    still: u32,
}

impl MessagePassing {
    /// Nothing is known yet about a process that is first seen at `now_ns`.
    pub fn new(now_ns: u64) -> MessagePassing {
        let (code, transports, calls, last) = Default::default();
        MessagePassing { code, transports, calls, since_ns: now_ns, again_ns: now_ns, last, still: 0 }
    }

    /// The place in a function of the standard where `sample` waits, if it does. Libraries are searched only
    /// if it `may_look`.
    pub fn look(&mut self, root: &Root, sample: &Sample, now_ns: u64, may_look: bool) -> Option<u64> {
        if may_look && now_ns >= self.again_ns && !self.code.iter().any(|c| c.contains(&sample.ip)) {
            self.find(root, sample.pid);
            // Code that appears all the time comes from a JIT compiler: the pause before each search is as
            // long as all earlier ones took.
            self.again_ns = now_ns + (now_ns - self.since_ns).max(AGAIN_NS);
        }
        let found = self.call(sample);
        let before = match found {
            Some(call) => self.last.insert(sample.tid, call),
            None => self.last.remove(&sample.tid),
        };
        self.still += u32::from(found.is_some() && before == found);
        found.map(|(at, _)| at).filter(|_| self.still >= STILL)
    }

    fn find(&mut self, root: &Root, pid: u32) {
        let maps = root.read(format!("/proc/{pid}/maps")).unwrap_or_default();
        let mappings: Vec<Mapping> = maps.lines().filter_map(Mapping::parse).collect();
        self.code = mappings.iter().map(|m| m.start..m.end).collect();
        let named = |mapping: &&Mapping, names: &[&str]| {
            let file = mapping.path.as_ref().and_then(|path| path.rsplit('/').next());
            file.is_some_and(|file| names.iter().any(|name| file.starts_with(name)))
        };
        let transports = mappings.iter().filter(|m| named(m, &TRANSPORTS));
        self.transports = transports.map(|m| m.start..m.end).collect();
        let standard = mappings.iter().filter(|m| named(m, &[STANDARD]));
        self.calls = standard.flat_map(|m| functions(m, root, pid).unwrap_or_default()).collect();
        self.calls.sort_by_key(|f| f.start);
    }

    /// The address inside the standard's function, and a digest of the stack beyond it.
    fn call(&self, sample: &Sample) -> Option<(u64, u64)> {
        if !self.transports.iter().any(|t| t.contains(&sample.ip)) {
            return None;
        }
        let words =
            sample.stack.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("eight bytes")));
        let (slot, at) = words.enumerate().find(|(_, word)| self.is_call(*word))?;
        let begin = (slot + 1) * 8;
        let beyond = sample.stack.get(begin..begin + COMPARED_BYTES)?;
        let mut state = DefaultHasher::new();
        (sample.sp() + begin as u64, beyond).hash(&mut state);
        Some((at, state.finish()))
    }

    fn is_call(&self, address: u64) -> bool {
        let after = self.calls.partition_point(|f| f.start <= address);
        after > 0 && self.calls[after - 1].contains(&address)
    }
}

/// The locations of the standard's functions in `mapping`.
fn functions(mapping: &Mapping, root: &Root, pid: u32) -> Option<Vec<Range<u64>>> {
    let mut bytes = Vec::new();
    mapping.open(root, pid)?.read_to_end(&mut bytes).ok()?;
    let file = ElfFile64::<Endianness>::parse(&*bytes).ok()?;
    let holds = |(begin, size): (u64, u64)| (begin..begin.saturating_add(size)).contains(&mapping.offset);
    let segment = file.segments().find(|s| holds(s.file_range()))?;
    // The location of the file's address 0 in memory.
    let zero = mapping.start.wrapping_sub(mapping.offset);
    let zero = zero.wrapping_add(segment.file_range().0).wrapping_sub(segment.address());
    let of_standard = |name: &str| name.starts_with("MPI_") || name.starts_with("PMPI_");
    let symbols = file.dynamic_symbols().filter(|s| s.is_definition() && s.name().is_ok_and(of_standard));
    let places = symbols.map(|s| (zero.wrapping_add(s.address()), s.size()));
    Some(places.map(|(start, size)| start..start.wrapping_add(size)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: u64 = 0x7f00_0010_0040;

    fn library() -> MessagePassing {
        let one = |range| std::iter::once(range).collect();
        MessagePassing {
            code: one(0..u64::MAX),
            transports: one(0x7f00_0010_0000..0x7f00_0020_0000),
            calls: one(WAIT - 0x40..WAIT + 0x40),
            ..MessagePassing::new(0)
        }
    }

    /// A sample in the engine, whose third word on the stack is the address in `MPI_Wait`; `state` is the
    /// content of the program's frame.
    fn sample(tid: u32, ip: u64, state: u64) -> Sample {
        let mut registers = [0; 16];
        registers[4] = 0x7fff_0000_1000;
        let mut words = [0u64; 128];
        (words[2], words[12]) = (WAIT, state);
        let stack = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        Sample { pid: 1, tid, period_ns: 1, in_kernel: false, ip, registers, flags: 0, stack }
    }

    const ENGINE: u64 = 0x7f00_0018_0000;

    #[test]
    fn a_process_waits_once_samples_of_a_thread_have_found_the_same_call_again() {
        let mut library = library();
        let root = Root::new("/");
        let mut look = |tid, ip, state| library.look(&root, &sample(tid, ip, state), 1, true);
        assert_eq!(look(1, ENGINE, 7), None);
        assert_eq!(look(2, ENGINE, 7), None, "another thread");
        assert_eq!(look(1, ENGINE, 8), None, "another call: the program got on");
        assert_eq!(look(1, ENGINE + 64, 8), None, "the same call, for the first time");
        assert_eq!(look(1, 0x40_0000, 8), None, "its own code");
        assert_eq!(look(1, ENGINE, 8), None, "it was elsewhere");
        assert_eq!(look(1, ENGINE, 8), Some(WAIT), "the second time");
        assert_eq!(look(2, ENGINE, 9), Some(WAIT), "now it is known of all its calls");
        assert_eq!(look(2, 0x40_0000, 9), None);
    }

    #[test]
    fn a_call_left_on_the_stack_by_other_code_does_not_count() {
        let (mut library, root) = (MessagePassing { still: STILL, ..library() }, Root::new("/"));
        assert_eq!(library.look(&root, &sample(1, 0x7f00_0030_0000, 7), 1, true), None);
        let mut deep = sample(1, ENGINE, 7);
        deep.stack.truncate(COMPARED_BYTES);
        assert_eq!(
            library.look(&root, &deep, 1, true),
            None,
            "too little of the program's frames to compare"
        );
    }

    #[test]
    fn libraries_are_searched_again_when_new_code_appears() {
        let (root, pid) = (Root::new("/"), std::process::id());
        let mut own = MessagePassing::new(100);
        let here = libraries_are_searched_again_when_new_code_appears as fn() as usize as u64;
        let at = |ip| Sample { pid, ..sample(1, ip, 0) };
        own.look(&root, &at(here), 100, true);
        assert!(own.code.iter().any(|c| c.contains(&here)) && own.transports.is_empty());
        own.code.clear();
        own.look(&root, &at(here), 101, true);
        assert!(own.code.is_empty(), "not so soon");
        own.look(&root, &at(here), 100 + AGAIN_NS, false);
        assert!(own.code.is_empty(), "nothing may be spent on it");
        own.look(&root, &at(here), 100 + AGAIN_NS, true);
        assert!(own.code.iter().any(|c| c.contains(&here)));
    }
}
