//! Knowledge about a thread's own stack along the path from a sample through the code.
//!
//! The stack pointer is followed through pushes, pops, additions and frames, in absolute addresses, starting
//! from the sampled registers. This shows which memory operands are slots of the own stack, which pointers
//! lead there, and where a return address lies.

use super::sample::Sample;
use super::step::{number, KnownValues, Place, Step};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// Addresses this far above the stack pointer belong to the thread's own recent frames.
const FRAMES_BYTES: u64 = 16 << 10;

/// The last source of the stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// The sampled stack pointer: the same distance in every sample here.
    Stack,
    /// The sampled frame pointer: likewise.
    Frame,
    /// A frame pointer that lay in the stack: valid for this sample only.
    SavedFrame,
}

/// The knowledge before an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Stack and registers.
    pub known: KnownValues,
    /// Where the stack pointer comes from.
    pub found_by: FoundBy,
}

fn is_near(address: u64, sample: &Sample) -> bool {
    (sample.sp()..sample.sp().saturating_add(FRAMES_BYTES)).contains(&address)
}

impl Frame {
    /// What the sample itself says.
    pub fn of(sample: &Sample) -> Frame {
        let known = KnownValues {
            sp: Some(sample.sp()),
            bp: Some(sample.bp()).filter(|&bp| is_near(bp, sample)),
            to_stack: pointing(sample),
            values: [None; 16],
        };
        Frame { known, found_by: FoundBy::Stack }
    }

    /// The knowledge after `step`; `pointer` reads memory.
    pub fn after(self, step: &Step, sample: &Sample, pointer: impl FnOnce(u64) -> Option<u64>) -> Frame {
        let instruction = &step.instruction;
        let before = self.known;
        let mut frame = self;
        let known = &mut frame.known;
        let moved = i64::from(instruction.stack_pointer_increment());
        known.sp = known.sp.map(|sp| sp.wrapping_add_signed(moved));
        for place in &step.defines {
            let Place::Register(n) = place else { continue };
            known.to_stack &= !(1 << n);
            known.values[usize::from(*n)] = None;
        }
        let saved = |at: Option<u64>| sample.stack_word(at?).filter(|&bp| is_near(bp, sample));
        let (target, from) = (operand(instruction, 0), operand(instruction, 1));
        match (instruction.mnemonic(), target, from) {
            (Mnemonic::Push | Mnemonic::Cmp | Mnemonic::Test, ..) => {}
            (Mnemonic::Leave, ..) => {
                known.sp = before.bp.map(|bp| bp.wrapping_add(8));
                known.bp = saved(before.bp);
                frame.found_by = self.through_frame_pointer();
            }
            (Mnemonic::Mov, Register::RSP, Register::RBP) => {
                known.sp = before.bp;
                frame.found_by = self.through_frame_pointer();
            }
            (mnemonic, Register::RSP, _) => {
                let by = instruction.try_immediate(1).ok();
                known.sp = match mnemonic {
                    Mnemonic::Sub => before.sp.zip(by).map(|(sp, n)| sp.wrapping_sub(n)),
                    Mnemonic::Add => before.sp.zip(by).map(|(sp, n)| sp.wrapping_add(n)),
                    Mnemonic::Lea => address(instruction, &before),
                    _ => None,
                };
            }
            (Mnemonic::Mov, Register::RBP, Register::RSP) => known.bp = before.sp,
            (Mnemonic::Lea, Register::RBP, _) => known.bp = address(instruction, &before),
            (Mnemonic::Pop, Register::RBP, _) => known.bp = saved(before.sp),
            (_, Register::RBP | Register::EBP, _) => known.bp = None,
            (Mnemonic::Lea, to, _) if address(instruction, &before).is_some() => known.point(to),
            (Mnemonic::Mov, to, Register::RSP) => known.point(to),
            (Mnemonic::Mov, to, from) => {
                if number(from).is_some_and(|n| before.to_stack & (1 << n) != 0) {
                    known.point(to);
                }
                if let Some(n) = number(to) {
                    let constant = instruction.try_immediate(1).ok();
                    known.values[usize::from(n)] =
                        constant.or_else(|| fixed_place(instruction, &before).and_then(pointer));
                }
            }
            _ => {}
        }
        frame
    }

    fn through_frame_pointer(&self) -> FoundBy {
        match self.found_by {
            FoundBy::Stack => FoundBy::Frame,
            FoundBy::Frame | FoundBy::SavedFrame => FoundBy::SavedFrame,
        }
    }
}

/// Bit n: the sampled register n points into the own stack.
pub fn pointing(sample: &Sample) -> u16 {
    let into = (0..16).filter(|&n| n != 4 && is_near(sample.registers[n], sample));
    into.fold(0, |mask, n| mask | 1 << n)
}

impl KnownValues {
    fn point(&mut self, register: Register) {
        if let Some(n) = number(register) {
            self.to_stack |= 1 << n;
        }
    }
}

/// The register of an operand, if it is one.
fn operand(instruction: &Instruction, n: u32) -> Register {
    let is_register = n < instruction.op_count() && instruction.op_kind(n) == OpKind::Register;
    if is_register {
        instruction.op_register(n)
    } else {
        Register::None
    }
}

/// The address of a load, if it is fixed: in the program, or reached through a pointer there.
fn fixed_place(instruction: &Instruction, known: &KnownValues) -> Option<u64> {
    if instruction.op1_kind() != OpKind::Memory || instruction.segment_prefix() != Register::None {
        return None;
    }
    if instruction.is_ip_rel_memory_operand() {
        return Some(instruction.ip_rel_memory_address());
    }
    let base = known.values[usize::from(number(instruction.memory_base())?)]?;
    (instruction.memory_index() == Register::None)
        .then_some(base.wrapping_add(instruction.memory_displacement64()))
}

/// The result of a `LEA`, if it is in the own stack.
fn address(instruction: &Instruction, known: &KnownValues) -> Option<u64> {
    let base = match instruction.memory_base() {
        Register::RSP => known.sp,
        Register::RBP => known.bp,
        _ => None,
    };
    (instruction.memory_index() == Register::None)
        .then_some(base?.wrapping_add(instruction.memory_displacement64()))
}
