//! Predict: how much slower a target is than it would be alone, while it runs.

use crate::end::{left_behind, next_window, EndConditions, Ended};
use crate::error::Error;
use crate::stop::Stop;
use crate::subject_watch::{Opening, Parking, SubjectWatch, WatchOptions};
use crate::target::{release, Armed, Target};
use corun_linux::dedicated::{DedicatedError, DedicatedWindow, NotDedicated, Unparkable};
use corun_linux::launch::Running;
use corun_linux::root::in_words;
use corun_linux::spin::SpinOptions;
use corun_linux::watcher::Source;
use corun_linux::{wake_up, Root};
use corun_model::{Host, Observation, TaskId, What, Why};
use corun_predict::schedule::{Found, InTheWay, Next, Schedule, Taken, FIRST_NS, OTHERS, SLOT_NS};
use corun_predict::useful_work::Window;
use corun_predict::{Assignment, CannotTell, Estimate, Label, Options, Predictor, Recorded, Way};
use std::process::Command;
use std::time::{Duration, Instant};

/// How often an estimate is due, and the minimum pause between two as a multiple of the time that one takes:
/// a program with hundreds of threads is estimated less often.
const ESTIMATE_NS: u64 = 500_000_000;
const ESTIMATE_TIMES: u64 = 50;

/// The share of the program's time on a CPU that counting may take, from the earliest time of a dedicated
/// window on.
const COUNTING: f64 = 0.03;

/// The cost of a wake-up if CPUs sleep: threads that sleep often wait for it when alone, but not if loops
/// keep CPUs awake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WakeUp {
    /// Nobody knows.
    #[default]
    Unknown,
    /// This long, in nanoseconds.
    Given(u64),
    /// It is measured first: two threads meet again and again for 160 ms, unless CPUs are busy.
    Measured,
}

/// How to predict.
#[derive(Clone, Debug)]
pub struct PredictOptions {
    /// The source; `None`: the best one.
    pub source: Option<Source>,
    /// End after this time, in nanoseconds; `None`: with the command, with the subject, or on request.
    pub length_ns: Option<u64>,
    /// Separate spinning from computing by samples.
    pub spin: bool,
    /// Count hardware events of each task.
    pub counters: bool,
    /// Park co-runners for short windows, to see what the subject does alone. `None`: nobody is touched.
    pub dedicated: Option<Parking>,
    /// The cost of a wake-up on this machine if CPUs sleep.
    pub wake_up: WakeUp,
    /// The method for the slowdown.
    pub way: Way,
    /// How the program's work is distributed to its threads.
    pub assignment: Assignment,
    /// How often the interval should contain the result of the whole run.
    pub confidence: f64,
}

impl Default for PredictOptions {
    fn default() -> PredictOptions {
        let Options { assignment, confidence, .. } = Options::default();
        PredictOptions {
            source: None,
            length_ns: None,
            spin: true,
            counters: false,
            dedicated: None,
            wake_up: WakeUp::Unknown,
            way: Way::Best,
            assignment,
            confidence,
        }
    }
}

/// A target whose slowdown is predicted: an iterator over its windows. Dropping it unparks everybody and
/// leaves nothing in the kernel; a command goes on.
pub struct Predict {
    watch: SubjectWatch,
    end: EndConditions,
    ended: Option<Ended>,
    description: String,
    is_deserted: bool,
    first: Option<TaskId>,
    left_behind: Option<usize>,
    begin_ns: u64,
    predictor: Predictor,
    /// If dedicated windows were requested: their schedule, and a predictor that does not know them.
    schedule: Option<Schedule>,
    ledger_alone: Option<Predictor>,
    next_ns: u64,
    /// When the last estimate became due.
    due: Option<Instant>,
}

/// A window, with the dedicated window that followed it if one was opened.
#[derive(Clone, Debug)]
pub struct PredictWindow {
    /// The input of the predictor, in order.
    pub recorded: Vec<Recorded>,
    /// When it ended, on the host's clock.
    pub end_ns: u64,
    /// Whether it is time to ask for an estimate; one is always due at the end.
    pub is_estimate_due: bool,
    /// Why the session ended with it.
    pub ended: Option<Ended>,
}

impl Predict {
    /// Starts watching, and lets a command begin.
    ///
    /// # Errors
    /// If there is no such target, or it is everybody; if the machine cannot be watched; if co-runners are to
    /// be parked and cannot be. Then a command has not begun.
    pub fn start(target: &Target, options: PredictOptions, stop: &Stop) -> Result<Predict, Error> {
        Predict::of(target.arm(&Root::new("/"))?, options, stop)
    }

    /// The same for a command with its own environment and files, which it keeps.
    ///
    /// # Errors
    /// As [`Predict::start`].
    pub fn start_command(command: Command, options: PredictOptions, stop: &Stop) -> Result<Predict, Error> {
        Predict::of(Armed::of_command(command)?, options, stop)
    }

    fn of(armed: Armed, options: PredictOptions, stop: &Stop) -> Result<Predict, Error> {
        let root = Root::new("/");
        let first = armed.first_task();
        let wake_up = match options.wake_up {
            WakeUp::Unknown => Ok(None),
            WakeUp::Given(ns) => Ok(Some(ns)),
            WakeUp::Measured => wake_up::measured_ns(),
        };
        let wanted = WatchOptions {
            source: options.source,
            spin: options.spin.then(SpinOptions::default),
            counters: options.counters,
            dedicated: options.dedicated,
            wake_up_ns: wake_up.as_ref().ok().copied().flatten(),
        };
        let parks = wanted.dedicated.is_some();
        // Its supervisor, if it has one, undoes nothing: nothing has been changed yet.
        let mut watch =
            stop.at_once(|| SubjectWatch::start(&root, armed.subject, first.as_slice(), wanted))?;
        let wake_up_ns = wake_up.unwrap_or_else(|e| {
            watch.lacks(What::WakeUpTime, Why::Said(in_words(&e)));
            None
        });
        // Time before a command begins does not belong to its run.
        watch.observe()?;
        let begin_ns = watch.now_ns();
        let running = armed.held.map(|held| release(held, stop)).transpose()?;
        let end_ns = options.length_ns.map(|ns| begin_ns + ns);
        let how = Options {
            confidence: options.confidence,
            assignment: options.assignment,
            way: options.way,
            wake_up_ns: wake_up_ns.unwrap_or(0),
            ..Options::default()
        };
        let predictor = || Predictor::new(watch.tenant(), how);
        Ok(Predict {
            predictor: predictor(),
            ledger_alone: parks.then(predictor),
            schedule: parks.then(|| Schedule::new(watch.tenant(), begin_ns)),
            watch,
            end: EndConditions { running, end_ns, stop: stop.clone() },
            ended: None,
            description: armed.description,
            is_deserted: armed.is_deserted,
            first,
            left_behind: None,
            begin_ns,
            next_ns: begin_ns + ESTIMATE_NS,
            due: None,
        })
    }

    /// The target in words.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Whether it is a cgroup that was empty at the start: later processes in it are watched.
    pub fn is_deserted(&self) -> bool {
        self.is_deserted
    }

    /// Whether it is a command that this session started.
    pub fn is_command(&self) -> bool {
        self.end.running.is_some()
    }

    /// When it began, on the host's clock.
    pub fn begin_ns(&self) -> u64 {
        self.begin_ns
    }

    /// What sees the subject.
    pub fn watch(&self) -> &SubjectWatch {
        &self.watch
    }

    /// What makes the estimates.
    pub fn predictor(&self) -> &Predictor {
        &self.predictor
    }

    /// The same without the result of dedicated windows; `None` if none were requested.
    pub fn ledger_alone(&self) -> Option<&Predictor> {
        self.ledger_alone.as_ref()
    }

    /// The result of dedicated windows; `None` if none were requested.
    pub fn found(&self) -> Option<&Found> {
        self.schedule.as_ref().map(Schedule::found)
    }

    /// The slowdown of the program as it is now.
    ///
    /// # Errors
    /// Why it is unknown.
    pub fn present(&self) -> Result<Estimate, CannotTell> {
        self.predictor.estimate()
    }

    /// The slowdown of the run so far.
    ///
    /// # Errors
    /// Why it is unknown.
    pub fn so_far(&self) -> Result<Estimate, CannotTell> {
        self.predictor.so_far()
    }

    fn take(&mut self, seen: &Observation, label: Label, recorded: &mut Vec<Recorded>) {
        let window = Window::of(seen, self.watch.tenant());
        if let (Label::Shared, Some(ledger)) = (label, &mut self.ledger_alone) {
            ledger.push_window(window.clone(), label);
        }
        self.predictor.note_tenants(seen);
        self.predictor.push_window(window.clone(), label);
        recorded.push(Recorded { label, window });
    }

    /// Whether a dedicated window would help now. This ignores the budget.
    fn is_dedicated_due(&self, now_ns: u64) -> bool {
        let wants = self.predictor.wants_dedicated();
        self.schedule.as_ref().is_some_and(|s| s.next(now_ns, wants) == Next::Open)
    }

    /// Adds the observation before a dedicated window, and that window if it counts.
    fn opened(&mut self, window: &DedicatedWindow, recorded: &mut Vec<Recorded>) {
        self.take(&window.before, Label::Shared, recorded);
        let taken = Taken {
            seen: &window.dedicated,
            parked: &window.parked,
            not_parked: &window.not_parked,
            parked_ns: window.parked_ns,
            leaked_ns: window.leaked_ns,
            subject_ended: window.subject_ended,
        };
        if let Some(Ok(())) = self.schedule.as_mut().map(|schedule| schedule.opened(&taken)) {
            self.take(&window.dedicated, Label::Dedicated, recorded);
        }
    }

    /// Records that none was opened because of tenants that ran in `seen`.
    fn not_dedicated(&mut self, seen: &Observation, not_dedicated: NotDedicated) {
        let of = |u: Unparkable| InTheWay { tenant: u.tenant, why: u.why, on_cpu_ns: u.on_cpu_ns };
        let in_the_way: Vec<InTheWay> = not_dedicated.unparkable.into_iter().map(of).collect();
        self.schedule.iter_mut().for_each(|s| s.not_dedicated(seen, &in_the_way, not_dedicated.parkable));
    }

    fn window(&mut self) -> Result<PredictWindow, Error> {
        if let Some(due) = self.due.take() {
            let took_ns = due.elapsed().as_nanos() as u64;
            self.next_ns += ESTIMATE_NS.max(ESTIMATE_TIMES.saturating_mul(took_ns));
        }
        self.ended = self.end.wait(&mut self.watch, Duration::from_nanos(SLOT_NS))?;
        let seen = self.watch.observe()?;
        let (mut end_ns, mut recorded) = (seen.end_ns, Vec::new());
        self.take(&seen, Label::Shared, &mut recorded);
        if end_ns - self.begin_ns >= FIRST_NS {
            self.watch.end_counting_above(COUNTING);
        }
        if self.ended.is_none() && self.is_dedicated_due(end_ns) {
            match self.watch.open_dedicated(&seen, OTHERS).map_err(of_dedicated)? {
                // The observation when they ended cannot be classified.
                Opening::NotNow | Opening::Ended => {}
                Opening::NotDedicated(not_dedicated) => self.not_dedicated(&seen, not_dedicated),
                Opening::Opened(window) => {
                    self.opened(&window, &mut recorded);
                    end_ns = window.dedicated.end_ns;
                }
            }
        }
        let is_estimate_due = self.ended.is_some() || end_ns >= self.next_ns;
        if is_estimate_due {
            (self.next_ns, self.due) = (end_ns, Some(Instant::now()));
            let evidence = self.watch.evidence(self.ended.is_some_and(Ended::is_complete));
            evidence.into_iter().for_each(|evidence| self.predictor.push_evidence(evidence));
            self.predictor.know_servers(self.watch.servers());
        }
        if let (Some(Ended::Command), Some(command)) = (self.ended, self.first) {
            self.left_behind = Some(left_behind(&seen, Some(self.watch.tenant()), command));
        }
        Ok(PredictWindow { recorded, end_ns, is_estimate_due, ended: self.ended })
    }

    /// Tasks that a command has left behind; `None` if it has not ended, or there is none.
    pub fn left_behind(&self) -> Option<usize> {
        self.left_behind
    }

    /// Stops watching; everybody runs.
    ///
    /// # Errors
    /// The changes that could not be undone.
    pub fn finish(mut self) -> Result<Predicted, Error> {
        self.watch.undo_all()?;
        Ok(Predicted { ended: self.ended.unwrap_or(Ended::Interrupted), command: self.end.running })
    }
}

/// The host's error is returned as such.
fn of_dedicated(error: DedicatedError) -> Error {
    match error {
        DedicatedError::Host(error) => Error::Host(error),
        error => Error::Usage(error.to_string()),
    }
}

impl Iterator for Predict {
    type Item = Result<PredictWindow, Error>;

    /// The next window; `None` once the session has ended.
    fn next(&mut self) -> Option<Result<PredictWindow, Error>> {
        next_window(self, |session| &mut session.ended, Predict::window)
    }
}

/// How a prediction ended.
pub struct Predicted {
    /// Why it ended.
    pub ended: Ended,
    /// The command, if there was one. [`Running::wait`] collects it.
    pub command: Option<Running>,
}
