//! OpenBLAS: this hook sets its number of threads before a call that it spreads over threads.
//!
//! The hooked functions are those of level 3, the solver and two factorizations. They have their names in Fortran and in C, and the
//! names in the wheels of NumPy and SciPy.

use crate::process::{limit, observe};
use crate::real::Near;
use crate::trampoline::trampolines;
use corun_adapt::{Mode, Width};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::Relaxed};

macro_rules! blas {
    ($($name:literal)*) => {
        trampolines! {
            start;
            $(concat!($name, "_"), concat!("cblas_", $name), concat!("scipy_", $name, "_64_"),
              concat!("scipy_cblas_", $name, "64_"),)*
        }
    };
}

blas! {
    "sgemm" "dgemm" "cgemm" "zgemm"
    "ssymm" "dsymm" "csymm" "zsymm" "chemm" "zhemm"
    "ssyrk" "dsyrk" "csyrk" "zsyrk" "cherk" "zherk"
    "ssyr2k" "dsyr2k" "csyr2k" "zsyr2k" "cher2k" "zher2k"
    "strmm" "dtrmm" "ctrmm" "ztrmm"
    "strsm" "dtrsm" "ctrsm" "ztrsm"
}

trampolines! {
    start;
    "sgesv_", "dgesv_", "cgesv_", "zgesv_",
    "scipy_sgesv_64_", "scipy_dgesv_64_", "scipy_cgesv_64_", "scipy_zgesv_64_",
    "sgetrf_", "dgetrf_", "cgetrf_", "zgetrf_",
    "spotrf_", "dpotrf_", "cpotrf_", "zpotrf_",
    "scipy_sgetrf_64_", "scipy_dgetrf_64_", "scipy_cgetrf_64_", "scipy_zgetrf_64_",
    "scipy_spotrf_64_", "scipy_dpotrf_64_", "scipy_cpotrf_64_", "scipy_zpotrf_64_",
}

/// The names of the function that returns the number of threads.
static GET: Near = Near::new(&[
    c"openblas_get_num_threads",
    c"openblas_get_num_threads64_",
    c"scipy_openblas_get_num_threads64_",
    c"scipy_openblas_get_num_threads",
]);
/// The names of the function that sets it.
static SET: Near = Near::new(&[
    c"openblas_set_num_threads",
    c"openblas_set_num_threads64_",
    c"scipy_openblas_set_num_threads64_",
    c"scipy_openblas_set_num_threads",
]);

/// A copy of OpenBLAS in this process.
struct Copy {
    /// Its function that sets the number; 0 before the first call.
    set: AtomicUsize,
    /// The number that the program set.
    most: AtomicI32,
    /// The number that this hook set last.
    last: AtomicI32,
}

impl Copy {
    const fn none() -> Copy {
        Copy { set: AtomicUsize::new(0), most: AtomicI32::new(0), last: AtomicI32::new(0) }
    }
}

/// NumPy and SciPy bring one copy each. The hook leaves any further copies as they are.
static COPIES: [Copy; 4] = [const { Copy::none() }; 4];

/// Sets the number of threads of the library that contains the function `real`.
fn start(width: &Width, _: &mut [u64; 6], real: *const c_void) {
    static SAID: AtomicBool = AtomicBool::new(false);
    let (Some(get), Some(set)) = (GET.of(real), SET.of(real)) else {
        return observe(
            width,
            &SAID,
            format_args!("the BLAS of this program is not OpenBLAS, so it would keep its threads"),
        );
    };
    if width.mode() != Mode::On {
        return;
    }
    // SAFETY: OpenBLAS declares it with this type.
    let now = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(get) }();
    // SAFETY: OpenBLAS declares it with this type.
    let set_threads = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(c_int)>(set) };
    let is_its = |copy: &&Copy| {
        let free = copy.set.compare_exchange(0, set as usize, Relaxed, Relaxed);
        free.is_ok() || free == Err(set as usize)
    };
    let Some(copy) = COPIES.iter().find(is_its) else { return };
    if now != copy.last.load(Relaxed) {
        copy.most.store(now, Relaxed);
    }
    let threads = limit(width, copy.most.load(Relaxed).max(1) as u32) as c_int;
    copy.last.store(threads, Relaxed);
    if threads != now {
        set_threads(threads);
    }
}
