//! The rules for all OpenMP libraries. They use functions of the OpenMP standard before a region starts.

use crate::process::{is_narrow, limit, observe};
use crate::real::Near;
use corun_adapt::Width;
use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicBool;
use std::sync::OnceLock;

/// The value `1` lets a hook also lower the number in a clause `num_threads`. Libraries use the clause more often for the number of
/// CPUs than for a number that their code depends on. Only the user of the program can know which.
const VARIABLE: &str = "CORUN_ADAPT_CLAUSES";

/// How many threads a region gets that is about to start. `None` leaves it alone. `asked` is the number in its clause, or 0. `real` is
/// a function of its library, since a process may have two.
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
    // If the process has all its CPUs, a region costs only this.
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

/// How many threads a region that is about to start may have. `None` if it lies inside a parallel region and shares its threads, or if
/// the library does not say.
fn most_threads(real: *const c_void) -> Option<u32> {
    static ACTIVE_LEVEL: Near = Near::new(&[c"omp_get_active_level"]);
    static MAX_THREADS: Near = Near::new(&[c"omp_get_max_threads"]);
    let ask = |name: &Near| {
        let function = name.of(real)?;
        // SAFETY: both functions take no arguments and return an int.
        Some(unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(function) }())
    };
    match (ask(&ACTIVE_LEVEL)?, ask(&MAX_THREADS)?) {
        (0, most) => Some(most.max(1) as u32),
        _ => None,
    }
}
