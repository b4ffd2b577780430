//! The spin detector at work: a thread that empties the rings and judges, and the rate that keeps it cheap.

use super::by_cpu::ByCpu;
use super::by_task::ByTask;
use super::event::{Event, Ring, Whom, PERIOD_NS_MIN};
use super::followed::{Attached, Followed};
use super::judge::{Judge, Verdict};
use super::record::Record;
use super::sample::Sample;
use super::sample_cost;
use super::tally::{self, Counted, Tally};
use crate::clock;
use crate::cpulist;
use crate::descriptors;
use crate::limits;
use crate::root::{in_words, ReadError, Root};
use corun_model::observation::TaskObservation;
use corun_model::spin::SpinEstimate;
use corun_model::{Observation, TaskId, TenantId, Unavailable, What, Why};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;

/// The assumed cost of a sample if it cannot be measured ([`sample_cost`]), in nanoseconds: timer interrupt,
/// registers, 512 bytes of stack.
const SAMPLE_NS: u64 = 3_000;

/// How often the rings are emptied: they hold a second of samples.
const DRAIN: Duration = Duration::from_millis(100);

/// For this long, in nanoseconds, the detector may spend its share in advance: new code has to be examined
/// once. It must not become the disturbance. So when nothing is left, samples of new code are not judged, but
/// counted.
const CREDIT_NS: u64 = 2_000_000_000;

/// Code of this length is one place, in bytes: no loop that waits is longer.
const PLACE_BYTES: u64 = 64;

/// Places of new code that are remembered; beyond that, the list starts again.
const CROWDS_MAX: usize = 1 << 16;

/// How often the rate is adjusted, in nanoseconds.
const RATE_NS: u64 = 1_000_000_000;

/// The longest period, in nanoseconds: fewer than ten samples a second say nothing.
const PERIOD_NS_MAX: u64 = 100_000_000;

/// At most this many file descriptors are used, however many are allowed.
const DESCRIPTORS_MAX: usize = 1 << 16;

/// How much more often to sample for a short time that has to be informative. The rings hold 0.1 s of that.
const DENSER: u64 = 5;

/// The factor between two rates: the golden ratio, so that no period is a round multiple of another.
const STEP: (u64, u64) = (1618, 1000);

/// How to sample.
#[derive(Clone, Debug)]
pub struct SpinOptions {
    /// The share of one CPU that sampling and judging may cost.
    pub cost_max: f64,
    /// The shortest time on a CPU between two samples of a task, in nanoseconds.
    pub period_ns_min: u64,
    /// Sample by the clocks of tasks, even if whole CPUs may be sampled.
    pub by_task: bool,
    /// File descriptors that may be used for that; `None`: a third of what the process may open.
    pub descriptors: Option<usize>,
}

impl Default for SpinOptions {
    fn default() -> SpinOptions {
        SpinOptions { cost_max: 0.01, period_ns_min: PERIOD_NS_MIN, by_task: false, descriptors: None }
    }
}

/// Spinning cannot be detected by samples here.
#[derive(Debug, Error)]
pub enum SpinError {
    /// Code of this architecture cannot be judged.
    #[error("only x86-64 code can be judged, this machine is {0}")]
    Architecture(&'static str),
    /// Perf events are not available.
    #[error("perf events are refused ({}); run as root or with CAP_PERFMON, or set kernel.perf_event_paranoid to 2 or less", in_words(.0))]
    Refused(#[source] io::Error),
    /// Another failure of the kernel's interface.
    #[error("perf events cannot be used: {}", in_words(.0))]
    Failed(#[source] io::Error),
    /// There is no thread to empty the rings.
    #[error("the thread that reads the samples cannot be started: {}", in_words(.0))]
    Thread(#[source] io::Error),
    /// The CPUs cannot be listed.
    #[error(transparent)]
    Cpus(#[from] ReadError),
}

impl SpinError {
    /// The same, for a report.
    pub fn unavailable(&self) -> Unavailable {
        Unavailable { what: What::SpinFromSamples, why: Why::Said(self.to_string()) }
    }

    pub(super) fn of(e: io::Error) -> SpinError {
        match e.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => SpinError::Refused(e),
            _ => SpinError::Failed(e),
        }
    }
}

/// The cost and the losses of the detector so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpinCost {
    /// Samples taken.
    pub samples: u64,
    /// Of these, samples whose code could not be read or judged.
    pub unjudged: u64,
    /// Records that found no room.
    pub lost: u64,
    /// CPU time of reading and judging, in nanoseconds.
    pub own_ns: u64,
    /// The cost of one sample for the interrupted task, in nanoseconds, as measured at the start.
    pub sample_ns: u64,
    /// CPU time of taking the samples in the kernel, in nanoseconds: their number times that.
    pub kernel_ns: u64,
    /// How long it has been running, in nanoseconds.
    pub wall_ns: u64,
    /// The current time between two samples of a task, in nanoseconds of its time on a CPU.
    pub period_ns: u64,
}

impl SpinCost {
    /// The share of one CPU that it took.
    pub fn share(&self) -> f64 {
        if self.wall_ns == 0 {
            return 0.0;
        }
        (self.own_ns + self.kernel_ns) as f64 / self.wall_ns as f64
    }
}

struct State {
    rings: Vec<(u32, Ring)>,
    followed: Box<dyn Followed>,
    judge: Judge,
    tallies: BTreeMap<u32, Tally>,
    /// The number of samples of new code in the same place so far.
    crowds: HashMap<(u32, u64), u32>,
    cost: SpinCost,
    started_ns: u64,
    drained_ns: u64,
    /// Cost and time at the last adjustment of the rate.
    rated: SpinCost,
    options: SpinOptions,
    attached: Attached,
    is_dense: bool,
    stop: bool,
}

/// Samples tasks and reports how much of their time was spinning.
pub struct SpinSampler {
    shared: Arc<(Mutex<State>, Condvar)>,
    thread: Option<JoinHandle<()>>,
    root: Root,
    with_kernel: bool,
    /// Tenants with a task that was sampled in some window.
    tenants: BTreeSet<TenantId>,
}

impl SpinSampler {
    /// Opens the rings; no task is sampled yet.
    ///
    /// # Errors
    /// [`SpinError`] if this machine does not allow it or cannot do it.
    pub fn start(root: &Root, options: SpinOptions) -> Result<SpinSampler, SpinError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(SpinError::Architecture(std::env::consts::ARCH));
        }
        let online = root.read("/sys/devices/system/cpu/online")?;
        let cpus = cpulist::parse(&online)
            .ok_or_else(|| root.unexpected("/sys/devices/system/cpu/online", &online, cpulist::WANTED))?;
        let mut rings = cpus
            .into_iter()
            .map(|cpu| Ok((cpu.0, Ring::of(cpu.0)?)))
            .collect::<io::Result<Vec<(u32, Ring)>>>()
            .map_err(SpinError::of)?;
        let period_ns = options.period_ns_min.max(1);
        let sample_ns = [true, false].into_iter().find_map(|kernel| sample_cost::measure(&mut rings, kernel));
        let by_cpu = if options.by_task { None } else { ByCpu::start(period_ns, &rings).ok() };
        let (followed, with_kernel): (Box<dyn Followed>, bool) = match by_cpu {
            Some(by_cpu) => (Box::new(by_cpu), true),
            None => {
                let with_kernel = may_sample_kernel(&rings)?;
                let descriptors =
                    options.descriptors.unwrap_or_else(|| descriptors::third().min(DESCRIPTORS_MAX));
                (Box::new(ByTask::new(descriptors, rings.len(), period_ns, with_kernel)), with_kernel)
            }
        };
        let started_ns = clock::now_ns();
        let state = State {
            followed,
            rings,
            judge: Judge::new(root),
            tallies: BTreeMap::new(),
            crowds: HashMap::new(),
            cost: SpinCost { period_ns, sample_ns: sample_ns.unwrap_or(SAMPLE_NS), ..SpinCost::default() },
            started_ns,
            drained_ns: started_ns,
            rated: SpinCost::default(),
            options,
            attached: Attached::default(),
            is_dense: false,
            stop: false,
        };
        let shared = Arc::new((Mutex::new(state), Condvar::new()));
        let of_thread = Arc::clone(&shared);
        let thread =
            limits::start_thread("corun-spin", move || run(&of_thread)).map_err(SpinError::Thread)?;
        let tenants = BTreeSet::new();
        Ok(SpinSampler { shared, thread: Some(thread), root: root.clone(), with_kernel, tenants })
    }

    /// Samples `tasks` from now on, and all their children. Call it again with all tasks of the subject
    /// whenever some may have joined that were not started by followed ones.
    pub fn follow(&mut self, tasks: &[TaskId]) -> Attached {
        let root = self.root.clone();
        let tasks: BTreeSet<u32> = tasks.iter().map(|t| t.0).collect();
        let mut state = self.state();
        let State { followed, rings, .. } = &mut *state;
        let attached = followed.follow(&tasks, rings, &|tid| root.has(format!("/proc/{tid}")));
        state.attached = attached;
        attached
    }

    /// Samples [`DENSER`] times as often for a short time, if CPUs are sampled, or returns to the normal
    /// rate. Call it between windows: samples of one window must count alike.
    pub fn be_dense(&mut self, is_dense: bool) {
        let mut state = self.state();
        if state.followed.may_be_denser() {
            state.is_dense = is_dense;
            state.apply_period();
        }
    }

    /// Spin time in the window that `seen` observed, for every task of a sampled tenant that was on a CPU. A
    /// result is handed out once: the next call covers the time since this one.
    pub fn collect(&mut self, seen: &Observation) -> BTreeMap<TaskId, SpinEstimate> {
        let mut state = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.drain();
        let tallies = std::mem::take(&mut state.tallies);
        let sampled = |t: &TaskObservation| tallies.contains_key(&t.id.0) || state.followed.covers(t.id.0);
        for task in &seen.tasks {
            if !self.tenants.contains(&task.tenant) && sampled(task) {
                self.tenants.insert(task.tenant);
            }
        }
        drop(state);
        let mut found = estimates(seen, &tallies, &self.tenants);
        if !self.with_kernel {
            found.values_mut().for_each(|estimate| estimate.system_ns = None);
        }
        found
    }

    /// The cost so far.
    pub fn cost(&self) -> SpinCost {
        self.state().cost
    }

    /// The unknowns, and why.
    pub fn unavailable(&self) -> Vec<Unavailable> {
        let state = self.state();
        let mut missing = Vec::new();
        let mut say = |what: What, why: Why| missing.push(Unavailable { what, why });
        if !self.with_kernel {
            say(What::SpinInYield, Why::KernelNotSampled);
        }
        if let Some((processes, why)) = state.judge.refused() {
            say(What::SpinOfSomeProcesses, Why::CodeUnreadable { processes, cause: why.to_owned() });
        }
        let Attached { forbidden, waiting, .. } = state.attached;
        if forbidden > 0 {
            say(What::SpinOfSomeTasks, Why::TasksForbidden { tasks: forbidden });
        }
        if waiting > 0 {
            say(What::ContinuousSampling, Why::TasksTakeTurns { tasks: waiting });
        }
        if state.cost.lost > 0 {
            say(What::SomeSamples, Why::SamplesLost { samples: state.cost.lost });
        }
        missing
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SpinSampler {
    fn drop(&mut self) {
        self.state().stop = true;
        self.shared.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(shared: &(Mutex<State>, Condvar)) {
    let (state, wake) = shared;
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    while !state.stop {
        // A caller that collects often enough does all the work itself: a controller with priority over
        // everybody would have to wait for this thread, which has none.
        if state.until_full().is_zero() {
            state.drain();
        }
        state.keep_cheap();
        let left = state.until_full();
        state = wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Whether time in the kernel may be sampled, too; the first attempt shows whether anything may.
fn may_sample_kernel(rings: &[(u32, Ring)]) -> Result<bool, SpinError> {
    let Some((cpu, ring)) = rings.first() else { return Ok(false) };
    // The event goes away at once.
    match Event::sampling(Whom::Task(0), *cpu, PERIOD_NS_MAX, true, ring) {
        Ok(_) => Ok(true),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => {
            Event::sampling(Whom::Task(0), *cpu, PERIOD_NS_MAX, false, ring)
                .map(|_| false)
                .map_err(SpinError::of)
        }
        Err(e) => Err(SpinError::of(e)),
    }
}

impl State {
    /// How long the rings need not be emptied yet.
    fn until_full(&self) -> Duration {
        DRAIN.saturating_sub(Duration::from_nanos(clock::now_ns() - self.drained_ns))
    }

    fn drain(&mut self) {
        let began_ns = clock::thread_cpu_ns();
        let now_ns = clock::now_ns();
        self.drained_ns = now_ns;
        cost_until(&mut self.cost, now_ns - self.started_ns);
        // Births first and ends last: a task's samples may lie in other rings.
        let (mut records, mut born, mut ended) = (Vec::new(), Vec::new(), Vec::new());
        for (_, ring) in &mut self.rings {
            ring.drain(|bytes| match Record::parse(bytes) {
                Some(Record::Born { parent, tid }) => born.push((parent, tid)),
                Some(Record::Ended { tid }) => ended.push(tid),
                other => records.extend(other),
            });
        }
        self.note_births(born);
        let mut samples = Vec::new();
        for record in records {
            match record {
                Record::Sample(sample) => {
                    self.cost.samples += 1;
                    if self.followed.covers(sample.tid) {
                        samples.push(sample);
                    }
                }
                Record::Opaque { tid, .. } => {
                    self.cost.samples += 1;
                    if self.followed.covers(tid) {
                        self.cost.unjudged += 1;
                        self.tallies.entry(tid).or_default().unjudged();
                    }
                }
                Record::Executed { pid } => self.judge.forget(pid),
                Record::Lost { records } => self.cost.lost += records,
                Record::Born { .. } | Record::Ended { .. } => {}
            }
        }
        self.judge_all(&samples, began_ns, now_ns);
        ended.into_iter().for_each(|tid| self.followed.end(tid));
        self.judge.forget_old(now_ns);
        cost_until(&mut self.cost, now_ns - self.started_ns);
        self.cost.own_ns += clock::thread_cpu_ns() - began_ns;
    }

    /// A parent's own birth may lie in another ring than its child's, and be read later.
    fn note_births(&mut self, mut born: Vec<(u32, u32)>) {
        loop {
            let (known, unknown): (Vec<_>, Vec<_>) =
                born.into_iter().partition(|(parent, _)| self.followed.covers(*parent));
            let is_last = known.is_empty();
            known.into_iter().for_each(|(parent, tid)| self.followed.born(parent, tid));
            if is_last || unknown.is_empty() {
                unknown.into_iter().for_each(|(parent, tid)| self.followed.born(parent, tid));
                return;
            }
            born = unknown;
        }
    }

    /// Judges samples, each task's in the order of time; this thread had spent `began_ns` when it began to
    /// read them.
    ///
    /// There may not be time for all new code. So the places with most samples are examined first. A place
    /// with one sample is examined only while there is plenty of time: a program that starts is in a thousand
    /// places once, and spins in a few.
    fn judge_all(&mut self, samples: &[Box<Sample>], began_ns: u64, now_ns: u64) {
        let left_ns = self.left_ns();
        let plenty_ns = (CREDIT_NS as f64 * self.options.cost_max / 2.0) as u64;
        let State { judge, tallies, crowds, cost, .. } = self;
        let may_look = |spare_ns: u64| clock::thread_cpu_ns() - began_ns + spare_ns <= left_ns;
        let mut tell = |sample: &Sample, verdict: Verdict| {
            let tally = tallies.entry(sample.tid).or_default();
            if sample.in_kernel && !matches!(verdict, Verdict::Waiting(..)) {
                tally.in_kernel();
            }
            match verdict {
                Verdict::Useful => tally.useful(sample.period_ns),
                Verdict::Waiting(id, outcome) => tally.waiting(id, outcome, sample.period_ns),
                Verdict::PassedOver => {
                    cost.unjudged += 1;
                    tally.passed_over();
                }
                Verdict::Unreadable | Verdict::New => {
                    cost.unjudged += 1;
                    tally.unjudged();
                }
            }
        };
        let mut new = Vec::new();
        for sample in samples {
            match judge.judge(sample, now_ns, may_look(0)) {
                Verdict::New => {
                    *crowds.entry(place(sample)).or_default() += 1;
                    new.push(sample);
                }
                verdict => tell(sample, verdict),
            }
        }
        new.sort_by_key(|sample| Reverse((crowds[&place(sample)], place(sample))));
        for sample in new {
            let is_alone = crowds[&place(sample)] == 1;
            let verdict = match may_look(if is_alone { plenty_ns } else { 0 }) {
                true => judge.look_into(sample, now_ns),
                false if is_alone => Verdict::PassedOver,
                false => Verdict::New,
            };
            tell(sample, verdict);
        }
        if crowds.len() > CROWDS_MAX {
            crowds.clear();
        }
    }

    /// CPU time that may still be spent on judging, in nanoseconds: at least half of the total, since
    /// unjudged samples say nothing.
    fn left_ns(&self) -> u64 {
        let SpinCost { wall_ns, own_ns, kernel_ns, .. } = self.cost;
        let allowed_ns = ((wall_ns + CREDIT_NS) as f64 * self.options.cost_max) as u64;
        allowed_ns.saturating_sub(own_ns + kernel_ns.min(allowed_ns / 2))
    }

    /// Samples less often if it costs too much, and more often if there is room.
    fn keep_cheap(&mut self) {
        let (now, before) = (self.cost, self.rated);
        let wall_ns = now.wall_ns - before.wall_ns;
        if wall_ns < RATE_NS {
            return;
        }
        self.rated = now;
        let spent_ns = now.own_ns + now.kernel_ns - before.own_ns - before.kernel_ns;
        let share = spent_ns as f64 / wall_ns as f64 / self.options.cost_max;
        let period_ns = if share > 0.8 {
            (now.period_ns * STEP.0 / STEP.1).min(PERIOD_NS_MAX)
        } else if share < 0.3 {
            (now.period_ns * STEP.1 / STEP.0).max(self.options.period_ns_min)
        } else {
            return;
        };
        if period_ns != now.period_ns {
            self.cost.period_ns = period_ns;
            self.apply_period();
        }
    }

    fn apply_period(&mut self) {
        let period_ns = self.cost.period_ns / if self.is_dense { DENSER } else { 1 };
        self.followed.change_period(period_ns, &self.rings);
    }
}

/// A sample's place: its process, and about twenty instructions.
fn place(sample: &Sample) -> (u32, u64) {
    (sample.pid, sample.ip / PLACE_BYTES)
}

/// The result of time and the number of samples.
fn cost_until(cost: &mut SpinCost, wall_ns: u64) {
    cost.wall_ns = wall_ns;
    cost.kernel_ns = cost.samples * cost.sample_ns;
}

/// Spin time of every task of `seen` whose tenant is `sampled`.
fn estimates(
    seen: &Observation,
    tallies: &BTreeMap<u32, Tally>,
    sampled: &BTreeSet<TenantId>,
) -> BTreeMap<TaskId, SpinEstimate> {
    let staying = tally::staying(tallies.values());
    let counted: BTreeMap<TaskId, Counted> =
        tallies.iter().map(|(tid, tally)| (TaskId(*tid), Counted::of(tally, &staying))).collect();
    let mut of_tenant: BTreeMap<TenantId, Counted> =
        sampled.iter().map(|tenant| (*tenant, Counted::default())).collect();
    let ran = |t: &&TaskObservation| t.account.ledger.on_cpu_ns() > 0;
    for task in seen.tasks.iter().filter(ran) {
        if let (Some(sum), Some(own)) = (of_tenant.get_mut(&task.tenant), counted.get(&task.id)) {
            *sum = sum.plus(*own);
        }
    }
    let estimate = |task: &TaskObservation| {
        let on_cpu_ns = task.account.ledger.on_cpu_ns();
        let siblings = of_tenant.get(&task.tenant)?;
        let own = counted.get(&task.id).and_then(|c| c.estimate(on_cpu_ns));
        own.or_else(|| siblings.estimate_of_sibling(on_cpu_ns))
    };
    seen.tasks.iter().filter(ran).filter_map(|task| Some((task.id, estimate(task)?))).collect()
}
