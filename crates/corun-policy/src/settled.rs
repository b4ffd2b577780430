//! The setting of each task, from window to window. Tasks come and go, and their numbers are used again.

use crate::scope::Scope;
use corun_model::observation::TaskObservation;
use corun_model::{Observation, TaskId};

/// One value per living task in scope.
#[derive(Clone, Debug)]
pub struct Settled<T> {
    /// In the order of ids, as observations have them.
    tasks: Vec<(TaskId, T)>,
}

impl<T> Default for Settled<T> {
    fn default() -> Settled<T> {
        Settled { tasks: Vec::new() }
    }
}

impl<T: Copy> Settled<T> {
    /// Calls `decide` for every living task in scope, with its setting (`None` for a new task). Keeps the results and forgets other
    /// tasks.
    pub fn follow(
        &mut self,
        seen: &Observation,
        scope: &Scope,
        mut decide: impl FnMut(&TaskObservation, Option<T>) -> T,
    ) {
        let covered = scope.covered(seen);
        let mut old = std::mem::take(&mut self.tasks).into_iter().peekable();
        let mut kept = Vec::with_capacity(seen.tasks.len());
        for task in seen.tasks.iter().filter(|t| t.alive && covered.contains(&t.tenant)) {
            while old.next_if(|o| o.0 < task.id).is_some() {}
            let known = old.next_if(|o| o.0 == task.id && task.born_ns <= seen.start_ns).map(|o| o.1);
            kept.push((task.id, decide(task, known)));
        }
        self.tasks = kept;
    }
}
