//! Classifies an application by the counters of its tasks and by its last epochs. ATC'16 §4.2, §4.3.
//!
//! The task with the most coherence activity determines how much its application shares, and its IPC (§4.2).
//! SPC, by which §4.4 sorts applications, covers all tasks together; the paper does not say which tasks it
//! uses. To exceed a threshold is to be above it.
//!
//! Activity is lines fetched from other caches per million cycles of the paper's clock. Its thresholds are for 2.2 GHz and scale with
//! frequency (§5.4), so rates are measured per time. Lines from other sockets are what closeness would save. With few of these and many
//! within the socket, the application is already close together. Then it is classified by its sharing within the socket. Such epochs do
//! not show the cost of distance. So stalls per transfer (SPC) and instructions per cycle keep their sums since the class last changed.
//! They also keep them when the class changes in such an epoch (§4.3: the goal is to retain what was gathered before colocation).
//! Whether an epoch computed depends on its own instructions per cycle, or in such an epoch on the kept ones. So each entry of the
//! history is of one epoch. Stalls are divided by transfers only over epochs with many transfers, since others have stalls for other
//! reasons (§3.1).

use corun_model::reason::Sharing;
use corun_model::{Counters, Reason};

/// The clock of the thresholds, in MHz: that of the paper's first machine.
const CLOCK_MHZ: u64 = 2_200;
/// The number of remembered epochs. A class has to occur in more than `SEEN_IN` of them.
const REMEMBERED: u32 = 10;
const SEEN_IN: u32 = 6;
/// For this many epochs an application in pairs is assumed to share as before, although its fetches are not counted. Each time that it
/// proves true the number doubles, up to the most.
const PAIRED_EPOCHS: u32 = 50;
const MOST_PAIRED_EPOCHS: u32 = 16 * PAIRED_EPOCHS;

/// The thresholds; see the options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    pub high: u64,
    pub moderate: u64,
    pub ipc_milli: u64,
    pub spc: u64,
    pub memory: u64,
    /// A task is away from its memory if at least this many of a hundred lines from memory come from another node.
    pub remote: u64,
}

/// Bytes of a line.
const LINE: u64 = 64;

/// Events of one or several tasks, in one or several epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sums {
    /// Time on a CPU, in nanoseconds.
    pub on_cpu_ns: u64,
    pub cycles: u64,
    pub instructions: u64,
    pub stalls: u64,
    pub inter: u64,
    pub intra: u64,
    /// Bytes to and from memory. `None` if not counted.
    pub dram_bytes: Option<u64>,
    /// Lines from another node's memory. `None` if not counted.
    pub remote: Option<u64>,
}

impl Sums {
    /// Sums over no time.
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

    /// The events of a task. `None` if a classifying counter is absent, or the task did not run.
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

    /// The same as rates per million cycles, so that samples of any length count equally in a sum.
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

    /// Events of a kind per `cycles` cycles of [`CLOCK_MHZ`].
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

    /// The order of an application's tasks: lines from other sockets first, as in classification.
    fn activity(&self) -> (u64, u64) {
        (self.far(), self.near())
    }

    /// Whether it moves enough bytes to and from memory per thousand cycles. `false` if not counted.
    pub fn is_bound_by_memory(&self, t: &Thresholds) -> bool {
        self.dram_bytes.is_some_and(|bytes| self.rate(bytes, 1_000) >= t.memory)
    }

    /// How many of a hundred lines from memory came from another node. `None` if not counted, or if there were none.
    pub fn remote_percent(&self) -> Option<u64> {
        let lines = self.dram_bytes? / LINE;
        (lines > 0).then(|| self.remote.map(|n| (n.saturating_mul(100) / lines).min(100)))?
    }

    /// Instructions per thousand cycles, at any clock.
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

/// How much an application's tasks share, from their coherence activity.
fn sharing_of(activity: u64, t: &Thresholds) -> Sharing {
    match activity {
        a if a > t.high => Sharing::High,
        a if a > t.moderate => Sharing::Moderate,
        _ => Sharing::Low,
    }
}

/// A bit for each of the last epochs, the last one lowest.
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

/// An application with its history.
#[derive(Clone, Debug)]
pub(super) struct Application {
    sharing: Sharing,
    computes: bool,
    wants_memory: bool,
    high: History,
    sharing_at_all: History,
    computing: History,
    /// Sums of its leading task since the class last changed, without epochs in which all tasks were close together.
    kept: Sums,
    /// Sums of all its tasks over those of these epochs in which a task fetched much from other sockets.
    far: Sums,
    in_pairs: bool,
    /// Epochs in pairs without a counted line.
    paired_epochs: u32,
    /// It is assumed to share for this many of these epochs.
    trusted_epochs: u32,
    /// Epochs since it was last in pairs.
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
    /// Takes in an epoch of its tasks. With `history` the majority of the last epochs classifies it.
    pub fn window(&mut self, tasks: impl Iterator<Item = Sums> + Clone, t: &Thresholds, history: bool) {
        let most = tasks.clone().map(|task| task.far()).max().unwrap_or(0);
        let near = tasks.clone().map(|task| task.near()).max().unwrap_or(0);
        let sum = tasks.clone().fold(Sums::NONE, Sums::plus);
        // If several share most, take the first.
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
        // Close together it computes more than apart. That does not show how it would compute apart.
        let of = if is_close { &self.kept } else { &leader };
        let computes_now = of.ipc_milli() > t.ipc_milli;
        self.computing.note(computes_now);
        self.computes = if history { self.computing.is_frequent() } else { computes_now };
    }

    /// Notes that its tasks got their places.
    pub fn placed(&mut self, in_pairs: bool) {
        if in_pairs && !self.in_pairs {
            // In pairs again so soon: the check has only cost it its pairs.
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

    /// Whether it needs a core's pipeline.
    pub fn computes(&self) -> bool {
        self.computes
    }

    /// Whether it is bound by memory.
    pub fn wants_memory(&self) -> bool {
        self.wants_memory
    }

    /// Stalled cycles per line from another socket. `None` if there are too few such lines (§3.1).
    pub fn spc(&self) -> Option<u64> {
        self.far.spc().filter(|_| self.sharing == Sharing::High)
    }

    /// Its rank; the lowest chooses first. High sharing by falling SPC, then those with unknown SPC; moderate sharing by rising IPC;
    /// the rest.
    pub fn rank(&self) -> (u8, u64) {
        match (self.sharing, self.spc()) {
            (Sharing::High, Some(spc)) => (0, u64::MAX - spc),
            (Sharing::High, None) => (1, self.kept.ipc_milli()),
            (Sharing::Moderate, _) => (2, self.kept.ipc_milli()),
            (Sharing::Low, _) => (3, 0),
        }
    }

    /// Its class with the figures behind it, as the reason for its place.
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
    fn the_task_that_shares_most_decides_whether_its_application_computes() {
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
    fn a_value_at_a_threshold_does_not_exceed_it() {
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
    fn whether_an_application_computes_depends_on_each_epoch_alone() {
        let mut a = Application::default();
        for _ in 0..100 {
            a.window(epoch(1_000, 0, 400_000, 400_000), &T, true);
        }
        assert!(!a.computes());
        // A computing phase: seven epochs of ten, although a hundred before did not compute.
        for n in 1..=7 {
            assert!(!a.computes(), "after {} epochs", n - 1);
            a.window(epoch(1_000, 0, 400_000, 1_500_000), &T, true);
        }
        assert!(a.computes());
    }

    #[test]
    fn samples_of_any_length_count_equally() {
        let sample =
            |cycles, far| Sums { cycles, on_cpu_ns: cycles / 2, ..epoch(far, 0, 0, 0).next().unwrap() };
        let both = [sample(2_000_000, 0), sample(500_000, 1_000)];
        let sum = both.map(Sums::of_a_million_cycles).into_iter().reduce(Sums::plus).unwrap();
        assert_eq!((sum.cycles, sum.inter), (2_000_000, 2_000));
    }

    #[test]
    fn lines_from_another_node_are_a_share_of_all_lines_from_memory() {
        let of = |bytes, remote| Sums { dram_bytes: bytes, remote, ..Sums::NONE }.remote_percent();
        assert_eq!(of(Some(6_400), Some(75)), Some(75));
        assert_eq!((of(None, Some(75)), of(Some(6_400), None), of(Some(0), Some(0))), (None, None, None));
    }

    #[test]
    fn epochs_close_together_do_not_show_the_cost_of_distance() {
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
    fn pairs_that_no_longer_fetch_are_checked_again_after_some_seconds() {
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

    /// For how many epochs an application that was just put into pairs keeps them while nothing is counted.
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
    fn pairs_that_shared_at_every_check_are_checked_less_and_less_often() {
        let mut a = Application::default();
        let by_look: Vec<u32> = (0..6).map(|_| trusted(&mut a)).collect();
        assert_eq!(by_look, [1, 2, 4, 8, 16, 16].map(|n| n * PAIRED_EPOCHS));
        // After a long other phase it is as if it had never been in pairs.
        (0..2 * MOST_PAIRED_EPOCHS).for_each(|_| a.window(epoch(0, 0, 0, 900_000), &T, false));
        assert_eq!(trusted(&mut a), PAIRED_EPOCHS);
    }

    #[test]
    fn a_class_that_changes_close_together_keeps_the_cost_of_distance() {
        let mut a = Application::default();
        // It shares a little, then much. Its tasks are collected before that is known, and are close from then on.
        (0..4).for_each(|_| a.window(epoch(500, 0, 400_000, 300_000), &T, true));
        (0..3).for_each(|_| a.window(epoch(1_000, 0, 700_000, 300_000), &T, true));
        assert_eq!(a.sharing(), Sharing::Moderate);
        (0..4).for_each(|_| a.window(epoch(0, 3_000, 300_000, 500_000), &T, true));
        assert_eq!((a.sharing(), a.spc()), (Sharing::High, Some(700)));
    }

    #[test]
    fn the_application_with_most_stalls_per_transfer_chooses_first_and_a_private_one_last() {
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
    fn an_absent_counter_shows_nothing() {
        let all = Counters { cycles: Some(1), instructions: Some(1), ..Counters::default() };
        assert_eq!(Sums::of(1, &all), None);
    }
}
