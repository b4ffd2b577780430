//! Functions that let a hook see their first six arguments, and then become the real function.
//!
//! A hook that wants only the third argument need not know the types of the others. A trampoline saves all registers that may hold
//! arguments, calls the hook, restores them and jumps. So the real function returns directly to the caller.

use crate::process::hook;
use crate::real::{find, Cache};
use corun_adapt::{say, Width};
use std::ffi::{c_void, CStr};

/// Runs before the real function. Gets the width of the process, the first six arguments, and the real function.
pub type Before = fn(&Width, &mut [u64; 6], *const c_void);

/// A function that is hooked.
pub struct Hooked {
    name: &'static CStr,
    before: Before,
    found: Cache,
}

impl Hooked {
    pub const fn new(name: &'static CStr, before: Before) -> Hooked {
        Hooked { name, before, found: Cache::new() }
    }
}

/// Every trampoline calls this. Returns the address to jump to.
pub unsafe extern "C" fn enter(hooked: &Hooked, given: &mut [u64; 6], caller: *const c_void) -> *mut c_void {
    let Some(real) = hooked.found.get(caller, || find(hooked.name, caller)) else {
        // The dynamic linker would also print this and end the process.
        say(format_args!("{} is called, and no library has it", hooked.name.to_string_lossy()));
        // SAFETY: it ends the process.
        unsafe { libc::_exit(127) };
    };
    hook(|width| (hooked.before)(width, given, real));
    real
}

/// Defines trampolines, exported under the names of the functions that they replace.
macro_rules! trampolines {
    ($before:expr; $($name:expr),* $(,)?) => {$(
        const _: () = {
            static HOOKED: $crate::trampoline::Hooked = $crate::trampoline::Hooked::new(
                match std::ffi::CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!(),
                },
                $before,
            );

            #[unsafe(naked)]
            #[export_name = $name]
            unsafe extern "C" fn trampoline() {
                $crate::trampoline::become_real!(HOOKED)
            }
        };
    )*};
}
pub(crate) use trampolines;

/// The code of a trampoline.
macro_rules! become_real {
    ($hooked:ident) => {
        std::arch::naked_asm!(
            "push rbp",
            "mov rbp, rsp",
            "sub rsp, 192",
            "mov [rsp], rdi",
            "mov [rsp + 8], rsi",
            "mov [rsp + 16], rdx",
            "mov [rsp + 24], rcx",
            "mov [rsp + 32], r8",
            "mov [rsp + 40], r9",
            "mov [rsp + 48], rax",
            "movups [rsp + 64], xmm0",
            "movups [rsp + 80], xmm1",
            "movups [rsp + 96], xmm2",
            "movups [rsp + 112], xmm3",
            "movups [rsp + 128], xmm4",
            "movups [rsp + 144], xmm5",
            "movups [rsp + 160], xmm6",
            "movups [rsp + 176], xmm7",
            "lea rdi, [rip + {hooked}]",
            "mov rsi, rsp",
            "mov rdx, [rbp + 8]",
            "call {enter}",
            "mov r11, rax",
            "mov rdi, [rsp]",
            "mov rsi, [rsp + 8]",
            "mov rdx, [rsp + 16]",
            "mov rcx, [rsp + 24]",
            "mov r8, [rsp + 32]",
            "mov r9, [rsp + 40]",
            "mov rax, [rsp + 48]",
            "movups xmm0, [rsp + 64]",
            "movups xmm1, [rsp + 80]",
            "movups xmm2, [rsp + 96]",
            "movups xmm3, [rsp + 112]",
            "movups xmm4, [rsp + 128]",
            "movups xmm5, [rsp + 144]",
            "movups xmm6, [rsp + 160]",
            "movups xmm7, [rsp + 176]",
            "leave",
            "jmp r11",
            hooked = sym $hooked,
            enter = sym $crate::trampoline::enter,
        )
    };
}
pub(crate) use become_real;
