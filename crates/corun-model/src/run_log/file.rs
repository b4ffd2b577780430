//! A run log as a file: `corun.run-log/1`.
//!
//! ```text
//! 8 bytes   "corunlog"
//! u32       version, 1
//! u32       length of the command's text
//! u128      the machine's CPUs, one bit each
//! u64 × 3   start, end, events lost
//! u64       number of events
//! text      the command, in UTF-8
//! 32 bytes  each event: time, who, a, b (see `RawEvent`)
//! u64       FNV-1a of all before
//! ```
//!
//! Numbers are little-endian. What is damaged or of another version is refused.

use super::{CpuMask, Event, RawEvent, RunLog, EVENT_BYTES};
use thiserror::Error;

const MAGIC: &[u8; 8] = b"corunlog";
const VERSION: u32 = 1;
const HEADER: usize = 8 + 4 + 4 + 16 + 3 * 8 + 8;

/// A file that is no run log, or not a whole one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// It begins otherwise.
    #[error("this is no run log of corun's: it does not begin with `corunlog`")]
    Other,
    /// It is of another version.
    #[error("this run log is of version {0}; this corun reads version {VERSION}: record it again")]
    Version(u32),
    /// It does not end where it says, or what it holds is not what was written.
    #[error("this run log is damaged: {0}; record it again")]
    Damaged(&'static str),
}

/// A log and what it is of, as bytes.
pub fn write(log: &RunLog, command: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + command.len() + EVENT_BYTES * log.events.len() + 8);
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend((command.len() as u32).to_le_bytes());
    out.extend(log.cpus.0.to_le_bytes());
    for n in [log.start_ns, log.end_ns, log.lost, log.events.len() as u64] {
        out.extend(n.to_le_bytes());
    }
    out.extend(command.as_bytes());
    for event in &log.events {
        let RawEvent { t_ns, who, a, b } = RawEvent::from(*event);
        for n in [t_ns, who, a, b] {
            out.extend(n.to_le_bytes());
        }
    }
    out.extend(sum(&out).to_le_bytes());
    out
}

/// Reads what [`fn@write`] wrote: the log, and the command that it is of.
///
/// # Errors
/// [`Refused`], as one sentence.
pub fn read(bytes: &[u8]) -> Result<(RunLog, String), Refused> {
    if !bytes.starts_with(MAGIC) {
        return Err(Refused::Other);
    }
    let short = Refused::Damaged("it ends early");
    let mut rest = Reader(&bytes[MAGIC.len()..]);
    let version = rest.u32().ok_or(short.clone())?;
    if version != VERSION {
        return Err(Refused::Version(version));
    }
    let header = (|| {
        let text = rest.u32()?;
        let cpus = u128::from(rest.u64()?) | u128::from(rest.u64()?) << 64;
        Some((text, cpus, rest.u64()?, rest.u64()?, rest.u64()?, rest.u64()?))
    })();
    let (text, cpus, start_ns, end_ns, lost, events) = header.ok_or(short.clone())?;
    let command = rest.take(text as usize).ok_or(short.clone())?;
    let length = usize::try_from(events).ok().and_then(|n| n.checked_mul(EVENT_BYTES));
    let mut body = Reader(length.and_then(|n| rest.take(n)).ok_or(short.clone())?);
    let told = rest.u64().ok_or(short)?;
    if !rest.0.is_empty() {
        return Err(Refused::Damaged("something follows its end"));
    }
    if told != sum(&bytes[..bytes.len() - 8]) {
        return Err(Refused::Damaged("its checksum is another"));
    }
    let command = std::str::from_utf8(command).map_err(|_| Refused::Damaged("its command is not UTF-8"))?;
    let mut found: Vec<Event> = Vec::with_capacity(body.0.len() / EVENT_BYTES);
    while let (Some(t_ns), Some(who), Some(a), Some(b)) = (body.u64(), body.u64(), body.u64(), body.u64()) {
        let event = RawEvent { t_ns, who, a, b }.read();
        found.push(event.ok_or(Refused::Damaged("it has an event of an unknown kind"))?);
    }
    if !found.is_sorted_by_key(|e| e.t_ns) {
        return Err(Refused::Damaged("its events are not in the order of time"));
    }
    let log = RunLog { cpus: CpuMask(cpus), start_ns, end_ns, lost, events: found };
    Ok((log, command.to_owned()))
}

/// FNV-1a: notices what disks and editors do to a file, not what an enemy does.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|b| u32::from_le_bytes(b.try_into().expect("four bytes")))
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8).map(|b| u64::from_le_bytes(b.try_into().expect("eight bytes")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::CpuId;
    use crate::run_log::{For, Left, Waker, What};
    use crate::tenant::TaskId;
    use proptest::prelude::*;

    fn what() -> impl Strategy<Value = What> {
        let cpu = (0..1u32 << 16).prop_map(CpuId);
        let task = any::<u32>().prop_map(TaskId);
        let left = prop_oneof![
            Just(Left::Preempted),
            Just(Left::Yielded),
            Just(Left::Ended),
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
            (any::<u64>(), any::<u64>())
                .prop_map(|(quota_ns, period_ns)| What::Budget { quota_ns, period_ns }),
            Just(What::Confines),
        ]
    }

    fn log() -> impl Strategy<Value = RunLog> {
        let event = (0..1u64 << 50, any::<u32>(), what()).prop_map(|(t_ns, task, what)| Event {
            t_ns,
            task: TaskId(task),
            what,
        });
        (any::<u128>(), any::<[u64; 3]>(), prop::collection::vec(event, 0..40)).prop_map(
            |(cpus, [start_ns, end_ns, lost], mut events)| {
                events.sort_by_key(|e| e.t_ns);
                RunLog { cpus: CpuMask(cpus), start_ns, end_ns, lost, events }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(log in log(), command in ".{0,20}") {
            prop_assert_eq!(read(&write(&log, &command)), Ok((log, command)));
        }

        #[test]
        fn one_byte_that_is_another_or_missing_is_noticed(log in log(), at in any::<prop::sample::Index>(), by in 1..=255u8) {
            let whole = write(&log, "solver");
            let at = at.index(whole.len());
            let mut changed = whole.clone();
            changed[at] ^= by;
            prop_assert!(read(&changed).is_err());
            prop_assert!(read(&whole[..at]).is_err());
        }

        #[test]
        fn nothing_that_is_read_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), is_ours in any::<bool>()) {
            let start: &[u8] = if is_ours { b"corunlog\x01\0\0\0" } else { b"" };
            let _ = read(&[start, &bytes].concat());
        }
    }

    #[test]
    fn what_is_refused_says_why_and_what_helps() {
        let whole = write(&RunLog::default(), "");
        let say = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert!(say(b"hello").contains("no run log"));
        let mut newer = whole.clone();
        newer[8] = 2;
        assert_eq!(say(&newer), "this run log is of version 2; this corun reads version 1: record it again");
        assert!(say(&whole[..whole.len() - 1]).contains("ends early"));
        assert!(say(&[&whole[..], b"x"].concat()).contains("something follows its end"));
    }
}
