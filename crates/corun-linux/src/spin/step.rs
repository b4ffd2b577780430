//! One instruction from a spin detector's view: what it reads and writes, and whether it makes progress.
//!
//! Progress is anything that another part of the program can see or that later work may depend on: a store
//! outside the own stack frame, floating-point or vector work, a string instruction, a system call. Registers
//! and slots of the own stack frame are *places*: unoptimized code keeps in slots what optimized code keeps
//! in registers.
//!
//! Limits: x86-64. Slots are identified by 8-byte words; a store through a pointer into the own stack is no
//! progress and defines no place.

use iced_x86::{
    Code, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};

/// A place for values that only this thread sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A general register by its number (`RAX` is 0, `RCX` 1 … as in the machine code).
    Register(u8),
    /// The arithmetic flags.
    Flags,
    /// A word of the stack, by its address / 8.
    Slot(u64),
}

/// An address in memory that others may write to, in the form that the instruction gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    base: Register,
    index: Register,
    scale: u32,
    displacement: u64,
    segment: Register,
}

/// The effect of an instruction on others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// None.
    Nothing,
    /// It pauses briefly: PAUSE and similar instructions, or `sched_yield`.
    Pause,
    /// Something happened.
    Progress,
}

/// What an instruction does to a value that comes around to it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carry {
    /// Hands it on.
    Copy,
    /// Counts: adds, subtracts, shifts or masks by a constant.
    Count,
    /// Exchanges it with a lock word, atomically.
    Try,
    /// Anything else: it computes.
    Compute,
}

/// Registers that point into the own stack, and other knowledge on the path to an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownValues {
    /// The stack pointer.
    pub sp: Option<u64>,
    /// The frame pointer, if `RBP` is one.
    pub bp: Option<u64>,
    /// Bit n: register n points into the own stack.
    pub to_stack: u16,
    /// Known contents of registers, from a constant or a pointer in a fixed place: numbers of system calls,
    /// functions.
    pub values: [Option<u64>; 16],
}

/// One instruction with its effects.
#[derive(Clone, Debug)]
pub struct Step {
    /// The instruction.
    pub instruction: Instruction,
    /// Its effect on others.
    pub effect: Effect,
    /// Places that it reads, including those of addresses.
    pub uses: Vec<Place>,
    /// Places that make up the address of its load.
    pub address_uses: Vec<Place>,
    /// Places it writes.
    pub defines: Vec<Place>,
    /// What it loads from memory that others may write to.
    pub load: Option<Address>,
    /// What it does to a value that comes around.
    pub carry: Carry,
}

/// The number of a general register; `None` for the stack pointer, the instruction pointer and all others.
pub fn number(register: Register) -> Option<u8> {
    let full = register.full_register();
    (full.is_gpr64() && full != Register::RSP).then(|| full.number() as u8)
}

fn reads(access: OpAccess) -> bool {
    use OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite};
    // A conditional write keeps the old value if it does not happen.
    matches!(access, Read | CondRead | ReadWrite | ReadCondWrite | CondWrite)
}

fn writes(access: OpAccess) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

impl Step {
    /// The effect of `instruction`, given what is `known` before it.
    pub fn of(instruction: Instruction, known: &KnownValues, factory: &mut InstructionInfoFactory) -> Step {
        let info = factory.info(&instruction);
        let mut step = Step {
            instruction,
            effect: effect(&instruction, known),
            uses: Vec::new(),
            address_uses: Vec::new(),
            defines: Vec::new(),
            load: None,
            carry: carry(&instruction),
        };
        for used in info.used_registers() {
            match number(used.register()) {
                Some(n) => step.touch(Place::Register(n), used.access()),
                None if is_data(used.register()) && instruction.code() != Code::VEX_Vzeroupper => {
                    step.effect = Effect::Progress;
                }
                None => {}
            }
        }
        for memory in info.used_memory() {
            step.touch_memory(memory, known);
        }
        if instruction.rflags_read() != 0 {
            step.uses.push(Place::Flags);
        }
        if instruction.rflags_modified() != 0 {
            step.defines.push(Place::Flags);
        }
        step
    }

    fn touch(&mut self, place: Place, access: OpAccess) {
        if reads(access) {
            self.uses.push(place);
        }
        if writes(access) {
            self.defines.push(place);
        }
    }

    fn touch_memory(&mut self, memory: &UsedMemory, known: &KnownValues) {
        if let Some(address) = slot(memory, known) {
            self.touch(Place::Slot(address / 8), memory.access());
            return;
        }
        let base = number(memory.base());
        let own_stack =
            memory.base() == Register::RSP || base.is_some_and(|n| known.to_stack & (1 << n) != 0);
        if writes(memory.access()) && !own_stack && self.carry != Carry::Try {
            self.effect = Effect::Progress;
        }
        if reads(memory.access()) {
            let registers = [base, number(memory.index())];
            self.address_uses.extend(registers.into_iter().flatten().map(Place::Register));
            self.load = Some(Address {
                base: memory.base(),
                index: memory.index(),
                scale: memory.scale(),
                displacement: memory.displacement(),
                segment: memory.segment(),
            });
            // A value that determines the address of the next load is a chain of pointers.
            if self.carry == Carry::Copy {
                self.carry = Carry::Compute;
            }
        }
    }

    /// Whether it is a branch on a condition.
    pub fn is_conditional(&self) -> bool {
        self.instruction.flow_control() == FlowControl::ConditionalBranch
    }
}

/// Vector, mask, x87 and MMX registers: those for numeric computation.
fn is_data(register: Register) -> bool {
    register.is_vector_register()
        || register.is_k()
        || register.is_mm()
        || register.is_st()
        || register.is_tmm()
}

/// The address in the own stack frame that `memory` names, if it does.
fn slot(memory: &UsedMemory, known: &KnownValues) -> Option<u64> {
    let base = match memory.base() {
        Register::RSP => known.sp,
        Register::RBP => known.bp,
        _ => None,
    };
    (memory.index() == Register::None).then_some(base?.wrapping_add(memory.displacement()))
}

fn effect(instruction: &Instruction, known: &KnownValues) -> Effect {
    match instruction.mnemonic() {
        Mnemonic::Pause | Mnemonic::Umwait | Mnemonic::Tpause | Mnemonic::Mwaitx => Effect::Pause,
        Mnemonic::Syscall if known.values[0] == Some(libc::SYS_sched_yield as u64) => Effect::Pause,
        Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Int | Mnemonic::Cpuid => Effect::Progress,
        Mnemonic::Rdrand | Mnemonic::Rdseed => Effect::Progress,
        _ if instruction.is_string_instruction() => Effect::Progress,
        _ => match instruction.flow_control() {
            FlowControl::Interrupt | FlowControl::Exception | FlowControl::XbeginXabortXend => {
                Effect::Progress
            }
            _ => Effect::Nothing,
        },
    }
}

fn carry(instruction: &Instruction) -> Carry {
    let constants = OpKind::Immediate8..=OpKind::Immediate32to64;
    let with_constant = instruction.op_count() == 2 && constants.contains(&instruction.op1_kind());
    let doubling = instruction.op_count() == 2
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register();
    use Mnemonic as M;
    match instruction.mnemonic() {
        M::Xchg | M::Cmpxchg | M::Cmpxchg8b | M::Cmpxchg16b => Carry::Try,
        M::Bts | M::Btr | M::Btc if instruction.has_lock_prefix() => Carry::Try,
        M::Mov | M::Movzx | M::Movsx | M::Movsxd | M::Push | M::Pop | M::Leave | M::Cdqe => Carry::Copy,
        M::Cmp | M::Test | M::Call | M::Ret | M::Jmp => Carry::Copy,
        M::Inc | M::Dec => Carry::Count,
        M::Add | M::Sub | M::And | M::Shl | M::Shr | M::Sar if with_constant => Carry::Count,
        M::Add if doubling => Carry::Count,
        M::Lea if instruction.memory_index() == Register::None => Carry::Count,
        _ if is_conditional_move(instruction) => Carry::Copy,
        _ => Carry::Compute,
    }
}

/// `CMOVcc`, `SETcc` and `Jcc`: they choose, they do not compute.
fn is_conditional_move(instruction: &Instruction) -> bool {
    instruction.condition_code() != iced_x86::ConditionCode::None
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    const STACK: KnownValues =
        KnownValues { sp: Some(0x1000), bp: Some(0x1040), to_stack: 0, values: [None; 16] };

    fn step(bytes: &[u8], known: &KnownValues) -> Step {
        let instruction = Decoder::with_ip(64, bytes, 0x40_0000, DecoderOptions::NONE).decode();
        Step::of(instruction, known, &mut InstructionInfoFactory::new())
    }

    fn effect_of(bytes: &[u8]) -> Effect {
        step(bytes, &STACK).effect
    }

    #[test]
    fn stores_outside_the_own_stack_vectors_and_system_calls_are_progress() {
        assert_eq!(effect_of(&[0x89, 0x07]), Effect::Progress, "mov [rdi], eax");
        assert_eq!(effect_of(&[0xf0, 0xff, 0x07]), Effect::Progress, "lock inc dword [rdi]");
        assert_eq!(effect_of(&[0xf2, 0x0f, 0x58, 0xc1]), Effect::Progress, "addsd xmm0, xmm1");
        assert_eq!(effect_of(&[0xf3, 0xaa]), Effect::Progress, "rep stosb");
        assert_eq!(effect_of(&[0x0f, 0x05]), Effect::Progress, "a system call that nobody knows");
    }

    #[test]
    fn looking_trying_and_counting_on_the_stack_are_not_progress() {
        assert_eq!(effect_of(&[0x8b, 0x07]), Effect::Nothing, "mov eax, [rdi]");
        assert_eq!(effect_of(&[0x87, 0x07]), Effect::Nothing, "xchg [rdi], eax");
        assert_eq!(effect_of(&[0xf0, 0x0f, 0xb1, 0x17]), Effect::Nothing, "lock cmpxchg [rdi], edx");
        assert_eq!(effect_of(&[0x83, 0x45, 0xfc, 0x01]), Effect::Nothing, "add dword [rbp-4], 1");
        assert_eq!(effect_of(&[0x89, 0x44, 0x24, 0x08]), Effect::Nothing, "mov [rsp+8], eax");
        assert_eq!(effect_of(&[0xc5, 0xf8, 0x77]), Effect::Nothing, "vzeroupper");
    }

    #[test]
    fn pause_and_sched_yield_are_pauses() {
        assert_eq!(effect_of(&[0xf3, 0x90]), Effect::Pause);
        let mut yields = STACK;
        yields.values[0] = Some(libc::SYS_sched_yield as u64);
        assert_eq!(step(&[0x0f, 0x05], &yields).effect, Effect::Pause);
    }

    #[test]
    fn a_frame_pointer_is_used_only_if_it_is_one() {
        let general = KnownValues { bp: None, ..STACK };
        assert_eq!(step(&[0x89, 0x45, 0xfc], &general).effect, Effect::Progress, "mov [rbp-4], eax");
        let pointing = KnownValues { to_stack: 1 << 7, ..STACK };
        assert_eq!(step(&[0x89, 0x07], &pointing).effect, Effect::Nothing, "rdi points into the stack");
    }

    #[test]
    fn slots_of_the_stack_are_places_like_registers() {
        let s = step(&[0x83, 0x45, 0xf8, 0x01], &STACK);
        assert_eq!((s.uses.contains(&Place::Slot(0x1038 / 8)), s.carry), (true, Carry::Count));
        assert!(s.defines.contains(&Place::Slot(0x1038 / 8)) && s.load.is_none());
        let load = step(&[0x8b, 0x04, 0x8f], &STACK);
        assert_eq!(load.address_uses, [Place::Register(7), Place::Register(1)], "mov eax, [rdi+rcx*4]");
    }

    #[test]
    fn counting_differs_from_computing() {
        let carry = |bytes: &[u8]| step(bytes, &STACK).carry;
        assert_eq!(carry(&[0xff, 0xc9]), Carry::Count, "dec ecx");
        assert_eq!(carry(&[0xd1, 0xe0]), Carry::Count, "shl eax, 1");
        assert_eq!(carry(&[0x01, 0xc0]), Carry::Count, "add eax, eax");
        assert_eq!(carry(&[0x01, 0xc8]), Carry::Compute, "add eax, ecx");
        assert_eq!(carry(&[0x6b, 0xc0, 0x03]), Carry::Compute, "imul eax, eax, 3");
        assert_eq!(carry(&[0x0f, 0x44, 0xc1]), Carry::Copy, "cmove eax, ecx");
        assert_eq!(carry(&[0x48, 0x8b, 0x00]), Carry::Compute, "mov rax, [rax] walks");
    }
}
