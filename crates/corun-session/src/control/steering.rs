//! The executor of a policy's decisions: a backend, or nothing in a dry run.

use super::scope::Tenants;
use crate::error::Error;
use crate::local_host::LocalHost;
use crate::supervise;
use corun_linux::backend::{Backend, KnobSupport, Support};
use corun_linux::scx::{support, ScxBackend};
use corun_linux::steered::SteeredHost;
use corun_linux::stock::{self, StockBackend};
use corun_linux::watcher::Watcher;
use corun_linux::Root;
use corun_model::why::NoSchedExt;
use corun_model::{HostError, Knob, Notice, Policy};

/// The requested backend of decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// sched_ext if this kernel has it, otherwise stock knobs.
    #[default]
    Auto,
    /// sched_ext.
    SchedExt,
    /// What every kernel has.
    Stock,
}

/// Makes a host of a watcher; one that `acts` gets a backend that can carry out the policy's possible
/// decisions.
///
/// # Errors
/// If there is no such backend here.
pub fn steered(
    root: &Root,
    (tenants, protect): (&Tenants, &[String]),
    choice: Option<BackendChoice>,
    watcher: Watcher,
    policy: &dyn Policy,
    notices: &mut Vec<Notice>,
) -> Result<LocalHost, Error> {
    let Some(choice) = choice else { return Ok(LocalHost::Watched(Box::new(watcher))) };
    supervise::check()?;
    let scope = match tenants {
        Tenants::Everybody => stock::Scope::All,
        Tenants::Named(names) => stock::Scope::Only(names.clone()),
    };
    let options = stock::Options { scope, protect: protect.to_vec(), ..stock::Options::default() };
    let backend = backend(root, choice, options, policy, notices)?;
    let is_needed = |knob: Knob| policy.knobs().contains(&knob);
    let lacking: Vec<String> = backend
        .support()
        .into_iter()
        .filter(|s| is_needed(s.knob))
        .filter_map(|s| match s.support {
            Support::Yes { .. } => None,
            Support::No { why } => Some(format!("{}: {why}", s.knob.name())),
        })
        .collect();
    if !lacking.is_empty() {
        let what = lacking.join("; ");
        return Err(Error::Usage(format!("{} cannot be carried out here: {what}", policy.name())));
    }
    Ok(LocalHost::Steered(Box::new(SteeredHost::new(watcher, backend))))
}

/// The requested backend. If there is a choice, it reports why the better one is not available.
fn backend(
    root: &Root,
    choice: BackendChoice,
    options: stock::Options,
    policy: &dyn Policy,
    notices: &mut Vec<Notice>,
) -> Result<Box<dyn Backend>, Error> {
    // The reason why it cannot start is a sentence by itself.
    let usage = |e: HostError| match e {
        HostError::Failed { why, .. } => Error::Usage(why),
        e => Error::Usage(e.to_string()),
    };
    if choice == BackendChoice::SchedExt {
        support::check(root).map_err(|why| Error::NoSchedExt { why })?;
        let no = |said| Error::NoSchedExt { why: NoSchedExt::Failed { said } };
        let begun = ScxBackend::start(root, options).map_err(|e| match e {
            HostError::Failed { why, .. } => no(why),
            e => no(e.to_string()),
        });
        return Ok(Box::new(begun?));
    }
    if choice == BackendChoice::Auto && support::check(root).is_ok() && !policy.knobs().is_empty() {
        match ScxBackend::start(root, options.clone()) {
            Ok(backend) => return Ok(Box::new(backend)),
            Err(e) => {
                notices.push(Notice::NoSchedExt { why: NoSchedExt::Failed { said: e.to_string() } });
            }
        }
    }
    let mut backend = StockBackend::new(root, options);
    if !policy.knobs().is_empty() {
        backend.arm().map_err(usage)?;
        notices.extend(backend.not_real_time().cloned().map(|why| Notice::NotRealTime { why }));
    }
    Ok(Box::new(backend))
}

/// The effective value of stock knobs for a value that the policy may request, if it differs.
pub fn inexact_knobs(policy: &dyn Policy, host: &LocalHost) -> Vec<Notice> {
    let is_asked_for = |knob: Knob| policy.knobs().contains(&knob);
    let noticed = |s: KnobSupport| match s.support {
        Support::Yes { how } if is_asked_for(s.knob) && !how.is_exact() => {
            Some(Notice::InexactKnob { knob: s.knob, how })
        }
        _ => None,
    };
    host.support().into_iter().filter_map(noticed).collect()
}
