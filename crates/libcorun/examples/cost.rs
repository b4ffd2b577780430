//! The cost of a call in nanoseconds: `cargo run --release -p libcorun --example cost`.

use corun::{
    corun_available, corun_beat, corun_close, corun_cpus, corun_heir, corun_is_wanted, corun_join,
    corun_on_cpu, corun_open, corun_progress, corun_publish, corun_refresh, corun_stolen, corun_threads,
    corun_workers, Handle, ABI,
};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The least of ten averages over a hundred thousand calls. Anything above that is caused by other work on the machine.
fn cost(name: &str, mut call: impl FnMut() -> i32) {
    const CALLS: u32 = 100_000;
    let average = || {
        let begin = Instant::now();
        for _ in 0..CALLS {
            black_box(call());
        }
        begin.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    let least = std::iter::repeat_with(average).take(10).fold(f64::INFINITY, f64::min);
    println!("{name:<20} {least:>8.1} ns");
}

fn main() {
    let mut c: *mut Handle = std::ptr::null_mut();
    // SAFETY: `c` can be written, and is open below.
    unsafe {
        assert_eq!(corun_open(ABI, 1, 0, &mut c), 0);
        assert_eq!(corun_workers(c, 2, 0), 0);
        assert_eq!(corun_join(c, 0), 0);
        assert_eq!(corun_publish(c), 0);
        std::thread::sleep(Duration::from_millis(60));
        let begin = Instant::now();
        corun_refresh(c);
        println!("{:<20} {:>8} ns, once in 50 ms", "corun_refresh, old", begin.elapsed().as_nanos());
        cost("corun_refresh", || corun_refresh(c));
        cost("corun_cpus", || corun_cpus());
        cost("corun_threads", || corun_threads(c));
        cost("corun_available", || corun_available(c));
        cost("corun_beat", || corun_beat(c, 0));
        cost("corun_is_wanted", || corun_is_wanted(c, 0));
        cost("corun_stolen", || corun_stolen(c, 0));
        cost("corun_on_cpu", || corun_on_cpu(c, 0));
        cost("corun_heir", || corun_heir(c, 0));
        cost("corun_progress", || corun_progress(c, 1));
        corun_close(c);
    }
}
