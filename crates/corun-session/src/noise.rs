//! How noisy this machine is: what it takes now from a program that computes, and who takes it.
//!
//! Method: threads measure their losses ([`corun_linux::noise`]), while a watcher keeps their ledgers. Two
//! programs compute, one after the other: one thread that may use any CPU, as in a benchmark of one thread,
//! and one thread on each CPU. The first shows what is achievable here, since the kernel moves it away from
//! others if it can. The second shows the loss of each CPU, and of a program with as many threads as CPUs.
//!
//! Limits: those of [`corun_linux::noise`]. Without the probe no culprit is named. The kernel counts the time
//! of the hypervisor and of interrupts in ticks of 10 ms, over all CPUs.

mod summary;

use crate::error::Error;
use crate::stop::Stop;
use corun_linux::clock::now_ns;
use corun_linux::noise::{Spinners, Taken};
use corun_linux::probe::LiveOptions;
use corun_linux::schedstat_host::{Options, SchedstatHost};
use corun_linux::target::Subject;
use corun_linux::watcher::{no_ebpf, Source, WatchError, Watcher};
use corun_linux::Root;
use corun_model::observation::Account;
use corun_model::{CpuId, Host, Machine, Observation, TaskId, Tenant, TenantId, Unavailable, What, Why};
use std::collections::BTreeMap;

/// The length of a window: watching takes time from the program, and closing a window takes a millisecond.
const WINDOW_NS: u64 = 1_000_000_000;
/// How long one check for an end may wait.
const LOOK_NS: u64 = 100_000_000;

/// The result of a measurement.
pub struct Noise {
    /// The programs, in their order.
    pub programs: Vec<Program>,
    /// The source; `None`: only the gaps are known.
    pub source: Option<Source>,
    /// The machine's shape; `None` if it was not watched.
    pub machine: Option<Machine>,
    /// The unseen values, and why.
    pub missing: Vec<Unavailable>,
    /// Whether a stop was requested before it was over.
    pub is_interrupted: bool,
}

/// A program that computed, and its losses.
pub struct Program {
    /// Its threads.
    pub threads: Vec<Thread>,
    /// Who took how much of their time, in nanoseconds: tenants that were scheduled while they waited; an
    /// inner `None` is an unknown one.
    pub takers: BTreeMap<Option<TenantId>, u64>,
    /// The tenants that are named.
    pub tenants: Vec<Tenant>,
}

/// One of its threads.
pub struct Thread {
    /// The CPU that it was pinned to; `None`: not pinned.
    pub cpu: Option<CpuId>,
    /// Its losses.
    pub taken: Taken,
    /// Where its time went, according to its ledger; `None` if it was not watched.
    pub account: Option<Account>,
    /// What the hypervisor took from its CPU by its own account, in nanoseconds; `None` if it does not say,
    /// or the thread had no CPU of its own.
    pub host_steal_ns: Option<u64>,
}

/// How this machine is watched meanwhile.
enum Watch {
    Ebpf(Box<Watcher>),
    /// Only this process: reading everybody's `/proc` would disturb the measurement.
    Schedstat(Box<SchedstatHost>),
}

impl Watch {
    /// With the best source; also returns what that cannot see.
    fn start(wanted: Option<Source>) -> Result<(Option<Watch>, Vec<Unavailable>), Error> {
        let root = Root::new("/");
        let mut missing = Vec::new();
        if wanted != Some(Source::Schedstat) {
            let options = LiveOptions { watcher_apart: true, ..LiveOptions::new(Subject::All) };
            match Watcher::start(&root, options, Some(Source::Ebpf)) {
                Ok((watcher, lacks)) => return Ok((Some(Watch::Ebpf(Box::new(watcher))), lacks)),
                Err(error) if wanted.is_some() => return Err(error.into()),
                Err(error) => missing.push(no_culprits(&error)),
            }
        }
        let own = Subject::Processes { roots: vec![std::process::id()], name: "corun".into() };
        let options = Options { others: false, ..Options::new(own) };
        match SchedstatHost::new(options) {
            Ok(host) => Ok((Some(Watch::Schedstat(Box::new(host))), missing)),
            Err(error) if wanted.is_some() => Err(WatchError::Schedstat(error).into()),
            Err(error) => {
                missing.push(Unavailable::new(What::Other("schedstat".into()), Why::Said(error.to_string())));
                Ok((None, missing))
            }
        }
    }

    fn source(&self) -> Source {
        match self {
            Watch::Ebpf(_) => Source::Ebpf,
            Watch::Schedstat(_) => Source::Schedstat,
        }
    }

    fn host(&mut self) -> &mut dyn Host {
        match self {
            Watch::Ebpf(watcher) => watcher.as_mut(),
            Watch::Schedstat(host) => host.as_mut(),
        }
    }
}

fn no_culprits(error: &WatchError) -> Unavailable {
    match error {
        WatchError::Ebpf(why) => no_ebpf(why),
        other => Unavailable::new(What::Culprits, Why::Said(other.to_string())),
    }
}

impl Noise {
    /// Measures for this long in total.
    ///
    /// # Errors
    /// If no thread can be started, or the requested source is not available.
    pub fn measure(length_ns: u64, source: Option<Source>, stop: &Stop) -> Result<Noise, Error> {
        let (mut watch, mut missing) = stop.at_once(|| Watch::start(source))?;
        let failed = |error: std::io::Error| Error::Usage(format!("cannot measure noise: {error}"));
        let on_each = Spinners::on_each_cpu().map_err(failed)?;
        let kinds = match on_each.all.len() {
            1 => vec![on_each],
            _ => vec![Spinners::free().map_err(failed)?, on_each],
        };
        let each_ns = length_ns / kinds.len() as u64;
        let mut programs = Vec::new();
        for spinners in kinds {
            if stop.is_asked() {
                spinners.release();
                continue;
            }
            let seen = watched(&spinners, each_ns, watch.as_mut(), stop).inspect_err(|_| spinners.stop())?;
            let taken = spinners.taken().map_err(failed);
            let threads = spinners.all.iter().map(|s| (s.tid, s.cpu)).collect::<Vec<_>>();
            spinners.release();
            missing.extend(seen.iter().flat_map(|seen| seen.unavailable.clone()));
            programs.push(Program::new(&threads, taken?, seen));
        }
        missing.sort_by_key(|u| u.what.to_string());
        missing.dedup();
        Ok(Noise {
            programs,
            source: watch.as_ref().map(Watch::source),
            machine: watch.as_mut().map(|watch| watch.host().machine().clone()),
            missing,
            is_interrupted: stop.is_asked(),
        })
    }
}

/// Lets threads compute, and returns the observations meanwhile.
fn watched(
    spinners: &Spinners,
    length_ns: u64,
    watch: Option<&mut Watch>,
    stop: &Stop,
) -> Result<Option<Observation>, Error> {
    let mut watch = watch;
    let mut seen: Option<Observation> = None;
    if let Some(watch) = &mut watch {
        // Earlier time does not belong to this.
        watch.host().observe()?;
    }
    let end_ns = spinners.begin(length_ns);
    let mut due_ns = now_ns() + WINDOW_NS;
    loop {
        let left_ns = end_ns.saturating_sub(now_ns());
        match &mut watch {
            Some(watch) => watch.host().advance(left_ns.min(LOOK_NS))?,
            None => std::thread::sleep(std::time::Duration::from_nanos(left_ns.min(LOOK_NS))),
        }
        let is_over = now_ns() >= end_ns || stop.is_asked();
        if stop.is_asked() {
            spinners.stop();
        }
        if let Some(watch) = watch.as_mut().filter(|_| is_over || now_ns() >= due_ns) {
            let next = watch.host().observe()?;
            match &mut seen {
                Some(seen) => seen.extend(&next),
                None => seen = Some(next),
            }
            due_ns = now_ns() + WINDOW_NS;
        }
        if is_over {
            return Ok(seen);
        }
    }
}

impl Program {
    fn new(threads: &[(u32, Option<CpuId>)], taken: Vec<Taken>, seen: Option<Observation>) -> Program {
        let account = |tid: u32| {
            let task = seen.as_ref()?.tasks.iter().find(|task| task.id == TaskId(tid))?;
            Some((*task.account).clone())
        };
        let host_steal_ns = |cpu: CpuId| seen.as_ref()?.cpus.iter().find(|c| c.cpu == cpu)?.host_steal_ns;
        let threads: Vec<Thread> = threads
            .iter()
            .zip(taken)
            .map(|(&(tid, cpu), taken)| Thread {
                cpu,
                taken,
                account: account(tid),
                host_steal_ns: cpu.and_then(host_steal_ns),
            })
            .collect();
        let mut takers: BTreeMap<Option<TenantId>, u64> = BTreeMap::new();
        for account in threads.iter().filter_map(|thread| thread.account.as_ref()) {
            for share in account.culprits.shares() {
                *takers.entry(Some(share.tenant)).or_default() += share.steal_ns;
            }
            *takers.entry(None).or_default() += account.culprits.unattributed_ns();
        }
        takers.retain(|_, ns| *ns > 0);
        Program { threads, takers, tenants: seen.map_or_else(Vec::new, |seen| seen.tenants) }
    }
}
