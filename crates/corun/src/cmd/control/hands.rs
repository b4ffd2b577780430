//! What `corun control` hands its decisions to: a backend, or nobody in a dry run.

use super::{Args, BackendFlag};
use crate::course::{Course, Ended};
use crate::lines;
use crate::usage::Usage;
use corun_linux::backend::{Backend, KnobSupport, Support};
use corun_linux::scx::{support, ScxBackend};
use corun_linux::steered::SteeredHost;
use corun_linux::stock::{self, StockBackend};
use corun_linux::watcher::Watcher;
use corun_linux::Root;
use corun_model::{Host, HostError, Policy, Trace};
use std::time::Duration;

/// What the decisions of this run are handed to; checks that it can carry them out.
pub fn hands(root: &Root, args: &Args, watcher: Watcher, policy: &dyn Policy) -> anyhow::Result<Hands> {
    if args.dry_run {
        return Ok(Hands::None(Box::new(watcher)));
    }
    let options = stock::Options {
        scope: if args.all { stock::Scope::All } else { stock::Scope::Only(args.tenants.clone()) },
        protect: args.protect.clone(),
        ..stock::Options::default()
    };
    let backend = backend(root, args, options, policy)?;
    let lacking: Vec<String> = backend
        .support()
        .into_iter()
        .filter(|s| policy.knobs().contains(&s.knob))
        .filter_map(|s| match s.support {
            Support::Yes { .. } => None,
            Support::No { why } => Some(format!("{}: {why}", s.knob.name())),
        })
        .collect();
    if !lacking.is_empty() {
        let what = lacking.join("; ");
        return Err(Usage(format!("{} cannot be carried out here: {what}", policy.name())).into());
    }
    Ok(Hands::Steering(Box::new(SteeredHost::new(watcher, backend))))
}

/// The backend that was asked for. `auto` takes sched_ext where this kernel has it and stock knobs elsewhere, and says
/// why it could not have the first.
fn backend(
    root: &Root,
    args: &Args,
    options: stock::Options,
    policy: &dyn Policy,
) -> anyhow::Result<Box<dyn Backend>> {
    // Why it cannot be begun is a sentence by itself.
    let usage = |e: HostError| match e {
        HostError::Failed { why, .. } => anyhow::Error::from(Usage(why)),
        e => Usage(e.to_string()).into(),
    };
    if args.backend == BackendFlag::SchedExt {
        support::check(root).map_err(Usage)?;
        return Ok(Box::new(ScxBackend::start(root, options).map_err(usage)?));
    }
    if args.backend == BackendFlag::Auto && support::check(root).is_ok() && !policy.knobs().is_empty() {
        match ScxBackend::start(root, options.clone()) {
            Ok(backend) => return Ok(Box::new(backend)),
            Err(e) => lines::say(&format!("corun control: no sched_ext ({e}); using stock knobs")),
        }
    }
    let mut backend = StockBackend::new(root, options);
    if !policy.knobs().is_empty() {
        backend.arm().map_err(usage)?;
        if let Some(why) = backend.not_real_time() {
            lines::say(&format!(
                "corun control: it waits for a CPU like everybody else, so parking and thawing may take longer: {why}"
            ));
        }
    }
    Ok(Box::new(backend))
}

/// What decisions are handed to.
pub enum Hands {
    /// Nothing: a dry run.
    None(Box<Watcher>),
    /// A backend.
    Steering(Box<SteeredHost>),
}

impl Hands {
    pub fn host(&mut self) -> &mut dyn Host {
        match self {
            Hands::None(watcher) => watcher.as_mut(),
            Hands::Steering(host) => host.as_mut(),
        }
    }

    pub fn backend(&self) -> &'static str {
        match self {
            Hands::None(_) => "none",
            Hands::Steering(host) => host.backend(),
        }
    }

    /// What becomes of each knob; nothing in a dry run.
    pub fn support(&self) -> Vec<KnobSupport> {
        match self {
            Hands::None(_) => Vec::new(),
            Hands::Steering(host) => host.support(),
        }
    }

    pub fn watcher(&self) -> &Watcher {
        match self {
            Hands::None(watcher) => watcher,
            Hands::Steering(host) => host.watcher(),
        }
    }

    pub fn take_trace(&mut self) -> Trace {
        match self {
            Hands::None(watcher) => watcher.take_trace(),
            Hands::Steering(host) => host.take_trace(),
        }
    }

    pub fn undo_all(&mut self) -> Result<(), HostError> {
        match self {
            Hands::None(_) => Ok(()),
            Hands::Steering(host) => host.undo_all(),
        }
    }

    /// Lets an epoch pass, or less if something ends the run.
    pub fn wait(&mut self, course: &Course, ns: u64) -> anyhow::Result<Option<Ended>> {
        match self {
            Hands::None(watcher) => course.wait(watcher.as_mut(), Duration::from_nanos(ns)),
            Hands::Steering(host) => course.wait(host.as_mut(), Duration::from_nanos(ns)),
        }
    }
}
