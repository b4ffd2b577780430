//! Runs side by side on all CPUs, as far as the machine lets threads be started.

/// Does something whose parts may run side by side. Where the kernel refuses the threads they run one after the other: rayon
/// would panic at the first of them.
pub fn spread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match rayon::ThreadPoolBuilder::new().build() {
        Ok(pool) => pool.install(work),
        Err(_) => {
            // Where not even this can be had, the first part says why.
            let _ = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global();
            work()
        }
    }
}
