//! What a verb that predicts sees: the watcher's observations, with spinning told from computing where this machine
//! lets.

use corun_linux::probe::LiveOptions;
use corun_linux::spin::{SpinOptions, SpinSampler};
use corun_linux::target::Subject;
use corun_linux::watcher::{Source, Watcher};
use corun_linux::Root;
use corun_model::observation::Unavailable;
use corun_model::{Host, Observation, TaskId, TenantId};

/// A watcher and a spin detector of one subject.
pub struct Insight {
    /// The watcher.
    pub watcher: Watcher,
    spin: Option<SpinSampler>,
    subject: TenantId,
    /// What cannot be seen here, and why.
    pub unavailable: Vec<Unavailable>,
}

impl Insight {
    /// Begins to watch. `first` are tasks that are there already, such as a command that is held.
    ///
    /// # Errors
    /// When the machine cannot be watched at all.
    pub fn start(
        root: &Root,
        subject: Subject,
        first: &[TaskId],
        source: Option<Source>,
        judge_spin: bool,
    ) -> anyhow::Result<Insight> {
        let (watcher, mut unavailable) = Watcher::start(root, LiveOptions::new(subject), source)?;
        let subject = watcher.subject().expect("a verb that predicts has one subject");
        let spin = match judge_spin.then(|| SpinSampler::start(root, SpinOptions::default())) {
            None => None,
            Some(Ok(mut sampler)) => {
                sampler.follow(first);
                Some(sampler)
            }
            Some(Err(e)) => {
                unavailable.push(e.unavailable());
                None
            }
        };
        Ok(Insight { watcher, spin, subject, unavailable })
    }

    /// The tenant that is watched.
    pub fn subject(&self) -> TenantId {
        self.subject
    }

    /// How spinning is told from computing, for a report.
    pub fn spin(&self) -> Option<String> {
        self.spin.is_some().then(|| "samples".to_owned())
    }

    /// What sampling has cost, as a share of one CPU.
    pub fn spin_cost(&self) -> Option<f64> {
        self.spin.as_ref().map(|s| s.cost().share())
    }

    /// Closes the window.
    ///
    /// # Errors
    /// When the machine can no longer be watched.
    pub fn observe(&mut self) -> anyhow::Result<Observation> {
        let mut seen = self.watcher.observe()?;
        if let Some(sampler) = &mut self.spin {
            seen.split_spin(&sampler.collect(&seen));
            seen.unavailable.retain(|u| u.what != "spin");
            let living: Vec<TaskId> =
                seen.tasks.iter().filter(|t| t.alive && t.tenant == self.subject).map(|t| t.id).collect();
            sampler.follow(&living);
        }
        Ok(seen)
    }
}
