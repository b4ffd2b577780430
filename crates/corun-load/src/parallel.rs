//! Parallel programs with known behavior: threads compute for a grain and then depend on each other through a barrier, a lock, a
//! pipeline, a queue, each other's queues, or not at all.
//!
//! A grain is an amount of work, given as its time alone on an idle CPU (see [`crate::calibration`]). Its length depends only on seed,
//! thread and index, so every run does the same work. Each program has one function below, and all wait through [`crate::waiting`].

use crate::barrier::Barrier;
use crate::crew::Crew;
use crate::kernel::Kernel;
use crate::load_thread::{LoadThread, Pace};
use crate::lock::Lock;
use crate::memory::{lines, Line};
use crate::plan::{of_every_thread, threads, Plan, Thread};
use crate::queue::Queue;
use crate::waiting::{Policy, Waiter};
use crate::watch::{Ended, Watch};
use crate::LoadError;
use corun_model::duration::{human_bytes, human_ns};
use corun_model::workload::{Flow, Length, Parallel, Sharing, Sync, Wait};
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The plan of `program`.
pub fn plan(program: &Parallel) -> Plan {
    let own = |name| Plan::alike(name, program.threads);
    let every = of_every_thread(program.length(), program.threads);
    let (name, unit, length, crew) = match program.sync {
        Sync::Barrier => {
            let first_counts = own("barrier").into_iter().enumerate();
            let crew = first_counts.map(|(i, t)| Thread { counts: i == 0, ..t }).collect();
            ("barrier", "round", program.length(), crew)
        }
        Sync::Lock => ("lock", "grain", every, own("lock")),
        Sync::Pipeline => {
            let flow = flow(program);
            let stage = |i| {
                let stage = flow.stage_of(i);
                let named = program.stage.get(stage as usize).map(|s| s.name.clone());
                let name = format!("{}-{i}", named.unwrap_or_else(|| format!("stage{stage}")));
                Thread { name, counts: flow.feeds(stage).is_empty() }
            };
            ("pipeline", "item", program.length(), (0..program.threads).map(stage).collect())
        }
        Sync::Queue => ("queue", "grain", program.length(), own("queue")),
        Sync::Steal => ("work stealing", "grain", program.length(), own("steal")),
        Sync::None => ("independent threads", "grain", every, own("free")),
    };
    Plan {
        what: describe(name, program),
        unit,
        threads: crew,
        cpus: program.cpus.clone(),
        length,
        demand: None,
        waits: program.sync != Sync::None,
        works: true,
    }
}

/// The path of a pipeline's items.
fn flow(program: &Parallel) -> Flow {
    Flow::of(program).expect("a program is checked before it runs")
}

fn describe(name: &str, p: &Parallel) -> String {
    let mut what = format!("{name}, {}", threads(p.threads));
    if p.sync != Sync::None {
        what += &match p.wait {
            Wait::Spin => ", spinning".to_string(),
            Wait::Block => ", blocking".to_string(),
            Wait::SpinThenBlock => format!(", spinning for {} then blocking", human_ns(p.spin)),
        };
    }
    what += &format!(", grain {}", human_ns(p.grain));
    if p.imbalance > 0.0 {
        what += &format!(" ± {:.0} %", p.imbalance * 100.0);
    }
    if p.io + p.sleep > 0 {
        what += &format!(", idle for {} after each", human_ns(p.io + p.sleep));
    }
    if p.footprint > 0 {
        what += &format!(", {} each", human_bytes(p.footprint));
    }
    if p.shared > 0 && p.sharing != Sharing::None {
        what += &format!(", {} shared", human_bytes(p.shared));
    }
    what
}

/// Memory that all threads of `program` touch together.
pub fn needed_bytes(program: &Parallel) -> u128 {
    u128::from(program.footprint) * u128::from(program.threads) + u128::from(program.shared)
}

/// The memory that the threads share.
pub fn shared(program: &Parallel) -> Vec<Line> {
    lines(if program.sharing == Sharing::None { 0 } else { program.shared })
}

/// The kernel of thread number `number`, with its memory touched.
pub fn kernel<'a>(program: &Parallel, shared: &'a [Line], number: usize) -> Kernel<'a> {
    Kernel::new(lines(program.footprint), shared, program.sharing, number)
}

/// A program about to run.
struct Run<'a> {
    program: &'a Parallel,
    shared: &'a [Line],
    pace: Pace,
    crew: &'a Crew,
}

/// Runs `program`.
///
/// # Errors
/// As [`Crew::run`].
pub fn run(
    program: &Parallel,
    shared: &[Line],
    pace: Pace,
    crew: &Crew,
    watch: &mut Watch,
) -> Result<Ended, LoadError> {
    let run = Run { program, shared, pace, crew };
    match program.sync {
        Sync::Barrier => run.barrier(watch),
        Sync::Lock => run.lock(watch),
        Sync::Pipeline => run.pipeline(watch),
        Sync::Queue => run.queue(watch),
        Sync::Steal => run.steal(watch),
        Sync::None => run.none(watch),
    }
}

impl<'a> Run<'a> {
    fn load_thread(&self, number: usize) -> LoadThread<'a> {
        self.crew.load_thread(number, kernel(self.program, self.shared, number), self.pace)
    }

    fn waiter(&self, number: usize) -> Waiter<'a> {
        let policy = match self.program.wait {
            Wait::Spin => Policy::Spin,
            Wait::Block => Policy::Block,
            Wait::SpinThenBlock => Policy::SpinThenBlock(self.program.spin),
        };
        Waiter::new(policy, &self.crew.tallies[number].wait)
    }

    /// The most iterations of each thread, or of the whole program.
    fn iterations(&self) -> u64 {
        match self.program.length() {
            Length::Iterations(n) => n,
            _ => u64::MAX,
        }
    }

    /// After the work of a grain: waits for its device and sleeps.
    fn rest(&self, hand: &LoadThread) {
        hand.idle(self.program.io + self.program.sleep);
    }

    /// All threads meet after every grain.
    fn barrier(&self, watch: &mut Watch) -> Result<Ended, LoadError> {
        let barrier = Barrier::new(self.program.threads);
        self.crew.run(watch, |number| {
            let (mut hand, waiter, barrier) = (self.load_thread(number), self.waiter(number), &barrier);
            move || {
                for round in 0..self.iterations() {
                    hand.work(self.program.grain_ns(number as u32, round));
                    self.rest(&hand);
                    if !barrier.wait(&waiter, || self.crew.is_cut()) {
                        return;
                    }
                    self.crew.tallies[number].iterations.add(1);
                }
            }
        })
    }

    /// Each grain has a part outside and a part inside a critical section.
    fn lock(&self, watch: &mut Watch) -> Result<Ended, LoadError> {
        let locks: Vec<Lock<()>> = (0..self.program.locks).map(|_| Lock::new(())).collect();
        self.crew.run(watch, |number| {
            let (mut hand, waiter, locks) = (self.load_thread(number), self.waiter(number), &locks);
            move || {
                for round in 0..self.iterations() {
                    let grain_ns = self.program.grain_ns(number as u32, round);
                    let inside_ns = (grain_ns as f64 * self.program.critical).round() as u64;
                    if !hand.work(grain_ns - inside_ns) {
                        return;
                    }
                    self.rest(&hand);
                    let lock = &locks[((round + number as u64) % locks.len() as u64) as usize];
                    let held = lock.acquire(&waiter);
                    let whole = hand.work(inside_ns);
                    drop(held);
                    if !whole {
                        return;
                    }
                    self.crew.tallies[number].iterations.add(1);
                }
            }
        })
    }

    /// Items flow through the stages. A stopped run lets items in progress through, without work and without counting them.
    fn pipeline(&self, watch: &mut Watch) -> Result<Ended, LoadError> {
        let flow = &flow(self.program);
        let depth = self.program.queue_depth as usize;
        let queues: Vec<Queue<u64>> = flow.producers().into_iter().map(|n| Queue::new(depth, n)).collect();
        let before = |stage| flow.queue(stage).map(|q| &queues[q]);
        let next_item = AtomicU64::new(0);
        self.crew.run(watch, |number| {
            let stage = flow.stage_of(number as u32);
            let (source, before) = (before(stage), &before);
            let (mut hand, waiter, next_item) = (self.load_thread(number), self.waiter(number), &next_item);
            move || {
                let take = |hand: &LoadThread| match source {
                    Some(queue) => queue.pop(&waiter),
                    None if hand.is_cut() => None,
                    None => Some(next_item.fetch_add(1, Relaxed)).filter(|item| *item < self.iterations()),
                };
                while let Some(item) = take(&hand) {
                    if hand.work(self.program.grain_ns(stage, item)) {
                        self.rest(&hand);
                        self.crew.tallies[number].iterations.add(1);
                    }
                    if let Some(queue) = flow.next(stage, item).and_then(before) {
                        queue.push(item, &waiter);
                    }
                }
                for queue in flow.feeds(stage).iter().filter_map(|&fed| before(fed)) {
                    queue.producer_leaves(&waiter);
                }
            }
        })
    }

    /// Threads take grains from one queue, which a lock guards, until it is empty.
    fn queue(&self, watch: &mut Watch) -> Result<Ended, LoadError> {
        let taken = Lock::new(0);
        self.crew.run(watch, |number| {
            let (mut hand, waiter, taken) = (self.load_thread(number), self.waiter(number), &taken);
            let take = move || {
                let mut taken = taken.acquire(&waiter);
                let grain = *taken;
                *taken += u64::from(grain < self.iterations());
                (grain < self.iterations()).then_some(grain)
            };
            move || {
                while let Some(grain) = take() {
                    if !hand.work(self.program.grain_ns(0, grain)) {
                        return;
                    }
                    self.rest(&hand);
                    self.crew.tallies[number].iterations.add(1);
                }
            }
        })
    }

    /// Each thread takes grains from the front of its own queue, which a lock guards. A thread without grains takes them from the back
    /// of the fullest queue.
    fn steal(&self, watch: &mut Watch) -> Result<Ended, LoadError> {
        let own: Vec<Lock<Range<u64>>> =
            (0..self.program.threads).map(|t| Lock::new(self.program.own_grains(t))).collect();
        self.crew.run(watch, |number| {
            let (mut hand, waiter, own) = (self.load_thread(number), self.waiter(number), &own);
            let left = |queue: &Lock<Range<u64>>, waiter: &Waiter| {
                let held = queue.acquire(waiter);
                held.end - held.start
            };
            let take = move || {
                if let Some(grain) = own[number].acquire(&waiter).next() {
                    return Some(grain);
                }
                loop {
                    let lengths = own.iter().enumerate().map(|(i, q)| (left(q, &waiter), Reverse(i)));
                    let (most, Reverse(fullest)) = lengths.max()?;
                    let stolen = own[fullest].acquire(&waiter).next_back();
                    if stolen.is_some() || most == 0 {
                        return stolen;
                    }
                }
            };
            move || {
                while let Some(grain) = take() {
                    if !hand.work(self.program.grain_ns(0, grain)) {
                        return;
                    }
                    self.rest(&hand);
                    self.crew.tallies[number].iterations.add(1);
                }
            }
        })
    }

    /// Threads that do not depend on each other.
    fn none(&self, watch: &mut Watch) -> Result<Ended, LoadError> {
        self.crew.run(watch, |number| {
            let mut hand = self.load_thread(number);
            move || {
                for round in 0..self.iterations() {
                    if !hand.work(self.program.grain_ns(number as u32, round)) {
                        return;
                    }
                    self.rest(&hand);
                    self.crew.tallies[number].iterations.add(1);
                }
            }
        })
    }
}
