//! `auto`: separates tenants in time when, and only when, that is seen to help. corun's own; nobody tells it what the
//! programs are.
//!
//! The papers' slots (gang scheduling, Controlled Contention) help programs whose threads wait for each other and hurt
//! those that wait for something else. Which is which is not guessed but tried:
//!
//! 1. **Watch**, with nobody parked: how much useful CPU time does each tenant get? (On a CPU and not known to spin.)
//! 2. **Try**, when tenants compete for more CPUs than there are and one of them gets less than its fair share: slots,
//!    chosen as in Controlled Contention with one CPU-bound task per CPU, for four rotations.
//! 3. **Keep** the slots if somebody gets more useful time than before and nobody is worse off: everybody keeps what it
//!    had, or its fair share, whichever is less, but for 5 %. (Fair: an equal part of the CPUs, or the part by which
//!    everybody would be slowed down alike, whichever is less.) Where nobody can tell spinning, CPU time shows no gain for a
//!    program that waits busily; slots are then also kept when they cost nobody anything and such a program may be there:
//!    several tasks that hardly ever block and are often stolen from.
//! 4. Otherwise **revert**. Whoever fell below is left alone from then on, and the rest is tried without it.
//!
//! Tenants that mostly wait for the outside in short bursts (servers) are never parked. What was found holds for 20 s, then
//! twice as long each time, up to 5 min; it is asked again at once when a tenant comes that has not been tried.
//!
//! Limits: equal weights are assumed for fair shares; the watch has the length of two slots, so a program that changes
//! faster than that is judged by chance; one that begins while slots are kept makes everybody share again for a moment.

use crate::census::{self, Census, TenantUse};
use crate::controlled_contention::fitting;
use crate::fair;
use crate::gang::{epoch_of, SLOT};
use crate::options::{Kind, OptionSpec, Values};
use crate::slots::{Member, Slots};
use corun_model::{Decision, Knob, Machine, Observation, Policy, TenantId};
use std::collections::BTreeMap;

pub(crate) const OPTIONS: &[OptionSpec] = &[
    SLOT,
    OptionSpec {
        name: "spin",
        default: "true",
        kind: Kind::Flag,
        words: &[],
        about: "use what the host knows of spinning; false: judge by CPU time alone",
    },
    OptionSpec {
        name: "hold",
        default: "20s",
        kind: Kind::Time { least_ns: 100_000_000, most_ns: 3_600_000_000_000 },
        words: &[],
        about: "how long a finding holds at first; then twice as long each time, up to 5 min",
    },
];

const LONGEST_HOLD_NS: u64 = 300_000_000_000;
const WATCH_SLOTS: u64 = 2;
const ROTATIONS: u64 = 4;
/// What a tenant may lose, in hundredths of what it is entitled to; and must win to count as a gain.
const TOLERANCE_PERCENT: u64 = 5;
/// A burst of a latency-bound tenant is shorter than this.
const BURST_NS: u64 = 5_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Watch,
    Try,
    Keep { until_ns: u64 },
    Rest { until_ns: u64 },
}

/// What a tenant did in a phase.
#[derive(Clone, Copy, Debug, Default)]
struct Did {
    useful_ns: u64,
    on_cpu_ns: u64,
    steal_ns: u64,
    block_ns: u64,
    outside_ns: Option<u64>,
    wakeups: Option<u64>,
    spin_known: bool,
}

impl Did {
    fn first(u: &TenantUse) -> Did {
        Did {
            useful_ns: u.useful_ns,
            on_cpu_ns: u.on_cpu_ns,
            steal_ns: u.steal_ns,
            block_ns: u.block_ns,
            outside_ns: u.outside_ns,
            wakeups: u.wakeups,
            spin_known: u.spin_known,
        }
    }

    fn add(&mut self, u: &TenantUse) {
        self.useful_ns += u.useful_ns;
        self.on_cpu_ns += u.on_cpu_ns;
        self.steal_ns += u.steal_ns;
        self.block_ns += u.block_ns;
        self.outside_ns = self.outside_ns.zip(u.outside_ns).map(|(a, b)| a + b);
        self.wakeups = self.wakeups.zip(u.wakeups).map(|(a, b)| a + b);
        self.spin_known &= u.spin_known;
    }

    /// It waits for the outside for a fifth of its time or more, and runs in short bursts.
    fn is_latency_bound(&self) -> bool {
        let bursts = self.wakeups.is_some_and(|n| n > 0 && self.on_cpu_ns / n < BURST_NS);
        bursts && self.outside_ns.is_some_and(|ns| ns * 5 >= self.on_cpu_ns + self.block_ns)
    }

    /// Several tasks, hardly ever blocked, often stolen from: they may be spinning where nobody sees it.
    fn may_spin(&self, weight: u64) -> bool {
        let runnable_ns = self.on_cpu_ns + self.steal_ns;
        !self.spin_known
            && weight >= 2
            && self.block_ns * 10 <= runnable_ns + self.block_ns
            && self.steal_ns * 5 >= runnable_ns
    }
}

/// What is remembered of a tenant that was thought of.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    /// It fell below what it is entitled to: it is left alone until then.
    alone_until_ns: u64,
    alone_ns: u64,
}

/// Separation in time where it helps.
#[derive(Debug)]
pub struct Auto {
    census: Census,
    slots: Slots,
    slot_ns: u64,
    use_spin: bool,
    first_hold_ns: u64,
    hold_ns: u64,
    phase: Phase,
    since_ns: Option<u64>,
    did: BTreeMap<TenantId, Did>,
    /// Useful CPU time with nobody parked, in thousandths of a CPU; and the fair share.
    shared: BTreeMap<TenantId, (u64, u64)>,
    /// It may spin unseen.
    hidden: bool,
    tried: BTreeMap<TenantId, Tried>,
    /// Whom the slots are for.
    members: Vec<TenantId>,
    why: String,
}

impl Auto {
    pub(crate) fn new(values: &Values) -> Auto {
        let number = |name| values.number(name).expect("no words");
        let slot_ns = number("slot");
        Auto {
            census: Census::new(values.scope.clone(), 20),
            slots: Slots::new(slot_ns, crate::gang::AGE_SLOTS),
            slot_ns,
            use_spin: number("spin") == 1,
            first_hold_ns: number("hold"),
            hold_ns: number("hold"),
            phase: Phase::Watch,
            since_ns: None,
            did: BTreeMap::new(),
            shared: BTreeMap::new(),
            hidden: false,
            tried: BTreeMap::new(),
            members: Vec::new(),
            why: String::new(),
        }
    }

    fn begin(&mut self, phase: Phase) {
        (self.phase, self.since_ns) = (phase, None);
        self.did.clear();
    }

    /// Everybody shares again, to be watched.
    fn watch(&mut self, seen: &Observation, why: &str) -> Vec<Decision> {
        self.begin(Phase::Watch);
        self.slots.stop(seen, why)
    }

    /// Nothing is touched until the next question.
    fn rest(&mut self, seen: &Observation, why: &str) -> Vec<Decision> {
        self.begin(Phase::Rest { until_ns: seen.end_ns + self.hold_ns });
        self.hold_ns = (2 * self.hold_ns).min(LONGEST_HOLD_NS);
        self.slots.stop(seen, why)
    }

    /// Tenants that could be separated: CPU-bound, not latency-bound, not to be left alone.
    fn candidates(&self, uses: &[TenantUse], now_ns: u64) -> Vec<TenantId> {
        let wanted = uses.iter().filter(|u| u.weight > 0).map(|u| u.id);
        let alone = |id: &TenantId| self.tried.get(id).is_some_and(|t| t.alone_until_ns > now_ns);
        let latency = |id: &TenantId| self.did.get(id).is_some_and(Did::is_latency_bound);
        wanted.filter(|id| !alone(id) && !latency(id)).collect()
    }

    /// After the watch: is there somebody whom slots might help?
    fn weigh(&mut self, cpus: u64, seen: &Observation, uses: &[TenantUse], watched_ns: u64) -> Vec<Decision> {
        let candidates = self.candidates(uses, seen.end_ns);
        for u in uses.iter().filter(|u| u.weight > 0) {
            self.tried.entry(u.id).or_default();
        }
        let wants: Vec<u64> = uses.iter().map(|u| (u.weight * 1_000).max(u.demand_milli)).collect();
        let shares = fair::shares(cpus * 1_000, &wants);
        let all: u64 = wants.iter().sum();
        self.shared.clear();
        self.hidden = false;
        let (mut weight, mut suffers) = (0, false);
        for (i, u) in uses.iter().enumerate().filter(|(_, u)| candidates.contains(&u.id)) {
            let Some(did) = self.did.get(&u.id) else { continue };
            let milli = self.useful(did) * 1_000 / watched_ns.max(1);
            // Slots slow everybody down alike, so by them a tenant's part is that of what it wants.
            let part_milli = wants[i] * (cpus * 1_000).min(all) / all.max(1);
            self.shared.insert(u.id, (milli, shares[i].min(part_milli)));
            weight += u.weight;
            self.hidden |= did.may_spin(u.weight)
                || !self.use_spin && Did { spin_known: false, ..*did }.may_spin(u.weight);
            suffers |= u.weight >= 2 && milli * 100 < shares[i] * (100 - TOLERANCE_PERCENT);
        }
        if candidates.len() < 2 || weight <= cpus || !(suffers || self.hidden) {
            self.begin(Phase::Watch);
            return Vec::new();
        }
        self.members = candidates;
        self.why = "tried: somebody has less than its fair share".into();
        self.begin(Phase::Try);
        self.turn(cpus, seen, uses)
    }

    fn useful(&self, did: &Did) -> u64 {
        if self.use_spin {
            did.useful_ns
        } else {
            did.on_cpu_ns
        }
    }

    /// After the trial: who gained, who lost?
    fn judge(&mut self, cpus: u64, seen: &Observation, uses: &[TenantUse], tried_ns: u64) -> Vec<Decision> {
        let mut gain: Option<(u64, TenantId)> = None;
        let mut fell = Vec::new();
        for &id in &self.members {
            let (Some(&(before, fair)), Some(did)) = (self.shared.get(&id), self.did.get(&id)) else {
                continue;
            };
            let after = self.useful(did) * 1_000 / tried_ns.max(1);
            if after * 100 < before.min(fair) * (100 - TOLERANCE_PERCENT) {
                fell.push(id);
            } else if after * 100 > before * (100 + TOLERANCE_PERCENT) {
                gain = gain.max(Some((after * 100 / before.max(1), id)));
            }
        }
        if !fell.is_empty() {
            for id in &fell {
                let t = self.tried.entry(*id).or_default();
                t.alone_ns = (2 * t.alone_ns).clamp(self.first_hold_ns, LONGEST_HOLD_NS);
                t.alone_until_ns = seen.end_ns + t.alone_ns;
            }
            let name = census::name(seen, fell[0]).to_owned();
            return self
                .watch(seen, &format!("slots cost {name} more than its fair share; it is left alone"));
        }
        self.why = match gain {
            Some((percent, id)) => {
                let name = census::name(seen, id);
                format!("kept: {name} does {}.{:02} times as much as without", percent / 100, percent % 100)
            }
            None if self.hidden => {
                "kept: they cost nobody anything, and what spins here cannot be seen".into()
            }
            None => return self.rest(seen, "slots help nobody"),
        };
        self.begin(Phase::Keep { until_ns: seen.end_ns + self.hold_ns });
        self.hold_ns = (2 * self.hold_ns).min(LONGEST_HOLD_NS);
        self.turn(cpus, seen, uses)
    }

    fn turn(&mut self, cpus: u64, seen: &Observation, uses: &[TenantUse]) -> Vec<Decision> {
        let here = uses.iter().filter(|u| u.weight > 0 && self.members.contains(&u.id));
        let members: Vec<Member> =
            here.map(|u| Member { id: u.id, weight: u.weight, demand_milli: u.demand_milli }).collect();
        if members.len() < 2 {
            return self.watch(seen, "no tenant is left to share with");
        }
        self.slots.turn(seen, &members, &self.why, |queue| fitting(queue, cpus))
    }
}

impl Policy for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn knobs(&self) -> &'static [Knob] {
        &[Knob::Park]
    }

    fn epoch_ns(&self) -> u64 {
        epoch_of(self.slot_ns)
    }

    fn decide(&mut self, machine: &Machine, seen: &Observation) -> Vec<Decision> {
        let cpus = machine.cpu_count() as u64;
        let uses = self.census.take(seen, self.slots.parked());
        self.tried.retain(|id, _| uses.binary_search_by_key(id, |u| u.id).is_ok());
        for u in &uses {
            self.did.entry(u.id).and_modify(|d| d.add(u)).or_insert_with(|| Did::first(u));
        }
        let since_ns = *self.since_ns.get_or_insert(seen.start_ns);
        let took_ns = seen.end_ns - since_ns;
        let newcomer = uses.iter().any(|u| u.weight > 0 && !self.tried.contains_key(&u.id));
        match self.phase {
            Phase::Watch if took_ns >= WATCH_SLOTS * self.slot_ns => self.weigh(cpus, seen, &uses, took_ns),
            Phase::Watch => Vec::new(),
            Phase::Try if took_ns >= ROTATIONS * self.slot_ns * self.members.len() as u64 => {
                self.judge(cpus, seen, &uses, took_ns)
            }
            Phase::Keep { .. } | Phase::Rest { .. } if newcomer => {
                self.hold_ns = self.first_hold_ns;
                self.watch(seen, "a tenant has come that was not tried")
            }
            Phase::Keep { until_ns } | Phase::Rest { until_ns } if seen.end_ns >= until_ns => {
                self.watch(seen, "it is time to ask again")
            }
            Phase::Try | Phase::Keep { .. } => self.turn(cpus, seen, &uses),
            Phase::Rest { .. } => Vec::new(),
        }
    }
}
