//! Decisions about workers: who should take over from whom, and who stops when there are too many. Pure.

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// No thread joined, or it left.
    Absent,
    /// Its thread was on a CPU a moment ago.
    Runs,
    /// Its thread is runnable and waits for a CPU.
    Off,
    /// It sleeps because it has no work.
    Sleeps,
    /// It stopped because fewer workers are wanted.
    Parked,
    /// Nobody looked often enough to tell.
    Unknown,
}

impl State {
    /// Whether it would soon do work that it gets.
    fn is_able(self) -> bool {
        matches!(self, State::Runs | State::Sleeps | State::Unknown)
    }
}

/// The facts about a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerView {
    /// What it does.
    pub state: State,
    /// Time waited for a CPU over time run plus time waited, in thousandths.
    pub stolen: Option<u32>,
    /// The last-level cache of the CPU that it last ran on.
    pub cache: Option<u32>,
}

/// The workers that may take over the work of worker `of`: running workers under the same last-level cache, or, if there are none, all
/// that run.
pub fn heirs<S: Fn(usize) -> WorkerView>(
    of: usize,
    workers: usize,
    view: &S,
) -> impl Iterator<Item = usize> + use<'_, S> {
    let cache = view(of).cache;
    let is_able = move |worker: &usize| *worker != of && view(*worker).state.is_able();
    let is_near = move |worker: usize| cache.is_some() && view(worker).cache == cache;
    let is_any_near = (0..workers).filter(is_able).any(is_near);
    (0..workers).filter(is_able).filter(move |worker| !is_any_near || is_near(*worker))
}

/// The worker that should take over the work of worker `of`: the one of [`heirs`] with the least stolen share.
///
/// An unknown stolen share counts as 0.
pub fn heir<S: Fn(usize) -> WorkerView>(of: usize, workers: usize, view: &S) -> Option<usize> {
    heirs(of, workers, view).min_by_key(|worker| view(*worker).stolen.unwrap_or(0))
}

/// How many of the `held` pieces of work of worker `of` go to worker `me`: an equal share, rounded up, if `me` is one of [`heirs`].
pub fn inherited<S: Fn(usize) -> WorkerView>(
    of: usize,
    me: usize,
    held: usize,
    workers: usize,
    view: &S,
) -> usize {
    if !heirs(of, workers, view).any(|heir| heir == me) {
        return 0;
    }
    held.div_ceil(heirs(of, workers, view).count())
}

/// A step to another number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// This worker is to stop.
    Stop(usize),
    /// This worker is to go on.
    Go(usize),
}

/// The next step to `width` wanted workers, or `None` if there are as many.
///
/// The worker with the largest stolen share stops first: it loses least. A worker goes on first if it shares its last-level cache with
/// a running one. Absent workers do not count.
pub fn next_change(
    width: usize,
    workers: usize,
    view: &impl Fn(usize) -> WorkerView,
    is_wanted: &impl Fn(usize) -> bool,
) -> Option<Change> {
    let present = || (0..workers).filter(|worker| view(*worker).state != State::Absent);
    let wanted = || present().filter(|worker| is_wanted(*worker));
    let number = wanted().count();
    if number > width.max(1) {
        // Of equals the last stops.
        return wanted().max_by_key(|worker| view(*worker).stolen.unwrap_or(0)).map(Change::Stop);
    }
    if number < width {
        let is_near = |worker: usize| {
            let cache = view(worker).cache;
            cache.is_some() && wanted().any(|other| view(other).cache == cache)
        };
        let waiting = present().filter(|worker| !is_wanted(*worker));
        return waiting.min_by_key(|worker| !is_near(*worker)).map(Change::Go);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(state: State, stolen: u32, cache: u32) -> WorkerView {
        WorkerView { state, stolen: Some(stolen), cache: Some(cache) }
    }

    #[test]
    fn work_goes_to_the_nearby_running_worker_with_the_least_stolen_share() {
        use State::{Absent, Off, Parked, Runs, Sleeps, Unknown};
        let stranger = WorkerView { state: Runs, stolen: None, cache: None };
        // Worker 0 is off its CPU, under cache 0. Of the others: the workers that may take over, and the one that should.
        type Case<'c> = (&'c str, &'c [WorkerView], &'c [usize], Option<usize>);
        let table: [Case<'_>; 8] = [
            ("alone", &[], &[], None),
            ("nobody runs", &[worker(Off, 0, 0), worker(Parked, 0, 0), worker(Absent, 0, 0)], &[], None),
            ("least stolen", &[worker(Runs, 90, 0), worker(Runs, 20, 0)], &[1, 2], Some(2)),
            ("of equals the first", &[worker(Runs, 20, 0), worker(Runs, 20, 0)], &[1, 2], Some(1)),
            ("near before little stolen", &[worker(Runs, 0, 1), worker(Runs, 500, 0)], &[2], Some(2)),
            ("far where nobody is near", &[worker(Off, 0, 0), worker(Runs, 5, 1)], &[2], Some(2)),
            ("who sleeps has time", &[worker(Sleeps, 0, 0), worker(Unknown, 9, 0)], &[1, 2], Some(1)),
            ("nothing is known of it", &[stranger, worker(Off, 0, 0)], &[1], Some(1)),
        ];
        for (case, others, may, best) in table {
            let mut all = vec![worker(Off, 700, 0)];
            all.extend(others);
            let view = |worker: usize| all[worker];
            assert_eq!(heirs(0, all.len(), &view).collect::<Vec<_>>(), may, "{case}");
            assert_eq!(heir(0, all.len(), &view), best, "{case}");
            for me in 0..all.len() {
                let share = if may.contains(&me) { 16usize.div_ceil(may.len()) } else { 0 };
                assert_eq!(inherited(0, me, 16, all.len(), &view), share, "{case}, worker {me}");
            }
        }
    }

    #[test]
    fn the_worker_with_the_most_stolen_stops_first_and_a_near_one_goes_on_first() {
        use State::{Absent, Parked, Runs};
        let all = [
            worker(Runs, 100, 0),
            worker(Runs, 600, 0),
            worker(Parked, 0, 1),
            worker(Parked, 0, 0),
            worker(Absent, 0, 0),
        ];
        let wanted = [true, true, false, false, true];
        let table = [
            (0, Some(Change::Stop(1))),
            (1, Some(Change::Stop(1))),
            (2, None),
            (3, Some(Change::Go(3))),
            (99, Some(Change::Go(3))),
        ];
        for (width, change) in table {
            assert_eq!(next_change(width, 5, &|n| all[n], &|n| wanted[n]), change, "width {width}");
        }
    }

    #[test]
    fn any_width_is_reached_and_at_least_one_worker_stays() {
        let all = [worker(State::Runs, 5, 0), worker(State::Runs, 4, 1), worker(State::Runs, 3, 0)];
        for (width, reached) in [(0, 1), (1, 1), (2, 2), (3, 3), (4, 3)] {
            let mut wanted = [false, true, false];
            let mut steps = 0;
            while let Some(change) = next_change(width, 3, &|n| all[n], &|n| wanted[n]) {
                match change {
                    Change::Stop(worker) => wanted[worker] = false,
                    Change::Go(worker) => wanted[worker] = true,
                }
                steps += 1;
                assert!(steps <= 3, "width {width} is never reached");
            }
            assert_eq!(wanted.iter().filter(|is| **is).count(), reached, "width {width}");
        }
    }
}
