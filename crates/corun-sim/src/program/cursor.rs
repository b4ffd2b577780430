//! A thread's place in its plan, and its next step.

use super::plan::{Activity, Phase, Plan};
use super::shared::{Here, Shared};
use super::time_warp::{TimeWarp, Turn};
use crate::replay::script::{Ends, Look, Op, Outside, ScriptedProgram};
use corun_model::workload::draw::nearest_ns;
use corun_model::workload::{BusyBy, Flow, Interference, Length, Parallel, Pdes, Sync};

/// The wait of a recorded thread for its birth.
const BIRTH: u32 = u32::MAX;

/// The next action of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Computes for this long, as solo run time. `u64::MAX`: for ever.
    Work(u64),
    /// The same, with data that another thread was to work on.
    Stolen(u64),
    /// Computes until this much time has passed, however much of a CPU it gets meanwhile.
    Busy(u64),
    /// Arrives at a barrier and waits until it opens.
    Meet(usize),
    /// Waits for the next event of an object.
    Await(usize),
    /// Wakes all threads that wait for an object's next event.
    Tell(usize),
    /// Takes a lock, waiting until it is free.
    Acquire(usize),
    /// Releases a lock.
    Release(usize),
    /// Puts an item into a queue, waiting for room.
    Put(usize, u64),
    /// Takes an item from a queue, waiting for one. [`Cursor::took`] passes it to the cursor.
    Take(usize),
    /// Puts no more items into a queue.
    Leave(usize),
    /// Waits until another thread has ended this wait of its own.
    AwaitEnd(usize, u32),
    /// Ends that wait of another thread.
    EndWait(usize, u32),
    /// Sleeps.
    Sleep(u64),
    /// Sleeps until this time after its program began.
    SleepUntil(u64),
    /// Waits for a device.
    Io(u64),
    /// Its phase is over for it. The engine only has to ask again.
    Next,
    /// It is done.
    End,
}

/// One thread's place in its plan.
#[derive(Clone, Debug)]
pub struct Cursor {
    thread: u32,
    /// How often it has gone through all phases.
    lap: u64,
    phase: usize,
    round: u64,
    state: u8,
    item: Option<u64>,
    grains: u64,
    /// The remaining waits of the present grain after its work: for a device, then for a time.
    io_ns: u64,
    sleep_ns: u64,
    /// The part of the present grain that it does inside the lock.
    inside_ns: u64,
}

impl Cursor {
    /// At the beginning of the plan.
    pub fn new(thread: u32) -> Cursor {
        Cursor {
            thread,
            lap: 0,
            phase: 0,
            round: 0,
            state: 0,
            item: None,
            grains: 0,
            io_ns: 0,
            sleep_ns: 0,
            inside_ns: 0,
        }
    }

    /// Which phase the thread is in.
    pub fn phase(&self) -> usize {
        self.phase
    }

    /// The number of grains that the thread has begun, including the present one.
    pub fn grains(&self) -> u64 {
        self.grains
    }

    /// The result of a [`Step::Take`]: an item, or `None` when there will be no more.
    pub fn took(&mut self, item: Option<u64>) {
        self.item = item;
    }

    /// The next action of the thread. The step before is done.
    #[inline(always)]
    pub fn next(&mut self, plan: &Plan, shared: &mut Shared) -> Step {
        let Some(phase) = plan.phases.get(self.phase) else { return Step::End };
        if self.io_ns > 0 {
            return Step::Io(std::mem::take(&mut self.io_ns));
        }
        if self.sleep_ns > 0 {
            return Step::Sleep(std::mem::take(&mut self.sleep_ns));
        }
        let begun = self.grains;
        let step = if self.thread < phase.threads { self.within(phase, shared) } else { Step::Next };
        if let (Activity::Parallel(p), true) = (&phase.activity, self.grains > begun && !shared.cut) {
            (self.io_ns, self.sleep_ns) = (p.io, p.sleep);
        }
        if step != Step::Next {
            return step;
        }
        (self.phase, self.round, self.state, self.item) = (self.phase + 1, 0, 0, None);
        if self.phase == plan.phases.len() && self.lap + 1 < plan.laps {
            (self.phase, self.lap) = (0, self.lap + 1);
        }
        match phase.join {
            Some(barrier) if self.phase < plan.phases.len() => Step::Meet(barrier),
            _ => Step::End,
        }
    }

    /// The draw for the phase's `index`-th grain or item. Each lap through the phases has its own.
    fn draw(&self, index: u64) -> u64 {
        index.wrapping_add(self.lap << 40)
    }

    /// Whether the next step is [`Step::Work`], of a length that no other thread decides.
    pub fn computes_next(&self, plan: &Plan, shared: &Shared) -> bool {
        let Some(phase) = plan.phases.get(self.phase).filter(|p| self.thread < p.threads) else {
            return false;
        };
        if shared.cut || self.io_ns > 0 || self.sleep_ns > 0 {
            return false;
        }
        match &phase.activity {
            Activity::Parallel(p) => {
                let is_over = matches!(p.length(), Length::Iterations(n) if n == self.round);
                match (p.sync, self.state) {
                    (Sync::Barrier, 0) => !(is_over || self.round > 0 && shared.is_over(phase.object)),
                    (Sync::Lock, 0) => !is_over,
                    (Sync::Lock, 2) => true,
                    _ => false,
                }
            }
            Activity::Interference(_) => self.state == 0,
            // Its next action depends on the other threads.
            Activity::Pdes(_) => false,
            Activity::Recorded(_) => false,
            Activity::Pairs { rounds, .. } => {
                let is_over = self.round > 0 && shared.is_over(self.pair(phase));
                self.state == 0 && self.round < *rounds && !is_over
            }
        }
    }

    /// The barrier of this thread and its partner.
    fn pair(&self, phase: &Phase) -> usize {
        phase.object + self.thread as usize / 2
    }

    /// The next step inside a phase; [`Step::Next`] when the phase is over for this thread.
    fn within(&mut self, phase: &Phase, shared: &mut Shared) -> Step {
        match &phase.activity {
            Activity::Interference(i) => self.interference(i, shared),
            Activity::Pdes(p) => self.pdes(p, phase.object, shared),
            Activity::Recorded(program) => self.recorded(program, shared),
            Activity::Pairs { chunk_ns, rounds } => {
                self.in_rounds(shared, *rounds, |_| *chunk_ns, self.pair(phase))
            }
            Activity::Parallel(p) => {
                let rounds = match p.length() {
                    Length::Iterations(n) => n,
                    _ => u64::MAX,
                };
                let thread = self.thread;
                match p.sync {
                    Sync::Barrier => {
                        let grain_ns = |c: &Cursor| p.grain_ns(thread, c.draw(c.round));
                        self.in_rounds(shared, rounds, grain_ns, phase.object)
                    }
                    Sync::Lock => self.lock(p, rounds, phase.object, shared),
                    Sync::Pipeline => self.pipeline(p, &phase.flow, rounds, phase.object, shared),
                    Sync::Queue => self.queue(p, rounds, shared),
                    Sync::Steal => self.steal(p, shared),
                    Sync::None => self.free(p, rounds, shared),
                }
            }
        }
    }

    /// The next step of a recorded task. Each thread has an object for its waits; its birth is the first of
    /// them.
    fn recorded(&mut self, program: &ScriptedProgram, shared: &mut Shared) -> Step {
        let thread = self.thread as usize;
        if self.state == 0 {
            self.state = 1;
            if !program.first.contains(&thread) {
                return Step::AwaitEnd(thread, BIRTH);
            }
        }
        loop {
            let script = &program.scripts[thread];
            let Some(op) = script.ops.get(self.round as usize) else {
                shared.ended.insert(thread);
                return Step::Next;
            };
            self.round += 1;
            match op {
                Op::Compute { .. } | Op::Outside(_)
                    if script.ends_with.is_some_and(|other| shared.ended.contains(&other)) => {}
                Op::Compute { ns: 0, .. } | Op::Limit(..) | Op::Looks(Look { may: Some(false), .. }) => {}
                Op::Outside(Outside { may_look: Some(true), .. }) => {}
                Op::Compute { ns, .. } => {
                    self.grains += 1;
                    return Step::Work(*ns);
                }
                Op::Wake(other, wait) | Op::Passes(other, wait) => return Step::EndWait(*other, *wait),
                Op::Spawn(child) => return Step::EndWait(*child, BIRTH),
                Op::Wait(wait) | Op::Looks(Look { wait, .. }) => return Step::AwaitEnd(thread, *wait),
                Op::Outside(o) if o.ends == Ends::AtItsTime => return Step::SleepUntil(o.until_ns),
                Op::Outside(o) => return Step::Sleep(o.lasted_ns),
            }
        }
    }

    fn interference(&mut self, i: &Interference, shared: &mut Shared) -> Step {
        if shared.cut {
            return Step::Next;
        }
        let Some(busy_ns) = i.busy_ns(self.thread, self.round) else { return Step::Work(u64::MAX) };
        if self.state == 0 {
            (self.state, self.grains) = (1, self.grains + 1);
            return match i.busy_by {
                BusyBy::Cpu => Step::Work(busy_ns),
                BusyBy::Wall => Step::Busy(busy_ns),
            };
        }
        shared.iterations += 1;
        (self.state, self.round) = (0, self.round + 1);
        match i.idle_ns(busy_ns) {
            0 => self.interference(i, shared),
            idle_ns => Step::Sleep(idle_ns),
        }
    }

    /// Events of a simulation, one stint for each step.
    fn pdes(&mut self, p: &Pdes, news: usize, shared: &mut Shared) -> Step {
        if self.state == 1 {
            return Step::Next;
        }
        let Here { now_ns, cache } = shared.here;
        let time_warp = shared.time_warp.get_or_insert_with(|| Box::new(TimeWarp::new(p)));
        let turn = if shared.cut { Turn::Over } else { time_warp.turn(self.thread as usize, now_ns, cache) };
        shared.iterations = time_warp.committed();
        match turn {
            Turn::Tell => Step::Tell(news),
            Turn::Work(ns) => {
                self.grains += 1;
                Step::Work(ns)
            }
            Turn::Await => Step::Await(news),
            Turn::Glance(ns) => Step::Busy(ns),
            Turn::Nap(ns) => Step::Sleep(ns),
            // Waiting threads have to see it, too.
            Turn::Over => {
                self.state = 1;
                Step::Tell(news)
            }
        }
    }

    /// Grains with a barrier after each.
    fn in_rounds(
        &mut self,
        shared: &mut Shared,
        rounds: u64,
        grain_ns: impl Fn(&Cursor) -> u64,
        barrier: usize,
    ) -> Step {
        if self.state == 0 {
            if self.round == rounds || self.round > 0 && shared.is_over(barrier) {
                return Step::Next;
            }
            (self.state, self.grains) = (1, self.grains + 1);
            return Step::Work(if shared.cut { 0 } else { grain_ns(self) });
        }
        (self.state, self.round) = (0, self.round + 1);
        if self.thread == 0 {
            shared.iterations += 1;
        }
        Step::Meet(barrier)
    }

    fn lock(&mut self, p: &Parallel, rounds: u64, first: usize, shared: &mut Shared) -> Step {
        let lock = |c: &Cursor| first + ((c.round + u64::from(c.thread)) % u64::from(p.locks)) as usize;
        match self.state {
            0 if self.round == rounds || shared.cut => Step::Next,
            0 => {
                let grain_ns = p.grain_ns(self.thread, self.draw(self.round));
                self.inside_ns = nearest_ns(grain_ns as f64 * p.critical);
                (self.state, self.grains) = (1, self.grains + 1);
                Step::Work(grain_ns - self.inside_ns)
            }
            1 if shared.cut => Step::Next,
            1 => {
                self.state = 2;
                Step::Acquire(lock(self))
            }
            2 => {
                self.state = 3;
                Step::Work(self.inside_ns)
            }
            _ => {
                let lock = lock(self);
                shared.iterations += u64::from(!shared.cut);
                (self.state, self.round) = (0, self.round + 1);
                Step::Release(lock)
            }
        }
    }

    fn pipeline(&mut self, p: &Parallel, flow: &Flow, items: u64, first: usize, shared: &mut Shared) -> Step {
        let stage = flow.stage_of(self.thread);
        let before = |stage: u32| first + flow.queue(stage).expect("a stage that is fed has a queue");
        match self.state {
            0 if flow.queue(stage).is_some() => {
                self.state = 1;
                Step::Take(before(stage))
            }
            0 => {
                let item = shared.taken[self.phase];
                self.item = (item < items && !shared.cut).then_some(item);
                shared.taken[self.phase] += 1;
                self.state = 1;
                self.pipeline(p, flow, items, first, shared)
            }
            1 => match self.item {
                Some(item) => {
                    (self.state, self.grains) = (2, self.grains + 1);
                    Step::Work(if shared.cut { 0 } else { p.grain_ns(stage, self.draw(item)) })
                }
                None => {
                    (self.state, self.round) = (3, 0);
                    self.pipeline(p, flow, items, first, shared)
                }
            },
            2 => {
                self.state = 0;
                let item = self.item.expect("an item was worked on");
                match flow.next(stage, self.draw(item)) {
                    Some(fed) => Step::Put(before(fed), item),
                    None => {
                        shared.iterations += u64::from(!shared.cut);
                        self.pipeline(p, flow, items, first, shared)
                    }
                }
            }
            // There are no more items. It leaves the queues that it fed, one after the other.
            _ => match flow.feeds(stage).get(self.round as usize) {
                Some(&fed) => {
                    self.round += 1;
                    Step::Leave(before(fed))
                }
                None => Step::Next,
            },
        }
    }

    fn queue(&mut self, p: &Parallel, grains: u64, shared: &mut Shared) -> Step {
        if self.state == 1 {
            shared.iterations += u64::from(!shared.cut);
        }
        self.state = 1;
        let grain = shared.taken[self.phase];
        if grain >= grains || shared.cut {
            return Step::Next;
        }
        shared.taken[self.phase] += 1;
        self.grains += 1;
        Step::Work(p.grain_ns(0, self.draw(grain)))
    }

    fn steal(&mut self, p: &Parallel, shared: &mut Shared) -> Step {
        if self.state == 1 {
            shared.iterations += u64::from(!shared.cut);
        }
        self.state = 1;
        if shared.cut {
            return Step::Next;
        }
        let Some((grain, own)) = shared.steal(self.phase, p, self.thread as usize) else { return Step::Next };
        self.grains += 1;
        let ns = p.grain_ns(0, self.draw(grain));
        if own {
            Step::Work(ns)
        } else {
            Step::Stolen(ns)
        }
    }

    fn free(&mut self, p: &Parallel, rounds: u64, shared: &mut Shared) -> Step {
        if self.round > 0 {
            shared.iterations += u64::from(!shared.cut);
        }
        if self.round == rounds || shared.cut {
            return Step::Next;
        }
        self.round += 1;
        self.grains += 1;
        Step::Work(p.grain_ns(self.thread, self.draw(self.round - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine_file::MachineModel;
    use corun_model::workload::Workload;
    use corun_model::Machine;
    use std::ops::Range;

    fn plan(program: &str) -> Plan {
        let text = format!("schema = \"corun.workload/1\"\nname = \"w\"\n[program]\n{program}");
        let workload = Workload::parse("w.toml", &text).unwrap();
        Plan::of(&workload, &MachineModel::of(Machine::synthetic(1, 1, 2, 1)), 0).unwrap()
    }

    fn steps(plan: &Plan, thread: u32, n: usize) -> Vec<Step> {
        let mut shared = Shared { taken: vec![0; plan.phases.len()], ..Shared::default() };
        let mut cursor = Cursor::new(thread);
        (0..n)
            .map(|_| {
                let step = cursor.next(plan, &mut shared);
                if let Step::Take(_) = step {
                    cursor.took(Some(5));
                }
                step
            })
            .collect()
    }

    #[test]
    fn a_barrier_program_computes_meets_and_ends_after_its_rounds() {
        let p = plan("kind = \"parallel\"\nthreads = 2\ngrain = \"1ms\"\niterations = 2\n");
        let ms = Step::Work(1_000_000);
        assert_eq!(steps(&p, 0, 6), [ms, Step::Meet(0), ms, Step::Meet(0), Step::End, Step::End]);
        assert_eq!(p.objects, [super::super::Object::Barrier(2)]);
    }

    #[test]
    fn a_grain_waits_for_its_device_and_sleeps_before_it_is_handed_on() {
        let p = plan("kind = \"parallel\"\nthreads = 2\ngrain = \"1ms\"\nio = \"2ms\"\nsleep = \"3ms\"\niterations = 1\n");
        let (work, io, sleep) = (Step::Work(1_000_000), Step::Io(2_000_000), Step::Sleep(3_000_000));
        assert_eq!(steps(&p, 0, 5), [work, io, sleep, Step::Meet(0), Step::End]);
    }

    #[test]
    fn a_lock_is_never_held_while_its_holder_waits_for_a_device() {
        let p = plan("kind = \"parallel\"\nsync = \"lock\"\ncritical = 0.25\ngrain = \"1ms\"\nio = \"2ms\"\niterations = 1\n");
        let (out, inside) = (Step::Work(750_000), Step::Work(250_000));
        let expected = [out, Step::Io(2_000_000), Step::Acquire(0), inside, Step::Release(0), Step::End];
        assert_eq!(steps(&p, 0, 6), expected);
    }

    #[test]
    fn a_thread_without_grains_steals_the_last_of_the_fullest_queue_and_each_grain_is_done_once() {
        let p = plan("kind = \"parallel\"\nsync = \"steal\"\nthreads = 3\ngrain = \"1ms\"\niterations = 7\n");
        let Activity::Parallel(program) = &p.phases[0].activity else { panic!() };
        let own: Vec<Range<u64>> = (0..3).map(|t| program.own_grains(t)).collect();
        assert_eq!(own, [0..2, 2..4, 4..7]);
        let mut shared = Shared { taken: vec![0], ..Shared::default() };
        let taken: Vec<(u64, bool)> = (0..7).map(|_| shared.steal(0, program, 0).unwrap()).collect();
        let own = [0, 1].map(|grain| (grain, true));
        let stolen = [6, 3, 5, 2, 4].map(|grain| (grain, false));
        assert_eq!(taken, [&own[..], &stolen].concat());
        assert_eq!(shared.steal(0, program, 1), None);
    }

    #[test]
    fn a_lock_program_takes_its_locks_in_turn() {
        let p = plan("kind = \"parallel\"\nsync = \"lock\"\ncritical = 0.25\nlocks = 2\ngrain = \"1ms\"\niterations = 2\n");
        let (out, inside) = (Step::Work(750_000), Step::Work(250_000));
        assert_eq!(
            steps(&p, 1, 9),
            [
                out,
                Step::Acquire(1),
                inside,
                Step::Release(1),
                out,
                Step::Acquire(0),
                inside,
                Step::Release(0),
                Step::End
            ]
        );
    }

    #[test]
    fn a_pipeline_hands_items_on_and_its_producers_leave() {
        let p = plan("kind = \"parallel\"\nsync = \"pipeline\"\nstages = 3\nthreads = 3\ngrain = \"1ms\"\niterations = 1\n");
        let ms = Step::Work(1_000_000);
        assert_eq!(steps(&p, 0, 4), [ms, Step::Put(0, 0), Step::Leave(0), Step::End]);
        assert_eq!(steps(&p, 1, 4), [Step::Take(0), ms, Step::Put(1, 5), Step::Take(0)]);
        assert_eq!(steps(&p, 2, 3), [Step::Take(1), ms, Step::Take(1)]);
    }

    #[test]
    fn a_stage_that_feeds_two_sends_each_item_to_one_and_leaves_both_in_the_end() {
        let p = plan("kind = \"parallel\"\nsync = \"pipeline\"\nthreads = 3\ngrain = \"1ms\"\niterations = 40\nstage = [{ name = \"a\", feeds = [\"b\", \"c\"] }, { name = \"b\", feeds = [\"c\"] }, { name = \"c\" }]\n");
        let queue = |producers| super::super::Object::Queue { depth: 4, producers };
        assert_eq!(p.objects, [queue(1), queue(2)]);
        let taken = steps(&p, 0, 84);
        let to = |q: usize| taken.iter().filter(|s| matches!(s, Step::Put(o, _) if *o == q)).count();
        assert!(to(0) + to(1) == 40 && to(0) > 8 && to(1) > 8, "{} and {}", to(0), to(1));
        assert_eq!(taken[80..], [Step::Leave(0), Step::Leave(1), Step::End, Step::End]);
        let ms = Step::Work(1_000_000);
        assert_eq!(steps(&p, 1, 4), [Step::Take(0), ms, Step::Put(1, 5), Step::Take(0)]);
    }

    #[test]
    fn periodic_interference_computes_and_sleeps() {
        let p = plan("kind = \"interference\"\npattern = \"periodic\"\ndemand = 0.25\n");
        let (busy, idle) = (Step::Work(10_000_000), Step::Sleep(30_000_000));
        assert_eq!(steps(&p, 0, 4), [busy, idle, busy, idle]);
        assert!(p.endless);
    }

    #[test]
    fn phases_repeat_with_new_draws_each_time() {
        let phase = |how: &str| format!("[[program.model]]\nthreads = 2\n{how}\niterations = 1\n");
        let text = |laps: u32| {
            let pipeline = phase("sync = \"pipeline\"\ngrain = \"1ms\"\nimbalance = 0.5");
            let barrier = phase("grain = \"2ms\"\nimbalance = 0.5");
            format!("kind = \"command\"\nargv = [\"x\"]\niterations = {laps}\n{pipeline}{barrier}")
        };
        let twice = plan(&text(2));
        let mut shared = Shared::new(2);
        let mut cursor = Cursor::new(0);
        let mut next = |shared: &mut Shared| cursor.next(&twice, shared);
        let mut lap = |shared: &mut Shared| {
            shared.begin_phase(0);
            let Step::Work(item_ns) = next(shared) else { panic!("it works on an item") };
            assert_eq!([next(shared), next(shared)], [Step::Put(0, 0), Step::Leave(0)]);
            assert_eq!(next(shared), Step::Meet(2), "all meet after the pipeline");
            let Step::Work(round_ns) = next(shared) else { panic!("it works") };
            assert_eq!(next(shared), Step::Meet(1));
            ([item_ns, round_ns], next(shared))
        };
        let (first, second) = (lap(&mut shared), lap(&mut shared));
        assert_eq!(
            (first.1, second.1),
            (Step::Meet(3), Step::End),
            "all meet after the first time, and then it ends"
        );
        assert!(first.0[0] != second.0[0] && first.0[1] != second.0[1], "{first:?} {second:?}");
        // One pass equals the program without repetition: the same draws, and no meeting at the end.
        let once = plan(&text(1));
        assert_eq!(once.objects, twice.objects[..3]);
        assert_eq!(steps(&once, 0, 1), [Step::Work(first.0[0])]);
    }

    #[test]
    fn phases_are_joined_and_threads_beyond_a_phase_wait_there() {
        let p = plan("kind = \"command\"\nargv = [\"x\"]\n[[program.model]]\nthreads = 1\nsync = \"none\"\niterations = 1\n[[program.model]]\nthreads = 2\nsync = \"none\"\niterations = 1\n");
        let ms = Step::Work(1_000_000);
        assert_eq!(steps(&p, 0, 4), [ms, Step::Meet(0), ms, Step::End]);
        assert_eq!(steps(&p, 1, 3), [Step::Meet(0), ms, Step::End]);
    }
}
