//! What every OpenMP library can be asked before a region starts, by the functions that the standard names, and what comes of it.

use crate::process::{is_narrow, limit, observe};
use crate::real::Near;
use corun_adapt::Width;
use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicBool;
use std::sync::OnceLock;

/// Its value `1` lets a hook lower what the clause `num_threads` asks for, too: libraries give it the number of CPUs more often than a number that
/// their code depends on, and only who knows the program knows which.
const VARIABLE: &str = "CORUN_ADAPT_CLAUSES";

/// How many threads a region is to have that is about to start; `None`: as many as it would. `asked` is what its clause asks for, or 0,
/// and `real` a function of its library, since there may be two.
pub fn lowered(width: &Width, asked: u32, real: *const c_void) -> Option<u32> {
    if asked > 1 && !lowers_clauses() {
        static SAID: AtomicBool = AtomicBool::new(false);
        observe(
            width,
            &SAID,
            format_args!(
                "a region asks for {asked} threads by a clause, so it would keep them without --clauses"
            ),
        );
        return None;
    }
    // Where nothing is taken from the process this is all that it costs.
    if asked == 1 || !is_narrow(width) {
        return None;
    }
    let most = most_threads(real)?;
    let most = if asked > 0 { asked } else { most };
    Some(limit(width, most)).filter(|threads| *threads < most)
}

fn lowers_clauses() -> bool {
    static LOWERS: OnceLock<bool> = OnceLock::new();
    *LOWERS.get_or_init(|| std::env::var_os(VARIABLE).is_some_and(|value| value == "1"))
}

/// How many threads a region that is about to start may have; `None`: it lies within one that runs in parallel and shares what that
/// has, or the library does not say.
fn most_threads(real: *const c_void) -> Option<u32> {
    static ACTIVE_LEVEL: Near = Near::new(&[c"omp_get_active_level"]);
    static MAX_THREADS: Near = Near::new(&[c"omp_get_max_threads"]);
    let ask = |name: &Near| {
        let function = name.of(real)?;
        // SAFETY: both functions that are asked take nothing and return an int.
        Some(unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(function) }())
    };
    match (ask(&ACTIVE_LEVEL)?, ask(&MAX_THREADS)?) {
        (0, most) => Some(most.max(1) as u32),
        _ => None,
    }
}
