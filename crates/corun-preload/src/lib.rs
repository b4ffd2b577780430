//! A library that the dynamic linker loads before all others (`LD_PRELOAD`), so that programs adapt whose code nobody edits.
//!
//! | what the program uses | hook |
//! | --- | --- |
//! | OpenMP of GCC (libgomp) | `gomp.rs`: a parallel region starts with fewer threads |
//! | OpenMP of LLVM (libomp) | `kmp.rs`: the same |
//! | OpenBLAS | `blas.rs`: fewer threads before a call that uses several |
//! | the number of CPUs | `count.rs`: a smaller number, only with `CORUN_ADAPT_COUNT=1` |
//!
//! A hook only ever lowers what the program would have done, and only where it starts to run in parallel. Where nothing is taken from the
//! process nothing changes. What a program asks for in so many words, as the clause `num_threads` does, stays, unless
//! `CORUN_ADAPT_CLAUSES=1` says that its number is only that of CPUs.
//! `omp_get_max_threads` stays too: programs size their arrays by it.
//!
//! `CORUN_ADAPT=observe` changes nothing and says what would change; a hook that cannot help says so, once. All hooks but that of
//! the number of CPUs exist for x86-64 only.

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
