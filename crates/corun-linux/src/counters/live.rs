//! Counters of this machine's tasks, through perf events.
//!
//! Method: the [`Plan`]'s groups are opened for every followed task, on whichever CPU it runs; the kernel
//! saves and restores them at each switch. Corun reads each group once a window and takes the difference. At
//! a switch only the kernel's own work happens. `docs/counters.md` has the measured cost.
//!
//! Tasks are found in the observations. A task that ran in a window without being followed is followed from
//! its end on, the busiest first, until [`Options::files_max`] files are open. Corun checks whether a task
//! was followed for all of its running time. The kernel reports how long a group was enabled, and that must
//! equal the ledger's time on a CPU, within [`SLACK_NS`] or a tenth. If it does not, the task has no counters
//! in that window. The counters of other tasks are scaled to their whole time on a CPU. A tenant's counters
//! are the sum over its tasks, scaled in the same way, and unknown in the same cases. If groups take turns,
//! the sum over tasks or windows is scaled, not each part of it.
//!
//! If tasks come and go faster than windows (a compiler run), [`Grain::Tree`] counts a tenant as a whole. Its
//! first tasks are followed together with all that they create, and tasks are not distinguished.
//!
//! Limits: the counters of a window begin and end when they are read, up to some milliseconds after the
//! window's edge. Nothing is counted twice or missed because of that. A task that corun may not inspect has
//! none.

use super::cost::SwitchCost;
use super::perf_event::{CountOptions, Event, Group, Whose};
use super::plan::{Plan, Theme};
use super::reading::{times, Reading};
use super::refusal::{self, Refusal};
use super::room::Room;
use crate::root::Root;
use corun_model::observation::{Account, Observation};
use corun_model::recording::MOST_TASKS;
use corun_model::{Counter, CounterSource, Counters, TaskId, TenantId, Unavailable, What, Why};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// The reason that hosts give where they have no counters. Enabled time and time on a CPU may differ by this
/// much, since they are not read at the same instant.
const SLACK_NS: u64 = 1_000_000;

/// If counting takes more than this share of the tasks' time, it is reported.
const OWN_COST: f64 = 0.01;

/// The unit of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// Every task by itself.
    Task,
    /// One tenant as a whole: the tasks given at the start and everything that they create.
    Tree(TenantId),
}

/// What to count, and for which tasks.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where `/proc` and `/sys` hang.
    pub root: Root,
    /// Whose tasks are followed; `None`: everybody's.
    pub of: Option<TenantId>,
    /// What is counted. The fewer, the less often groups have to take turns.
    pub themes: Vec<Theme>,
    /// The unit of counting.
    pub grain: Grain,
    /// How many files may be open for counting; one per task and event.
    pub files_max: usize,
}

impl Options {
    /// Everything of every task of this tenant (or of everybody), with at most a third of the files that this
    /// process may open.
    pub fn new(of: Option<TenantId>) -> Options {
        Options {
            root: Root::new("/"),
            of,
            themes: Theme::ALL.to_vec(),
            grain: Grain::Task,
            files_max: crate::descriptors::third(),
        }
    }
}

/// How exact the counters of the last window are, if groups had to take turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// The share of the tasks' time in which the least-counted group was counted, 0 to 1.
    pub counted_share: f64,
    /// The relative standard error of that group's sum over all tasks (see [`super::reading`]). For one task
    /// with a share `s` of the time, it is larger by `1/√s`.
    pub relative_error: f64,
}

impl Precision {
    /// The precision of the least-counted group among these; `None` if nobody ran.
    fn of<'a>(windows: impl Iterator<Item = &'a Window>, turn_ns: u64) -> Option<Precision> {
        let all = Window::sum(windows)?;
        let least = all.turns().filter_map(|g| Some((g.counted_share()?, g)));
        let (counted_share, group) = least.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Precision { counted_share, relative_error: group.relative_error(turn_ns) })
    }
}

/// This machine's counters. Dropping it stops all counting.
#[derive(Debug)]
pub struct LivePerf {
    options: Options,
    plan: Plan,
    turn_ns: u64,
    followed: BTreeMap<TaskId, Followed>,
    /// Tasks that corun may not inspect.
    forbidden: BTreeSet<TaskId>,
    said: BTreeSet<Unavailable>,
    precision: Option<Precision>,
    /// The counts of all windows so far.
    totals: Totals,
    switch: Option<SwitchCost>,
    own_cost: Option<f64>,
}

/// A task whose groups are open.
#[derive(Debug)]
struct Followed {
    groups: Vec<Group>,
    last: Vec<Vec<Reading>>,
    /// The owner when an observation last listed the task; `None` if none has yet.
    tenant: Option<TenantId>,
}

impl LivePerf {
    /// Finds out what can be counted here, and how much that adds to a switch (this takes some milliseconds).
    /// It follows nobody yet.
    ///
    /// # Errors
    /// [`Refusal`] if nothing at all can be counted.
    pub fn start(options: Options) -> Result<LivePerf, Refusal> {
        let plan = Plan::make(&options.root, &options.themes, &accepted)?.within(room());
        let turn_ms = options.root.value(
            "/sys/bus/event_source/devices/cpu/perf_event_mux_interval_ms",
            "a number of milliseconds",
        );
        let said = plan.refused.iter().cloned().collect();
        let switch = SwitchCost::measure(&plan).ok();
        Ok(LivePerf {
            options,
            plan,
            turn_ns: turn_ms.unwrap_or(4u64) * 1_000_000,
            followed: BTreeMap::new(),
            forbidden: BTreeSet::new(),
            said,
            precision: None,
            totals: Totals::default(),
            switch,
            own_cost: None,
        })
    }

    /// The counted events, and how they are counted.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How many tasks are followed.
    pub fn followed(&self) -> usize {
        self.followed.len()
    }

    /// How exact the last window was; `None` before the first one and if nobody ran.
    pub fn precision(&self) -> Option<Precision> {
        self.precision
    }

    /// The cost of a switch between counted tasks, measured at the start; `None` if that failed.
    pub fn switch_cost(&self) -> Option<SwitchCost> {
        self.switch
    }

    /// The share of the counted tasks' time on a CPU that counting itself took in the last window, 0 to 1:
    /// their switches times the added cost of a switch. `None` if switches or their cost are unknown.
    pub fn own_cost(&self) -> Option<f64> {
        self.own_cost
    }

    fn manner(&self) -> CountOptions {
        CountOptions { kernel: self.plan.kernel, inherit: self.options.grain != Grain::Task }
    }

    /// Follows one more task; false if no more can be followed.
    fn begin(&mut self, task: TaskId) -> bool {
        if self.followed.contains_key(&task) || self.forbidden.contains(&task) {
            return true;
        }
        let full = (self.followed.len() + 1) * self.plan.events() > self.options.files_max;
        let open = |events: &Vec<_>| Group::open(events, Whose::Task(task.0), self.manner());
        let opened = if full { Err(libc::EMFILE) } else { self.plan.groups.iter().map(open).collect() };
        match opened {
            Ok(groups) => {
                let groups: Vec<Group> = groups;
                let last = self.plan.groups.iter().map(|g| vec![Reading::default(); g.len()]).collect();
                self.followed.insert(task, Followed { groups, last, tenant: None });
                true
            }
            Err(libc::ESRCH) => true,
            Err(errno @ (libc::EMFILE | libc::ENFILE)) => {
                let (files, error) = (self.plan.events(), refusal::name_of(errno));
                let why = Why::NoFilesForCounters { files, error };
                self.say(What::CountersOfLessBusy, why);
                false
            }
            Err(errno) => {
                self.forbidden.insert(task);
                let refusal = refusal::of_errno(&self.options.root, errno);
                self.say(What::CountersOfSomeTasks, Why::NoCounters { refusal, is_needed: false });
                true
            }
        }
    }

    fn say(&mut self, what: What, why: Why) {
        self.said.insert(Unavailable { what, why });
    }

    /// The counts of every followed task since the last time.
    fn read_all(&mut self) -> BTreeMap<TaskId, Window> {
        let (mut windows, mut lost) = (BTreeMap::new(), false);
        for (&task, followed) in &mut self.followed {
            let Some(window) = followed.window() else { continue };
            self.totals.add(task, &window);
            lost |= !self.plan.lost(&window.read).is_empty();
            windows.insert(task, window);
        }
        if lost {
            self.say(What::AllCounters, Why::CountersStoodStill);
        }
        self.precision = Precision::of(windows.values(), self.turn_ns);
        if self.precision.is_some_and(|p| p.counted_share < 0.999) {
            self.say(What::ExactCounters, Why::CountersTakeTurns);
        }
        windows
    }

    /// The counts of a task that did not run.
    fn nothing(&self) -> Window {
        Window { read: self.plan.groups.iter().map(|g| vec![Reading::default(); g.len()]).collect() }
    }

    /// The counters, if this is nearly all of the task's time on a CPU; otherwise `None`.
    fn whole(&self, counted: &Window, on_cpu_ns: u64) -> Option<Counters> {
        whole(self.plan.counters(&counted.read, self.turn_ns), counted.enabled_ns(), on_cpu_ns)
    }

    fn fill_tasks(&mut self, seen: &mut Observation) {
        let windows = self.read_all();
        let nothing = self.nothing();
        let mut covered: BTreeMap<TenantId, Window> = BTreeMap::new();
        let (mut alive, mut to_follow, mut missed) = (BTreeSet::new(), Vec::new(), false);
        let ids: Vec<TaskId> = seen.tasks.iter().map(|t| t.id).collect();
        self.add_to_tenants(&windows, seen);
        for (n, task) in seen.tasks.iter_mut().enumerate() {
            if self.options.of.is_some_and(|of| of != task.tenant) {
                continue;
            }
            // Two tasks with the same number in one window cannot be distinguished by it.
            let twins = n > 0 && ids[n - 1] == task.id || ids.get(n + 1) == Some(&task.id);
            let on_cpu_ns = task.account.ledger.on_cpu_ns();
            let window = match on_cpu_ns {
                0 => Some(&nothing),
                _ => windows.get(&task.id).filter(|w| !twins && w.covers(on_cpu_ns)),
            };
            task.set_counters(window.and_then(|w| self.whole(w, on_cpu_ns)));
            missed |= window.is_none();
            if let Some(window) = window {
                covered.entry(task.tenant).or_insert_with(|| nothing.clone()).add(window);
            }
            if task.alive {
                alive.insert(task.id);
                if on_cpu_ns > 0 && !self.followed.contains_key(&task.id) {
                    to_follow.push((on_cpu_ns, task.id));
                }
            }
        }
        for tenant in &mut seen.by_tenant {
            if self.options.of.is_none_or(|of| of == tenant.id) {
                let on_cpu_ns = tenant.account.ledger.on_cpu_ns();
                let counted = covered.get(&tenant.id).unwrap_or(&nothing);
                tenant.account.counters = self.whole(counted, on_cpu_ns);
            }
        }
        if missed {
            self.say(What::CountersOfNewTasks, Why::CountedFromSecondWindow);
        }
        self.followed.retain(|task, f| alive.contains(task) || f.tenant.is_none());
        self.forbidden.retain(|task| alive.contains(task));
        self.totals.unlist(MOST_TASKS, |task| self.followed.contains_key(&task));
        to_follow.sort_unstable_by(|a, b| b.cmp(a));
        for (_, task) in to_follow {
            if !self.begin(task) {
                break;
            }
        }
    }

    /// Adds the counts of a window to the sums of the tenants that the tasks belonged to. A task that is
    /// listed for the first time brings along its earlier counts.
    fn add_to_tenants(&mut self, windows: &BTreeMap<TaskId, Window>, seen: &Observation) {
        let mut listed = BTreeMap::new();
        for task in &seen.tasks {
            // Of two with the same number, the older one has been followed.
            listed.entry(task.id).or_insert(task.tenant);
        }
        for (id, followed) in &mut self.followed {
            let known = followed.tenant;
            followed.tenant = listed.get(id).copied().or(known);
            let (Some(tenant), Some(window)) = (followed.tenant, windows.get(id)) else { continue };
            match known {
                Some(_) => self.totals.add_to(tenant, window),
                None => self.totals.add_to(tenant, &Window { read: followed.last.clone() }),
            }
        }
    }

    fn fill_tree(&mut self, seen: &mut Observation, of: TenantId) {
        let windows = self.read_all();
        let Some(tenant) = seen.by_tenant.iter_mut().find(|t| t.id == of) else { return };
        let sum = Window::sum(windows.values());
        let counted = sum.and_then(|sum| self.whole(&sum, tenant.account.ledger.on_cpu_ns()));
        tenant.account.counters = counted;
        self.say(What::CountersOfSingleTasks, Why::CountedAsWhole);
        if counted.is_none() {
            self.say(What::CountersOfSomeWindows, Why::TooMuchNotFollowed);
        }
    }
}

impl CounterSource for LivePerf {
    fn follow(&mut self, tasks: &[TaskId]) {
        for &task in tasks {
            if !self.begin(task) {
                break;
            }
        }
    }

    fn read(&mut self, seen: &mut Observation) {
        match self.options.grain {
            Grain::Task => self.fill_tasks(seen),
            Grain::Tree(of) => self.fill_tree(seen, of),
        }
        // Hosts say that they do not read them; this source does.
        seen.unavailable.retain(|u| u.what != What::HardwareCounters);
        self.reckon(seen);
        let new = self.said.iter().filter(|u| !seen.unavailable.contains(u));
        let new: Vec<Unavailable> = new.cloned().collect();
        seen.unavailable.extend(new);
    }
}

impl LivePerf {
    /// How much counting took from the counted tenants.
    fn reckon(&mut self, seen: &Observation) {
        let counted = seen.by_tenant.iter().filter(|t| t.account.counters.is_some()).map(|t| &t.account);
        let (mut switches, mut on_cpu_ns) = (Some(0), 0);
        for Account { events, ledger, .. } in counted {
            switches = switches.zip(events.switches()).map(|(sum, n)| sum + n);
            on_cpu_ns += ledger.on_cpu_ns();
        }
        let added = switches.zip(self.switch).filter(|_| on_cpu_ns > 0);
        self.own_cost = added.map(|(n, cost)| (n * cost.added_ns()) as f64 / on_cpu_ns as f64);
        if let (Some(cost), true) = (self.switch, self.own_cost > Some(OWN_COST)) {
            let above_percent = (OWN_COST * 100.0).round() as u64;
            let why = Why::CountingIsDear { added_ns: cost.added_ns(), above_percent };
            self.say(What::UndisturbedRun, why);
        }
    }
}

/// The counts of the events in every group of the plan: of a task in a window, or the sum of several.
#[derive(Clone, Debug, PartialEq)]
struct Window {
    read: Vec<Vec<Reading>>,
}

impl Window {
    fn add(&mut self, more: &Window) {
        for (sum, more) in self.read.iter_mut().flatten().zip(more.read.iter().flatten()) {
            *sum = sum.plus(more);
        }
    }

    /// Their sum; `None` if there are none.
    fn sum<'a>(mut windows: impl Iterator<Item = &'a Window>) -> Option<Window> {
        let mut sum = windows.next()?.clone();
        windows.for_each(|more| sum.add(more));
        Some(sum)
    }

    /// The first event of every group: all events of a group are counted together.
    fn turns(&self) -> impl Iterator<Item = &Reading> {
        self.read.iter().filter_map(|group| group.first())
    }

    /// How long the counted tasks ran while followed.
    fn enabled_ns(&self) -> u64 {
        self.turns().next().map_or(0, |r| r.enabled_ns)
    }

    /// Whether the task was followed for (nearly) all of its running time.
    fn covers(&self, on_cpu_ns: u64) -> bool {
        covers(self.enabled_ns(), on_cpu_ns)
    }
}

impl Followed {
    /// The counts since the last time; `None` if they cannot be read.
    fn window(&mut self) -> Option<Window> {
        let now: Vec<Vec<Reading>> = self.groups.iter().map(|g| g.read().ok()).collect::<Option<_>>()?;
        let since = |(now, last): (&Vec<Reading>, &Vec<Reading>)| -> Vec<Reading> {
            now.iter().zip(last).map(|(now, last)| now.since(last)).collect()
        };
        let read = now.iter().zip(&self.last).map(since).collect();
        self.last = now;
        Some(Window { read })
    }
}

/// Whether a part is (nearly) the whole: all but a tenth, or but [`SLACK_NS`].
fn covers(part_ns: u64, whole_ns: u64) -> bool {
    whole_ns.saturating_sub(part_ns) <= (whole_ns / 10).max(SLACK_NS)
}

/// Counters of a part, scaled to the whole if the part covers it.
fn whole(counters: Counters, part_ns: u64, whole_ns: u64) -> Option<Counters> {
    if part_ns >= whole_ns {
        return Some(counters);
    }
    if part_ns == 0 || !covers(part_ns, whole_ns) {
        return None;
    }
    let mut scaled = Counters::default();
    for counter in Counter::ALL {
        scaled.set(counter, counters.get(counter).map(|n| times(n, whole_ns, part_ns)));
    }
    Some(scaled)
}

/// Whether these events are counted together, tried on this thread: the kernel has to accept them, and there
/// has to be [room](Room) for them.
pub fn accepted(events: &[Event], manner: CountOptions) -> Result<(), i32> {
    Group::open(events, Whose::Mine, manner)?;
    if events.len() < 2 || room().holds(events.len()) {
        Ok(())
    } else {
        Err(libc::EINVAL)
    }
}

/// How many events this machine counts at once; tried once.
fn room() -> Room {
    static ROOM: OnceLock<Room> = OnceLock::new();
    *ROOM.get_or_init(|| Room::measure(CountOptions { kernel: false, inherit: false }))
}

mod whole;

use whole::Totals;

#[cfg(test)]
mod tests;
