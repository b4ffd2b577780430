//! Judging samples, and caching the verdicts: programs spend their time in few places.
//!
//! A sample that waits in a call into message passing is recognized by its stack. Any other is judged in its
//! function. If that function can return without progress, it is judged in the caller, and so on for a few
//! frames. Verdicts are kept by address and forgotten after [`MEMORY_NS`], since a JIT compiler may put other
//! code in the same place. They are forgotten at once when a process executes another program. New code is
//! expensive to examine; a cached verdict costs almost nothing.

use super::flow::{self, ReturnSlot};
use super::frame;
use super::memory::{Memory, ProcessMemory};
use super::message_passing::MessagePassing;
use super::outcome::{self, Outcome};
use super::sample::Sample;
use super::tally::LoopId;
use super::wait_loop::{self, Around, WaitLoop};
use crate::root::Root;
use std::collections::btree_map::Entry;
use std::collections::{hash_map, BTreeMap, HashMap};

/// Callers that are checked for waiting.
const CALLERS_MAX: usize = 4;

/// How long a verdict is valid, in nanoseconds.
const MEMORY_NS: u64 = 10_000_000_000;

/// A handle on a process's memory that finds no code and is older than this, in nanoseconds, is opened again.
const STALE_NS: u64 = 50_000_000;

/// What a sample did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It worked.
    Useful,
    /// It was in a loop that can wait.
    Waiting(LoopId, Outcome),
    /// Its code could not be read.
    Unreadable,
    /// Its code is new, and was not to be examined.
    New,
    /// So is its code, and it was alone in its place.
    PassedOver,
}

enum CachedVerdict {
    Useful,
    Waits(WaitLoop),
    /// Not in this function, but perhaps in its caller.
    Ask(ReturnSlot, HashMap<u64, CachedVerdict>),
}

/// The knowledge about one process.
struct Process {
    memory: ProcessMemory,
    since_ns: u64,
    /// By instruction, whether it was in the kernel, and which registers point into the stack.
    verdicts: HashMap<(u64, bool, u16), CachedVerdict>,
}

/// The judge of all samples.
pub struct Judge {
    root: Root,
    processes: BTreeMap<u32, Process>,
    /// With the time when each was last used.
    messages: BTreeMap<u32, (u64, MessagePassing)>,
    /// Processes whose memory may not be read, with the kernel's error.
    refused: BTreeMap<u32, String>,
}

impl Judge {
    /// A judge that reads memory under `root`.
    pub fn new(root: &Root) -> Judge {
        let (processes, messages, refused) = Default::default();
        Judge { root: root.clone(), processes, messages, refused }
    }

    /// Why the memory of some process could not be read, and the number of such processes.
    pub fn refused(&self) -> Option<(usize, &str)> {
        Some((self.refused.len(), self.refused.values().next()?))
    }

    /// A process runs other code now, or has ended.
    pub fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
        self.messages.remove(&pid);
        self.refused.remove(&pid);
    }

    /// Forgets the code that it has read, and everything else that is old by `now_ns`.
    pub fn forget_old(&mut self, now_ns: u64) {
        self.processes.values_mut().for_each(|p| p.memory.forget());
        // The knowledge about calls stays while the process is watched.
        self.messages.retain(|_, (looked_ns, _)| now_ns.saturating_sub(*looked_ns) < MEMORY_NS);
        self.processes.retain(|_, p| now_ns.saturating_sub(p.since_ns) < MEMORY_NS);
    }

    /// What `sample` did, as far as its code is known. Its caller in a message-passing library is searched
    /// only if it `may_look`. Samples of a task come in the order of time.
    pub fn judge(&mut self, sample: &Sample, now_ns: u64, may_look: bool) -> Verdict {
        if self.refused.contains_key(&sample.pid) {
            return Verdict::Unreadable;
        }
        let new = || (now_ns, MessagePassing::new(now_ns));
        let (looked_ns, messages) = self.messages.entry(sample.pid).or_insert_with(new);
        *looked_ns = now_ns;
        // First, since a progress engine has much code that is expensive to examine.
        if let Some(at) = messages.look(&self.root, sample, now_ns, may_look) {
            return Verdict::Waiting(LoopId { pid: sample.pid, at, pauses: true }, Outcome::Stays);
        }
        match self.processes.get_mut(&sample.pid) {
            Some(process) => process.judge(sample, false),
            None => Verdict::New,
        }
    }

    /// What a sample in new code did.
    pub fn look_into(&mut self, sample: &Sample, now_ns: u64) -> Verdict {
        if let Entry::Vacant(new) = self.processes.entry(sample.pid) {
            match ProcessMemory::open(&self.root, sample.pid) {
                Ok(memory) => new.insert(Process { memory, since_ns: now_ns, verdicts: HashMap::new() }),
                Err(e) => {
                    // A process that has just ended, or came when no descriptor was left, does not count as
                    // unreadable.
                    let passes = [libc::ENOENT, libc::ESRCH, libc::EMFILE, libc::ENFILE];
                    if !e.raw_os_error().is_some_and(|code| passes.contains(&code)) {
                        self.refused.insert(sample.pid, e.to_string());
                    }
                    return Verdict::Unreadable;
                }
            };
        }
        let process = self.processes.get_mut(&sample.pid).expect("put there if it was not");
        let verdict = process.judge(sample, true);
        if verdict == Verdict::Unreadable && now_ns.saturating_sub(process.since_ns) > STALE_NS {
            // The handle may be that of the process's previous program.
            self.processes.remove(&sample.pid);
        }
        verdict
    }
}

impl Process {
    fn judge(&mut self, sample: &Sample, may_look: bool) -> Verdict {
        let in_call = sample.in_kernel && follows_system_call(&mut self.memory, sample.ip);
        if in_call && !follows_yield(&mut self.memory, sample.ip) {
            return Verdict::Useful;
        }
        let key = (sample.ip, in_call, frame::pointing(sample));
        let mut callers = Vec::new();
        if !self.verdicts.contains_key(&key) {
            if !may_look {
                return Verdict::New;
            }
            let Some((known, likewise)) = analyse(&mut self.memory, sample, &callers) else {
                return Verdict::Unreadable;
            };
            for ip in likewise {
                self.verdicts.entry((ip, key.1, key.2)).or_insert(CachedVerdict::Useful);
            }
            self.verdicts.insert(key, known);
        }
        let mut known = self.verdicts.get_mut(&key).expect("put there if it was not");
        loop {
            match known {
                CachedVerdict::Useful => return Verdict::Useful,
                CachedVerdict::Waits(wait) => {
                    let mut registers = sample.registers;
                    if in_call {
                        // The kernel has yet to put the result there; a yield never fails.
                        registers[0] = 0;
                    }
                    let id = LoopId { pid: sample.pid, at: wait.at, pauses: wait.pauses() };
                    return Verdict::Waiting(id, outcome::of(wait, sample, &registers));
                }
                CachedVerdict::Ask(slot, by_caller) => {
                    let Some(caller) = slot.address(sample) else { return Verdict::Useful };
                    callers.insert(0, caller);
                    let asked = by_caller.entry(caller);
                    // The place of the next caller in one sample's stack says nothing about another sample's.
                    let is_its_own =
                        |known: &CachedVerdict| matches!(known, CachedVerdict::Ask(ReturnSlot::At(_), _));
                    let single = matches!(slot, ReturnSlot::At(_));
                    known = match asked {
                        hash_map::Entry::Occupied(known) if !single && !is_its_own(known.get()) => {
                            known.into_mut()
                        }
                        _ if !may_look => return Verdict::New,
                        entry => {
                            let found = analyse(&mut self.memory, sample, &callers);
                            entry
                                .insert_entry(found.map_or(CachedVerdict::Useful, |(known, _)| known))
                                .into_mut()
                        }
                    };
                }
            }
        }
    }
}

/// Judges one sample with the callers known so far, outermost first, and says which other instructions are as
/// useful; `None` if its code cannot be read.
fn analyse(memory: &mut dyn Memory, sample: &Sample, callers: &[u64]) -> Option<(CachedVerdict, Vec<u64>)> {
    let flow = flow::follow(memory, sample, callers)?;
    Some(match (wait_loop::around(&flow), flow.outer_return) {
        (Around::Wait(wait), _) => (CachedVerdict::Waits(wait), Vec::new()),
        (Around::Returns, Some((_, slot))) if callers.len() < CALLERS_MAX => {
            (CachedVerdict::Ask(slot, HashMap::new()), Vec::new())
        }
        (Around::Returns, _) => (CachedVerdict::Useful, Vec::new()),
        (Around::Work { likewise }, _) => (CachedVerdict::Useful, likewise),
    })
}

/// `SYSCALL`.
const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];

/// `MOV EAX, imm32`: every C library and runtime loads the number of a call this way.
const LOAD_NUMBER: u8 = 0xb8;

fn follows_system_call(memory: &mut dyn Memory, ip: u64) -> bool {
    let mut bytes = [0; 2];
    memory.read(ip.wrapping_sub(2), &mut bytes) == 2 && bytes == SYSTEM_CALL
}

fn follows_yield(memory: &mut dyn Memory, ip: u64) -> bool {
    let mut bytes = [0; 5];
    let number = (libc::SYS_sched_yield as u32).to_le_bytes();
    memory.read(ip.wrapping_sub(7), &mut bytes) == 5 && bytes[0] == LOAD_NUMBER && bytes[1..] == number
}
