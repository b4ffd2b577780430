//! A recorded run as a file: `corun.run-log/3`.
//!
//! ```text
//! 8 bytes   "corunlog"
//! u32       version, 3
//! text      the command
//! u64       sum of all before
//!           then parts of two kinds; a window of the run:
//! u8        1
//! u128      the CPUs that were switched on at its end, one bit each
//! u64 × 3   start, end, events lost
//! u32       number of co-runners, each: text (name), u32 (tasks), u64 × 2 (ran, waited)
//! u32       number of events, each of 32 bytes: time, who, a, b (see `RawEvent`)
//! u64       sum of the part
//!           and the observations of all tenants:
//! u8        2
//! u32       number of bytes, in the format of an agent's ring
//! u64       sum of the part
//!           and then:
//! u8        0
//! ```
//!
//! Numbers are little-endian, a text is its length (u32) and UTF-8, a sum is FNV-1a. A recorder writes window
//! by window and keeps none in memory. A reader notices damage, a missing end, and other versions. It also
//! reads version 2, which has no observations of other tenants.

use super::{CpuMask, Event, RawEvent, RunLog, What, EVENT_BYTES};
use std::ops::Range;
use thiserror::Error;

const MAGIC: &[u8; 8] = b"corunlog";
const VERSION: u32 = 3;
const OLDEST_VERSION: u32 = 2;
const WINDOW: u8 = 1;
const SEEN: u8 = 2;
const END: u8 = 0;
/// The most events in a file, which take 256 MiB. A recorder ends there.
pub const MOST_EVENTS: u64 = 8 << 20;
/// The most bytes of observations of all tenants in a file.
const MOST_SEEN_BYTES: u64 = 192 << 20;
/// The most bytes of a file. The rest is names and sums.
pub const MOST_BYTES: u64 = 512 << 20;
const _: () = assert!(MOST_SEEN_BYTES + MOST_EVENTS * EVENT_BYTES as u64 <= MOST_BYTES);
/// The longest run, 24 hours, and the longest quota.
const MOST_NS: u64 = 86_400_000_000_000;
/// The kernel's shortest quota and period.
const LEAST_BUDGET_NS: u64 = 1_000_000;
/// The longest period of a quota in any kernel.
const MOST_PERIOD_NS: u64 = 1_000_000_000;

/// A recorded run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFile {
    /// What ran, in words.
    pub command: String,
    /// The activity, in the order of time. Each window begins where the previous one ends.
    pub windows: Vec<RunWindow>,
}

/// A stretch of a recorded run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunWindow {
    /// The activity of its tasks.
    pub log: RunLog,
    /// The other tenants that wanted CPUs meanwhile.
    pub co_runners: Vec<CoRunner>,
}

/// A co-runner in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoRunner {
    /// Its name.
    pub name: String,
    /// How many of its tasks wanted CPUs. Tasks with equal demand count as one each, those with less count
    /// less.
    pub tasks: u32,
    /// CPU time, in nanoseconds, summed over its tasks.
    pub ran_ns: u64,
    /// Waiting time for a CPU, in nanoseconds, summed over its tasks.
    pub waited_ns: u64,
}

impl RunFile {
    /// Its length, in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        let ends = self.windows.first().zip(self.windows.last());
        ends.map_or(0, |(first, last)| last.log.end_ns - first.log.start_ns)
    }

    /// The number of its events.
    pub fn events(&self) -> u64 {
        self.windows.iter().map(|w| w.log.events.len() as u64).sum()
    }

    /// The number of events that found no room.
    pub fn lost(&self) -> u64 {
        self.windows.iter().fold(0, |sum, w| sum.saturating_add(w.log.lost))
    }
}

/// A file that is no run log, or an incomplete one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// It begins differently.
    #[error("this is no recording: it does not begin with `corunlog`; make one with `corun record`")]
    Other,
    /// It is of another version.
    #[error("this recording is of version {0}, and this corun reads version {VERSION}; record it again")]
    Version(u32),
    /// It does not end where it should, or a sum does not match.
    #[error("this recording is damaged: {0}; record it again")]
    Damaged(&'static str),
}

/// The beginning of a file.
pub fn header(command: &str) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    put_text(&mut out, command);
    sealed(out)
}

/// A window of a file.
pub fn window(window: &RunWindow) -> Vec<u8> {
    let RunWindow { log, co_runners } = window;
    let mut out = Vec::with_capacity(64 + 64 * co_runners.len() + EVENT_BYTES * log.events.len());
    out.push(WINDOW);
    out.extend(log.cpus.0.to_le_bytes());
    for n in [log.start_ns, log.end_ns, log.lost] {
        out.extend(n.to_le_bytes());
    }
    out.extend((co_runners.len() as u32).to_le_bytes());
    for other in co_runners {
        put_text(&mut out, &other.name);
        out.extend(other.tasks.to_le_bytes());
        out.extend(other.ran_ns.to_le_bytes());
        out.extend(other.waited_ns.to_le_bytes());
    }
    out.extend((log.events.len() as u32).to_le_bytes());
    for event in &log.events {
        let RawEvent { t_ns, who, a, b } = RawEvent::from(*event);
        for n in [t_ns, who, a, b] {
            out.extend(n.to_le_bytes());
        }
    }
    sealed(out)
}

/// The observations of all tenants, in the bytes of an agent's ring.
pub fn seen(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + bytes.len());
    out.push(SEEN);
    put_bytes(&mut out, bytes);
    sealed(out)
}

/// The remaining room in a file for observations of all tenants, in bytes. After the first part without room,
/// no later part gets any, so that there is no gap.
#[derive(Clone, Copy, Debug)]
pub struct Room(u64);

impl Default for Room {
    fn default() -> Room {
        Room(MOST_SEEN_BYTES)
    }
}

impl Room {
    /// Whether a part fits. If so, takes its room.
    pub fn takes(&mut self, part: &[u8]) -> bool {
        self.takes_bytes(part.len() as u64)
    }

    fn takes_bytes(&mut self, bytes: u64) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

/// The end of a file.
pub fn end() -> Vec<u8> {
    vec![END]
}

/// A whole file.
pub fn write(file: &RunFile) -> Vec<u8> {
    let windows = file.windows.iter().flat_map(window);
    header(&file.command).into_iter().chain(windows).chain(end()).collect()
}

/// Reads the output of [`fn@write`].
///
/// # Errors
/// [`Refused`], as one sentence.
pub fn read(bytes: &[u8]) -> Result<RunFile, Refused> {
    let mut parts = Parts::of(bytes)?;
    let mut file = RunFile { command: std::mem::take(&mut parts.command), windows: Vec::new() };
    while let Some(part) = parts.next_part()? {
        match part {
            Part::Window(window) => file.windows.push(window),
            Part::Seen(_) => {}
        }
    }
    Ok(file)
}

/// Whether a file begins like a recording.
pub fn is_recording(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Where the arguments of [`seen`] are in a file, in their order. The rest of the file is also checked.
///
/// # Errors
/// [`Refused`], as one sentence.
pub fn places_of_seen(bytes: &[u8]) -> Result<Vec<Range<usize>>, Refused> {
    let mut parts = Parts::of(bytes)?;
    let mut places = Vec::new();
    while let Some(part) = parts.next_part()? {
        match part {
            Part::Window(_) => {}
            Part::Seen(place) => places.push(place),
        }
    }
    Ok(places)
}

enum Part {
    Window(RunWindow),
    /// Its bytes, as a range of the file.
    Seen(Range<usize>),
}

/// The parts of a file, each checked as it is read.
struct Parts<'a> {
    command: String,
    reader: Reader<'a>,
    bytes: usize,
    /// The start of the first window, and the end of the last one so far.
    time: Option<Range<u64>>,
    events: u64,
}

impl<'a> Parts<'a> {
    fn of(bytes: &'a [u8]) -> Result<Parts<'a>, Refused> {
        if !is_recording(bytes) {
            return Err(Refused::Other);
        }
        let mut reader = Reader { rest: &bytes[MAGIC.len()..], part: bytes };
        let version = reader.u32()?;
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            return Err(Refused::Version(version));
        }
        let command = reader.text()?;
        reader.seal()?;
        Ok(Parts { command, reader, bytes: bytes.len(), time: None, events: 0 })
    }

    /// The next part; `None`: there is no other.
    fn next_part(&mut self) -> Result<Option<Part>, Refused> {
        let part = match self.reader.take(1)?[0] {
            WINDOW => Part::Window(self.reader.window()?),
            SEEN => {
                let length = self.reader.bytes()?.len();
                let end = self.bytes - self.reader.rest.len();
                Part::Seen(end - length..end)
            }
            END if !self.reader.rest.is_empty() => {
                return Err(Refused::Damaged("it has more than windows"));
            }
            END if self.time.is_none() => return Err(Refused::Damaged("it has no window")),
            END => return Ok(None),
            _ => return Err(Refused::Damaged("it has a part of an unknown kind")),
        };
        self.reader.seal()?;
        if let Part::Window(window) = &part {
            self.time = Some(check(&window.log, self.time.clone())?);
            self.events += window.log.events.len() as u64;
            if self.events > MOST_EVENTS {
                return Err(Refused::Damaged("it has more events than any recording"));
            }
        }
        Ok(Some(part))
    }
}

/// Whether this can be the next window of a file whose windows so far cover this time. Returns the time with
/// it.
fn check(log: &RunLog, before: Option<Range<u64>>) -> Result<Range<u64>, Refused> {
    let refuse = |why| Err(Refused::Damaged(why));
    let start_ns = before.as_ref().map_or(log.start_ns, |time| time.start);
    if log.end_ns < log.start_ns || log.end_ns - start_ns > MOST_NS || log.end_ns > u64::MAX / 4 {
        return refuse("it ends before it begins, or lasts for longer than 24 hours");
    }
    if before.is_some_and(|time| time.end != log.start_ns) {
        return refuse("a window is missing");
    }
    if !log.events.is_sorted_by_key(|e| e.t_ns) {
        return refuse("its events are not in the order of time");
    }
    if log.events.iter().any(|e| e.t_ns < start_ns || e.t_ns > log.end_ns) {
        return refuse("it has an event that is not of its time");
    }
    let is_no_budget = |e: &Event| match e.what {
        // A quota of 0 means no quota.
        What::Budget { quota_ns: 0, period_ns, .. } => period_ns > MOST_PERIOD_NS,
        What::Budget { quota_ns, period_ns, .. } => {
            quota_ns > MOST_NS || period_ns > MOST_PERIOD_NS || quota_ns.min(period_ns) < LEAST_BUDGET_NS
        }
        _ => false,
    };
    match log.events.iter().any(is_no_budget) {
        true => refuse("it has a CPU budget that no kernel gives"),
        false => Ok(start_ns..log.end_ns),
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

fn sealed(mut part: Vec<u8>) -> Vec<u8> {
    part.extend(sum(&part).to_le_bytes());
    part
}

/// FNV-1a: detects damage from disks and editors, not from an attacker.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

struct Reader<'a> {
    rest: &'a [u8],
    /// The rest of the file from the beginning of the present part.
    part: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], Refused> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(Refused::Damaged("it ends early"))?;
        self.rest = rest;
        Ok(head)
    }

    fn u32(&mut self) -> Result<u32, Refused> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    fn u64(&mut self) -> Result<u64, Refused> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    fn bytes(&mut self) -> Result<&'a [u8], Refused> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    fn text(&mut self) -> Result<String, Refused> {
        let text = std::str::from_utf8(self.bytes()?);
        text.map(str::to_owned).map_err(|_| Refused::Damaged("it has a text that is not UTF-8"))
    }

    /// Checks that the present part ends here, with its sum.
    fn seal(&mut self) -> Result<(), Refused> {
        let length = self.part.len() - self.rest.len();
        let found = sum(&self.part[..length]);
        if self.u64()? != found {
            return Err(Refused::Damaged("a checksum does not match"));
        }
        self.part = self.rest;
        Ok(())
    }

    fn window(&mut self) -> Result<RunWindow, Refused> {
        let cpus = CpuMask(u128::from(self.u64()?) | u128::from(self.u64()?) << 64);
        let (start_ns, end_ns, lost) = (self.u64()?, self.u64()?, self.u64()?);
        let mut co_runners = Vec::new();
        for _ in 0..self.u32()? {
            let (name, tasks) = (self.text()?, self.u32()?);
            co_runners.push(CoRunner { name, tasks, ran_ns: self.u64()?, waited_ns: self.u64()? });
        }
        let length = (self.u32()? as usize).saturating_mul(EVENT_BYTES);
        let mut body = Reader { rest: self.take(length)?, part: &[] };
        let mut events = Vec::with_capacity(length / EVENT_BYTES);
        while !body.rest.is_empty() {
            let raw = RawEvent { t_ns: body.u64()?, who: body.u64()?, a: body.u64()?, b: body.u64()? };
            events.push(raw.read().ok_or(Refused::Damaged("it has an event of an unknown kind"))?);
        }
        Ok(RunWindow { log: RunLog { cpus, start_ns, end_ns, lost, events }, co_runners })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::CpuId;
    use crate::run_log::{For, Left, Waker};
    use crate::tenant::TaskId;
    use proptest::prelude::*;

    fn what() -> impl Strategy<Value = What> {
        let cpu = (0..1u32 << 16).prop_map(CpuId);
        let task = any::<u32>().prop_map(TaskId);
        let left = prop_oneof![
            Just(Left::Preempted),
            Just(Left::Yielded),
            Just(Left::Ended),
            Just(Left::Killed),
            any::<u64>().prop_map(|at| Left::Waits(For::Futex(at))),
            prop_oneof![
                Just(For::Device),
                Just(For::Sleep),
                Just(For::Poll),
                Just(For::Pipe),
                Just(For::Child),
                Just(For::Other)
            ]
            .prop_map(Left::Waits),
        ];
        let waker = prop_oneof![
            task.clone().prop_map(Waker::Task),
            Just(Waker::Interrupt),
            Just(Waker::Timer),
            Just(Waker::SoftInterrupt),
            Just(Waker::Idle)
        ];
        prop_oneof![
            (cpu, any::<u128>()).prop_map(|(cpu, may)| What::Runs { cpu, may: CpuMask(may) }),
            left.prop_map(What::Leaves),
            waker.prop_map(What::Woken),
            (task, any::<u32>()).prop_map(|(parent, process)| What::Born { parent, process }),
            (any::<u64>(), any::<bool>())
                .prop_map(|(deadline_ns, as_length)| What::SleepsUntil { deadline_ns, as_length }),
            (
                LEAST_BUDGET_NS..=MOST_NS,
                LEAST_BUDGET_NS..=MOST_PERIOD_NS,
                any::<Option<u32>>(),
                any::<bool>()
            )
                .prop_map(|(quota_ns, period_ns, at, more)| What::Budget {
                    quota_ns,
                    period_ns,
                    filled_ns: at.map(|ns| u64::from(ns) % period_ns),
                    more,
                }),
            Just(What::Confines),
        ]
    }

    fn co_runner() -> impl Strategy<Value = CoRunner> {
        (".{0,9}", any::<u32>(), any::<[u64; 2]>()).prop_map(|(name, tasks, [ran_ns, waited_ns])| CoRunner {
            name,
            tasks,
            ran_ns,
            waited_ns,
        })
    }

    /// One or several windows of 1,000 ns.
    fn file() -> impl Strategy<Value = RunFile> {
        let event = (0..=1_000u64, any::<u32>(), what()).prop_map(|(t_ns, task, what)| Event {
            t_ns,
            task: TaskId(task),
            what,
        });
        let others = prop::collection::vec(co_runner(), 0..3);
        let window = (any::<u128>(), any::<u64>(), prop::collection::vec(event, 0..20), others);
        (".{0,20}", prop::collection::vec(window, 1..4)).prop_map(|(command, windows)| {
            let windows = windows.into_iter().zip(0..).map(|((cpus, lost, mut events, co_runners), n)| {
                let start_ns = 1_000 * n;
                events.iter_mut().for_each(|e: &mut Event| e.t_ns += start_ns);
                events.sort_by_key(|e| e.t_ns);
                let log = RunLog { cpus: CpuMask(cpus), start_ns, end_ns: start_ns + 1_000, lost, events };
                RunWindow { log, co_runners }
            });
            RunFile { command, windows: windows.collect() }
        })
    }

    /// As a recorder writes it: after each window of the run, the observation of all tenants.
    fn recorded(file: &RunFile, all: &[Vec<u8>]) -> Vec<u8> {
        let everybody = all.iter().map(|bytes| seen(bytes)).chain(std::iter::repeat(Vec::new()));
        let parts = file.windows.iter().map(window).zip(everybody).flat_map(|(w, s)| [w, s]);
        std::iter::once(header(&file.command)).chain(parts).chain([end()]).flatten().collect()
    }

    fn everybody() -> impl Strategy<Value = Vec<Vec<u8>>> {
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..4)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(file in file(), all in everybody()) {
            let whole = recorded(&file, &all);
            let all = &all[..all.len().min(file.windows.len())];
            let places = places_of_seen(&whole).unwrap();
            prop_assert!(places.into_iter().map(|place| &whole[place]).eq(all));
            prop_assert_eq!(read(&whole), Ok(file.clone()));
            prop_assert_eq!(read(&write(&file)), Ok(file));
        }

        #[test]
        fn one_byte_that_is_another_or_missing_is_noticed(
            file in file(), all in everybody(), at in any::<prop::sample::Index>(), by in 1..=255u8
        ) {
            let whole = recorded(&file, &all);
            let at = at.index(whole.len());
            let mut changed = whole.clone();
            changed[at] ^= by;
            for bytes in [&changed[..], &whole[..at]] {
                prop_assert!(read(bytes).is_err());
                prop_assert_eq!(places_of_seen(bytes).err(), read(bytes).err());
            }
        }

        #[test]
        fn nothing_that_is_read_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), is_ours in any::<bool>()) {
            let start = if is_ours { header("x") } else { Vec::new() };
            let bytes = [start, bytes].concat();
            prop_assert_eq!(places_of_seen(&bytes).err(), read(&bytes).err());
        }
    }

    #[test]
    fn observations_of_all_tenants_have_192_mib_and_the_rest_after_a_part_without_room_is_left_out() {
        let mib = |n: u64| n << 20;
        let mut room = Room::default();
        assert!(room.takes_bytes(mib(100)) && room.takes_bytes(mib(92)), "to the last byte");
        assert!(!room.takes_bytes(1));
        let mut room = Room::default();
        assert!(room.takes(&seen(b"a window")) && !room.takes_bytes(mib(192)));
        assert!(!room.takes(&seen(b"a window")), "there would be a gap before it");
    }

    #[test]
    fn a_refusal_gives_the_reason_and_a_remedy() {
        let log = |start_ns, end_ns| RunLog { start_ns, end_ns, ..RunLog::default() };
        let file = |windows: &[RunLog]| RunFile {
            windows: windows
                .iter()
                .map(|log| RunWindow { log: log.clone(), ..RunWindow::default() })
                .collect(),
            ..RunFile::default()
        };
        let say = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        let whole = write(&file(&[log(5, 9)]));
        assert!(read(&whole).is_ok());
        assert!(say(b"hello").contains("no recording"));
        let mut older = whole.clone();
        older[8] = 1;
        assert_eq!(
            say(&older),
            "this recording is of version 1, and this corun reads version 3; record it again"
        );
        let mut before = header("x");
        before.truncate(before.len() - 8);
        before[8] = 2;
        let before = [sealed(before), window(&RunWindow { log: log(5, 9), ..RunWindow::default() }), end()];
        assert_eq!(read(&before.concat()).unwrap().length_ns(), 4, "of the version before");
        assert!(say(&whole[..whole.len() - 1]).contains("ends early"));
        assert!(say(&[&whole[..], b"x"].concat()).contains("more than windows"));
        assert!(say(&write(&file(&[]))).contains("no window"));
        assert!(say(&write(&file(&[log(5, 9), log(10, 12)]))).contains("a window is missing"));
        assert!(say(&write(&file(&[log(9, 5)]))).contains("ends before it begins"));
        let event = |t_ns, what| Event { t_ns, task: TaskId(1), what };
        let with = |event| file(&[RunLog { events: vec![event], ..log(5, 9) }]);
        let early = event(4, What::Leaves(Left::Ended));
        assert!(say(&write(&with(early))).contains("not of its time"));
        let endless =
            event(6, What::Budget { quota_ns: 1, period_ns: u64::MAX, filled_ns: None, more: false });
        assert!(say(&write(&with(endless))).contains("no kernel gives"));
    }
}
