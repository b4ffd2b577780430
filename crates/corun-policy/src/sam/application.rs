//! What an application is bound by: its class, from the counters of its tasks and from its last epochs. ATC'16 §4.2, §4.3.
//!
//! The task with the most coherence activity says how much its application shares and what its IPC is (§4.2). SPC, by which §4.4
//! sorts applications, is of all tasks together: of which the paper does not say. What exceeds a threshold is above it.
//!
//! Activity is lines fetched from other caches per million cycles, of the paper's clock: its thresholds are for 2.2 GHz and are
//! to be scaled by frequency (§5.4), so what goes by time is measured by time. From other sockets it is what closeness would save; where
//! there is little of that and much within the socket, the application is close together already, and is classified by
//! what it shares there. Such epochs say nothing of what distance costs it: stalls per transfer (SPC) and instructions per
//! cycle stay as they were summed up before, since the class last changed, and also where it changes in such an epoch (§4.3: the goal
//! is to retain what was gathered before colocation). Whether an epoch computed its own instructions per cycle
//! say, or in an epoch of that kind those that were summed up: what is in the history is of one epoch each. And stalls are divided by transfers only of epochs
//! with many of them, since the rest stalls for other reasons (§3.1).

use corun_model::reason::Sharing;
use corun_model::{Counters, Reason};

/// The clock for which the thresholds are given, in MHz: the paper's first machine.
const CLOCK_MHZ: u64 = 2_200;
/// Epochs that are remembered; a class must be seen in more than so many of them.
const REMEMBERED: u32 = 10;
const SEEN_IN: u32 = 6;
/// For so many epochs an application in pairs, which fetch nothing that is counted, is taken to share as it did; for twice as many
/// each time that it turns out to, up to the most.
const PAIRED_EPOCHS: u32 = 50;
const MOST_PAIRED_EPOCHS: u32 = 16 * PAIRED_EPOCHS;

/// From where on something counts; see the options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    pub high: u64,
    pub moderate: u64,
    pub ipc_milli: u64,
    pub spc: u64,
    pub memory: u64,
    /// Of a hundred lines from memory, from how many on that come from another node a task is away from its memory.
    pub remote: u64,
}

/// Bytes of a line.
const LINE: u64 = 64;

/// Events of one task or of several, in one epoch or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sums {
    /// Time on a CPU, in nanoseconds.
    pub on_cpu_ns: u64,
    pub cycles: u64,
    pub instructions: u64,
    pub stalls: u64,
    pub inter: u64,
    pub intra: u64,
    /// `None`: not counted.
    pub dram_bytes: Option<u64>,
    /// Lines from another node's memory; `None`: not counted.
    pub remote: Option<u64>,
}

impl Sums {
    /// Of no time at all.
    pub const NONE: Sums = Sums {
        on_cpu_ns: 0,
        cycles: 0,
        instructions: 0,
        stalls: 0,
        inter: 0,
        intra: 0,
        dram_bytes: Some(0),
        remote: Some(0),
    };

    /// `None` where a counter that classifies is absent, or the task did not run.
    pub fn of(on_cpu_ns: u64, c: &Counters) -> Option<Sums> {
        Some(Sums {
            on_cpu_ns: Some(on_cpu_ns).filter(|&ns| ns > 0)?,
            cycles: c.cycles.filter(|&n| n > 0)?,
            instructions: c.instructions?,
            stalls: c.l2_stall_cycles?,
            inter: c.coherence_inter?,
            intra: c.coherence_intra?,
            dram_bytes: c.dram_bytes,
            remote: c.remote_dram,
        })
    }

    /// The same as rates: of a million cycles. Summed up, each counts alike however long it is.
    pub fn of_a_million_cycles(self) -> Sums {
        const SCALE: u128 = 1_000_000;
        let scaled = |n: u64| (u128::from(n) * SCALE / u128::from(self.cycles.max(1))) as u64;
        Sums {
            on_cpu_ns: scaled(self.on_cpu_ns),
            cycles: scaled(self.cycles),
            instructions: scaled(self.instructions),
            stalls: scaled(self.stalls),
            inter: scaled(self.inter),
            intra: scaled(self.intra),
            dram_bytes: self.dram_bytes.map(scaled),
            remote: self.remote.map(scaled),
        }
    }

    pub fn plus(self, o: Sums) -> Sums {
        Sums {
            on_cpu_ns: self.on_cpu_ns + o.on_cpu_ns,
            cycles: self.cycles + o.cycles,
            instructions: self.instructions + o.instructions,
            stalls: self.stalls + o.stalls,
            inter: self.inter + o.inter,
            intra: self.intra + o.intra,
            dram_bytes: self.dram_bytes.zip(o.dram_bytes).map(|(a, b)| a + b),
            remote: self.remote.zip(o.remote).map(|(a, b)| a + b),
        }
    }

    /// Events of a kind per so many cycles of [`CLOCK_MHZ`].
    fn rate(&self, events: u64, cycles: u64) -> u64 {
        events.saturating_mul(cycles) / (self.on_cpu_ns.saturating_mul(CLOCK_MHZ) / 1_000).max(1)
    }

    /// Lines from other sockets per million cycles.
    pub fn far(&self) -> u64 {
        self.rate(self.inter, 1_000_000)
    }

    /// Lines from other cores of the socket per million cycles.
    pub fn near(&self) -> u64 {
        self.rate(self.intra, 1_000_000)
    }

    /// What tasks of an application are told apart by: from other sockets first, as they classify it.
    fn activity(&self) -> (u64, u64) {
        (self.far(), self.near())
    }

    /// Whether it moves so many bytes to and from memory per thousand cycles; not known is not said.
    pub fn is_bound_by_memory(&self, t: &Thresholds) -> bool {
        self.dram_bytes.is_some_and(|bytes| self.rate(bytes, 1_000) >= t.memory)
    }

    /// Of a hundred lines from memory, how many came from another node; `None`: not counted, or none came.
    pub fn remote_percent(&self) -> Option<u64> {
        let lines = self.dram_bytes? / LINE;
        (lines > 0).then(|| self.remote.map(|n| (n.saturating_mul(100) / lines).min(100)))?
    }

    /// Instructions per thousand cycles, whatever the clock.
    fn ipc_milli(&self) -> u64 {
        self.instructions * 1_000 / self.cycles.max(1)
    }

    /// Stalled cycles, of [`CLOCK_MHZ`], per line from another socket.
    fn spc(&self) -> Option<u64> {
        let stalled = u128::from(self.stalls) * u128::from(self.on_cpu_ns) * u128::from(CLOCK_MHZ)
            / (u128::from(self.cycles.max(1)) * 1_000);
        (self.inter > 0).then(|| (stalled / u128::from(self.inter)) as u64)
    }
}

/// How much an application's tasks share, by their coherence activity.
fn sharing_of(activity: u64, t: &Thresholds) -> Sharing {
    match activity {
        a if a > t.high => Sharing::High,
        a if a > t.moderate => Sharing::Moderate,
        _ => Sharing::Low,
    }
}

/// In which of the last epochs something was seen, the last in the lowest bit.
#[derive(Clone, Copy, Debug, Default)]
struct History(u64);

impl History {
    fn note(&mut self, seen: bool) {
        self.0 = self.0 << 1 | u64::from(seen);
    }

    fn is_frequent(self) -> bool {
        (self.0 & ((1 << REMEMBERED) - 1)).count_ones() > SEEN_IN
    }
}

/// An application as the mapper knows it.
#[derive(Clone, Debug)]
pub(super) struct Application {
    sharing: Sharing,
    computes: bool,
    wants_memory: bool,
    high: History,
    sharing_at_all: History,
    computing: History,
    /// What the task that shares most did since the class changed last, without epochs in which all were close together.
    kept: Sums,
    /// What all its tasks did in those of these epochs in which one fetched much from other sockets.
    far: Sums,
    in_pairs: bool,
    /// In pairs and without a line that is counted.
    paired_epochs: u32,
    /// For how many of these epochs it is taken to share.
    trusted_epochs: u32,
    /// Since it was in pairs last.
    apart_epochs: u32,
}

impl Default for Application {
    fn default() -> Application {
        Application {
            sharing: Sharing::Low,
            computes: false,
            wants_memory: false,
            high: History::default(),
            sharing_at_all: History::default(),
            computing: History::default(),
            kept: Sums::NONE,
            far: Sums::NONE,
            in_pairs: false,
            paired_epochs: 0,
            trusted_epochs: 0,
            apart_epochs: 0,
        }
    }
}

impl Application {
    /// What its tasks did in an epoch; with `history`, what it did in most of the last ones classifies it.
    pub fn window(&mut self, tasks: impl Iterator<Item = Sums> + Clone, t: &Thresholds, history: bool) {
        let most = tasks.clone().map(|task| task.far()).max().unwrap_or(0);
        let near = tasks.clone().map(|task| task.near()).max().unwrap_or(0);
        let sum = tasks.clone().fold(Sums::NONE, Sums::plus);
        // The first of several that share most.
        let leader =
            tasks.reduce(|a, b| if b.activity() > a.activity() { b } else { a }).unwrap_or(Sums::NONE);
        self.wants_memory = sum.is_bound_by_memory(t);
        if self.in_pairs && most.max(near) <= t.moderate && self.paired_epochs < self.trusted_epochs {
            self.paired_epochs += 1;
            return;
        }
        self.apart_epochs = if self.in_pairs { 0 } else { self.apart_epochs.saturating_add(1) };
        let is_close = most <= t.moderate && near > t.moderate;
        let now = sharing_of(if is_close { near } else { most }, t);
        self.high.note(now == Sharing::High);
        self.sharing_at_all.note(now > Sharing::Low);
        let class = match history {
            false => now,
            true if self.high.is_frequent() => Sharing::High,
            true if self.sharing_at_all.is_frequent() => Sharing::Moderate,
            true => Sharing::Low,
        };
        if class != self.sharing {
            self.sharing = class;
            self.in_pairs &= class == Sharing::High;
            if !is_close {
                (self.kept, self.far) = (Sums::NONE, Sums::NONE);
            }
        }
        if !is_close || self.kept.cycles == 0 {
            self.kept = self.kept.plus(leader);
        }
        if most > t.high {
            self.far = self.far.plus(sum);
        }
        // Close together it computes more than apart, which says nothing of what it would there.
        let of = if is_close { &self.kept } else { &leader };
        let computes_now = of.ipc_milli() > t.ipc_milli;
        self.computing.note(computes_now);
        self.computes = if history { self.computing.is_frequent() } else { computes_now };
    }

    /// It was given its places.
    pub fn placed(&mut self, in_pairs: bool) {
        if in_pairs && !self.in_pairs {
            // Again so soon: that it was looked at has only cost it its pairs.
            let again = self.apart_epochs <= self.trusted_epochs;
            let trusted = if again { 2 * self.trusted_epochs } else { 0 };
            self.trusted_epochs = trusted.clamp(PAIRED_EPOCHS, MOST_PAIRED_EPOCHS);
            self.paired_epochs = 0;
        }
        self.in_pairs = in_pairs;
    }

    /// Its class.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Whether it wants a core's pipeline.
    pub fn computes(&self) -> bool {
        self.computes
    }

    /// Whether it is bound by memory.
    pub fn wants_memory(&self) -> bool {
        self.wants_memory
    }

    /// Stalled cycles per line from another socket; `None` where there is too little of that to divide by (§3.1).
    pub fn spc(&self) -> Option<u64> {
        self.far.spc().filter(|_| self.sharing == Sharing::High)
    }

    /// Who chooses first has the least: high sharing by falling SPC, those of unknown SPC behind; moderate by rising IPC; the rest.
    pub fn rank(&self) -> (u8, u64) {
        match (self.sharing, self.spc()) {
            (Sharing::High, Some(spc)) => (0, u64::MAX - spc),
            (Sharing::High, None) => (1, self.kept.ipc_milli()),
            (Sharing::Moderate, _) => (2, self.kept.ipc_milli()),
            (Sharing::Low, _) => (3, 0),
        }
    }

    /// Its class with the figures that led to it, as the reason to go there.
    pub fn because(&self, tenant: String, socket: u32, core: Option<u32>) -> Reason {
        Reason::Sharing {
            tenant,
            sharing: self.sharing,
            spc: self.spc().filter(|_| self.sharing == Sharing::High),
            ipc_milli: self.kept.ipc_milli(),
            wants_memory: self.wants_memory,
            socket,
            core,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Thresholds =
        Thresholds { high: 780, moderate: 390, ipc_milli: 900, spc: 550, memory: 1_000, remote: 50 };

    /// An epoch of one task, per million cycles.
    fn epoch(far: u64, near: u64, stalls: u64, instructions: u64) -> std::iter::Once<Sums> {
        std::iter::once(Sums {
            on_cpu_ns: 454_546,
            cycles: 1_000_000,
            instructions,
            stalls,
            inter: far,
            intra: near,
            dram_bytes: None,
            remote: None,
        })
    }

    #[test]
    fn the_task_that_shares_most_classifies_its_application() {
        let mut a = Application::default();
        a.window(epoch(0, 0, 0, 5).chain(epoch(1_200, 0, 480_000, 5)), &T, false);
        assert_eq!((a.sharing(), a.spc()), (Sharing::High, Some(400)));
    }

    #[test]
    fn the_task_that_shares_most_says_whether_its_application_computes() {
        let busy = epoch(0, 0, 0, 2_000_000);
        let classified = |leader: std::iter::Once<Sums>| {
            let mut a = Application::default();
            a.window(busy.clone().chain(leader).chain(busy.clone()), &T, false);
            (a.sharing(), a.computes())
        };
        assert_eq!(classified(epoch(1_000, 0, 400_000, 300_000)), (Sharing::High, false));
        assert_eq!(classified(epoch(1_000, 0, 400_000, 1_000_000)), (Sharing::High, true));
    }

    #[test]
    fn what_is_at_a_threshold_does_not_exceed_it() {
        let classified = |far, instructions| {
            let mut a = Application::default();
            a.window(epoch(far, 0, 0, instructions), &T, false);
            (a.sharing(), a.computes())
        };
        assert_eq!(classified(T.high, 900_000), (Sharing::Moderate, false));
        assert_eq!(classified(T.high + 2, 901_000), (Sharing::High, true));
        assert_eq!(classified(T.moderate, 1).0, Sharing::Low);
    }

    #[test]
    fn more_than_six_epochs_of_ten_make_a_class_and_three_are_forgotten() {
        let mut a = Application::default();
        for n in 1..=7 {
            assert_eq!(a.sharing(), Sharing::Low, "after {} epochs", n - 1);
            a.window(epoch(1_000, 0, 400_000, 500_000), &T, true);
        }
        assert_eq!(a.sharing(), Sharing::High);
        for _ in 0..3 {
            a.window(epoch(0, 0, 0, 500_000), &T, true);
            assert_eq!(a.sharing(), Sharing::High);
        }
        a.window(epoch(0, 0, 0, 500_000), &T, true);
        assert_eq!(a.sharing(), Sharing::Low);
    }

    #[test]
    fn whether_an_application_computes_is_of_each_epoch_and_not_of_all_since_its_class_changed() {
        let mut a = Application::default();
        for _ in 0..100 {
            a.window(epoch(1_000, 0, 400_000, 400_000), &T, true);
        }
        assert!(!a.computes());
        // A phase that computes: seven epochs of ten, though a hundred before it did not.
        for n in 1..=7 {
            assert!(!a.computes(), "after {} epochs", n - 1);
            a.window(epoch(1_000, 0, 400_000, 1_500_000), &T, true);
        }
        assert!(a.computes());
    }

    #[test]
    fn samples_count_alike_however_long_they_are() {
        let sample =
            |cycles, far| Sums { cycles, on_cpu_ns: cycles / 2, ..epoch(far, 0, 0, 0).next().unwrap() };
        let both = [sample(2_000_000, 0), sample(500_000, 1_000)];
        let sum = both.map(Sums::of_a_million_cycles).into_iter().reduce(Sums::plus).unwrap();
        assert_eq!((sum.cycles, sum.inter), (2_000_000, 2_000));
    }

    #[test]
    fn lines_from_another_node_are_a_part_of_all_lines_from_memory() {
        let of = |bytes, remote| Sums { dram_bytes: bytes, remote, ..Sums::NONE }.remote_percent();
        assert_eq!(of(Some(6_400), Some(75)), Some(75));
        assert_eq!((of(None, Some(75)), of(Some(6_400), None), of(Some(0), Some(0))), (None, None, None));
    }

    #[test]
    fn epochs_close_together_say_nothing_of_what_distance_costs() {
        let mut a = Application::default();
        a.window(epoch(1_000, 900, 450_000, 400_000), &T, false);
        let (spc, computes) = (a.spc(), a.computes());
        for _ in 0..20 {
            a.window(epoch(0, 3_000, 100_000, 1_400_000), &T, false);
        }
        assert_eq!((a.sharing(), a.spc(), a.computes()), (Sharing::High, spc, computes));
        assert_eq!((spc, computes), (Some(450), false));
    }

    #[test]
    fn stalls_of_epochs_that_share_little_are_not_blamed_on_transfers() {
        let mut a = Application::default();
        for _ in 0..7 {
            a.window(epoch(1_000, 0, 450_000, 400_000), &T, true);
        }
        for _ in 0..3 {
            a.window(epoch(10, 100, 900_000, 400_000), &T, true);
        }
        assert_eq!((a.sharing(), a.spc()), (Sharing::High, Some(450)));
    }

    #[test]
    fn pairs_that_fetch_nothing_any_more_are_looked_at_again_after_some_seconds() {
        let mut a = Application::default();
        a.window(epoch(1_000, 0, 700_000, 300_000), &T, false);
        a.placed(true);
        for _ in 0..PAIRED_EPOCHS {
            a.window(epoch(0, 0, 0, 900_000), &T, false);
            assert_eq!(a.sharing(), Sharing::High);
        }
        a.window(epoch(0, 0, 0, 900_000), &T, false);
        assert_eq!(a.sharing(), Sharing::Low);
    }

    /// For how many epochs an application that was just put into pairs keeps them although nothing is counted.
    fn trusted(a: &mut Application) -> u32 {
        a.window(epoch(1_000, 0, 700_000, 300_000), &T, false);
        a.placed(true);
        (0..)
            .find(|_| {
                a.window(epoch(0, 0, 0, 900_000), &T, false);
                a.sharing() == Sharing::Low
            })
            .expect("it is looked at")
    }

    #[test]
    fn pairs_that_shared_whenever_they_were_looked_at_are_looked_at_less_and_less_often() {
        let mut a = Application::default();
        let by_look: Vec<u32> = (0..6).map(|_| trusted(&mut a)).collect();
        assert_eq!(by_look, [1, 2, 4, 8, 16, 16].map(|n| n * PAIRED_EPOCHS));
        // Where it did something else for long, it is as if it had never been in pairs.
        (0..2 * MOST_PAIRED_EPOCHS).for_each(|_| a.window(epoch(0, 0, 0, 900_000), &T, false));
        assert_eq!(trusted(&mut a), PAIRED_EPOCHS);
    }

    #[test]
    fn a_class_that_changes_close_together_keeps_what_distance_cost() {
        let mut a = Application::default();
        // It shares somewhat, then much; its tasks are gathered before that is known, and from then on are close.
        (0..4).for_each(|_| a.window(epoch(500, 0, 400_000, 300_000), &T, true));
        (0..3).for_each(|_| a.window(epoch(1_000, 0, 700_000, 300_000), &T, true));
        assert_eq!(a.sharing(), Sharing::Moderate);
        (0..4).for_each(|_| a.window(epoch(0, 3_000, 300_000, 500_000), &T, true));
        assert_eq!((a.sharing(), a.spc()), (Sharing::High, Some(700)));
    }

    #[test]
    fn who_stalls_most_per_transfer_chooses_first_and_who_shares_little_last() {
        let of = |far, stalls, instructions| {
            let mut a = Application::default();
            a.window(epoch(far, 0, stalls, instructions), &T, false);
            a.rank()
        };
        let ranks = [
            of(1_000, 600_000, 1),
            of(2_000, 800_000, 1),
            of(500, 900_000, 1),
            of(500, 1, 900_000),
            of(0, 0, 1),
        ];
        assert!(ranks.is_sorted(), "{ranks:?}");
        assert!(ranks[0] < ranks[1] && ranks[2] < ranks[3]);
    }

    #[test]
    fn a_counter_that_is_absent_says_nothing() {
        let all = Counters { cycles: Some(1), instructions: Some(1), ..Counters::default() };
        assert_eq!(Sums::of(1, &all), None);
    }
}
