//! The answer on this machine, under any load.

use corun_adapt::{Adapt, Reason};
use std::time::{Duration, Instant};

#[test]
fn the_answer_comes_with_the_second_reading_and_stays_within_the_machine() {
    let adapt = Adapt::new().unwrap();
    let first = adapt.answer();
    assert_eq!((first.available, first.threads, first.reason), (None, None, Reason::NotYet));
    assert!(!adapt.refresh(), "it is not old yet");
    std::thread::sleep(Duration::from_millis(80));
    assert!(adapt.refresh());
    let answer = adapt.answer();
    let cpus = std::thread::available_parallelism().unwrap().get() as u32;
    let available = answer.available.expect("this machine can be read");
    assert!(available <= cpus * 1_000, "{answer}");
    assert!((1..=cpus).contains(&answer.threads.unwrap()), "{answer:?}");
    assert!(adapt.changes() > 0);
}

#[test]
fn many_threads_may_ask_and_one_of_them_reads() {
    let adapt = Adapt::new().unwrap();
    std::thread::sleep(Duration::from_millis(60));
    let read = |_| {
        let until = Instant::now() + Duration::from_millis(30);
        let mut renewed = 0;
        while Instant::now() < until {
            renewed += u32::from(adapt.refresh());
            let _ = adapt.answer();
        }
        renewed
    };
    let renewed: u32 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || read(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(renewed >= 1, "somebody renews an old answer");
}
