//! Random moments at which to kill a process. They are the same in every run, unless `KILL_SEED` sets another seed.

use std::time::Duration;

/// Durations since a start: from microseconds, before a process executes, to 65 ms, long after it began its work. Every order of
/// magnitude in between occurs.
pub fn moments(count: usize) -> impl Iterator<Item = Duration> {
    let seed: u64 = std::env::var("KILL_SEED").map_or(33, |text| text.parse().expect("a number"));
    println!("KILL_SEED={seed}");
    let mut state = seed;
    std::iter::repeat_with(move || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let drawn = mixed ^ (mixed >> 31);
        Duration::from_micros((drawn >> 48) >> (drawn % 12))
    })
    .take(count)
}
