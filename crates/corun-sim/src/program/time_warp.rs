//! The twin of `corun-pdes`: PHOLD on Time Warp, event by event, but only the virtual times.
//!
//! For each logical process it knows the time of the next event and of the last handled one. A worker takes its kernel process that is
//! furthest behind, and handles its events until another one is behind (a **stint**). It sends their messages when the stint is over. A
//! message before the last handled event of a process takes back every event since (**rollback**), and with each the event that it sent
//! (**cascade**), wherever that was handled. So the lost work follows from the distance of the workers in virtual time. Events that
//! were taken back are handled again, and states are restored by handling up to three events again.
//!
//! Under LADM, heartbeats that stand still show which workers have no CPU, and their heirs take over.
//! `corun-adapt` makes both decisions, as in the engine.
//!
//! Limits: an event's time is drawn again whenever it is handled again. A process has events at a constant
//! rate, even if its senders are far behind; a real one eventually runs out of them. Memory is unlimited, and
//! inboxes cost nothing. A worker that yields for lack of work waits like one that blocks.

use corun_adapt::{inherited, Beats, State, WorkerView};
use corun_model::workload::draw::bits;
use corun_model::workload::{Idle, Mapping, Pdes};
use std::ops::Range;

/// Consecutive events of one kernel process, after which a worker looks around.
const STINT: u32 = 64;
/// LADM: a worker without a sign of life for longer counts as preempted.
const STALE_AFTER_NS: u64 = 200_000;
/// A state is saved before every n-th event of a process.
const CHECKPOINT_EVERY: u64 = 4;
/// The engine's own time for an event, from a solo measurement in docs/pdes.md (4.96 million events per
/// second on one worker).
const ENGINE_NS: u64 = 200;
/// LADM: how often a spinning worker without work checks whether another has lost its CPU.
const GLANCE_NS: u64 = 100_000;
/// The same for a sleeping worker, which sleeps as long without news as in the engine.
const NAP_NS: u64 = 1_000_000;
const NEVER: u64 = u64::MAX;

/// The next action of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It wakes waiting workers, since there is news.
    Tell,
    /// It handles events for this long, as solo time.
    Work(u64),
    /// It has nothing to handle: it waits for news.
    Await,
    /// It has nothing to handle: it stays on its CPU for this long and looks again.
    Glance(u64),
    /// The same asleep.
    Nap(u64),
    /// No event is left before the end.
    Over,
}

/// A running simulation.
#[derive(Clone, Debug)]
pub struct TimeWarp {
    program: Pdes,
    until: u64,
    /// Mean time between two events of a process, in ticks.
    gap: f64,
    /// For each process: when its next event is due, and the time of the last one that it handled.
    next: Vec<u64>,
    last: Vec<u64>,
    kps: Vec<Kp>,
    workers: Vec<Worker>,
    horizon: u64,
    draws: u64,
    waiting: usize,
    has_news: bool,
    handled: u64,
    undone: u64,
}

#[derive(Clone, Debug)]
struct Kp {
    lps: Range<usize>,
    /// The time of the next event of any of its processes.
    next: u64,
    owner: usize,
    home: usize,
    /// Whether a worker has it in a stint.
    held: bool,
    /// The cost of taking back and restoring, for the worker that handles it next.
    debt_ns: u64,
}

#[derive(Clone, Debug)]
struct Worker {
    /// The kernel processes that it may handle; `None`: to be found again.
    mine: Option<Vec<usize>>,
    /// How many it owns, and how many of its initial ones others own.
    owned: usize,
    away: usize,
    /// The kernel process of its stint, and the virtual time when that began.
    stint: Option<(usize, u64)>,
    /// The messages of the stint's events: their targets and times.
    sent: Vec<(usize, u64)>,
    beat: u64,
    beats: Beats,
    waits: bool,
    sleeps: bool,
    cache: Option<u32>,
}

impl TimeWarp {
    /// At virtual time 0.
    pub fn new(program: &Pdes) -> TimeWarp {
        let (lps, kps, workers) =
            (u64::from(program.lps), u64::from(program.kernel_processes()), u64::from(program.threads));
        // The processes whose number times kps, divided by lps, is the kernel process, as in the engine.
        let first = |kp: u64| (kp * lps).div_ceil(kps) as usize;
        let kp = |kp: u64| {
            let home = (kp * workers / kps) as usize;
            Kp { lps: first(kp)..first(kp + 1), next: 0, owner: home, home, held: false, debt_ns: 0 }
        };
        let worker = |_| Worker {
            mine: None,
            owned: 0,
            away: 0,
            stint: None,
            sent: Vec::new(),
            beat: 0,
            beats: Beats::new(workers as usize, STALE_AFTER_NS, 0),
            waits: false,
            sleeps: false,
            cache: None,
        };
        let mut simulation = TimeWarp {
            until: program.until(),
            gap: (program.look_ahead + program.mean_delay) as f64 / f64::from(program.population),
            next: Vec::new(),
            last: vec![0; lps as usize],
            kps: (0..kps).map(kp).collect(),
            workers: (0..workers).map(worker).collect(),
            horizon: NEVER,
            draws: 0,
            waiting: 0,
            has_news: false,
            handled: 0,
            undone: 0,
            program: program.clone(),
        };
        for kp in &simulation.kps {
            simulation.workers[kp.home].owned += 1;
        }
        simulation.next =
            (0..lps).map(|_| program.look_ahead + simulation.exponential(simulation.gap)).collect();
        (0..simulation.kps.len()).for_each(|kp| simulation.find_next(kp));
        simulation.renew_horizon();
        simulation
    }

    /// Events that were handled and not taken back.
    pub fn committed(&self) -> u64 {
        // The number of events taken back is drawn again, so in the first instants it may be larger.
        self.handled.saturating_sub(self.undone)
    }

    /// Events that were taken back.
    pub fn undone(&self) -> u64 {
        self.undone
    }

    /// The next action of `worker` at `now_ns`, on a CPU with this last-level cache. Its action before is done.
    pub fn turn(&mut self, worker: usize, now_ns: u64, cache: u32) -> Turn {
        let me = &mut self.workers[worker];
        self.waiting -= usize::from(std::mem::take(&mut me.waits));
        (me.beat, me.cache, me.sleeps) = (me.beat + 1, Some(cache), false);
        self.end_stint(worker);
        self.renew_horizon();
        if std::mem::take(&mut self.has_news) && self.waiting > 0 {
            return Turn::Tell;
        }
        let is_ladm = self.program.mapping == Mapping::Ladm;
        if is_ladm && self.workers[worker].beats.stepped() {
            self.help(worker, now_ns);
        }
        let mut choice = self.choose(worker);
        if choice.is_none() && is_ladm {
            self.help(worker, now_ns);
            choice = self.choose(worker);
        }
        match choice {
            Some((kp, bound)) => Turn::Work(self.stint(worker, kp, bound)),
            None if self.is_over() => Turn::Over,
            None => self.idle(worker, is_ladm),
        }
    }

    fn idle(&mut self, worker: usize, looks_around: bool) -> Turn {
        match (looks_around, self.program.idle) {
            (true, Idle::Spin) => Turn::Glance(GLANCE_NS),
            (true, Idle::Yield | Idle::Block) => {
                self.workers[worker].sleeps = true;
                Turn::Nap(NAP_NS)
            }
            (false, _) => {
                self.workers[worker].waits = true;
                self.waiting += 1;
                Turn::Await
            }
        }
    }

    /// No event before it will be taken back.
    fn global_time(&self) -> u64 {
        let waiting = self.kps.iter().map(|kp| kp.next).min().unwrap_or(NEVER);
        let begun = self.workers.iter().filter_map(|w| w.stint).map(|(_, since)| since).min();
        waiting.min(begun.unwrap_or(NEVER))
    }

    /// Whether global virtual time has come to its end.
    fn is_over(&self) -> bool {
        let begun = self.workers.iter().filter_map(|w| w.stint).all(|(_, since)| since >= self.until);
        begun && self.kps.iter().all(|kp| kp.next >= self.until)
    }

    fn renew_horizon(&mut self) {
        if self.program.window == 0 {
            return;
        }
        let horizon = self.global_time().saturating_add(self.program.window);
        if horizon > self.horizon || self.horizon == NEVER {
            self.horizon = horizon;
            self.has_news = true;
        }
    }

    /// The kernel process that is furthest behind of those that `worker` may handle, and until which virtual
    /// time it is.
    fn choose(&mut self, worker: usize) -> Option<(usize, u64)> {
        let is_pool = self.program.mapping == Mapping::Pool;
        let find = || {
            let kps = self.kps.iter().enumerate();
            kps.filter(|(_, kp)| is_pool || kp.owner == worker).map(|(number, _)| number).collect()
        };
        let mine = self.workers[worker].mine.get_or_insert_with(find);
        let (mut first, mut second, mut chosen) = (NEVER, NEVER, None);
        for &number in &*mine {
            let kp = &self.kps[number];
            if kp.held || kp.next >= second {
                continue;
            }
            if kp.next < first {
                (second, first, chosen) = (first, kp.next, Some(number));
            } else {
                second = kp.next;
            }
        }
        let may = first < self.until && first <= self.horizon;
        chosen.filter(|_| may).map(|kp| (kp, second.min(self.horizon)))
    }

    /// Handles the events of a kernel process up to `bound`, at most one stint. Returns their solo time.
    fn stint(&mut self, worker: usize, number: usize, bound: u64) -> u64 {
        let since = self.kps[number].next;
        self.kps[number].held = true;
        self.workers[worker].stint = Some((number, since));
        let mut events = 0;
        while events < STINT {
            let (lps, due) = (self.kps[number].lps.clone(), self.kps[number].next);
            if due >= self.until || events > 0 && due > bound {
                break;
            }
            let lp = lps.clone().find(|&lp| self.next[lp] == due).expect("the soonest is one of its own");
            self.last[lp] = due;
            self.next[lp] = due + 1 + self.exponential(self.gap);
            if let Some(sent) = self.send(due) {
                self.workers[worker].sent.push(sent);
            }
            self.find_next(number);
            events += 1;
        }
        self.handled += u64::from(events);
        let debt_ns = std::mem::take(&mut self.kps[number].debt_ns);
        u64::from(events) * self.event_ns() + debt_ns
    }

    fn event_ns(&self) -> u64 {
        self.program.grain + ENGINE_NS
    }

    fn find_next(&mut self, number: usize) {
        let kp = &mut self.kps[number];
        kp.next = self.next[kp.lps.clone()].iter().copied().min().unwrap_or(NEVER);
    }

    /// The target and time of the event that is sent by one at `at`; `None` if it goes back to its own
    /// process, which it cannot disturb.
    fn send(&mut self, at: u64) -> Option<(usize, u64)> {
        if self.draw() as f64 >= self.program.remote * (u64::MAX as f64) {
            return None;
        }
        let to = (u128::from(self.draw()) * self.next.len() as u128) >> 64;
        Some((to as usize, at + self.program.look_ahead + self.exponential(self.program.mean_delay as f64)))
    }

    /// The stint is over, and its messages arrive.
    fn end_stint(&mut self, worker: usize) {
        let Some((kp, _)) = self.workers[worker].stint.take() else { return };
        self.kps[kp].held = false;
        let mut late = std::mem::take(&mut self.workers[worker].sent);
        while let Some((lp, due)) = late.pop() {
            if due < self.last[lp] {
                self.roll_back(lp, due, &mut late);
            }
        }
        self.workers[worker].sent = late;
    }

    /// Takes back the events that a process handled after `due`. The messages of these events are added to `late`.
    fn roll_back(&mut self, lp: usize, due: u64, late: &mut Vec<(usize, u64)>) {
        let (mut at, mut undone) = (self.last[lp], 0);
        while at > due {
            undone += 1;
            late.extend(self.send(at));
            at = at.saturating_sub(1 + self.exponential(self.gap));
        }
        let coasted = (u128::from(self.draw()) * u128::from(CHECKPOINT_EVERY)) >> 64;
        let number = lp * self.kps.len() / self.next.len();
        let kp = &mut self.kps[number];
        kp.next = kp.next.min(due);
        kp.debt_ns += coasted as u64 * (self.program.grain + ENGINE_NS) + undone * ENGINE_NS;
        (self.last[lp], self.next[lp]) = (at, due);
        self.undone += undone;
        self.has_news = true;
    }

    /// LADM: takes back its own kernel processes, and takes over from workers that show no sign of life.
    fn help(&mut self, worker: usize, now_ns: u64) {
        if self.workers[worker].away > 0 {
            let away = |kp: &usize| self.kps[*kp].home == worker && self.kps[*kp].owner != worker;
            let all: Vec<usize> = (0..self.kps.len()).filter(away).collect();
            all.into_iter().for_each(|kp| self.hand_over(kp, worker));
        }
        let mut beats = std::mem::replace(&mut self.workers[worker].beats, Beats::new(0, 0, 0));
        beats.look(now_ns, |other| (self.workers[other].beat, self.workers[other].sleeps));
        for other in (0..self.workers.len()).filter(|other| beats.is_stale(*other)) {
            let held = self.workers[other].owned;
            if held == 0 {
                continue;
            }
            let view = |other: usize| WorkerView {
                state: if beats.is_stale(other) { State::Off } else { State::Runs },
                stolen: None,
                cache: self.workers[other].cache,
            };
            let most = inherited(other, worker, held, self.workers.len(), &view);
            let its = (0..self.kps.len()).filter(|kp| self.kps[*kp].owner == other);
            let all: Vec<usize> = its.take(most).collect();
            all.into_iter().for_each(|kp| self.hand_over(kp, worker));
        }
        self.workers[worker].beats = beats;
    }

    /// Makes `to` the owner of a kernel process.
    fn hand_over(&mut self, kp: usize, to: usize) {
        let Kp { owner: from, home, .. } = self.kps[kp];
        self.kps[kp].owner = to;
        self.workers[home].away += usize::from(home != to);
        self.workers[home].away -= usize::from(home != from);
        self.workers[from].owned -= 1;
        self.workers[to].owned += 1;
        (self.workers[from].mine, self.workers[to].mine) = (None, None);
    }

    fn draw(&mut self) -> u64 {
        self.draws += 1;
        bits(self.program.seed, 0, self.draws)
    }

    /// A number of ticks, exponentially distributed around `mean`.
    fn exponential(&mut self, mean: f64) -> u64 {
        let unit = ((self.draw() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        (-unit.ln() * mean) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(mapping: Mapping) -> Pdes {
        Pdes { mapping, iterations: 40_000, lps: 256, ..Pdes::default() }
    }

    /// Lets the workers that `runs` selects take turns, each after its last action, until the end of virtual
    /// time or of 10 s.
    fn played(program: &Pdes, runs: impl Fn(usize, u64) -> bool) -> (TimeWarp, u64) {
        let mut simulation = TimeWarp::new(program);
        let mut due = vec![0; program.threads as usize];
        loop {
            let (worker, now_ns) = due.iter().copied().enumerate().min_by_key(|(_, at)| *at).unwrap();
            if now_ns > 10_000_000_000 {
                return (simulation, now_ns);
            }
            due[worker] = match runs(worker, now_ns) {
                false => now_ns + 100_000,
                true => match simulation.turn(worker, now_ns, 0) {
                    Turn::Work(ns) | Turn::Glance(ns) | Turn::Nap(ns) => now_ns + ns,
                    Turn::Tell => now_ns,
                    Turn::Await => now_ns + 10_000,
                    Turn::Over => return (simulation, now_ns),
                },
            };
        }
    }

    #[test]
    fn alone_every_mapping_does_its_events_in_their_own_time() {
        for mapping in [Mapping::Fm, Mapping::Pool, Mapping::Ladm] {
            let program = program(mapping);
            let (simulation, took_ns) = played(&program, |_, _| true);
            let all_ns = program.iterations * (program.grain + ENGINE_NS) / 2;
            let (committed, took) = (simulation.committed() as f64, took_ns as f64 / all_ns as f64);
            assert!((0.97..1.03).contains(&(committed / 40_000.0)), "{mapping:?} committed {committed}");
            assert!((0.97..1.15).contains(&took), "{mapping:?} took {took} of its work");
        }
    }

    #[test]
    fn a_worker_ahead_of_one_without_a_cpu_takes_back_events_and_near_ones_stay() {
        // The second worker has no CPU for a while. That is a gap in virtual time, and the first worker's events in it are lost, beyond
        // a first part that nothing could disturb yet.
        let undone = |gap_ns: u64| {
            let away = move |now_ns: u64| (20_000_000..20_000_000 + gap_ns).contains(&now_ns);
            played(&program(Mapping::Fm), |worker, now_ns| worker == 0 || !away(now_ns)).0.undone()
        };
        let (none, short, long) = (undone(0), undone(1_000_000), undone(60_000_000));
        // Six times as long as an event lives.
        let handled_in_gap = 60_000_000 / (10_000 + ENGINE_NS);
        assert!(none < short && short < long, "{none} {short} {long}");
        assert!(long > handled_in_gap * 7 / 10, "{long} of {handled_in_gap} that were handled in the gap");
    }

    #[test]
    fn with_ladm_a_dead_worker_delays_one_stint_and_without_it_everything() {
        let until = |mapping| {
            let (simulation, _) =
                played(&program(mapping), |worker, now_ns| worker == 0 || now_ns < 20_000_000);
            let at = simulation.global_time() as f64 / simulation.until as f64;
            let behind = simulation.kps.iter().filter(|kp| kp.next < simulation.until).count();
            (at, behind)
        };
        let (fm, ladm) = (until(Mapping::Fm), until(Mapping::Ladm));
        assert!(fm.0 < 0.5 && fm.1 == 16, "{fm:?}: all of the second worker's are behind");
        assert!(ladm.1 <= 1, "{ladm:?}: only the one in its stint is behind");
    }

    #[test]
    fn no_worker_goes_further_ahead_than_the_window_allows() {
        let program = Pdes { window: 2_000, ..program(Mapping::Fm) };
        let (simulation, _) = played(&program, |worker, now_ns| worker == 0 || now_ns < 20_000_000);
        let furthest = simulation.last.iter().max().unwrap();
        assert!(*furthest <= simulation.global_time() + 2_000, "{furthest}");
    }

    #[test]
    fn a_worker_that_runs_again_takes_back_its_initial_processes() {
        let away = |now_ns: u64| (20_000_000..60_000_000).contains(&now_ns);
        let (simulation, _) = played(&program(Mapping::Ladm), |worker, now_ns| worker == 0 || !away(now_ns));
        assert!(simulation.kps.iter().all(|kp| kp.owner == kp.home), "all are at home");
    }

    #[test]
    fn the_twin_has_the_constants_of_the_engine() {
        assert_eq!(STINT, corun_pdes::STINT);
        let corun_pdes::Mapping::Ladm { stale_after } = corun_pdes::Mapping::ladm() else { panic!() };
        assert_eq!(stale_after.as_nanos(), u128::from(STALE_AFTER_NS));
        assert_eq!(u64::from(corun_pdes::Options::default().checkpoint_every), CHECKPOINT_EVERY);
    }
}
