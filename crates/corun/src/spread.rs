//! Runs in parallel on all CPUs, as far as the machine allows threads.

/// Does something whose parts may run in parallel. If the kernel refuses the threads, they run one after the
/// other: rayon would panic at the first of them.
pub fn spread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match rayon::ThreadPoolBuilder::new().build() {
        Ok(pool) => pool.install(work),
        Err(_) => {
            // If not even this is possible, the first part says why.
            let _ = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global();
            work()
        }
    }
}
