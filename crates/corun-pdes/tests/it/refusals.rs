//! Invalid options are refused in one sentence with the remedy. Faults of a model are reported the same way.

use corun_pdes::models::Phold;
use corun_pdes::{run, run_sequentially, Context, Model, Options};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn refused(model: &Phold, options: Options) -> String {
    run(model, &options).expect_err("it is refused").to_string()
}

#[test]
fn invalid_options_are_refused_in_a_sentence() {
    let model = Phold { lps: 4, population: 5, ..Phold::default() };
    let given = Options { workers: 2, ..Options::default() };
    let table: Vec<(Phold, Options, &str)> = vec![
        (model, Options { workers: 0, ..given.clone() }, "workers is 0: name at least one"),
        (
            model,
            Options { workers: 5_000, ..given.clone() },
            "workers is 5000: name at most 4096, and no more than there are CPUs",
        ),
        (
            Phold { lps: 0, ..model },
            given.clone(),
            "the model has no logical processes: `lps` must return at least 1",
        ),
        (
            model,
            Options { kps: Some(0), ..given.clone() },
            "kps is 0: name at least one kernel process, or None",
        ),
        (
            model,
            Options { kps: Some(5), ..given.clone() },
            "5 kernel processes for 4 logical processes: name at most 4",
        ),
        (
            model,
            Options { workers: 5, ..given.clone() },
            "5 workers for 4 kernel processes: name at most 4 workers, or more kernel processes",
        ),
        (
            model,
            Options { checkpoint_every: 0, ..given.clone() },
            "checkpoint_every is 0: name at least 1 event",
        ),
        (model, Options { gvt_every: 0, ..given.clone() }, "gvt_every is 0: name at least 1 event"),
        (
            model,
            Options { memory: 19, ..given.clone() },
            "memory is 19 events, but the model starts with 20: raise `memory` above that",
        ),
        (
            model,
            Options { memory: 0, ..given.clone() },
            "memory is 0 events, but the model starts with 20: raise `memory` above that",
        ),
    ];
    for (model, options, sentence) in table {
        assert_eq!(refused(&model, options), sentence);
    }
}

/// Calls this function at time 500 in logical process 3.
struct Wrong(fn(&mut Context<'_, ()>));

impl Model for Wrong {
    type State = ();
    type Event = ();

    fn lps(&self) -> u32 {
        8
    }

    fn start(&self, context: &mut Context<'_, ()>) {
        let lp = context.lp();
        context.send(lp, 10, ());
    }

    fn handle(&self, _: &mut (), _: &(), context: &mut Context<'_, ()>) {
        let lp = context.lp();
        context.send(lp, 10, ());
        if lp == 3 && context.now() == 500 {
            (self.0)(context);
        }
    }
}

#[test]
fn both_engines_report_a_models_fault_in_the_same_words() {
    let options = Options { until: 10_000, workers: 2, ..Options::default() };
    let table: [(Wrong, &str); 3] = [
        (
            Wrong(|context| context.send(0, 0, ())),
            "the model sent an event with a delay of 0; the least is 1 tick",
        ),
        (
            Wrong(|context| context.send(8, 1, ())),
            "the model sent an event to logical process 8; they are 0 to 7",
        ),
        (Wrong(|_| panic!("no {}", "way")), "the model panicked: no way"),
    ];
    for (model, said) in table {
        let sentence = format!("logical process 3 at time 500: {said}");
        assert_eq!(run_sequentially(&model, &options).unwrap_err().to_string(), sentence);
        assert_eq!(run(&model, &options).unwrap_err().to_string(), sentence);
    }
}

/// Process 1 panics if an event comes before the message of process 0. Only events out of order make it panic. Process 0 sends its
/// first message when that has happened.
struct Hasty {
    came_too_early: AtomicBool,
}

impl Model for Hasty {
    type State = u64;
    type Event = u64;

    fn lps(&self) -> u32 {
        2
    }

    fn start(&self, context: &mut Context<'_, u64>) -> u64 {
        let lp = context.lp();
        context.send(lp, 1, 0);
        0
    }

    fn handle(&self, last: &mut u64, number: &u64, context: &mut Context<'_, u64>) {
        let (lp, now) = (context.lp(), context.now());
        if lp == 1 && now % 100 == 51 {
            // Process 0 sent at 50 into the round, so the last number is the one of this round.
            self.came_too_early.fetch_or(*last != now / 100 + 1, Ordering::Relaxed);
            assert_eq!(*last, now / 100 + 1, "too early");
        }
        if *number > 0 {
            *last = *number;
            return;
        }
        context.send(lp, 50, 0);
        if lp == 0 && now % 100 == 1 {
            let began = Instant::now();
            while !self.came_too_early.load(Ordering::Relaxed) && began.elapsed() < Duration::from_secs(60) {
                std::thread::yield_now();
            }
            context.send(1, 1, now / 100 + 1);
        }
    }
}

#[test]
fn a_panic_from_handling_too_early_is_taken_back() {
    std::panic::set_hook(Box::new(|_| {}));
    let options = Options { until: 100_000, workers: 2, kps: Some(2), ..Options::default() };
    let hasty = Hasty { came_too_early: AtomicBool::new(false) };
    let outcome = run(&hasty, &options);
    let _ = std::panic::take_hook();
    let outcome = outcome.unwrap();
    assert!(hasty.came_too_early.into_inner(), "nothing came too early");
    // In order this never happens, so process 0 must not wait for it.
    let in_order = Hasty { came_too_early: AtomicBool::new(true) };
    assert_eq!(outcome.traces, run_sequentially(&in_order, &options).unwrap().traces);
}
