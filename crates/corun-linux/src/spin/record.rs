//! The kernel's records in a ring: samples, births, ends, new programs, losses. Pure.

use super::event::REGISTERS;
use super::sample::{Sample, STACK_BYTES};
use perf_event_open_sys::bindings;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A task was interrupted.
    Sample(Box<Sample>),
    /// An interrupted task whose registers or code cannot be judged: it is a 32-bit program, or has none.
    Opaque {
        /// The task.
        tid: u32,
        /// The time on a CPU that it stands for.
        period_ns: u64,
    },
    /// A followed task started another, which is followed, too.
    Born {
        /// Who started it.
        parent: u32,
        /// The new one.
        tid: u32,
    },
    /// A task ended.
    Ended {
        /// Which.
        tid: u32,
    },
    /// A process runs another program now: everything known about its code is obsolete.
    Executed {
        /// Which.
        pid: u32,
    },
    /// Records found no room.
    Lost {
        /// How many.
        records: u64,
    },
}

/// The destination of each of the kernel's registers: AX BX CX DX SI DI BP SP, then R8 to R15.
const NUMBERS: [usize; 16] = [0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }
}

impl Record {
    /// Reads one record with its header; `None` for kinds that are not needed here.
    pub fn parse(bytes: &[u8]) -> Option<Record> {
        let mut fields = Fields(bytes);
        let kind = fields.u32()?;
        let misc = fields.u32()? & 0xffff;
        match kind {
            bindings::PERF_RECORD_SAMPLE => sample(&mut fields, misc),
            bindings::PERF_RECORD_LOST => {
                fields.u64()?;
                Some(Record::Lost { records: fields.u64()? })
            }
            bindings::PERF_RECORD_FORK | bindings::PERF_RECORD_EXIT => {
                fields.u64()?;
                let (tid, parent) = (fields.u32()?, fields.u32()?);
                let born = kind == bindings::PERF_RECORD_FORK;
                Some(if born { Record::Born { parent, tid } } else { Record::Ended { tid } })
            }
            bindings::PERF_RECORD_COMM if misc & bindings::PERF_RECORD_MISC_COMM_EXEC != 0 => {
                Some(Record::Executed { pid: fields.u32()? })
            }
            _ => None,
        }
    }
}

fn sample(fields: &mut Fields, misc: u32) -> Option<Record> {
    fields.u64()?;
    let (pid, tid) = (fields.u32()?, fields.u32()?);
    let period_ns = fields.u64()?;
    let abi = fields.u64()?;
    if abi != u64::from(bindings::PERF_SAMPLE_REGS_ABI_64) {
        return Some(Record::Opaque { tid, period_ns });
    }
    let mut registers = [0; 16];
    for &number in &NUMBERS[..8] {
        registers[number] = fields.u64()?;
    }
    let (ip, flags) = (fields.u64()?, fields.u64()?);
    for &number in &NUMBERS[8..] {
        registers[number] = fields.u64()?;
    }
    debug_assert_eq!(REGISTERS.count_ones(), 18);
    let asked = usize::try_from(fields.u64()?).ok()?.min(STACK_BYTES);
    let stack = if asked == 0 {
        Vec::new()
    } else {
        let (copied, rest) = fields.0.split_at_checked(asked)?;
        let had = usize::try_from(Fields(rest).u64()?).ok()?;
        copied[..had.min(asked)].to_vec()
    };
    let mode = misc & bindings::PERF_RECORD_MISC_CPUMODE_MASK;
    let in_kernel = mode == bindings::PERF_RECORD_MISC_KERNEL;
    Some(Record::Sample(Box::new(Sample { pid, tid, period_ns, in_kernel, ip, registers, flags, stack })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, body: &[u64]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(misc.to_le_bytes());
        bytes.extend((8 + 8 * body.len() as u16).to_le_bytes());
        bytes.extend(body.iter().flat_map(|w| w.to_le_bytes()));
        bytes
    }

    fn two(low: u32, high: u32) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }

    #[test]
    fn a_sample_has_its_registers_in_the_order_of_machine_code_and_its_stack() {
        let mut body = vec![0xffff_8000, two(7, 8), 1_618_034, 2];
        body.extend(100..118);
        body.push(STACK_BYTES as u64);
        body.extend((0..STACK_BYTES as u64 / 8).map(|w| w + 1000));
        body.push(24);
        let Some(Record::Sample(s)) = Record::parse(&record(9, 1, &body)) else { panic!("not a sample") };
        assert_eq!((s.pid, s.tid, s.period_ns, s.in_kernel), (7, 8, 1_618_034, true));
        assert_eq!((s.ip, s.flags, s.sp(), s.bp()), (108, 109, 107, 106));
        assert_eq!(
            s.registers,
            [100, 102, 103, 101, 107, 106, 104, 105, 110, 111, 112, 113, 114, 115, 116, 117]
        );
        assert_eq!(s.stack.len(), 24, "only what was there");
        assert_eq!(
            (s.stack_word(107 + 8), s.stack_word(107 + 24), s.stack_word(99)),
            (Some(1001), None, None)
        );
    }

    #[test]
    fn a_32_bit_program_and_a_task_without_registers_are_opaque_not_lost() {
        for abi in [0, 1] {
            let parsed = Record::parse(&record(9, 2, &[0x1000, two(7, 8), 5, abi]));
            assert_eq!(parsed, Some(Record::Opaque { tid: 8, period_ns: 5 }));
        }
    }

    #[test]
    fn births_ends_new_programs_and_losses_are_distinguished() {
        let task = [two(7, 1), two(8, 2), 0];
        assert_eq!(Record::parse(&record(7, 0, &task)), Some(Record::Born { parent: 2, tid: 8 }));
        assert_eq!(Record::parse(&record(4, 0, &task)), Some(Record::Ended { tid: 8 }));
        assert_eq!(Record::parse(&record(3, 1 << 13, &[two(7, 8), 0])), Some(Record::Executed { pid: 7 }));
        assert_eq!(Record::parse(&record(3, 0, &[two(7, 8), 0])), None, "a task only changed its name");
        assert_eq!(Record::parse(&record(2, 0, &[1, 42])), Some(Record::Lost { records: 42 }));
        assert_eq!(Record::parse(&[1, 2, 3]), None);
    }
}
