//! OpenMP of LLVM, and of compilers that use its library: compiled code calls one function to start a parallel region. For the clause
//! `num_threads` it first calls another one, which holds for that region only. This hook lowers the number the same way.
//!
//! The tools interface of OpenMP 5 cannot do this: a tool sees a region begin, but a number that it then sets stays set for the
//! program.

use crate::openmp::lowered;
use crate::real::Near;
use crate::trampoline::trampolines;
use corun_adapt::Width;
use std::cell::Cell;
use std::ffi::{c_int, c_void};

trampolines! {
    clause;
    "__kmpc_push_num_threads",
}

trampolines! {
    start;
    "__kmpc_fork_call",
}

thread_local! {
    /// Whether the next region of this thread has a clause.
    static CLAUSE: Cell<bool> = const { Cell::new(false) };
}

/// The program sets a number for its next region.
fn clause(width: &Width, given: &mut [u64; 6], real: *const c_void) {
    // The upper half of the register is undefined.
    if let Some(threads) = lowered(width, given[2] as u32, real) {
        given[2] = u64::from(threads);
    }
    let _ = CLAUSE.try_with(|clause| clause.set(true));
}

/// Lowers the number of threads of a region before it starts. `real` is the function that starts it.
fn start(width: &Width, given: &mut [u64; 6], real: *const c_void) {
    if CLAUSE.try_with(|clause| clause.replace(false)) != Ok(false) {
        return;
    }
    let Some(threads) = lowered(width, 0, real) else { return };
    static THIS: Near = Near::new(&[c"__kmpc_global_thread_num"]);
    static PUSH: Near = Near::new(&[c"__kmpc_push_num_threads"]);
    let (Some(this), Some(push)) = (THIS.of(real), PUSH.of(real)) else { return };
    // SAFETY: the function of that name has this type.
    let this: extern "C" fn(u64) -> c_int = unsafe { std::mem::transmute(this) };
    // SAFETY: the function of that name has this type.
    let push: extern "C" fn(u64, c_int, c_int) = unsafe { std::mem::transmute(push) };
    // The first argument is the place in the program.
    push(given[0], this(given[0]), threads as c_int);
}
