//! One sample: the task, its location, its registers, and the top of its stack.

/// How much of the stack is copied with a sample. It holds the frames of the few small functions of a wait,
/// or those of a message-passing library (about 650 bytes in Open MPI) and the beginning of the program's
/// own.
pub const STACK_BYTES: usize = 1024;

/// A task interrupted at an instant of its time on a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its process.
    pub pid: u32,
    /// The task.
    pub tid: u32,
    /// The time on a CPU that this sample stands for, in nanoseconds.
    pub period_ns: u64,
    /// Whether it was in the kernel.
    pub in_kernel: bool,
    /// The next instruction in user space.
    pub ip: u64,
    /// The general registers by their numbers in machine code (`RAX`, `RCX`, `RDX`, `RBX`, `RSP`, `RBP`, …).
    pub registers: [u64; 16],
    /// The flags register.
    pub flags: u64,
    /// The bytes above the stack pointer, up to [`STACK_BYTES`].
    pub stack: Vec<u8>,
}

impl Sample {
    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.registers[4]
    }

    /// `RBP`, which may be a frame pointer.
    pub fn bp(&self) -> u64 {
        self.registers[5]
    }

    /// The word of the stack at `address`, if it was copied.
    pub fn stack_word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.sp())?).ok()?;
        let bytes = self.stack.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
}
