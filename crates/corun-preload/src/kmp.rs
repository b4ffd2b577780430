//! OpenMP of LLVM, and of compilers that use its library: code calls one function to start a parallel region. The clause `num_threads` is
//! another call just before it, which holds for that one region; that is how the number is lowered here too.
//!
//! The tools interface of OpenMP 5 cannot do this: a tool sees a region begin, and what it then sets stays set for the program.

use crate::openmp::most_threads;
use crate::process::{limit, observe};
use crate::real::near;
use crate::trampoline::trampolines;
use corun_adapt::Width;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicBool;

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

/// The program gives a number for its next region.
fn clause(_: &Width, _: &mut [u64; 6], _: *const c_void) {
    let _ = CLAUSE.try_with(|clause| clause.set(true));
}

/// Lowers the number of threads of a region that is about to start; `real` is the function that starts it.
fn start(width: &Width, given: &mut [u64; 6], real: *const c_void) {
    if CLAUSE.try_with(|clause| clause.replace(false)) != Ok(false) {
        static SAID: AtomicBool = AtomicBool::new(false);
        return observe(
            width,
            &SAID,
            format_args!("a region asks for its threads by a clause, so it would keep them"),
        );
    }
    let Some(most) = most_threads(real) else { return };
    let threads = limit(width, most);
    let functions = (near(c"__kmpc_global_thread_num", real), near(c"__kmpc_push_num_threads", real));
    let (true, (Some(this), Some(push))) = (threads < most, functions) else { return };
    // SAFETY: the function of that name has this type.
    let this: extern "C" fn(u64) -> c_int = unsafe { std::mem::transmute(this) };
    // SAFETY: the function of that name has this type.
    let push: extern "C" fn(u64, c_int, c_int) = unsafe { std::mem::transmute(push) };
    // The first argument says where in the program this is.
    push(given[0], this(given[0]), threads as c_int);
}
