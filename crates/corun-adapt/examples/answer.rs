//! Prints how many CPUs this process can get, twice a second, with the cost of asking: `answer [SECONDS] [THREADS]`. The threads
//! compute all the time.

use corun_adapt::Adapt;
use std::time::{Duration, Instant};

fn main() -> Result<(), corun_adapt::Error> {
    let number = |n| std::env::args().nth(n).and_then(|word| word.parse::<u64>().ok());
    let (seconds, threads) = (number(1).unwrap_or(5), number(2).unwrap_or(0));
    for _ in 0..threads {
        std::thread::spawn(|| loop {
            std::hint::spin_loop();
        });
    }
    let adapt = Adapt::new()?;
    for _ in 0..2 * seconds {
        std::thread::sleep(Duration::from_millis(500));
        let begin = Instant::now();
        adapt.refresh();
        let renewing = begin.elapsed();
        let begin = Instant::now();
        for _ in 0..1_000 {
            adapt.refresh();
            std::hint::black_box(adapt.answer());
        }
        println!(
            "{}; {} threads (renewed in {renewing:?}, asked in {:?})",
            adapt.answer(),
            adapt.answer().threads.unwrap_or(0),
            begin.elapsed() / 1_000
        );
    }
    Ok(())
}
