//! No input makes a parser panic or hang: mutated files of every kind that corun reads, by seed.
//!
//! `cargo test --test fuzz` gives each parser a few thousand inputs; `make fuzz INPUTS=100000000` any number.
//! A finding is printed with the command that repeats it: `FUZZ_TARGET=… FUZZ_SEED=… FUZZ_FROM=…`, and
//! becomes a line of the corpus. Limits: it does not measure code coverage; a long loop that ends is only
//! found above [`HANG`].

#[path = "fuzz/mutation.rs"]
mod mutation;
#[path = "fuzz/targets.rs"]
mod targets;

use mutation::Dice;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use targets::Target;

/// Inputs for all parsers together, unless `FUZZ_INPUTS` says otherwise.
const INPUTS: u64 = 40_000;
/// An input that takes this long hangs.
const HANG: Duration = Duration::from_secs(30);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// What tries an input again.
fn replay(target: &str, seed: u64, at: u64) -> String {
    format!("FUZZ_TARGET='{target}' FUZZ_SEED={seed} FUZZ_FROM={at} FUZZ_INPUTS=1 cargo test --test fuzz")
}

/// Gives a parser its inputs; returns the failure of the first one that it could not handle.
fn fuzz(target: &mut Target, seed: u64, from: u64, inputs: u64, doing: &Doing) -> Result<(), String> {
    for at in from..from + inputs {
        doing.begin(&replay(target.name, seed, at), at);
        let input = mutation::input(&mut Dice::of(seed, target.name, at), &target.corpus);
        if catch_unwind(AssertUnwindSafe(|| (target.read)(&input))).is_err() {
            return Err(format!("{}\n{}", replay(target.name, seed, at), input.escape_ascii()));
        }
    }
    Ok(())
}

/// The input that is being tried, for the thread that checks for hangs.
#[derive(Default)]
struct Doing {
    what: Mutex<String>,
    count: AtomicU64,
    is_over: AtomicBool,
}

impl Doing {
    fn begin(&self, what: &str, at: u64) {
        // Often enough to be useful, seldom enough to cost nothing.
        if at.is_multiple_of(64) || self.count.load(Ordering::Relaxed) == 0 {
            what.clone_into(&mut self.what.lock().unwrap());
        }
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends everything where nothing goes on.
    fn watch(&self) {
        let (mut seen, mut since) = (0, Instant::now());
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
            let count = self.count.load(Ordering::Relaxed);
            if count != seen {
                (seen, since) = (count, Instant::now());
            } else if since.elapsed() > HANG {
                eprintln!("an input hangs, at most 64 after: {}", self.what.lock().unwrap());
                std::process::exit(101);
            }
        }
    }
}

#[test]
fn no_input_makes_a_parser_panic_or_hang() {
    let (seed, from) = (number("FUZZ_SEED", 1), number("FUZZ_FROM", 0));
    let inputs = number("FUZZ_INPUTS", INPUTS);
    let only = std::env::var("FUZZ_TARGET").ok();
    let doing = Doing::default();
    let found: Vec<String> = std::thread::scope(|scope| {
        scope.spawn(|| doing.watch());
        let mut found = Vec::new();
        let mut all = targets::all();
        all.retain(|target| only.as_ref().is_none_or(|only| only == target.name));
        assert!(!all.is_empty(), "FUZZ_TARGET names no parser");
        for mut target in all {
            let begin = Instant::now();
            let share = if only.is_some() { inputs } else { (inputs * target.share).div_ceil(1_000) };
            found.extend(fuzz(&mut target, seed, from, share, &doing).err());
            println!("{:>10} inputs in {:5.1} s: {}", share, begin.elapsed().as_secs_f64(), target.name);
        }
        doing.is_over.store(true, Ordering::Relaxed);
        found
    });
    assert!(found.is_empty(), "\n{}\n", found.join("\n\n"));
}

#[test]
fn every_parser_accepts_its_unchanged_corpus() {
    for mut target in targets::all() {
        for text in target.corpus.clone() {
            (target.read)(&text);
        }
    }
}

#[test]
fn the_same_seed_makes_the_same_input_and_a_different_seed_a_different_one() {
    let corpus = [b"a = 1\nb = 2\n".to_vec(), b"c = \"x\"\n".to_vec()];
    let made = |seed, at| mutation::input(&mut Dice::of(seed, "t", at), &corpus);
    assert_eq!(made(1, 5), made(1, 5));
    let different: std::collections::BTreeSet<Vec<u8>> = (0..200).map(|at| made(1, at)).collect();
    assert!(different.len() > 100, "{}", different.len());
    assert!((0..50).any(|at| made(1, at) != made(2, at)));
}
