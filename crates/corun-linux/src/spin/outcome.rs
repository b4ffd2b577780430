//! What the sampled registers show about a sample in a loop that can wait: does this turn stay, or is it
//! about to leave?
//!
//! A free lock is passed through the same instructions as a held one. If registers, flags or the own stack
//! hold the answer already (a `TEST` after the load, the branch after a compare-and-exchange), following the
//! code to the next exit decides. A PAUSE ahead decides, too: a thread that gets the lock does not pause. If
//! the load is still ahead, the answer is open. Such samples are divided in the ratio of the decided ones of
//! the same loop.
//!
//! Limit: moves, comparisons and simple arithmetic are followed; the results of all other instructions are
//! unknown.

use super::sample::Sample;
use super::step::number;
use super::wait_loop::WaitLoop;
use iced_x86::{ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use std::collections::BTreeMap;

/// How a sample in a loop that can wait goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes round once more.
    Stays,
    /// It is about to leave.
    Leaves,
    /// It has yet to look.
    Open,
    /// It has yet to look, and stands right after a PAUSE: it comes from waiting.
    Paused,
}

const CARRY: u64 = 1;
const PARITY: u64 = 1 << 2;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const OVERFLOW: u64 = 1 << 11;

/// How `sample`, with these `registers`, goes on in `wait`.
pub fn of(wait: &WaitLoop, sample: &Sample, registers: &[u64; 16]) -> Outcome {
    let paused = || wait.turns.iter().any(|t| t.pauses && t.falls_to == Some(0));
    match follow(wait, sample, registers) {
        Outcome::Open if paused() => Outcome::Paused,
        outcome => outcome,
    }
}

fn follow(wait: &WaitLoop, sample: &Sample, registers: &[u64; 16]) -> Outcome {
    let mut machine = Machine {
        registers: registers.map(Some),
        flags: Some(sample.flags),
        sample,
        written: BTreeMap::new(),
        factory: InstructionInfoFactory::new(),
    };
    let mut at = 0;
    for _ in 0..=wait.turns.len() {
        let turn = &wait.turns[at];
        if turn.pauses {
            return Outcome::Stays;
        }
        let next = if turn.instruction.is_jcc_short_or_near() {
            let Some(taken) = machine.condition(turn.instruction.condition_code()) else {
                return Outcome::Open;
            };
            let (to, other) =
                if taken { (turn.jumps_to, turn.falls_to) } else { (turn.falls_to, turn.jumps_to) };
            match (to, other) {
                (None, _) => return Outcome::Leaves,
                (Some(_), None) => return Outcome::Stays,
                (Some(to), Some(_)) => to,
            }
        } else {
            machine.execute(&turn.instruction);
            match turn.jumps_to.or(turn.falls_to) {
                Some(next) => next,
                None => return Outcome::Leaves,
            }
        };
        if next == 0 {
            return Outcome::Stays;
        }
        at = next;
    }
    Outcome::Open
}

/// The part of the sampled task's state that can be followed without its memory: `None` is unknown.
struct Machine<'a> {
    registers: [Option<u64>; 16],
    flags: Option<u64>,
    sample: &'a Sample,
    /// Bytes of the own stack written on the path, by address.
    written: BTreeMap<u64, Option<u8>>,
    factory: InstructionInfoFactory,
}

impl Machine<'_> {
    fn condition(&self, condition: ConditionCode) -> Option<bool> {
        let flags = self.flags?;
        let is = |flag: u64| flags & flag != 0;
        Some(match condition {
            ConditionCode::o => is(OVERFLOW),
            ConditionCode::no => !is(OVERFLOW),
            ConditionCode::b => is(CARRY),
            ConditionCode::ae => !is(CARRY),
            ConditionCode::e => is(ZERO),
            ConditionCode::ne => !is(ZERO),
            ConditionCode::be => is(CARRY) || is(ZERO),
            ConditionCode::a => !is(CARRY) && !is(ZERO),
            ConditionCode::s => is(SIGN),
            ConditionCode::ns => !is(SIGN),
            ConditionCode::p => is(PARITY),
            ConditionCode::np => !is(PARITY),
            ConditionCode::l => is(SIGN) != is(OVERFLOW),
            ConditionCode::ge => is(SIGN) == is(OVERFLOW),
            ConditionCode::le => is(ZERO) || is(SIGN) != is(OVERFLOW),
            ConditionCode::g => !is(ZERO) && is(SIGN) == is(OVERFLOW),
            ConditionCode::None => return None,
        })
    }

    fn execute(&mut self, instruction: &Instruction) {
        let bits = width(instruction, 0);
        let sp = self.registers[4];
        let (left, right) = (self.value(instruction, 0), self.value(instruction, 1));
        let same = left_is_right(instruction);
        let holds = self.condition(instruction.condition_code());
        let moved = i64::from(instruction.stack_pointer_increment());
        let (result, flags) = match (instruction.mnemonic(), left, right) {
            (Mnemonic::Mov | Mnemonic::Movzx, _, right) => (right, None),
            (Mnemonic::Movsx | Mnemonic::Movsxd, _, right) => {
                let unused = 64 - width(instruction, 1);
                (right.map(|r| ((r << unused) as i64 >> unused) as u64), None)
            }
            (Mnemonic::Push, left, _) => (left, None),
            (Mnemonic::Pop, ..) => (sp.and_then(|sp| self.load(sp, 64)), None),
            (Mnemonic::Xor | Mnemonic::Sub, ..) if same => (Some(0), Some(ZERO | PARITY)),
            (Mnemonic::Test, Some(l), Some(r)) => (None, Some(logical(l & r, bits))),
            (Mnemonic::And, Some(l), Some(r)) => (Some(l & r), Some(logical(l & r, bits))),
            (Mnemonic::Or, Some(l), Some(r)) => (Some(l | r), Some(logical(l | r, bits))),
            (Mnemonic::Xor, Some(l), Some(r)) => (Some(l ^ r), Some(logical(l ^ r, bits))),
            (Mnemonic::Cmp, Some(l), Some(r)) => (None, Some(subtraction(l, r, bits))),
            (Mnemonic::Sub, Some(l), Some(r)) => (Some(l.wrapping_sub(r)), Some(subtraction(l, r, bits))),
            (Mnemonic::Dec, Some(l), _) => (Some(l.wrapping_sub(1)), Some(subtraction(l, 1, bits))),
            (Mnemonic::Add, Some(l), Some(r)) => (Some(l.wrapping_add(r)), None),
            (Mnemonic::Inc, Some(l), _) => (Some(l.wrapping_add(1)), None),
            (Mnemonic::Lea, ..) => (self.address(instruction), None),
            // SETcc has one operand, CMOVcc two.
            _ => match (holds, instruction.op_count()) {
                (Some(holds), 1) => (Some(u64::from(holds)), None),
                (Some(holds), 2) => (if holds { right } else { left }, None),
                _ => (None, None),
            },
        };
        if instruction.rflags_modified() != 0 {
            self.flags = flags;
        }
        self.forget_written(instruction);
        match instruction.mnemonic() {
            Mnemonic::Leave => {
                let bp = self.registers[5];
                self.registers[4] = bp.map(|bp| bp.wrapping_add(8));
                self.registers[5] = bp.and_then(|bp| self.load(bp, 64));
                return;
            }
            Mnemonic::Push => {
                self.registers[4] = sp.map(|sp| sp.wrapping_add_signed(moved));
                self.store(self.registers[4], 64, result);
                return;
            }
            _ if moved != 0 => self.registers[4] = sp.map(|sp| sp.wrapping_add_signed(moved)),
            _ => {}
        }
        if !matches!(instruction.mnemonic(), Mnemonic::Test | Mnemonic::Cmp) {
            self.keep(instruction, result, bits);
        }
    }

    /// Makes everything unknown that `instruction` writes to.
    fn forget_written(&mut self, instruction: &Instruction) {
        let info = self.factory.info(instruction);
        let reads = |access| matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess);
        let registers = info.used_registers().iter().filter(|u| !reads(u.access()));
        let lost: Vec<usize> = registers.filter_map(|u| number(u.register())).map(usize::from).collect();
        let writes_memory = info.used_memory().iter().any(|u| !reads(u.access()));
        for n in lost {
            // The lower part may be written next; the part above it stays.
            let partial = instruction.op_count() > 0 && width(instruction, 0) < 32;
            if !partial {
                self.registers[n] = None;
            }
        }
        if writes_memory && instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Memory {
            self.store(self.address(instruction), width(instruction, 0), None);
        }
    }

    /// Puts a result where the first operand is.
    fn keep(&mut self, instruction: &Instruction, result: Option<u64>, bits: u32) {
        if instruction.op_count() == 0 {
            return;
        }
        match instruction.op0_kind() {
            OpKind::Register => {
                let register = instruction.op0_register();
                if register == Register::RSP {
                    self.registers[4] = result;
                    return;
                }
                let Some(n) = number(register).map(usize::from) else { return };
                self.registers[n] = match (result, bits) {
                    (Some(value), 32 | 64) => Some(value & mask(bits)),
                    (Some(value), 8 | 16) if !is_high(register) => {
                        self.registers[n].map(|whole| whole & !mask(bits) | value & mask(bits))
                    }
                    _ => None,
                };
            }
            OpKind::Memory => self.store(self.address(instruction), bits, result),
            _ => {}
        }
    }

    fn value(&self, instruction: &Instruction, operand: u32) -> Option<u64> {
        if operand >= instruction.op_count() {
            return None;
        }
        match instruction.op_kind(operand) {
            OpKind::Register => {
                let register = instruction.op_register(operand);
                let whole = self.registers[usize::from(number(register)?)]?;
                (!is_high(register)).then_some(whole & mask(width(instruction, operand)))
            }
            OpKind::Memory => self.load(self.address(instruction)?, width(instruction, operand)),
            _ => Some(instruction.try_immediate(operand).ok()? & mask(width(instruction, 0))),
        }
    }

    /// The address of a memory operand that is based on the stack or frame pointer.
    fn address(&self, instruction: &Instruction) -> Option<u64> {
        let base = match (instruction.memory_base(), instruction.memory_index()) {
            (Register::RSP, Register::None) => self.registers[4],
            (Register::RBP, Register::None) => self.registers[5],
            _ => None,
        };
        Some(base?.wrapping_add(instruction.memory_displacement64()))
    }

    fn load(&self, address: u64, bits: u32) -> Option<u64> {
        (0..u64::from(bits / 8)).rev().try_fold(0, |value, byte| {
            let at = address.wrapping_add(byte);
            let byte = match self.written.get(&at) {
                Some(written) => (*written)?,
                None => *self.sample.stack.get(usize::try_from(at.checked_sub(self.sample.sp())?).ok()?)?,
            };
            Some(value << 8 | u64::from(byte))
        })
    }

    fn store(&mut self, address: Option<u64>, bits: u32, value: Option<u64>) {
        let Some(address) = address else { return };
        for byte in 0..u64::from(bits / 8) {
            self.written.insert(address.wrapping_add(byte), value.map(|v| (v >> (8 * byte)) as u8));
        }
    }
}

fn is_high(register: Register) -> bool {
    matches!(register, Register::AH | Register::BH | Register::CH | Register::DH)
}

/// The width of an operand in bits; 64 for a constant.
fn width(instruction: &Instruction, operand: u32) -> u32 {
    if operand >= instruction.op_count() {
        return 64;
    }
    let bytes = match instruction.op_kind(operand) {
        OpKind::Register => instruction.op_register(operand).size(),
        OpKind::Memory => instruction.memory_size().size(),
        _ => 8,
    };
    (bytes.clamp(1, 8) * 8) as u32
}

fn left_is_right(instruction: &Instruction) -> bool {
    instruction.op_count() > 1
        && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register()
}

fn mask(bits: u32) -> u64 {
    if bits >= 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    }
}

fn logical(value: u64, bits: u32) -> u64 {
    let value = value & mask(bits);
    let sign = if bits > 0 && value >> (bits - 1) & 1 == 1 { SIGN } else { 0 };
    let zero = if value == 0 { ZERO } else { 0 };
    let parity = if (value as u8).count_ones().is_multiple_of(2) { PARITY } else { 0 };
    sign | zero | parity
}

fn subtraction(left: u64, right: u64, bits: u32) -> u64 {
    let (left, right) = (left & mask(bits), right & mask(bits));
    let result = left.wrapping_sub(right) & mask(bits);
    let carry = if left < right { CARRY } else { 0 };
    let overflows = bits > 0 && ((left ^ right) & (left ^ result)) >> (bits - 1) & 1 == 1;
    logical(result, bits) | carry | if overflows { OVERFLOW } else { 0 }
}
