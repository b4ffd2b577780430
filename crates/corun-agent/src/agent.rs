//! The agent: watches everybody, counts, keeps a ring, answers scrapers, and obeys its service manager. It
//! only observes.

use crate::config::{self, Config, Source};
use crate::exposition::{takes_gzip, Exposition, Format};
use crate::health::{Health, Part};
use crate::http::{self, Counts, Request, Response};
use crate::metrics::{Exports, Own};
use crate::otlp::target::{resource, Target};
use crate::otlp::{self, Exporter, Work};
use crate::privileges;
use crate::recorder::{run_of, Recorder};
use crate::ring::{oldest_ns, RingError};
use crate::totals::Totals;
use corun_linux::clock::{now_ns, now_unix_ns, process_cpu_ns};
use corun_linux::limits::{explained, start_thread};
use corun_linux::root::{in_words, Root};
use corun_linux::watcher;
use corun_model::{Observation, What};
use corun_report::doctor::{DoctorReport, RingFound};
use corun_session::watch::{Close, Watch, WatchOptions};
use corun_session::{Error, Stop};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;
use signal_hook::iterator::Signals;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error as ThisError;

/// Why an agent cannot start or go on.
#[derive(Debug, ThisError)]
pub enum AgentError {
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {}", why_not(source))]
    Listen {
        /// The address, as it was given.
        address: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// The machine cannot be watched.
    #[error(transparent)]
    Session(#[from] Error),
    /// The ring cannot be opened.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// Privileges cannot be dropped.
    #[error("{0}")]
    Privileges(String),
    /// The export is impossible.
    #[error("{0}")]
    Otlp(String),
    /// No more threads are possible, or no signal handlers.
    #[error("the agent cannot begin: {}", in_words(.0))]
    Begin(io::Error),
}

/// Why it is impossible to listen at an address, and the remedy.
fn why_not(e: &io::Error) -> String {
    let remedy = match e.kind() {
        io::ErrorKind::AddrInUse => "; stop the program that does, or choose another address",
        io::ErrorKind::AddrNotAvailable => "; choose an address of this machine",
        io::ErrorKind::PermissionDenied => "; choose a port from 1024 on",
        // A name without an address is an error without a number of the kernel's.
        _ if e.raw_os_error().is_none() => "; give an address of this machine, such as 127.0.0.1:9965",
        _ => "",
    };
    in_words(e) + remedy
}

impl AgentError {
    /// Whether the caller asked for something impossible.
    pub fn is_usage(&self) -> bool {
        match self {
            AgentError::Listen { .. } | AgentError::Otlp(_) => true,
            AgentError::Ring(e) => e.is_usage(),
            AgentError::Session(e) => e.is_usage(),
            _ => false,
        }
    }
}

/// What an agent needs from its caller.
pub struct Caller<'a> {
    /// Reads the configuration again.
    pub reload: &'a dyn Fn() -> Result<Config, String>,
    /// Prints a message for people.
    pub say: &'a dyn Fn(&str),
    /// Finds out what can be seen and done here; the argument says whether the probe is loaded.
    pub doctor: &'a dyn Fn(bool) -> DoctorReport,
}

/// How long a scraper that wants the present waits for it, once it is its turn.
const MOST_WAIT: Duration = Duration::from_secs(2);
/// Windows that are closed for such scrapers take at most one part in this many of a CPU.
const SHARE: u32 = 20;
/// The minimum pause before the next one may be closed, however cheap it is.
pub const LEAST_BETWEEN: Duration = Duration::from_millis(20);
/// How much later at most.
const MOST_BETWEEN: Duration = Duration::from_millis(250);

/// What the threads share.
struct Shared {
    totals: Arc<Mutex<Totals>>,
    counted: Condvar,
    close: Close,
    /// When a window was last closed for a scraper, and when the next one may be.
    asked: Mutex<Option<(Instant, Instant)>>,
    health: Mutex<Health>,
    ring: Mutex<Option<RingNow>>,
    connections: Arc<Counts>,
    /// The results of exports, if there are any.
    exports: Option<Arc<Mutex<Exports>>>,
    /// The messages of a thread for people.
    news: Mutex<Option<String>>,
    source: watcher::Source,
    doctor: DoctorReport,
    began_ns: u64,
}

/// The configured ring, and its state.
struct RingNow {
    of: config::Ring,
    /// Written and lost intervals, and its bytes; `None` if it could not be opened.
    counts: Option<(u64, u64, u64)>,
}

impl RingNow {
    fn new(config: &Config, recorder: Option<&Recorder>) -> Option<RingNow> {
        config.ring.clone().map(|of| RingNow { of, counts: recorder.map(Recorder::counts) })
    }
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// [`AgentError`]; nothing stays in the kernel.
pub fn run(config: Config, caller: &Caller) -> Result<(), AgentError> {
    let begin = |error| AgentError::Begin(explained(error));
    let is_loading = Arc::new(AtomicBool::new(true));
    for signal in [SIGTERM, SIGINT] {
        // Not the kernel's default, which does nothing to a container's first process. So it comes before
        // everything that takes time.
        register_conditional_shutdown(signal, 0, is_loading.clone()).map_err(begin)?;
    }
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(begin)?;
    let began_ns = now_ns();
    let target = target(&config)?;
    let listen = |source| AgentError::Listen { address: config.listen.clone(), source };
    let listener = TcpListener::bind(&*config.listen).map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let stop = Stop::new();
    let options = WatchOptions {
        source: wanted(config.source),
        window: Duration::from_nanos(config.window),
        max_tasks: config.max_tasks,
    };
    let mut watch = Watch::start(&options, &stop)?;
    let doctor = (caller.doctor)(watch.source() == watcher::Source::Ebpf);
    // On a busy machine that takes seconds, and leaves nothing behind.
    is_loading.store(false, Ordering::SeqCst);
    let mut recorder = open_ring(&config, &watch)?;
    privileges::drop_all_but_kept().map_err(AgentError::Privileges)?;
    // Threads come after that, since each has its own privileges.
    let shared = Arc::new(Shared {
        totals: Arc::new(Mutex::new(Totals::new(config.max_tenants))),
        counted: Condvar::new(),
        close: watch.close(),
        asked: Mutex::new(None),
        health: Mutex::new(Health::new(options.window)),
        ring: Mutex::new(RingNow::new(&config, recorder.as_ref())),
        connections: Arc::new(Counts::default()),
        exports: target.is_some().then(Arc::default),
        news: Mutex::new(None),
        source: watch.source(),
        doctor,
        began_ns,
    });
    let blind = watch.unavailable().iter().find(|u| matches!(u.what, What::Ebpf { .. }));
    let blind = blind.map(|u| format!("the occupants of the CPUs are not visible: {}", u.why));
    lock(&shared.health).set(Part::Culprits, blind.clone());
    let is_to_reload = Arc::new(AtomicBool::new(false));
    obey(signals, stop, is_to_reload.clone()).map_err(AgentError::Begin)?;
    let of_own = shared.clone();
    let exposition = Arc::new(Exposition::new(shared.totals.clone(), move || own(&of_own)));
    serve(listener, &shared, exposition.clone()).map_err(AgentError::Begin)?;
    let exporter = target.map(|target| export(target, exposition, &shared)).transpose();
    let exporter = exporter.map_err(AgentError::Begin)?;
    notify(&[NotifyState::Ready]);
    blind.iter().for_each(|why| (caller.say)(why));
    (caller.say)(&format!("metrics at http://{address}/metrics"));
    let mut config = config;
    while let Some(seen) = watch.next() {
        let seen = seen?;
        take(&shared, &seen, Duration::from_nanos(config.window));
        keep(&shared, recorder.as_mut(), caller, |recorder| recorder.push(&seen, now_unix_ns()));
        lock(&shared.news).take().iter().for_each(|news| (caller.say)(news));
        notify(&[NotifyState::Watchdog]);
        if is_to_reload.swap(false, Ordering::Relaxed) {
            reload(&mut config, &mut watch, &mut recorder, &shared, caller);
        }
    }
    notify(&[NotifyState::Stopping]);
    keep(&shared, recorder.as_mut(), caller, |recorder| recorder.flush(now_unix_ns()));
    drop(exporter);
    Ok(())
}

/// The destination of the metrics.
fn target(config: &Config) -> Result<Option<Target>, AgentError> {
    let Some(otlp) = &config.otlp else { return Ok(None) };
    let given = std::env::var_os("OTEL_RESOURCE_ATTRIBUTES");
    let given = given.as_ref().map(|text| text.to_string_lossy());
    let resource = resource(given.as_deref(), &Root::new("/")).map_err(AgentError::Otlp)?;
    otlp.target(resource).map(Some).map_err(|(_, what)| AgentError::Otlp(what))
}

fn export(target: Target, exposition: Arc<Exposition>, shared: &Arc<Shared>) -> io::Result<Exporter> {
    let counts = shared.exports.clone().unwrap_or_default();
    let shared = shared.clone();
    let url = target.url.clone();
    let tell = move |trouble: Option<String>| {
        let before = lock(&shared.health).set(Part::Otlp, trouble.clone());
        if before.is_some() != trouble.is_some() {
            *lock(&shared.news) = Some(trouble.unwrap_or_else(|| format!("metrics arrive at {url} again")));
        }
    };
    let ahead_ns = now_unix_ns().saturating_sub(now_ns());
    let (most_time, tell) = (otlp::MOST_TIME, Box::new(tell));
    Exporter::start(Work { target, exposition, counts, most_time, ahead_ns, tell })
}

fn wanted(source: Source) -> Option<watcher::Source> {
    match source {
        Source::Auto => None,
        Source::Ebpf => Some(watcher::Source::Ebpf),
        Source::Schedstat => Some(watcher::Source::Schedstat),
    }
}

fn open_ring(config: &Config, watch: &Watch) -> Result<Option<Recorder>, RingError> {
    let Some(ring) = &config.ring else { return Ok(None) };
    let run = run_of(watch.source(), watch.machine());
    Recorder::open(&ring.folder, ring.size, ring.interval, &run).map(Some)
}

/// SIGTERM and SIGINT end the session; SIGHUP makes it read the configuration again.
fn obey(mut signals: Signals, stop: Stop, is_to_reload: Arc<AtomicBool>) -> io::Result<()> {
    let wait = move || {
        for signal in &mut signals {
            match signal {
                SIGHUP => is_to_reload.store(true, Ordering::Relaxed),
                // After a second signal, an agent that hangs ends at once.
                _ if stop.is_urgent() => std::process::exit(128 + signal),
                _ => stop.stop(),
            }
        }
    };
    start_thread("corun-signals", wait).map(drop)
}

fn serve(listener: TcpListener, shared: &Arc<Shared>, exposition: Arc<Exposition>) -> io::Result<()> {
    let counts = shared.connections.clone();
    let shared = shared.clone();
    http::serve(listener, counts, move |request| answer(request, &shared, &exposition))
}

fn answer(request: &Request, shared: &Shared, exposition: &Exposition) -> Response {
    let now = Instant::now();
    match &*request.path {
        "/metrics" => {
            if request.query == "now" {
                count_until_now(shared);
            }
            let format = Format::accepted(&request.accept);
            let is_zipped = takes_gzip(&request.accept_encoding);
            Response {
                status: http::OK,
                content_type: format.content_type(),
                content_encoding: is_zipped.then_some("gzip"),
                body: if is_zipped { exposition.encode_zipped(format) } else { exposition.encode(format) },
            }
        }
        "/livez" => match lock(&shared.health).lives(now) {
            Ok(()) => Response::text(http::OK, "ok\n"),
            Err(why) => Response::text(http::UNAVAILABLE, why + "\n"),
        },
        "/readyz" => match lock(&shared.health).is_ready(now) {
            Ok(()) => Response::text(http::OK, "ok\n"),
            Err(reasons) => Response::text(http::UNAVAILABLE, reasons.join("\n") + "\n"),
        },
        "/doctor" => Response {
            status: http::OK,
            content_type: "application/json",
            content_encoding: None,
            body: vec![shared.doctor.json_of_agent(ring_found(shared).as_ref()).into_bytes().into()],
        },
        "/" => Response::text(http::OK, "/metrics\n/livez\n/readyz\n/doctor\n"),
        _ => Response::text(http::NOT_FOUND, "there are /metrics, /livez, /readyz and /doctor\n"),
    }
}

/// The ring as it is now.
fn ring_found(shared: &Shared) -> Option<RingFound> {
    let (of, counts) = lock(&shared.ring).as_ref().map(|ring| (ring.of.clone(), ring.counts))?;
    let why_not = lock(&shared.health).reason(Part::Ring).cloned();
    let oldest = oldest_ns(&of.folder).and_then(|ns| jiff::Timestamp::from_nanosecond(ns.into()).ok());
    Some(RingFound {
        folder: of.folder,
        most_bytes: of.size,
        used_bytes: counts.map(|(_, _, bytes)| bytes),
        oldest: oldest.map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        why_not,
    })
}

/// Closes the open window, and waits until it is counted. Requests that come while another one waits are
/// served together by the next close.
fn count_until_now(shared: &Shared) {
    let came = Instant::now();
    let mut asked = lock(&shared.asked);
    if asked.is_some_and(|(at, _)| at >= came) {
        return;
    }
    if let Some((_, next)) = *asked {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let totals = lock(&shared.totals);
    let (at, spent_ns) = (Instant::now(), process_cpu_ns());
    let before = totals.node.windows;
    shared.close.ask();
    let is_open = |totals: &mut Totals| totals.node.windows == before;
    let waited = shared.counted.wait_timeout_while(totals, MOST_WAIT, is_open);
    drop(waited.unwrap_or_else(PoisonError::into_inner));
    let took = Duration::from_nanos(process_cpu_ns().saturating_sub(spent_ns));
    *asked = Some((at, at + (took * SHARE).clamp(LEAST_BETWEEN, MOST_BETWEEN)));
}

fn own(shared: &Shared) -> Own {
    let connections = &shared.connections;
    Own {
        source: shared.source.name().into(),
        sees_culprits: shared.source == watcher::Source::Ebpf,
        is_ready: lock(&shared.health).is_ready(Instant::now()).is_ok(),
        ring: lock(&shared.ring).as_ref().and_then(|ring| ring.counts),
        otlp: shared.exports.as_ref().map(|exports| *lock(exports)),
        connections: (
            connections.refused.load(Ordering::Relaxed),
            connections.broken.load(Ordering::Relaxed),
        ),
        cpu_ns: process_cpu_ns(),
        began_ns: shared.began_ns,
    }
}

fn take(shared: &Shared, seen: &Observation, window: Duration) {
    let mut totals = lock(&shared.totals);
    totals.ahead_ns = now_unix_ns().saturating_sub(now_ns());
    totals.push(seen);
    drop(totals);
    shared.counted.notify_all();
    let untracked = seen.loss.untracked_tasks;
    let mut health = lock(&shared.health);
    health.window(Instant::now(), window);
    let why = || {
        format!("{untracked} tasks cannot be followed, there are too many; raise max-tasks and start again")
    };
    health.set(Part::Tasks, (untracked > 0).then(why));
}

/// Uses the ring; a failure degrades the agent until it works again.
fn keep(
    shared: &Shared,
    recorder: Option<&mut Recorder>,
    caller: &Caller,
    act: impl FnOnce(&mut Recorder) -> Result<(), RingError>,
) {
    let Some(recorder) = recorder else { return };
    let before = recorder.counts();
    let failed = act(recorder).err().map(|e| e.to_string());
    if recorder.counts() == before {
        return;
    }
    lock(&shared.ring).iter_mut().for_each(|ring| ring.counts = Some(recorder.counts()));
    if let Some(why) = &failed {
        (caller.say)(why);
    }
    lock(&shared.health).set(Part::Ring, failed);
}

fn reload(
    config: &mut Config,
    watch: &mut Watch,
    recorder: &mut Option<Recorder>,
    shared: &Shared,
    caller: &Caller,
) {
    if let Ok(monotonic) = NotifyState::monotonic_usec_now() {
        notify(&[NotifyState::Reloading, monotonic]);
    }
    let failed = match (caller.reload)() {
        Err(why) => Some(why),
        Ok(new) => {
            let fixed = |c: &Config| (c.listen.clone(), c.source, c.max_tasks, c.otlp.clone());
            let differs = fixed(&new) != fixed(&*config);
            watch.set_window(Duration::from_nanos(new.window));
            lock(&shared.totals).set_most(new.max_tenants);
            let failed = differs
                .then(|| "listen, source, max-tasks and otlp change when the agent starts again".to_owned());
            // If it could not be opened, it is tried once more.
            if new.ring != config.ring || new.ring.is_some() != recorder.is_some() {
                // The lock of the old one must be released first: it may be the same folder.
                keep(shared, recorder.as_mut(), caller, |recorder| recorder.flush(now_unix_ns()));
                *recorder = None;
                let opened = open_ring(&new, watch);
                let why_not = opened.as_ref().err().map(ToString::to_string);
                *recorder = opened.unwrap_or_default();
                why_not.iter().for_each(|why| (caller.say)(why));
                lock(&shared.health).set(Part::Ring, why_not);
                *lock(&shared.ring) = RingNow::new(&new, recorder.as_ref());
            }
            let (listen, source, max_tasks, otlp) = fixed(&*config);
            *config = Config { listen, source, max_tasks, otlp, ..new };
            failed
        }
    };
    lock(&shared.health).set(Part::Config, failed.clone());
    (caller.say)(failed.as_deref().unwrap_or("the configuration was read again"));
    notify(&[NotifyState::Ready]);
}

/// Notifies the service manager, if there is one.
fn notify(state: &[NotifyState]) {
    let _ = sd_notify::notify(state);
}

/// The data of a thread that panicked are still the newest.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
