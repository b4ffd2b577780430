//! A library that the dynamic linker loads before all others (`LD_PRELOAD`), so that programs adapt without any change to their code.
//!
//! | what the program uses | hook |
//! | --- | --- |
//! | OpenMP of GCC (libgomp) | `gomp.rs`: a parallel region starts with fewer threads |
//! | OpenMP of LLVM (libomp) | `kmp.rs`: the same |
//! | OpenBLAS | `blas.rs`: fewer threads before a call that uses several |
//! | the number of CPUs | `count.rs`: a smaller number, only with `CORUN_ADAPT_COUNT=1` |
//!
//! A hook only ever lowers a number of threads, and only where the program starts to run in parallel. If nobody takes CPUs from the
//! process, nothing changes. An explicit number, as in the clause `num_threads`, stays. `CORUN_ADAPT_CLAUSES=1` says that such a number
//! is only the number of CPUs; then the hook lowers it too. `omp_get_max_threads` stays as well, since programs size their arrays by
//! it.
//!
//! `CORUN_ADAPT=observe` changes nothing and prints what would change. A hook that cannot help prints that once. All hooks except the
//! one for the number of CPUs exist only for x86-64.

#[cfg(target_arch = "x86_64")]
mod blas;
mod count;
#[cfg(target_arch = "x86_64")]
mod gomp;
#[cfg(target_arch = "x86_64")]
mod kmp;
#[cfg(target_arch = "x86_64")]
mod openmp;
mod process;
mod real;
#[cfg(target_arch = "x86_64")]
mod trampoline;
