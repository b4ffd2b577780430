//! The probe's run log of the subject, in order.
//!
//! Events lie in the ring in the order in which room was made for them, which is nearly the order of time. So
//! events younger than [`SETTLE_NS`] are held back until the next time. Recording has a budget. If a program
//! switches so often that recording would slow it down, recording stops, and that is reported.

use corun_bpf::layout::RecordEvent;
use corun_model::run_log::{CpuMask, Event, RawEvent, RunLog, What};

/// The most time that an event may take to get into the ring.
const SETTLE_NS: u64 = 1_000_000;
/// The most events per second that are worth their cost: about 100 ns each, 1 % of a CPU.
const MOST_PER_S: u64 = 100_000;
/// The allowance for a burst beyond that.
const BURST: u64 = 100_000;

/// The run log so far, since it was last taken.
pub(super) struct Recorder {
    log: RunLog,
    /// CPUs between which the scheduler moves nobody: a task on one of them may use only that one.
    isolated: CpuMask,
    /// Not yet in order.
    young: Vec<Event>,
    /// Events that may still come, according to [`MOST_PER_S`].
    allowance: u64,
    filled_ns: u64,
    lost_before: u64,
    is_over: bool,
}

impl Recorder {
    /// Starts now, on a machine with these CPUs, some of which are isolated.
    pub(super) fn new(cpus: CpuMask, isolated: CpuMask, now_ns: u64) -> Recorder {
        let log = RunLog { cpus, start_ns: now_ns, end_ns: now_ns, ..RunLog::default() };
        let young = Vec::new();
        Recorder { log, isolated, young, allowance: BURST, filled_ns: now_ns, lost_before: 0, is_over: false }
    }

    /// Takes the content of the ring; `lost` events had found no room there so far. Returns false once going
    /// on costs too much: the log ends there, with a loss.
    pub(super) fn add(&mut self, events: &[RecordEvent], lost: u64, now_ns: u64) -> bool {
        let refill = now_ns.saturating_sub(self.filled_ns) as u128 * u128::from(MOST_PER_S) / 1_000_000_000;
        if refill > 0 {
            self.filled_ns = now_ns;
        }
        self.allowance = self.allowance.saturating_add(refill as u64).min(BURST);
        if self.is_over {
            return false;
        }
        let isolated = self.isolated;
        let read = |e: &RecordEvent| {
            let event = RawEvent { t_ns: e.t_ns, who: e.who, a: e.a, b: e.b }.read()?;
            Some(Event { what: movable(event.what, isolated), ..event })
        };
        let found = events.iter().filter_map(read);
        let before = self.young.len();
        self.young.reserve(events.len());
        self.young.extend(found);
        let unread = events.len() - (self.young.len() - before);
        self.log.lost += lost - self.lost_before + unread as u64;
        self.lost_before = lost;
        match self.allowance.checked_sub(events.len() as u64) {
            Some(left) => self.allowance = left,
            None => {
                self.is_over = true;
                self.log.lost += 1;
            }
        }
        !self.is_over
    }

    /// The events until `edge_ns`, which has settled, since the last call. `cpus` are switched on now.
    pub(super) fn take(&mut self, edge_ns: u64, cpus: CpuMask) -> RunLog {
        self.log.cpus = cpus;
        self.young.sort_by_key(|e| e.t_ns);
        let later = self.young.split_off(self.young.partition_point(|e| e.t_ns < edge_ns));
        let events = std::mem::replace(&mut self.young, later);
        let next =
            RunLog { start_ns: edge_ns, lost: u64::from(self.is_over), events: Vec::new(), ..self.log };
        RunLog { end_ns: edge_ns, events, ..std::mem::replace(&mut self.log, next) }
    }
}

/// Of the CPUs that a task may use, those that the scheduler would move it to.
fn movable(what: What, isolated: CpuMask) -> What {
    let What::Runs { cpu, may } = what else { return what };
    let own = CpuMask::default().with(cpu.0 as usize);
    let free = CpuMask(may.0 & !isolated.0);
    let may = if !isolated.and(own).is_empty() {
        own
    } else if free.is_empty() {
        may
    } else {
        free
    };
    What::Runs { cpu, may }
}

/// The time up to which the log may be taken now.
pub(super) fn settled_ns(now_ns: u64) -> u64 {
    now_ns.saturating_sub(SETTLE_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody is preempted.
    fn event(t_ns: u64) -> RecordEvent {
        RecordEvent { t_ns, who: 7 | 2 << 32, a: 0, b: 0 }
    }

    #[test]
    fn events_come_in_the_order_of_time_and_each_once() {
        let mut recorder = Recorder::new(CpuMask::first(2), CpuMask::default(), 100);
        assert!(recorder.add(&[event(130), event(120), event(250)], 0, 1_000));
        let first = recorder.take(200, CpuMask::first(2));
        assert_eq!((first.start_ns, first.end_ns, first.lost), (100, 200, 0));
        assert_eq!(first.events.iter().map(|e| e.t_ns).collect::<Vec<_>>(), [120, 130]);
        assert!(recorder.add(&[event(240)], 0, 2_000));
        let second = recorder.take(300, CpuMask::first(2));
        assert_eq!((second.start_ns, second.events.len(), second.events[0].t_ns), (200, 2, 240));
    }

    #[test]
    fn each_part_has_the_cpus_of_its_end_and_no_task_moves_between_isolated_ones() {
        let mut recorder = Recorder::new(CpuMask::first(1), CpuMask(0b1100), 0);
        let runs = |t_ns, cpu: u64, may| RecordEvent { t_ns, who: 7 | 1 << 32 | cpu << 48, a: may, b: 0 };
        recorder.add(&[runs(1, 0, 0b1111), runs(2, 3, 0b1100), runs(3, 0, 0b1100)], 0, 10);
        let log = recorder.take(10, CpuMask::first(4));
        let may = |e: &Event| if let What::Runs { may, .. } = e.what { may.0 } else { 0 };
        assert_eq!(log.events.iter().map(may).collect::<Vec<_>>(), [0b11, 0b1000, 0b1100]);
        assert_eq!(log.cpus, CpuMask::first(4));
        assert_eq!(recorder.take(20, CpuMask::first(2)).cpus, CpuMask::first(2));
    }

    #[test]
    fn lost_or_unknown_events_are_counted_once() {
        let mut recorder = Recorder::new(CpuMask::first(2), CpuMask::default(), 0);
        recorder.add(&[RecordEvent { who: 7 | 99 << 32, ..event(1) }], 4, 10);
        assert_eq!(recorder.take(10, CpuMask::first(2)).lost, 5);
        recorder.add(&[], 4, 20);
        assert_eq!(recorder.take(20, CpuMask::first(2)).lost, 0);
    }

    #[test]
    fn a_program_that_switches_too_often_is_no_longer_recorded_and_every_later_log_says_so() {
        let mut recorder = Recorder::new(CpuMask::first(2), CpuMask::default(), 0);
        let storm: Vec<RecordEvent> = (0..60_000).map(event).collect();
        assert!(recorder.add(&storm, 0, 25_000_000));
        assert!(!recorder.add(&storm, 0, 50_000_000));
        assert_eq!(recorder.take(60_000_000, CpuMask::first(2)).lost, 1);
        assert!(!recorder.add(&[], 0, 10_000_000_000), "it does not begin again half-way");
        assert_eq!(recorder.take(70_000_000, CpuMask::first(2)).lost, 1);
    }
}
