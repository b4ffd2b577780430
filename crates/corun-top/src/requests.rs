//! Requests of the user: a report of a window, a trace of the time to come, or its longest waits. Files go to
//! the folder that corun was started in.

use crate::app::{App, Screen};
use crate::event::Event;
use crate::live::Began;
use corun_linux::limits::start_thread;
use corun_model::count::thousands;
use corun_model::duration::human_ns;
use corun_report::output::write_file;
use corun_report::{html, one_line, perfetto, Host, ProfileMeta, ProfileReport, Subject};
use corun_session::{Profile, ProfileOptions, Stop, Target};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

/// How long a trace is.
pub const TRACE_NS: u64 = 5_000_000_000;
/// Waits in a report.
const WORST: usize = 5;
/// The longest waits of everybody, among which are those of one tenant.
const WORST_OF_ALL: usize = 1_000;

/// Writes the displayed window as a page: about the displayed tenant, or about everybody. Returns its path,
/// or why it failed.
pub fn save(app: &App, began: &Began, folder: &Path) -> String {
    let Some(snapshot) = app.shown() else { return "there is no window yet".to_owned() };
    let subject = match app.screen() {
        Screen::Tenant { id, .. } => Subject::Tenant(*id),
        _ => Subject::All,
    };
    let target = match subject {
        Subject::Tenant(id) => snapshot.name(id).to_owned(),
        Subject::All => app.facts.target.clone(),
    };
    let machine = began.machine.clone();
    let meta = ProfileMeta {
        date: Some(snapshot.date.clone()),
        ..ProfileMeta::of_described(Host::Live, began.source, target, machine, began.cpus)
    };
    let page = html::render(&ProfileReport::new(&meta, &snapshot.seen, subject, &[]));
    written(&free_place(folder, &snapshot.date, "html"), page.as_bytes())
}

/// Traces everybody for a while, or until it is stopped, in a thread of its own; the result is sent.
///
/// # Errors
/// If no more threads can be started.
pub fn trace(
    began: &Began,
    now: String,
    folder: PathBuf,
    stop: Stop,
    to: Sender<Event>,
) -> io::Result<JoinHandle<()>> {
    let source = began.source;
    start_thread("corun-trace", move || {
        let said = match source {
            corun_report::Source::Ebpf => traced(&now, &folder, &stop),
            _ => "a trace needs eBPF; `corun doctor` says what would help".to_owned(),
        };
        // Nobody looks any more.
        let _ = to.send(Event::Said(said));
    })
}

fn traced(now: &str, folder: &Path, stop: &Stop) -> String {
    let options = ProfileOptions { trace: true, length_ns: Some(TRACE_NS), ..ProfileOptions::default() };
    let seen = Profile::start(&Target::Everybody, &options, stop).and_then(|mut profile| {
        profile.try_for_each(|window| window.map(drop))?;
        profile.finish()
    });
    match seen {
        Ok(seen) => {
            let bytes = perfetto::encode(seen.trace.trace(), seen.recording.timeline(), Subject::All);
            written(&free_place(folder, now, "perfetto-trace"), &bytes)
        }
        Err(error) => one_line(&format!("no trace: {error}")),
    }
}

/// Whose waits are requested: the key of the displayed tenant; `None`: everybody's.
pub fn whose(app: &App) -> Option<String> {
    let Screen::Tenant { id, .. } = app.screen() else { return None };
    app.shown()?.seen.tenant(*id).map(|tenant| tenant.key.clone())
}

/// Finds the longest waits of a while, or until it is stopped, in a thread of its own; the result is sent.
///
/// # Errors
/// If no more threads can be started.
pub fn worst(
    began: &Began,
    whose: Option<String>,
    now: String,
    folder: PathBuf,
    stop: Stop,
    to: Sender<Event>,
) -> io::Result<JoinHandle<()>> {
    let began = began.clone();
    start_thread("corun-worst", move || {
        let said = match began.source {
            corun_report::Source::Ebpf => waits(&began, whose.as_deref(), &now, &folder, &stop),
            _ => "single waits need eBPF; `corun doctor` says what would help".to_owned(),
        };
        // Nobody looks any more.
        let _ = to.send(Event::Said(said));
    })
}

/// Writes a report with the longest waits, and returns the longest one and the path.
fn waits(began: &Began, whose: Option<&str>, now: &str, folder: &Path, stop: &Stop) -> String {
    let kept = if whose.is_some() { WORST_OF_ALL } else { WORST };
    let options =
        ProfileOptions { worst: Some(kept), length_ns: Some(TRACE_NS), ..ProfileOptions::default() };
    let seen = Profile::start(&Target::Everybody, &options, stop).and_then(|mut profile| {
        profile.try_for_each(|window| window.map(drop))?;
        profile.finish()
    });
    let mut seen = match seen {
        Ok(seen) => seen,
        Err(error) => return one_line(&format!("no waits: {error}")),
    };
    let mut worst = seen.worst.take().unwrap_or_default();
    let mut subject = Subject::All;
    let mut target = began.facts.target.clone();
    if let Some(key) = whose {
        let Some(tenant) = seen.whole.tenants.iter().find(|tenant| tenant.key == key) else {
            return "this tenant did nothing meanwhile".to_owned();
        };
        (subject, target) = (Subject::Tenant(tenant.id), tenant.name.clone());
        let is_its = |task| seen.whole.tasks.iter().any(|t| t.id == task && t.tenant == tenant.id);
        worst.retain(|wait| is_its(wait.task));
    }
    worst.truncate(WORST);
    let Some(longest) = worst.first() else {
        return format!("none of the {} longest waits was its", thousands(WORST_OF_ALL as u64));
    };
    let longest = format!("{} ({}) waited {}", longest.name, longest.task.0, human_ns(longest.ns()));
    let machine = began.machine.clone();
    let meta = ProfileMeta {
        date: Some(now.to_owned()),
        trace_lost: Some(seen.trace_lost),
        worst_waits: Some(worst),
        ..ProfileMeta::of_described(Host::Live, began.source, target, machine, began.cpus)
    };
    let page = html::render(&ProfileReport::new(&meta, &seen.whole, subject, seen.recording.timeline()));
    one_line(&format!("{longest}; {}", written(&free_place(folder, now, "html"), page.as_bytes())))
}

/// A name that no file has yet.
fn free_place(folder: &Path, date: &str, ending: &str) -> PathBuf {
    let date: String = date.chars().take(19).map(|c| if c.is_ascii_digit() { c } else { '-' }).collect();
    let name = |n: u32| match n {
        0 => format!("corun-top-{date}.{ending}"),
        n => format!("corun-top-{date}-{n}.{ending}"),
    };
    let free = |n: &u32| !folder.join(name(*n)).exists();
    folder.join(name((0..1_000).find(free).unwrap_or(1_000)))
}

fn written(path: &Path, bytes: &[u8]) -> String {
    match write_file(path, bytes) {
        Ok(()) => one_line(&format!("wrote {}", path.display())),
        Err(error) => one_line(&error.to_string()),
    }
}

/// The message while waits are looked for.
pub fn looking() -> String {
    format!("looking for the longest waits for {} …", human_ns(TRACE_NS))
}

/// The message while a trace is taken.
pub fn tracing() -> String {
    format!("tracing everybody for {} …", human_ns(TRACE_NS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_overwritten_and_a_date_makes_a_plain_name() {
        let folder = std::env::temp_dir().join(format!("corun-top-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let first = free_place(&folder, "2026-11-26 14:03:22 UTC", "html");
        assert_eq!(first.file_name().unwrap(), "corun-top-2026-11-26-14-03-22.html");
        std::fs::write(&first, "").unwrap();
        let second = free_place(&folder, "2026-11-26 14:03:22 UTC", "html");
        assert_eq!(second.file_name().unwrap(), "corun-top-2026-11-26-14-03-22-1.html");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
