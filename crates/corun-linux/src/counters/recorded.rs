//! Counters written to a file and read back: JSON lines, so that counts of one machine can be examined on
//! another.
//!
//! The first line is `{"schema":"corun.counters/1", …}`. Each following line is a window with the counts of
//! its tasks and tenants. A task is identified by its number and birth, a tenant by its key, a window by its
//! two ends. So a recording belongs to the observations that it was made with. A counter that was not counted
//! is left out.

use corun_model::observation::{Account, Observation};
use corun_model::{Counter, CounterSource, Counters, TaskId, TenantId, Unavailable, What, Why};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use thiserror::Error;

/// A recording's description of itself in its first line.
pub const SCHEMA: &str = "corun.counters/1";

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    schema: String,
    /// The machine that counted, under a name for people.
    machine: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Window {
    start_ns: u64,
    end_ns: u64,
    tasks: Vec<Task>,
    tenants: Vec<Tenant>,
    unavailable: Vec<(String, String)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Task {
    id: u32,
    born_ns: u64,
    counters: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Tenant {
    key: String,
    counters: BTreeMap<String, u64>,
}

/// Writes down what another source counts.
#[derive(Debug)]
pub struct Recorder<S, W> {
    source: S,
    out: W,
    failed: Option<io::Error>,
}

impl<S: CounterSource, W: Write> Recorder<S, W> {
    /// Records `source`; `machine` is its name for people.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(source: S, machine: &str, mut out: W) -> io::Result<Recorder<S, W>> {
        let header = Header { schema: SCHEMA.into(), machine: machine.into() };
        writeln!(out, "{}", serde_json::to_string(&header)?)?;
        Ok(Recorder { source, out, failed: None })
    }

    /// Ends the recording and returns the source and the file.
    ///
    /// # Errors
    /// The first write error: everything after it was not written.
    pub fn finish(mut self) -> io::Result<(S, W)> {
        match self.failed {
            Some(e) => Err(e),
            None => {
                self.out.flush()?;
                Ok((self.source, self.out))
            }
        }
    }
}

impl<S: CounterSource, W: Write> CounterSource for Recorder<S, W> {
    fn follow(&mut self, tasks: &[TaskId]) {
        self.source.follow(tasks);
    }

    fn read(&mut self, seen: &mut Observation) {
        let known = seen.unavailable.len();
        self.source.read(seen);
        if self.failed.is_none() {
            let line = serde_json::to_string(&Window::of(seen, known)).map_err(io::Error::from);
            self.failed = line.and_then(|line| writeln!(self.out, "{line}")).err();
        }
    }
}

impl Window {
    /// The counts; of `unavailable` only what came after the first `known`.
    fn of(seen: &Observation, known: usize) -> Window {
        let tasks = seen
            .tasks
            .iter()
            .filter_map(|t| Some(Task { id: t.id.0, born_ns: t.born_ns, counters: counted(&t.account)? }));
        let tenants = seen.by_tenant.iter().filter_map(|t| {
            Some(Tenant { key: seen.tenant(t.id)?.key.clone(), counters: counted(&t.account)? })
        });
        let unavailable = seen.unavailable.iter().skip(known).map(|u| (u.what.name(), u.why.to_string()));
        Window {
            start_ns: seen.start_ns,
            end_ns: seen.end_ns,
            tasks: tasks.collect(),
            tenants: tenants.collect(),
            unavailable: unavailable.collect(),
        }
    }
}

fn counted(account: &Account) -> Option<BTreeMap<String, u64>> {
    let counters = account.counters.as_ref()?;
    let known = Counter::ALL.into_iter().filter_map(|c| Some((c.name().to_owned(), counters.get(c)?)));
    Some(known.collect())
}

/// A recording cannot be read.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// The file.
    #[error("line {line}: {source}")]
    Io {
        /// Which line.
        line: usize,
        /// What the system said.
        source: io::Error,
    },
    /// It is not a recording, or of another version.
    #[error("line 1 is not the beginning of a recording of counters (`{{\"schema\":\"{SCHEMA}\",…}}`)")]
    Schema,
    /// A line is no window.
    #[error("line {line} is not a window of counters: {source}")]
    Line {
        /// Which line.
        line: usize,
        /// The error.
        source: serde_json::Error,
    },
    /// A counter has a name that corun does not know.
    #[error("line {line}: there is no counter `{name}`")]
    Counter {
        /// Which line.
        line: usize,
        /// The name.
        name: String,
    },
}

/// A recording as a source: it adds the counters to the observations that they were made with.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    machine: String,
    windows: BTreeMap<(u64, u64), Counted>,
}

/// The counts of a window.
#[derive(Clone, Debug, Default)]
struct Counted {
    tasks: BTreeMap<(TaskId, u64), Counters>,
    tenants: BTreeMap<String, Counters>,
    unavailable: Vec<Unavailable>,
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// [`RecordingError`] names the line.
    pub fn read_from(file: impl BufRead) -> Result<Recording, RecordingError> {
        let mut recording = Recording::default();
        for (n, text) in file.lines().enumerate() {
            let line = n + 1;
            let text = text.map_err(|source| RecordingError::Io { line, source })?;
            if line == 1 {
                let header: Header = serde_json::from_str(&text).map_err(|_| RecordingError::Schema)?;
                if header.schema != SCHEMA {
                    return Err(RecordingError::Schema);
                }
                recording.machine = header.machine;
                continue;
            }
            let window: Window =
                serde_json::from_str(&text).map_err(|source| RecordingError::Line { line, source })?;
            let ends = (window.start_ns, window.end_ns);
            let counted = Counted::of(window).map_err(|name| RecordingError::Counter { line, name })?;
            recording.windows.insert(ends, counted);
        }
        if recording.machine.is_empty() && recording.windows.is_empty() {
            return Err(RecordingError::Schema);
        }
        Ok(recording)
    }

    /// The machine that counted.
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// How many windows were recorded.
    pub fn windows(&self) -> usize {
        self.windows.len()
    }
}

impl CounterSource for Recording {
    fn follow(&mut self, _tasks: &[TaskId]) {}

    fn read(&mut self, seen: &mut Observation) {
        let Some(counted) = self.windows.get(&(seen.start_ns, seen.end_ns)) else {
            seen.unavailable.push(Unavailable::new(What::HardwareCounters, Why::NoSuchWindow));
            return;
        };
        for task in &mut seen.tasks {
            task.set_counters(counted.tasks.get(&(task.id, task.born_ns)).copied());
        }
        let keys: BTreeMap<TenantId, &String> = seen.tenants.iter().map(|t| (t.id, &t.key)).collect();
        for tenant in &mut seen.by_tenant {
            tenant.account.counters = keys.get(&tenant.id).and_then(|key| counted.tenants.get(*key)).copied();
        }
        seen.unavailable.extend(counted.unavailable.iter().cloned());
    }
}

impl Counted {
    /// The error is the unknown name of a counter.
    fn of(window: Window) -> Result<Counted, String> {
        let mut counted = Counted::default();
        for task in window.tasks {
            counted.tasks.insert((TaskId(task.id), task.born_ns), counters(task.counters)?);
        }
        for tenant in window.tenants {
            counted.tenants.insert(tenant.key, counters(tenant.counters)?);
        }
        let unavailable = window.unavailable.into_iter();
        counted.unavailable =
            unavailable.map(|(what, why)| Unavailable::new(what.into(), why.into())).collect();
        Ok(counted)
    }
}

fn counters(known: BTreeMap<String, u64>) -> Result<Counters, String> {
    let mut counters = Counters::default();
    for (name, value) in known {
        match Counter::from_name(&name) {
            Some(counter) => counters.set(counter, Some(value)),
            None => return Err(name),
        }
    }
    Ok(counters)
}

#[cfg(test)]
mod tests;
