//! Work: the computing of a thread.
//!
//! The unit is a *loop*: 16 steps of four independent multiply-add chains in registers and one branch that depends on the data, 132
//! instructions in all, about two per cycle. It is written in assembly where possible. So a loop has the same instructions in every
//! build, touches no memory, and looks like computing to a spin detector: few branches, some of them mispredicted, spread over half a
//! kilobyte of code. A [`Kernel`] with memory adds to each loop one read-modify-write of the next line of its private footprint and one
//! touch of the next shared line. The mix is fixed, so one number (loops per millisecond, see [`crate::calibration`]) turns time into
//! work.

use crate::memory::{Line, WORDS};
use corun_model::workload::Sharing;

/// The four chains of register arithmetic.
#[derive(Clone, Copy, Debug)]
struct Registers([u64; 4]);

impl Registers {
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn run(&mut self, loops: u64) {
        if loops == 0 {
            return;
        }
        let [a, b, c, d] = &mut self.0;
        // SAFETY: arithmetic on the named registers alone; no memory, no stack.
        unsafe {
            std::arch::asm!(
                "2:",
                ".rept 16",
                "imul {a}, {a}, 1664525",
                "imul {b}, {b}, 1664525",
                "imul {c}, {c}, 1664525",
                "imul {d}, {d}, 1664525",
                "add {a}, 1",
                "add {b}, 1",
                "add {c}, 1",
                "add {d}, 1",
                ".endr",
                "test {a}, {a}",
                "js 3f",
                "add {b}, 2",
                "3:",
                "dec {n}",
                "jnz 2b",
                a = inout(reg) *a,
                b = inout(reg) *b,
                c = inout(reg) *c,
                d = inout(reg) *d,
                n = inout(reg) loops => _,
                options(nomem, nostack),
            );
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    fn run(&mut self, loops: u64) {
        self.run_portably(loops);
    }

    /// The same arithmetic for other machines.
    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn run_portably(&mut self, loops: u64) {
        for _ in 0..loops {
            for _ in 0..16 {
                self.0 = self.0.map(|r| r.wrapping_mul(1_664_525).wrapping_add(1));
            }
            if std::hint::black_box(self.0[0]) >> 63 == 0 {
                self.0[1] = self.0[1].wrapping_add(2);
            }
        }
    }
}

/// One thread's work and the memory it walks through.
#[derive(Debug)]
pub struct Kernel<'a> {
    registers: Registers,
    private: Vec<Line>,
    private_next: usize,
    shared: &'a [Line],
    shared_next: usize,
    sharing: Sharing,
    word: usize,
}

impl<'a> Kernel<'a> {
    /// Registers only: zero memory footprint.
    pub fn registers() -> Kernel<'static> {
        Kernel::new(Vec::new(), &[], Sharing::None, 0)
    }

    /// Work of thread number `thread`, which walks through `private` and accesses `shared` according to `sharing`.
    pub fn new(private: Vec<Line>, shared: &'a [Line], sharing: Sharing, thread: usize) -> Kernel<'a> {
        let shared = if sharing == Sharing::None { &[] } else { shared };
        let registers = Registers([1, 2, 3, 4].map(|r: u64| r + thread as u64));
        Kernel { registers, private, private_next: 0, shared, shared_next: 0, sharing, word: thread % WORDS }
    }

    /// Does `loops` loops.
    pub fn run(&mut self, loops: u64) {
        if self.private.is_empty() && self.shared.is_empty() {
            return self.registers.run(loops);
        }
        for _ in 0..loops {
            self.registers.run(1);
            if let Some(line) = next(&self.private, &mut self.private_next) {
                line.increment(0);
            }
            if let Some(line) = next(self.shared, &mut self.shared_next) {
                match self.sharing {
                    Sharing::None => {}
                    Sharing::Read => self.registers.0[3] ^= line.read(0),
                    Sharing::Write => line.increment(0),
                    Sharing::False => line.increment(self.word),
                }
            }
        }
    }
}

fn next<'l>(lines: &'l [Line], cursor: &mut usize) -> Option<&'l Line> {
    let line = lines.get(*cursor)?;
    *cursor = if *cursor + 1 == lines.len() { 0 } else { *cursor + 1 };
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::lines;

    #[test]
    fn the_assembly_agrees_with_the_portable_version() {
        let mut fast = Registers([1, 2, 3, 4]);
        let mut plain = fast;
        for loops in [0, 1, 2, 1000] {
            fast.run(loops);
            plain.run_portably(loops);
            assert_eq!(fast.0, plain.0, "after {loops} more loops");
        }
    }

    #[test]
    fn each_pass_touches_the_next_private_line() {
        let mut kernel = Kernel::new(lines(5 * 64), &[], Sharing::None, 0);
        kernel.run(12);
        assert_eq!(kernel.private.iter().map(|l| l.read(0)).collect::<Vec<_>>(), [3, 3, 2, 2, 2]);
    }

    #[test]
    fn sharing_says_which_word_of_a_shared_line_is_written() {
        for (sharing, word) in [(Sharing::Write, Some(0)), (Sharing::False, Some(3)), (Sharing::Read, None)] {
            let shared = lines(2 * 64);
            Kernel::new(Vec::new(), &shared, sharing, 3).run(4);
            for (line, w) in shared.iter().flat_map(|l| (0..WORDS).map(move |w| (l, w))) {
                assert_eq!(line.read(w), if Some(w) == word { 2 } else { 0 }, "{sharing:?} word {w}");
            }
        }
    }
}
