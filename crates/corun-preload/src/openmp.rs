//! What every OpenMP library can be asked before a region starts, by the functions that the standard names.

use crate::real::near;
use std::ffi::{c_int, c_void};

/// How many threads a region that is about to start may have; `None`: it lies within one that runs in parallel and shares what that
/// has, or the library does not say. `real` is the function that starts it: of the same library, since there may be two.
pub fn most_threads(real: *const c_void) -> Option<u32> {
    let ask = |name| {
        let function = near(name, real)?;
        // SAFETY: both functions that are asked take nothing and return an int.
        Some(unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(function) }())
    };
    match (ask(c"omp_get_active_level")?, ask(c"omp_get_max_threads")?) {
        (0, most) => Some(most.max(1) as u32),
        _ => None,
    }
}
