//! A worker: it takes its kernel process that is furthest behind, and handles its events until another one is behind.

use crate::disturbing::Disturber;
use crate::error::Error;
use crate::event::Message;
use crate::kp::Kp;
use crate::mailbox::NEVER;
use crate::model::Model;
use crate::options::{Idle, Mapping};
use crate::outcome::WorkerOutcome;
use crate::pin::pin_to_nth;
use crate::rescue::Rescue;
use crate::shared::Shared;
use corun_adapt::Width;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

/// The most events of one kernel process in a row before a worker looks around.
pub const STINT: u32 = 64;
/// An idle worker computes global virtual time at this interval.
const ROUND_EVERY: Duration = Duration::from_micros(20);
/// How often a worker in `Idle::Block` looks again before it sleeps.
const LOOKS: u32 = 64;
/// How long a worker sleeps if nobody wakes it.
const SLEEP: Duration = Duration::from_millis(1);
/// How long a worker parks before it asks again whether the run goes on.
const PARKED: Duration = Duration::from_millis(100);

/// A worker of a run.
pub(crate) struct Worker<'s, 'm, M: Model> {
    shared: &'s Shared<'m, M>,
    me: u32,
    is_pool: bool,
    /// Its kernel processes, as of `changes`.
    mine: Vec<u32>,
    changes: u64,
    /// Kernel processes that other workers held, since it last got one.
    busy: Vec<u32>,
    /// The round that the next fields are from.
    rounds: u64,
    gvt: u64,
    horizon: u64,
    allowance: i64,
    /// The messages that an event sent.
    out: Vec<Message<M::Event>>,
    since_round: u32,
    last_round: Instant,
    looks: u32,
    /// Events that it committed since the last call of `goes_on`.
    committed: u64,
    rescue: Option<Rescue>,
    /// How many workers go on, if others could take over from those that do not.
    width: Option<&'s Width>,
    disturber: Option<Disturber>,
    report: WorkerOutcome,
}

impl<'s, 'm, M: Model> Worker<'s, 'm, M> {
    pub fn new(shared: &'s Shared<'m, M>, me: u32) -> Self {
        let options = shared.options;
        let mut worker = Worker {
            shared,
            me,
            is_pool: options.mapping == Mapping::Pool,
            mine: (0..shared.places.len() as u32).collect(),
            changes: 0,
            busy: Vec::new(),
            rounds: 0,
            gvt: 0,
            horizon: 0,
            allowance: 0,
            out: Vec::new(),
            since_round: 0,
            last_round: Instant::now(),
            looks: 0,
            committed: 0,
            rescue: match options.mapping {
                Mapping::Ladm { stale_after } => Some(Rescue::new(me, options.workers, stale_after)),
                _ => None,
            },
            width: match options.mapping {
                Mapping::Ladm { .. } => options.width.as_deref(),
                _ => None,
            },
            disturber: options.disturbance.map(|disturbance| Disturber::new(disturbance, me)),
            report: WorkerOutcome::default(),
        };
        worker.list_mine();
        worker
    }

    /// Works until the run ends or `goes_on` returns `false`. `goes_on` gets the number of events committed since its last call.
    pub fn run(mut self, mut goes_on: impl FnMut(u64) -> bool) -> WorkerOutcome {
        let _stops_others = StopOnPanic(self.shared);
        if self.shared.options.mapping == (Mapping::Fixed { pin: true }) {
            if let Err(source) = pin_to_nth(self.me as usize) {
                self.shared.fail(Error::Pin { worker: self.me as usize, source });
            }
        }
        while !self.shared.stop.load(Relaxed) {
            self.shared.crew.slots()[self.me as usize].beat();
            self.look_around();
            if !goes_on(std::mem::take(&mut self.committed)) {
                self.shared.end();
            }
            if self.park() {
                continue;
            }
            match self.choose() {
                Some((kp, bound)) => self.stint(kp, bound),
                None => self.idle(),
            }
            if self.since_round >= self.shared.options.gvt_every {
                self.round();
            }
        }
        self.report
    }

    fn list_mine(&mut self) {
        self.changes = self.shared.owners.changes();
        if !self.is_pool {
            self.shared.owners.list(self.me, &mut self.mine);
        }
    }

    fn look_around(&mut self) {
        if self.changes != self.shared.owners.changes() {
            self.list_mine();
        }
        let progress = &self.shared.progress;
        let rounds = progress.rounds.load(Relaxed);
        if rounds != self.rounds {
            self.rounds = rounds;
            self.horizon = progress.horizon.load(Relaxed);
            self.allowance = progress.allowance.load(Relaxed);
            let gvt = progress.gvt.load(SeqCst);
            if gvt != self.gvt {
                self.gvt = gvt;
                self.commit();
            }
        }
        if self.rescue.as_mut().is_some_and(Rescue::is_due) {
            self.help();
        }
    }

    /// Commits the events of its kernel processes that are before global virtual time.
    fn commit(&mut self) {
        for &number in &self.mine {
            let place = &self.shared.places[number as usize];
            // Another worker holds it. The next round comes soon.
            let Ok(mut kp) = place.kp.try_lock() else { continue };
            match kp.commit(self.gvt) {
                Ok(committed) => self.committed += committed,
                Err((lp, at, fault)) => return self.shared.fail(Error::Model { lp, at, fault }),
            }
            place.held.store(kp.held(), Relaxed);
        }
    }

    /// Parks if fewer workers are wanted. Returns whether it did.
    #[inline]
    fn park(&mut self) -> bool {
        let (crew, me) = (&self.shared.crew, self.me as usize);
        let Some(width) = self.width.filter(|_| !crew.is_wanted(me)) else { return false };
        self.report.parked += 1;
        crew.park(me, PARKED, width);
        true
    }

    /// LADM: takes back its own kernel processes, and takes over those of workers that show no sign of life.
    fn help(&mut self) {
        let Some(rescue) = &mut self.rescue else { return };
        if let Some(width) = self.width {
            self.shared.crew.refresh(width);
        }
        self.report.came_home += self.shared.owners.take_home(self.me);
        self.report.took_over += rescue.look(&self.shared.crew, &self.shared.owners);
    }

    /// Returns the kernel process that is furthest behind, and the time until which it stays so.
    #[inline]
    fn choose(&self) -> Option<(u32, u64)> {
        let (mut first, mut second, mut chosen) = (NEVER, NEVER, None);
        for &kp in &self.mine {
            let next = self.shared.places[kp as usize].mailbox.next();
            if next >= second || (!self.busy.is_empty() && self.busy.contains(&kp)) {
                continue;
            }
            if next < first {
                (second, first, chosen) = (first, next, Some(kp));
            } else {
                second = next;
            }
        }
        let may = first <= self.horizon && self.is_affordable(first);
        chosen.filter(|_| may).map(|kp| (kp, second.min(self.horizon)))
    }

    /// Whether there is memory for the messages of an event at `time`. For the very first event there always is, since it lets
    /// others commit.
    #[inline]
    fn is_affordable(&self, time: u64) -> bool {
        self.allowance > 0 || time <= self.gvt
    }

    /// Handles events of kernel process `number` up to `bound`.
    fn stint(&mut self, number: u32, mut bound: u64) {
        let shared = self.shared;
        let place = &shared.places[number as usize];
        let Ok(mut kp) = place.kp.try_lock() else {
            self.busy.push(number);
            return;
        };
        self.busy.clear();
        self.looks = 0;
        let mut steps = 0;
        loop {
            if place.mailbox.has_mail() {
                place.mailbox.take_mail(|message| kp.push(message));
            }
            let next = kp.next();
            place.mailbox.publish(next);
            if next > bound || next == NEVER || steps == STINT || !self.is_affordable(next) {
                break;
            }
            kp.step(shared.model, &shared.terms, &mut self.out);
            steps += 1;
            if !self.out.is_empty() {
                bound = bound.min(self.deliver(number, &mut kp));
            }
            if let Some(disturber) = &mut self.disturber {
                disturber.strike(&shared.owners, shared.places.len(), shared.options.workers);
            }
        }
        place.held.store(kp.held(), Relaxed);
        self.since_round += steps;
        self.report.handled += u64::from(steps);
    }

    /// Delivers the messages of an event of `from`. Returns the least time of the messages for other kernel processes of this
    /// worker.
    ///
    /// The caller holds `from` and publishes nothing until this returns: see [`crate::mailbox`].
    #[inline]
    fn deliver(&mut self, from: u32, kp: &mut Kp<M>) -> u64 {
        let mut least = NEVER;
        let mut out = std::mem::take(&mut self.out);
        self.allowance -= out.len() as i64;
        for message in out.drain(..) {
            let to = self.shared.homes[message.to as usize];
            if to == from {
                kp.push(message);
                continue;
            }
            let (place, owner) = (&self.shared.places[to as usize], self.shared.owners.of(to));
            if owner == self.me || self.is_pool {
                // A message must not overtake messages of the same sender that are still in the inbox.
                if let Some(mut other) = place.kp.try_lock().ok().filter(|_| !place.mailbox.has_mail()) {
                    let time = message.key.time;
                    other.push(message);
                    place.mailbox.bring_down(time);
                    least = least.min(time);
                    continue;
                }
            }
            self.report.posted += 1;
            place.mailbox.post(message);
            self.shared.wake(owner);
        }
        self.out = out;
        least
    }

    fn round(&mut self) {
        self.since_round = 0;
        self.last_round = Instant::now();
        if let Ok(mut collector) = self.shared.collector.try_lock() {
            collector.round(self.shared);
        }
    }

    fn idle(&mut self) {
        self.looks = self.looks.saturating_add(1);
        self.busy.clear();
        if self.last_round.elapsed() >= ROUND_EVERY {
            self.round();
            return;
        }
        if self.rescue.is_some() && self.looks.is_multiple_of(8) {
            self.help();
        }
        match self.shared.options.idle {
            Idle::Spin => std::hint::spin_loop(),
            Idle::Yield => std::thread::yield_now(),
            Idle::Block if self.looks < LOOKS => std::hint::spin_loop(),
            Idle::Block => self.sleep(),
        }
    }

    fn sleep(&mut self) {
        let slot = &self.shared.crew.slots()[self.me as usize];
        slot.set_asleep(true);
        let is_news = self.shared.stop.load(SeqCst)
            || self.shared.progress.rounds.load(SeqCst) != self.rounds
            || self.changes != self.shared.owners.changes()
            || self.choose().is_some();
        if !is_news {
            std::thread::park_timeout(SLEEP);
        }
        slot.set_asleep(false);
    }
}

/// Ends the run for the others when a worker panics, so that they do not wait for it.
struct StopOnPanic<'s, 'm, M: Model>(&'s Shared<'m, M>);

impl<M: Model> Drop for StopOnPanic<'_, '_, M> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}
