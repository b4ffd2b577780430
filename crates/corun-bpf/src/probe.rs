//! Loading the probe and reading its records.

use crate::config::Config;
use crate::layout::{group, NO_TID, OCCUPANTS, STICKY};
use crate::layout::{Acc, CpuHead, CpuRec, Ended, GroupRec, Occupancy, PairSteal, Place};
use crate::layout::{Location, RecordEvent, TaskBrief, TaskHead, TaskRec, TraceEvent};
use crate::mapping::Mapping;
use crate::skel::{types, ProbeSkel, ProbeSkelBuilder};
use crate::storage::ObjectStorage;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Iter, MapCore, MapFlags, OpenObject, RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Read;
use std::mem::{offset_of, size_of, MaybeUninit};
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use thiserror::Error;

const _: () = assert!(size_of::<TaskRec>() == size_of::<types::task_rec>());
const _: () = assert!(size_of::<CpuRec>() == size_of::<types::cpu_rec>());
const _: () = assert!(size_of::<GroupRec>() == size_of::<types::group_rec>());
const _: () = assert!(size_of::<Acc>() == size_of::<types::acc>());
const _: () = assert!(size_of::<PairSteal>() == size_of::<types::pair_steal>());

/// Why the probe could not be started.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The kernel (or the missing privilege) refused a step.
    #[error("{step}: {why}")]
    Step {
        /// The step that failed.
        step: &'static str,
        /// The error. It is not a `source`, because the sentence contains it already.
        why: libbpf_rs::Error,
    },
    /// A table could not be mapped into memory.
    #[error("mapping the probe's tables: {why}")]
    Map {
        /// What came back.
        why: std::io::Error,
    },
}

impl ProbeError {
    /// Whether the kernel said that this user may not do it.
    pub fn is_forbidden(&self) -> bool {
        match self {
            ProbeError::Step { why, .. } => why.kind() == libbpf_rs::ErrorKind::PermissionDenied,
            ProbeError::Map { why } => why.kind() == std::io::ErrorKind::PermissionDenied,
        }
    }
}

impl From<std::io::Error> for ProbeError {
    fn from(why: std::io::Error) -> ProbeError {
        ProbeError::Map { why }
    }
}

fn step(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> ProbeError {
    move |why| ProbeError::Step { step, why }
}

/// What the probe could not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Tasks for which there was no free record.
    pub untracked_tasks: u64,
    /// Ended tasks that found no room in the ring; their sums are in their groups.
    pub ended_unlisted: u64,
    /// Trace events that found no room.
    pub trace_events: u64,
    /// Events of the run log that found no room.
    pub record_events: u64,
    /// Times a task went without a group because the table was full.
    pub groups: u64,
    /// Switches whose predecessor was not the last one seen.
    pub surprises: u64,
    /// Charges to culprits for which there was no room: they are unattributed.
    pub pairs: u64,
}

/// The cost of one of the probe's programs so far, by the kernel's own count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCost {
    /// Name of the program.
    pub name: &'static str,
    /// Times it ran.
    pub runs: u64,
    /// Nanoseconds it took, the counting included.
    pub ns: u64,
}

/// The loaded and attached probe. Dropping it detaches everything; the kernel does the same when the process dies.
pub struct Probe {
    tasks: Mapping<TaskRec>,
    cpus: Mapping<CpuRec>,
    groups: Mapping<GroupRec>,
    pairs: Mapping<PairSteal>,
    cpu_count: usize,
    max_groups: u32,
    max_pairs: u32,
    max_tasks: u32,
    ended: Rc<RefCell<Vec<Ended>>>,
    traced: Rc<RefCell<Vec<TraceEvent>>>,
    recorded: Rc<RefCell<Vec<RecordEvent>>>,
    rings: RingBuffer<'static>,
    skel: ProbeSkel<'static>,
    // Owns what `skel` borrows: fields are dropped in this order.
    _object: ObjectStorage,
}

impl Probe {
    /// Loads and attaches the probe and records the existing tasks. `clock` reads the kernel's monotonic
    /// clock in nanoseconds.
    ///
    /// # Errors
    /// [`ProbeError`] naming the step that failed; nothing stays behind.
    pub fn start(config: &Config, clock: impl Fn() -> u64) -> Result<Probe, ProbeError> {
        let (storage, object) = ObjectStorage::new();
        let skel = Probe::load(config, object)?;
        Probe::attach(config, storage, skel, clock)
    }

    /// Whether the kernel accepts the probe: loads and unloads it, so that nothing is watched.
    ///
    /// # Errors
    /// [`ProbeError`] naming the step that failed; nothing stays behind.
    pub fn try_loading(config: &Config) -> Result<(), ProbeError> {
        let (_storage, object) = ObjectStorage::new();
        Probe::load(config, object).map(drop)
    }

    fn load(
        config: &Config,
        object: &'static mut MaybeUninit<OpenObject>,
    ) -> Result<ProbeSkel<'static>, ProbeError> {
        libbpf_rs::set_print(None);
        let mut open = ProbeSkelBuilder::default().open(object).map_err(step("opening the probe"))?;
        let cpu_count = config.cpu_count();
        let maps = &mut open.maps;
        let size = |map: &mut libbpf_rs::OpenMapMut<'_>, n: u32| {
            map.set_max_entries(n).map_err(step("sizing a map"))
        };
        size(&mut maps.slot_of_tid, config.tid_max + 1)?;
        size(&mut maps.tasks, config.max_tasks)?;
        size(&mut maps.free_slots, config.max_tasks)?;
        size(&mut maps.groups, config.max_groups)?;
        size(&mut maps.group_of_key, config.max_groups)?;
        size(&mut maps.free_groups, config.max_groups)?;
        size(&mut maps.overflow_steal, config.max_pairs)?;
        size(&mut maps.index_of_pair, config.max_pairs)?;
        size(&mut maps.free_pairs, config.max_pairs)?;
        size(&mut maps.cpus, cpu_count as u32)?;
        size(&mut maps.places, cpu_count as u32)?;
        size(&mut maps.ended, config.ended_bytes)?;
        size(&mut maps.trace, config.trace_bytes.max(4096))?;
        size(&mut maps.run_log, config.record_bytes.max(4096))?;
        let fixed = maps.rodata_data.as_deref_mut().expect("the probe has constants");
        fixed.max_tasks = config.max_tasks;
        fixed.max_groups = config.max_groups;
        fixed.max_pairs = config.max_pairs;
        fixed.watcher_tgid = config.watcher.unwrap_or(0);
        fixed.want_trace = config.trace_bytes > 0;
        fixed.want_waits = config.waits && config.trace_bytes > 0;
        fixed.want_record = config.record_bytes > 0;
        fixed.block_state_of_syscall = config.block_state_of_syscall;
        fixed.places_of_setaffinity = config.places_of_setaffinity;
        let progs = &mut open.progs;
        let asks_who_woke = [
            &mut progs.on_waking,
            &mut progs.in_irq_handler_entry,
            &mut progs.in_irq_handler_exit,
            &mut progs.in_hrtimer_expire_entry,
            &mut progs.in_hrtimer_expire_exit,
            &mut progs.in_timer_expire_entry,
            &mut progs.in_timer_expire_exit,
            &mut progs.in_softirq_entry,
            &mut progs.in_softirq_exit,
        ];
        for program in asks_who_woke {
            program.set_autoload(config.trace_bytes > 0 || config.record_bytes > 0);
        }
        open.progs.on_timer.set_autoload(config.record_bytes > 0);

        open.load().map_err(step("loading the probe into the kernel"))
    }

    fn attach(
        config: &Config,
        storage: ObjectStorage,
        mut skel: ProbeSkel<'static>,
        clock: impl Fn() -> u64,
    ) -> Result<Probe, ProbeError> {
        let cpu_count = config.cpu_count();
        for (cpu, place) in config.places.iter().enumerate() {
            // SAFETY: `Place` is four `u32`s without padding.
            let bytes: [u8; size_of::<Place>()] = unsafe { std::mem::transmute(*place) };
            let key = (cpu as u32).to_ne_bytes();
            skel.maps
                .places
                .update(&key, &bytes, MapFlags::ANY)
                .map_err(step("filling the table of CPUs"))?;
        }
        let tasks = Mapping::<TaskRec>::new(skel.maps.tasks.as_fd(), config.max_tasks as usize)?;
        let cpus = Mapping::<CpuRec>::new(skel.maps.cpus.as_fd(), cpu_count)?;
        let groups = Mapping::<GroupRec>::new(skel.maps.groups.as_fd(), config.max_groups as usize)?;
        let pairs = Mapping::<PairSteal>::new(skel.maps.overflow_steal.as_fd(), config.max_pairs as usize)?;
        for cpu in 0..cpu_count {
            cpus.word(cpu, offset_of!(CpuHead, tid)).store(NO_TID, Ordering::Relaxed);
        }

        let ended = Rc::new(RefCell::new(Vec::new()));
        let traced = Rc::new(RefCell::new(Vec::new()));
        let mut rings = RingBufferBuilder::new();
        let into = ended.clone();
        rings
            .add(&skel.maps.ended, move |bytes| keep(bytes, &into))
            .map_err(step("opening the ring of ended tasks"))?;
        let into = traced.clone();
        rings
            .add(&skel.maps.trace, move |bytes| keep(bytes, &into))
            .map_err(step("opening the trace ring"))?;
        let recorded = Rc::new(RefCell::new(Vec::new()));
        let into = recorded.clone();
        rings
            .add(&skel.maps.run_log, move |bytes| keep(bytes, &into))
            .map_err(step("opening the ring of the run log"))?;
        let rings = rings.build().map_err(step("opening the rings"))?;

        skel.attach().map_err(step("attaching the probe"))?;
        let probe = Probe {
            tasks,
            cpus,
            groups,
            pairs,
            cpu_count,
            max_groups: config.max_groups,
            max_pairs: config.max_pairs,
            max_tasks: config.max_tasks,
            ended,
            traced,
            recorded,
            rings,
            skel,
            _object: storage,
        };
        probe.control_word(&probe.data().control.start_ns).store(clock(), Ordering::SeqCst);
        probe.look_at_tasks()?;
        probe.control_word(&probe.data().control.stocked).store(1, Ordering::SeqCst);
        Ok(probe)
    }

    /// The start of the probe's watch, on the kernel's monotonic clock.
    pub fn start_ns(&self) -> u64 {
        self.data().control.start_ns
    }

    /// Finds out how much of each wait that was open at the newest edge a quota had taken by then: no event
    /// reports when a quota is refilled. Afterwards it is in the records, as far as it could be determined.
    pub fn look_at_open_waits(&self) {
        // A wait of unknown state counts as the state in which it began, and is corrected in the window in
        // which it ends.
        let _ = self.look_at_tasks();
    }

    /// At first, makes a record for every existing task; later, examines their open waits.
    fn look_at_tasks(&self) -> Result<(), ProbeError> {
        let link = self.skel.links.look_at_task.as_ref().expect("attached with the rest");
        let mut tasks = Iter::new(link).map_err(step("starting the task iterator"))?;
        tasks.read_to_end(&mut Vec::new())?;
        Ok(())
    }

    fn data(&self) -> &types::data {
        self.skel.maps.data_data.as_deref().expect("the probe has data")
    }

    fn control_word(&self, field: &u64) -> &AtomicU64 {
        // SAFETY: an aligned field of the mapped data section, which lives as long as the skeleton; the BPF side
        // only reads it.
        unsafe { AtomicU64::from_ptr(std::ptr::from_ref(field).cast_mut()) }
    }

    fn counter(&self, field: &u32) -> &AtomicU32 {
        // SAFETY: as above; the BPF side adds to it atomically.
        unsafe { AtomicU32::from_ptr(std::ptr::from_ref(field).cast_mut()) }
    }

    /// Announces a window edge. It must lie a little in the future: an event that has read its clock before
    /// the announcement must not be later than the edge.
    pub fn set_edge(&self, edge_ns: u64) {
        self.control_word(&self.data().control.edge_ns).store(edge_ns, Ordering::SeqCst);
    }

    /// From now on shorter waits are not reported one by one.
    pub fn set_least_wait(&self, least_wait_ns: u64) {
        self.control_word(&self.data().control.least_wait_ns).store(least_wait_ns, Ordering::SeqCst);
    }

    /// From `stop_ns` on the probe does nothing.
    pub fn stop_at(&self, stop_ns: u64) {
        self.control_word(&self.data().control.stop_ns).store(stop_ns, Ordering::SeqCst);
    }

    /// The slots of the records in use.
    pub fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        let used = self.counter(&self.data().next_slot).load(Ordering::Acquire).min(self.max_tasks);
        (1..used as usize)
            .filter(|&slot| self.tasks.word(slot, offset_of!(TaskRec, tid)).load(Ordering::Relaxed) != 0)
    }

    /// A settled copy of the record in a slot; `None` if its task has ended.
    pub fn task(&self, slot: usize) -> Option<TaskRec> {
        Some(self.tasks.read_settled::<TaskRec>(slot)).filter(|t| t.tid != 0)
    }

    /// The same without its sums.
    pub fn brief(&self, slot: usize) -> Option<TaskBrief> {
        let head: TaskHead = self.tasks.read_settled(slot);
        (head.tid != 0).then(|| TaskBrief {
            seq: head.seq,
            tid: head.tid,
            tgid: self.tasks.field(slot, offset_of!(TaskRec, tgid)),
            group: head.group,
            state: head.state,
            guess: head.guess,
            cpu: head.cpu,
            ran: head.ran,
            born_ns: self.tasks.field(slot, offset_of!(TaskRec, born_ns)),
            serial: self.tasks.field(slot, offset_of!(TaskRec, serial)),
            comm: self.tasks.field(slot, offset_of!(TaskRec, comm)),
        })
    }

    /// Whether a task lives whose group satisfies this.
    pub fn any(&self, holds: impl Fn(u32) -> bool) -> bool {
        let of = |slot| self.tasks.word(slot, offset_of!(TaskRec, group)).load(Ordering::Relaxed);
        self.slots().any(|slot| holds(of(slot)))
    }

    /// A settled copy of every CPU's record, by CPU number.
    pub fn cpus(&self) -> Vec<CpuHead> {
        (0..self.cpu_count).map(|i| self.cpus.read_settled(i)).collect()
    }

    /// How many CPUs there can be.
    pub fn cpu_count(&self) -> usize {
        self.cpu_count
    }

    /// The occupants of a CPU since `since_ns` (0: as far back as its log reaches), oldest first. Each
    /// occupancy ends where the next begins; the last one is open.
    pub fn occupancies(&self, cpu: usize, since_ns: u64) -> Vec<Occupancy> {
        if cpu >= self.cpu_count {
            return Vec::new();
        }
        let head = || self.cpus.read_settled::<CpuHead>(cpu).head as usize;
        let at = |i: usize| offset_of!(CpuRec, log) + i % OCCUPANTS * size_of::<Occupancy>();
        let mut newest_first = Vec::new();
        let before = head();
        for i in (before.saturating_sub(OCCUPANTS - 1)..before).rev() {
            let o: Occupancy = self.cpus.field(cpu, at(i));
            newest_first.push(o);
            if o.start_ns <= since_ns {
                break;
            }
        }
        // Entries written meanwhile have overwritten the oldest ones.
        let lost = head().saturating_sub(OCCUPANTS - 1);
        newest_first.truncate(before.saturating_sub(lost));
        newest_first.reverse();
        newest_first
    }

    /// Switches seen so far, over all CPUs.
    pub fn switches(&self) -> u64 {
        self.cpus().iter().map(|c| c.switches).sum()
    }

    /// Every group seen so far, starting with number `first`; the fixed ones come first.
    pub fn groups_from(&self, first: usize) -> Vec<GroupRec> {
        (first..self.group_count()).map(|i| self.groups.read(i)).collect()
    }

    /// The groups that have tasks whose last records found no room, by number.
    pub fn groups_with_unlisted(&self) -> Vec<(u32, GroupRec)> {
        let any =
            |&i: &usize| self.groups.word(i, offset_of!(GroupRec, unlisted)).load(Ordering::Relaxed) > 0;
        (0..self.group_count()).filter(any).map(|i| (i as u32, self.groups.read(i))).collect()
    }

    fn group_count(&self) -> usize {
        self.counter(&self.data().next_group).load(Ordering::Acquire).min(self.max_groups) as usize
    }

    /// How many groups can be distinguished at a time.
    pub fn max_groups(&self) -> usize {
        self.max_groups as usize
    }

    /// Registers that these cgroups decide: process groups in them are not distinguished from now on.
    pub fn cgroups_tell(&self, at: &Location) {
        // A failure here costs numbers of groups, and nothing else.
        let _ = self.skel.maps.telling.update(&at.bytes(), &1u32.to_ne_bytes(), MapFlags::ANY);
    }

    /// The present name of a group: that of the process that leads it.
    pub fn comm_of_group(&self, group: u32) -> [u8; 16] {
        self.groups.field(group as usize, offset_of!(GroupRec, comm))
    }

    /// From now on no task joins this group; a task that would have joined creates a new one. Its members
    /// stay.
    pub fn close_group(&self, group: u32) {
        let key = self.groups.read(group as usize).key.bytes();
        let known = self.skel.maps.group_of_key.lookup(&key, MapFlags::ANY);
        // If two CPUs met a key at the same time, it leads to the group of only one of them.
        if known.is_ok_and(|known| known == Some(group.to_ne_bytes().into())) {
            // A key that has gone already need not be deleted.
            let _ = self.skel.maps.group_of_key.delete(&key);
        }
    }

    /// Returns the number of a closed group without members, to which nothing refers any more. False if that
    /// fails; then the number is lost.
    pub fn reuse_group(&self, group: u32) -> bool {
        self.groups.word(group as usize, offset_of!(GroupRec, tid)).store(0, Ordering::Release);
        self.skel.maps.free_groups.update(&[], &group.to_ne_bytes(), MapFlags::ANY).is_ok()
    }

    /// Of the groups whose numbers were returned, those that are in use again.
    pub fn in_use_again(&self, groups: &BTreeSet<u32>) -> Vec<(u32, GroupRec)> {
        let tid = |group| self.groups.word(group, offset_of!(GroupRec, tid)).load(Ordering::Acquire);
        let in_use = groups.iter().filter(|&&g| tid(g as usize) != 0);
        in_use.map(|&g| (g, self.groups.read(g as usize))).collect()
    }

    /// Reserves a group for user space to assign; `None` if the table is full.
    pub fn new_group(&self) -> Option<u32> {
        let index = self.counter(&self.data().next_group).fetch_add(1, Ordering::AcqRel);
        (index < self.max_groups).then_some(index)
    }

    /// Puts a task into `group`, and all its children from now on. False if the probe does not know it.
    pub fn assign(&self, tid: u32, group: u32) -> bool {
        debug_assert!(group >= group::WATCHER);
        let Some(slot) = self.slot_of(tid) else { return false };
        let field = |offset| self.tasks.word(slot, offset);
        field(offset_of!(TaskRec, group)).store(group, Ordering::Relaxed);
        field(offset_of!(TaskRec, flags)).fetch_or(STICKY, Ordering::Release);
        field(offset_of!(TaskRec, tid)).load(Ordering::Relaxed) == tid
    }

    /// The processes that a task starts from now on belong to this group, and so do their children. The task
    /// itself does not.
    pub fn assign_heirs(&self, tid: u32, group: u32) {
        if let Some(slot) = self.slot_of(tid) {
            self.tasks.word(slot, offset_of!(TaskRec, heirs)).store(group, Ordering::Release);
        }
    }

    /// The location of a task's record, if it has one.
    fn slot_of(&self, tid: u32) -> Option<usize> {
        // It is asked for a few tasks only. A table of all tids in memory would be 32 MB where there can be four million.
        let slot = self.skel.maps.slot_of_tid.lookup(&tid.to_ne_bytes(), MapFlags::ANY).ok()??;
        let slot = u32::from_ne_bytes(slot.try_into().ok()?);
        (slot != 0 && slot < self.max_tasks).then_some(slot as usize)
    }

    /// Passes on the tasks that ended since the last call.
    pub fn drain_ended(&self, into: &mut Vec<Ended>) {
        // An error here means that the ring has gone, and then there is nothing to pass on.
        let _ = self.rings.consume();
        let mut ended = self.ended.borrow_mut();
        match into.is_empty() {
            true => std::mem::swap(into, &mut ended),
            false => into.append(&mut ended),
        }
    }

    /// Passes on the switches and wake-ups since the last call.
    pub fn drain_trace(&self) -> Vec<TraceEvent> {
        let _ = self.rings.consume();
        self.traced.take()
    }

    /// From now on the run log covers the tasks of this group, if one is wanted at all; 0: nobody.
    pub fn record(&self, group: u32) {
        self.control_word(&self.data().control.record_group).store(group.into(), Ordering::SeqCst);
    }

    /// Passes on the run log since the last call in the order of the ring: nearly the order of time.
    pub fn drain_record(&self) -> Vec<RecordEvent> {
        let _ = self.rings.consume();
        // The next ones are about as many: a buffer that grows is copied again and again.
        let room = Vec::with_capacity(self.recorded.borrow().len());
        self.recorded.replace(room)
    }

    /// Steal that did not fit into the tasks' own records. A pair keeps its place until it is returned; the
    /// count of a place continues from pair to pair.
    pub fn overflow_steal(&self) -> impl Iterator<Item = PairSteal> + '_ {
        (0..self.places_of_pairs()).map(|i| self.pairs.read(i))
    }

    /// Whether more than half of the places for pairs have been used.
    pub fn are_pairs_scarce(&self) -> bool {
        2 * self.places_of_pairs() >= self.max_pairs as usize
    }

    /// How many places for pairs have ever been used.
    fn places_of_pairs(&self) -> usize {
        let bss = self.skel.maps.bss_data.as_deref().expect("the probe counts pairs");
        self.counter(&bss.next_pair).load(Ordering::Acquire).min(self.max_pairs) as usize
    }

    /// Returns the places of pairs with one of these groups, to which nothing refers any more.
    pub fn forget_pairs(&self, groups: &BTreeSet<u32>) {
        for place in 0..self.places_of_pairs() {
            let PairSteal { victim, culprit, .. } = self.pairs.read(place);
            // Nobody is never a culprit: this place is free.
            if culprit == group::UNKNOWN || !groups.contains(&victim) && !groups.contains(&culprit) {
                continue;
            }
            let key = [victim.to_ne_bytes(), culprit.to_ne_bytes()].concat();
            // If two CPUs met a pair at the same time, it has two places, and is removed with the first.
            let _ = self.skel.maps.index_of_pair.delete(&key);
            self.pairs.word(place, offset_of!(PairSteal, culprit)).store(group::UNKNOWN, Ordering::Release);
            // If this fails, the place is lost.
            let _ = self.skel.maps.free_pairs.update(&[], &(place as u32).to_ne_bytes(), MapFlags::ANY);
        }
    }

    /// The losses so far.
    pub fn losses(&self) -> Losses {
        let bss = self.skel.maps.bss_data.as_deref().expect("the probe counts losses");
        let read = |field: &u64| self.control_word(field).load(Ordering::Relaxed);
        let l = &bss.losses;
        Losses {
            untracked_tasks: read(&l.untracked_tasks),
            ended_unlisted: read(&l.ended_unlisted),
            trace_events: read(&l.trace_events),
            record_events: read(&l.record_events),
            groups: read(&l.groups),
            surprises: read(&l.surprises),
            pairs: read(&l.pairs),
        }
    }

    /// The cost of the probe's programs as the kernel counts it; all zero unless `kernel.bpf_stats_enabled`
    /// is on or somebody holds [`count_costs`](Probe::count_costs).
    pub fn costs(&self) -> Vec<ProgramCost> {
        let p = &self.skel.progs;
        [
            ("switch", p.on_switch.as_fd()),
            ("wakeup", p.on_wakeup.as_fd()),
            ("wakeup_new", p.on_wakeup_new.as_fd()),
            ("migrate", p.on_migrate.as_fd()),
        ]
        .into_iter()
        .map(|(name, fd)| {
            let info =
                std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).unwrap_or_default();
            let field = |key: &str| {
                let line = info
                    .lines()
                    .find_map(|l| l.strip_prefix(key)?.trim_start_matches(':').trim().parse().ok());
                line.unwrap_or(0)
            };
            ProgramCost { name, runs: field("run_cnt"), ns: field("run_time_ns") }
        })
        .collect()
    }

    /// Makes the kernel count the cost of BPF programs until the returned descriptor is closed; `None` if it
    /// refuses. The counting itself costs about 20 ns a run.
    pub fn count_costs() -> Option<std::os::fd::OwnedFd> {
        use std::os::fd::FromRawFd;
        let run_time = 0; // BPF_STATS_RUN_TIME
                          // SAFETY: takes a plain number and returns a new descriptor or a negative error.
        let fd = unsafe { libbpf_rs::libbpf_sys::bpf_enable_stats(run_time) };
        // SAFETY: a non-negative result is a descriptor that nobody else owns.
        (fd >= 0).then(|| unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) })
    }
}

/// Copies one ring entry out; an entry of another size would be a bug of the BPF side and is dropped.
fn keep<T: Copy>(bytes: &[u8], into: &RefCell<Vec<T>>) -> i32 {
    if bytes.len() == size_of::<T>() {
        // SAFETY: as many bytes as `T` has, and `T` is plain data; the ring does not align its entries to more
        // than 8, hence unaligned.
        into.borrow_mut().push(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() });
    }
    0
}
