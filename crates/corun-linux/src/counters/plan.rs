//! What will be counted here, and in which groups: the event table, compared with what the kernel accepts.
//!
//! Method: every event that the wanted counters need is offered to the kernel once, on corun's own thread.
//! Refused events are reported and left out. Counters that are compared with each other (a [`Theme`]) go into
//! one group, as far as the CPU has room. A theme joins the last group if the kernel accepts both together.
//! Otherwise it starts a new one, and a theme that is too large by itself is split. An event that several
//! counters need is counted once. If events serve one counter alone and differ only in AMD's unit mask, they
//! become one event with all of their bits.
//!
//! On a CPU without a table, the pace is still counted: the kernel has generic names for these four events.

use super::format::{core_pmu, Format};
use super::identity;
use super::perf_event::{CountOptions, Event};
use super::reading::{times, Reading};
use super::refusal::{self, Refusal};
use super::room::Room;
use super::table::{Entry, Table};
use crate::root::Root;
use corun_model::{Counter, Counters, Unavailable, What, Why};
use std::collections::{BTreeMap, BTreeSet};

/// Counters that are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Theme {
    /// Cycles, instructions, branches and their misses: speed, and spinning.
    Pace,
    /// Stalls, coherence and remote memory: the reasons for waiting.
    Stalls,
    /// Misses of L2 and last-level cache, memory traffic.
    Cache,
    /// The work done and the cost of memory, in as few events as possible; some are in the other themes, too.
    Work,
}

impl Theme {
    /// Every counter once.
    pub const ALL: [Theme; 3] = [Theme::Pace, Theme::Stalls, Theme::Cache];

    /// Its counters.
    pub fn counters(self) -> &'static [Counter] {
        match self {
            Theme::Pace => {
                &[Counter::Cycles, Counter::Instructions, Counter::Branches, Counter::BranchMisses]
            }
            Theme::Stalls => &[
                Counter::OffcoreStallCycles,
                Counter::L2StallCycles,
                Counter::CoherenceInter,
                Counter::CoherenceIntra,
                Counter::RemoteDram,
            ],
            Theme::Cache => {
                &[Counter::LlcMisses, Counter::LlcReferences, Counter::L2Misses, Counter::DramBytes]
            }
            Theme::Work => {
                &[Counter::Cycles, Counter::Instructions, Counter::OffcoreStallCycles, Counter::LlcMisses]
            }
        }
    }
}

/// A task that was counted for this long, in nanoseconds, has done something.
const RAN_NS: u64 = 1_000_000;

/// Would the kernel count these events together? An error is its number.
pub type Ask<'a> = &'a dyn Fn(&[Event], CountOptions) -> Result<(), i32>;

/// The counted events, and how they are counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The micro-architecture whose table is used; `None` for the kernel's generic names of the pace.
    pub table: Option<String>,
    /// Events that are counted together.
    pub groups: Vec<Vec<Event>>,
    /// How each counter is computed from them.
    pub counters: BTreeMap<Counter, Count>,
    /// Whether the kernel's share counts, too.
    pub kernel: bool,
    /// The counters that are not available, and why.
    pub refused: Vec<Unavailable>,
    /// The same for a caller who needs a particular counter.
    needed: Refused,
}

/// How a counter is computed from counted events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// Group and index of every event of the sum.
    places: Vec<(usize, usize)>,
    times: u64,
    /// The vendor's names of the events.
    pub names: Vec<String>,
    /// How this differs from the definition of the counter.
    pub note: Option<String>,
}

impl Plan {
    /// Makes a plan for this machine.
    ///
    /// # Errors
    /// [`Refusal`] if nothing at all can be counted.
    pub fn make(root: &Root, themes: &[Theme], ask: Ask) -> Result<Plan, Refusal> {
        let (table, mut entries, lacking) = known(root);
        let cycles = entries.get(&Counter::Cycles).map(|e| e.events.clone()).unwrap_or_default();
        let kernel = accepts_kernel(ask, &cycles).map_err(|errno| refusal::of_errno(root, errno))?;
        let manner = CountOptions { kernel, inherit: false };
        let mut refused = Refused::default();
        let mut plan = Plan {
            table,
            groups: vec![],
            counters: BTreeMap::new(),
            kernel,
            refused: vec![],
            needed: Refused::default(),
        };
        let mut offered = BTreeSet::new();
        let mut all_wanted = Vec::new();
        for theme in themes {
            let mut wanted = Vec::new();
            for &counter in theme.counters().iter().filter(|&&c| offered.insert(c)) {
                let Some(entry) = entries.remove(&counter) else {
                    refused.add(counter, &lacking);
                    plan.needed.add(counter, &lacking);
                    continue;
                };
                match entry.events.iter().find_map(|&e| ask(&[e], manner).err()) {
                    Some(errno) => {
                        let refusal = refusal::of_errno(root, errno);
                        let why = |is_needed| Why::NoCounters { refusal: refusal.clone(), is_needed };
                        refused.add(counter, &why(false));
                        plan.needed.add(counter, &why(true));
                    }
                    None => wanted.push((counter, entry)),
                }
            }
            all_wanted.push(wanted);
        }
        let needed: Vec<Event> =
            all_wanted.iter().flatten().flat_map(|(_, entry)| entry.events.clone()).collect();
        for mut wanted in all_wanted {
            wanted.iter_mut().for_each(|(_, entry)| entry.join(&needed));
            plan.place(&wanted, ask, manner);
        }
        plan.refused = refused.lines();
        if !kernel {
            plan.refused.push(Unavailable::new(What::KernelEvents, Why::OnlyInUserMode));
        }
        Ok(plan)
    }

    /// The first of these counters that cannot be counted here, and why, for a caller who needs it.
    pub fn lacks(&self, needed: &[Counter]) -> Option<Unavailable> {
        let absent = *needed.iter().find(|c| !self.counters.contains_key(c))?;
        let told = self.needed.0.iter().find(|(_, counters)| counters.contains(&absent));
        let why = told.map_or(Why::NoEventCountsIt, |(why, _)| why.clone());
        Some(Unavailable { what: What::Counters(vec![absent]), why })
    }

    /// The same, but groups that would not be counted together take turns. If the kernel would count groups
    /// at once in counters that do not exist, they get copies of an event until it does not.
    #[must_use]
    pub fn within(mut self, room: Room) -> Plan {
        let Some(&spare) = self.groups.first().and_then(|g| g.first()) else { return self };
        while sums_of_several(&self.groups).into_iter().any(|events| room.deceives(events)) {
            let smallest = self.groups.iter_mut().min_by_key(|g| g.len()).expect("several groups");
            smallest.push(spare);
        }
        self
    }

    /// The number of counted events: each task needs this many open files.
    pub fn events(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }

    /// The counters, from the readings of every group. A counter is `None` if its group was counted for too
    /// little ([`Reading::scaled`]), or if it did not move in a group in which something is
    /// [lost](Plan::lost).
    pub fn counters(&self, read: &[Vec<Reading>], turn_ns: u64) -> Counters {
        let mut counters = Counters::default();
        let lost = self.lost(read);
        for (&counter, count) in &self.counters {
            let of = |&(group, place): &(usize, usize)| {
                let reading = read.get(group)?.get(place)?;
                (reading.value > 0 || !lost.contains(&group)).then(|| reading.scaled(turn_ns))?
            };
            let sum = count.places.iter().map(of).try_fold(0u64, |sum, n| Some(sum.saturating_add(n?)));
            counters.set(counter, sum.map(|n| times(n, count.times, 1)));
        }
        counters
    }

    /// Groups in which some event did not count, although the kernel says that it did: no task runs for
    /// [`RAN_NS`] without a cycle or an instruction. Other zeros in such a group are unknown, too.
    pub fn lost(&self, read: &[Vec<Reading>]) -> BTreeSet<usize> {
        let always = [Counter::Cycles, Counter::Instructions];
        let places = always.iter().filter_map(|c| self.counters.get(c)).flat_map(|count| &count.places);
        let still = |&&(group, place): &&(usize, usize)| {
            let reading = read.get(group).and_then(|g| g.get(place));
            reading.is_some_and(|r| r.value == 0 && r.running_ns >= RAN_NS)
        };
        places.filter(still).map(|&(group, _)| group).collect()
    }

    /// Puts a theme's events into groups.
    fn place(&mut self, wanted: &[(Counter, Encoded)], ask: Ask, manner: CountOptions) {
        let mut new: Vec<Event> = Vec::new();
        for event in wanted.iter().flat_map(|(_, entry)| &entry.events) {
            if !new.contains(event) && self.find(event).is_none() {
                new.push(*event);
            }
        }
        let together = |group: &[Event], more: &[Event]| ask(&[group, more].concat(), manner).is_ok();
        match self.groups.last_mut() {
            Some(last) if together(last, &new) => last.extend(new),
            _ => {
                let mut group: Vec<Event> = Vec::new();
                for event in new {
                    if !group.is_empty() && !together(&group, &[event]) {
                        self.groups.push(std::mem::take(&mut group));
                    }
                    group.push(event);
                }
                self.groups.extend((!group.is_empty()).then_some(group));
            }
        }
        for (counter, Encoded { events, entry, .. }) in wanted {
            let count = Count {
                places: events.iter().filter_map(|e| self.find(e)).collect(),
                times: entry.times,
                names: entry.sum.iter().map(|e| e.name.clone()).collect(),
                note: entry.note.clone(),
            };
            self.counters.insert(*counter, count);
        }
    }

    fn find(&self, event: &Event) -> Option<(usize, usize)> {
        let mut groups = self.groups.iter().enumerate();
        groups.find_map(|(group, events)| Some((group, events.iter().position(|e| e == event)?)))
    }
}

/// The number of events in every choice of two or more groups.
fn sums_of_several(groups: &[Vec<Event>]) -> Vec<usize> {
    // (how many groups, how many events) of every choice among the groups so far.
    let mut choices = vec![(0, 0)];
    for group in groups {
        let with: Vec<(usize, usize)> = choices.iter().map(|&(n, sum)| (n + 1, sum + group.len())).collect();
        choices.extend(with);
    }
    choices.into_iter().filter(|&(n, _)| n > 1).map(|(_, sum)| sum).collect()
}

/// An entry of the table and its events in the kernel's encoding.
struct Encoded {
    events: Vec<Event>,
    entry: Entry,
    /// The bits of `config` that may be combined freely, to count the events of each; 0 if there are none.
    mask: u64,
}

impl Encoded {
    /// Merges events that differ only in the mask and that no other counter needs.
    fn join(&mut self, needed: &[Event]) {
        let bare = |event: &Event| Event { config: event.config & !self.mask, ..*event };
        let mut joined: Vec<Event> = Vec::new();
        for event in &self.events {
            let alone = |e: &Event| needed.iter().filter(|n| *n == e).count() == 1;
            let like = |j: &&mut Event| self.mask != 0 && alone(event) && bare(j) == bare(event);
            match joined.iter_mut().filter(|j| !needed.contains(j) || alone(j)).find(like) {
                Some(with) => with.config |= event.config,
                None => joined.push(*event),
            }
        }
        self.events = joined;
    }
}

/// What is known of this CPU: its table's name, what it can count, and why it cannot count the rest.
fn known(root: &Root) -> (Option<String>, BTreeMap<Counter, Encoded>, Why) {
    let identity = identity::of_machine(root);
    let table = match identity.as_deref().map(Table::of) {
        Some(Ok(Some(table))) => Ok(table),
        Some(Ok(None)) => Err(Why::NoEventTable { cpu: identity.unwrap_or_default() }),
        Some(Err(e)) => Err(Why::Said(e.to_string())),
        None => Err(Why::UnknownCpu),
    };
    let format = core_pmu(root).and_then(|pmu| Format::read(root, &pmu).map_err(|e| e.to_string()));
    let format = format.map_err(Why::Said);
    match (table, format) {
        (Ok(table), Ok(format)) => {
            let lacking = Why::NoSuchEvent { cpu: table.name.clone() };
            // AMD's manual: unit masks may be combined; those of other makers may be numbers.
            let mask = if table.name.starts_with("amd") { format.encode("umask=0xff").ok() } else { None };
            let mask = mask.map_or(0, |e| e.config);
            let encode = |(counter, entry): (Counter, Entry)| {
                let events = entry.sum.iter().map(|e| format.encode(&e.terms).ok()).collect::<Option<_>>()?;
                Some((counter, Encoded { events, entry, mask }))
            };
            (Some(table.name), table.entries.into_iter().filter_map(encode).collect(), lacking)
        }
        (Err(why), _) | (_, Err(why)) => (None, generic(), why),
    }
}

/// The kernel's generic names: the same four events on every supported CPU.
fn generic() -> BTreeMap<Counter, Encoded> {
    const HARDWARE: u32 = 0;
    let known = [
        (Counter::Cycles, 0, "cpu-cycles"),
        (Counter::Instructions, 1, "instructions"),
        (Counter::Branches, 4, "branch-instructions"),
        (Counter::BranchMisses, 5, "branch-misses"),
    ];
    let entry = |(counter, config, name): (Counter, u64, &str)| {
        let event = Event { kind: HARDWARE, config, ..Event::default() };
        let named = super::table::VendorEvent { name: name.into(), terms: String::new() };
        (
            counter,
            Encoded { events: vec![event], entry: Entry { sum: vec![named], times: 1, note: None }, mask: 0 },
        )
    };
    known.into_iter().map(entry).collect()
}

/// Whether the kernel's share may be counted, too; an error if not even the user's may.
fn accepts_kernel(ask: Ask, cycles: &[Event]) -> Result<bool, i32> {
    match ask(cycles, CountOptions { kernel: true, inherit: false }) {
        Ok(()) => Ok(true),
        Err(libc::EACCES | libc::EPERM) => {
            ask(cycles, CountOptions { kernel: false, inherit: false }).map(|()| false)
        }
        Err(errno) => Err(errno),
    }
}

/// Refused counters; those with the same reason are in one line.
#[derive(Clone, Debug, Default, PartialEq)]
struct Refused(Vec<(Why, Vec<Counter>)>);

impl Refused {
    fn add(&mut self, counter: Counter, why: &Why) {
        match self.0.iter_mut().find(|(known, _)| known == why) {
            Some((_, counters)) => counters.push(counter),
            None => self.0.push((why.clone(), vec![counter])),
        }
    }

    fn lines(self) -> Vec<Unavailable> {
        self.0
            .into_iter()
            .map(|(why, counters)| Unavailable { what: What::Counters(counters), why })
            .collect()
    }
}

#[cfg(test)]
mod tests;
