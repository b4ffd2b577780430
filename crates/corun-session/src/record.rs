//! Record: the events of a target and the CPU demand of others meanwhile, so that its run can be replayed.

use crate::end::{next_window, EndConditions, Ended};
use crate::error::Error;
use crate::replay::RECORD_BYTES;
use crate::stop::Stop;
use crate::target::{release, Target};
use corun_linux::launch::Running;
use corun_linux::probe::LiveOptions;
use corun_linux::target::Subject;
use corun_linux::watcher::{Source, Watcher};
use corun_linux::Root;
use corun_model::run_log::file::{CoRunner, RunWindow, MOST_EVENTS};
use corun_model::{Host, HostError, Machine, Observation, TenantId};
use std::collections::BTreeMap;
use std::time::Duration;

/// The length of a window: it bounds the memory for its events, and closing it costs about a millisecond of
/// CPU time.
const WINDOW: Duration = Duration::from_millis(250);

/// How long to record.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordOptions {
    /// End after this time, in nanoseconds; `None`: with the command, with the processes, or on request.
    pub length_ns: Option<u64>,
}

/// A window of a recording.
#[derive(Clone, Debug)]
pub struct RecordedWindow {
    /// The target's events and the CPU demand of others: the input of a replay.
    pub run: RunWindow,
    /// What everybody did.
    pub seen: Observation,
}

/// A recorded target: an iterator over its windows. Dropping it leaves nothing in the kernel; a command goes
/// on.
pub struct Record {
    watcher: Watcher,
    subject: TenantId,
    end: EndConditions,
    ended: Option<Ended>,
    description: String,
    events: u64,
}

impl Record {
    /// Starts recording, and lets a command begin. For a cgroup, its present processes are recorded and
    /// everything that they start.
    ///
    /// # Errors
    /// If there is no such target, its tasks cannot be recorded, or eBPF is not available. Then a command has
    /// not begun.
    pub fn start(target: &Target, options: &RecordOptions, stop: &Stop) -> Result<Record, Error> {
        let root = Root::new("/");
        let refused = || {
            let what = "what can be recorded is a command (-- CMD), processes (-p) or a cgroup; name one";
            Error::Usage(what.into())
        };
        if matches!(target, Target::Vm(_) | Target::Everybody) {
            return Err(refused());
        }
        let armed = target.arm(&root)?;
        let subject = match armed.subject {
            cgroup @ Subject::Cgroup { .. } => {
                let pids = cgroup.in_cgroup(&root)?.unwrap_or_default();
                if pids.is_empty() {
                    let what = format!("{} is empty; start its program first", armed.description);
                    return Err(Error::Usage(what));
                }
                Subject::processes(&root, &pids)?
            }
            Subject::Vm { .. } | Subject::All => return Err(refused()),
            subject => subject,
        };
        let live =
            LiveOptions { record_bytes: RECORD_BYTES, watcher_apart: true, ..LiveOptions::new(subject) };
        let (watcher, _) = stop.at_once(|| Watcher::start(&root, live, Some(Source::Ebpf)))?;
        let subject = watcher.subject().expect("processes are a subject");
        let running = armed.held.map(|held| release(held, stop)).transpose()?;
        let end_ns = options.length_ns.map(|ns| watcher.now_ns() + ns);
        Ok(Record {
            watcher,
            subject,
            end: EndConditions { running, end_ns, stop: stop.clone() },
            ended: None,
            description: armed.description,
            events: 0,
        })
    }

    /// The target in words.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// How it sees.
    pub fn source(&self) -> Source {
        self.watcher.source()
    }

    /// The machine's shape.
    pub fn machine(&self) -> &Machine {
        self.watcher.machine()
    }

    /// Why it ended; `None` while it goes on.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Returns the command, if there was one.
    pub fn finish(self) -> Option<Running> {
        self.end.running
    }

    fn window(&mut self) -> Result<RecordedWindow, HostError> {
        self.ended = self.end.wait(&mut self.watcher, WINDOW)?;
        let seen = self.watcher.observe()?;
        let log = self.watcher.take_run_log().unwrap_or_default();
        self.events += log.events.len() as u64;
        // A window more would not fit.
        if self.ended.is_none() && self.events > MOST_EVENTS - MOST_EVENTS / 16 {
            self.ended = Some(Ended::TimeIsUp);
        }
        let run = RunWindow { log, co_runners: co_runners(&seen, self.subject) };
        Ok(RecordedWindow { run, seen })
    }
}

impl Iterator for Record {
    type Item = Result<RecordedWindow, Error>;

    /// The next window; `None` once the recording has ended.
    fn next(&mut self) -> Option<Result<RecordedWindow, Error>> {
        next_window(self, |session| &mut session.ended, Record::window)
    }
}

/// The CPU demand of others in a window.
fn co_runners(seen: &Observation, subject: TenantId) -> Vec<CoRunner> {
    let mut found: BTreeMap<TenantId, (CoRunner, f64)> = BTreeMap::new();
    for task in seen.tasks.iter().filter(|t| seen.is_co_runner(subject, t.tenant)) {
        let (ran_ns, waited_ns) = (task.account.ledger.on_cpu_ns(), task.account.ledger.parts().steal_ns);
        if ran_ns + waited_ns == 0 {
            continue;
        }
        let (other, squares) = found.entry(task.tenant).or_default();
        (other.ran_ns, other.waited_ns) = (other.ran_ns + ran_ns, other.waited_ns + waited_ns);
        *squares += ((ran_ns + waited_ns) as f64).powi(2);
    }
    let named = found.into_iter().map(|(id, (other, squares))| {
        let name = seen.tenant(id).map_or_else(|| "others".to_owned(), |t| t.name.to_string());
        // The number of equal demands with this sum and this sum of squares (Kish's effective size).
        let tasks = ((other.ran_ns + other.waited_ns) as f64).powi(2) / squares;
        CoRunner { name, tasks: tasks.round() as u32, ..other }
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_tasks_of_its_own_is_refused_with_the_possible_ones() {
        let refused =
            Record::start(&Target::Everybody, &RecordOptions::default(), &Stop::new()).err().unwrap();
        assert!(refused.is_usage() && refused.to_string().contains("-- CMD"), "{refused}");
    }
}
