//! OpenMP of GCC: compiled code calls one of these functions to start a parallel region. The third argument is the number of threads,
//! or 0 if the program leaves it open.

use crate::openmp::lowered;
use crate::real::near;
use crate::trampoline::trampolines;
use corun_adapt::Width;
use std::cell::Cell;
use std::ffi::{c_int, c_void};

trampolines! {
    start;
    "GOMP_parallel",
    "GOMP_parallel_reductions",
    "GOMP_parallel_sections",
    "GOMP_parallel_loop_static",
    "GOMP_parallel_loop_dynamic",
    "GOMP_parallel_loop_guided",
    "GOMP_parallel_loop_runtime",
    "GOMP_parallel_loop_nonmonotonic_dynamic",
    "GOMP_parallel_loop_nonmonotonic_guided",
    "GOMP_parallel_loop_nonmonotonic_runtime",
    "GOMP_parallel_loop_maybe_nonmonotonic_runtime",
}

thread_local! {
    /// Whether the last region of this thread had other threads, which still wait for the next region.
    static WAS_WIDE: Cell<bool> = const { Cell::new(false) };
}

/// `omp_pause_soft`.
const SOFT: c_int = 1;

/// After a region of one thread, the threads of the region before still wait. They occupy their CPUs if the program waits actively.
/// This ends them; the next wider region starts new ones.
fn let_go(real: *const c_void) {
    if let Some(pause) = near(c"omp_pause_resource_all", real) {
        // SAFETY: the function of that name has this type.
        let pause: extern "C" fn(c_int) -> c_int = unsafe { std::mem::transmute(pause) };
        pause(SOFT);
    }
}

/// Lowers the number of threads of a region before it starts. `real` is the function that starts it.
fn start(width: &Width, given: &mut [u64; 6], real: *const c_void) {
    // The upper half of the register is undefined.
    let asked = given[2] as u32;
    match lowered(width, asked, real) {
        Some(threads) => {
            if WAS_WIDE.try_with(|was| was.replace(threads > 1)) == Ok(true) && threads == 1 {
                let_go(real);
            }
            given[2] = u64::from(threads);
        }
        // A region that asks for one thread does not end the waiting threads.
        None if asked == 1 => {}
        None => {
            let _ = WAS_WIDE.try_with(|was| was.set(true));
        }
    }
}
