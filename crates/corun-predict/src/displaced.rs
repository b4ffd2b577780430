//! Other tasks of a program that suffer when co-runners take CPUs: siblings that queue for the rest, and siblings that wait meanwhile.

use crate::reach::Set;
use crate::useful_work::{Spent, Window};

impl Window {
    /// Finds how much co-runners took from each task and from its siblings.
    ///
    /// Siblings that queue behind each other could have had the CPUs that co-runners used in the meantime, if they may use them. That much of
    /// their queueing is stolen, too. As far as one can tell, tasks are displaced one at a time, so while one of them queues the others do
    /// not. Nobody knows when other steals were. Those of different tasks are assumed to be independent of each other; the shorter the
    /// windows are, the less that assumes.
    ///
    /// `apart_ns` is how long the kernel's own threads and corun itself had CPUs, summed. While a task waited for them, no co-runner had its
    /// CPU.
    pub(crate) fn see_siblings(&mut self, apart_ns: f64) {
        let wall_ns = self.wall_ns.max(1.0);
        let groups = self.reach.groups();
        let group_of: Vec<usize> =
            self.tasks.keys().map(|id| self.reach.group_of(&groups, Some(*id))).collect();
        let mut queued_ns = vec![0.0; groups.len()];
        let mut on_cpu_ns = vec![self.unlisted.on_cpu_ns(); groups.len()];
        let mut kept_apart_ns = vec![0.0; groups.len()];
        let waited_apart_ns = |s: &Spent| (s.other_ns - s.throttled_ns - s.held_ns).max(0.0);
        queued_ns[0] = self.unlisted.queued_ns;
        kept_apart_ns[0] = waited_apart_ns(&self.unlisted);
        for (group, s) in group_of.iter().zip(self.tasks.values()) {
            queued_ns[*group] += s.queued_ns;
            on_cpu_ns[*group] += s.on_cpu_ns();
            kept_apart_ns[*group] += waited_apart_ns(s);
        }
        let others_ns = |group: usize| {
            let own_ns = on_cpu_ns[group] + kept_apart_ns[group].min(apart_ns);
            self.corunners_on(&groups[group].cpus, own_ns)
        };
        let displaced: Vec<f64> = (0..groups.len())
            .map(|g| if queued_ns[g] > 0.0 { (others_ns(g) / queued_ns[g]).min(1.0) } else { 0.0 })
            .collect();
        // The product over the siblings is that over all tasks without the task's own factor, which may be zero.
        let free = |s: &Spent| (1.0 - s.stolen_ns / wall_ns).clamp(0.0, 1.0);
        let (mut product, mut zeros) = (1.0, 0);
        for f in self.tasks.values().map(free) {
            match f > 0.0 {
                true => product *= f,
                false => zeros += 1,
            }
        }
        for (&group, s) in group_of.iter().zip(self.tasks.values_mut()) {
            let own = free(s);
            let others_free = match (own > 0.0, zeros) {
                (true, 0) => product / own,
                (false, 1) => product,
                _ => 0.0,
            };
            let displaced_ns = displaced[group] * s.queued_ns;
            let others_displaced_ns = (displaced[group] * queued_ns[group] - displaced_ns).max(0.0);
            s.queued_ns -= displaced_ns;
            s.stolen_ns += displaced_ns;
            let there_ns = (s.life_ns - s.stolen_ns).max(0.0);
            s.beside_stolen_ns = (there_ns * (1.0 - others_free) + others_displaced_ns).min(there_ns);
        }
    }

    /// How long co-runners had these CPUs at most; the subject had them for `own_ns`.
    fn corunners_on(&self, cpus: &Set, own_ns: f64) -> f64 {
        let there_ns = self.reach.others_ns(cpus, own_ns);
        there_ns.map_or(self.corunners_ns, |ns| ns.min(self.corunners_ns))
    }

    /// How many CPUs the subject's tasks may use together, on average.
    pub fn cpus_in_reach(&self) -> f64 {
        self.reach.count(&self.reach.all(), self.wall_ns, self.cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach::{CpuSpent, Reach};
    use corun_model::TaskId;

    #[test]
    fn a_task_is_beside_a_stolen_sibling_while_it_is_not_stolen_from_itself() {
        let spent = |stolen_ns| Spent { life_ns: 100.0, stolen_ns, ..Spent::default() };
        let tasks = [(TaskId(1), spent(50.0)), (TaskId(2), spent(20.0))].into();
        let mut window = Window { wall_ns: 100.0, tasks, ..Window::default() };
        window.see_siblings(0.0);
        assert!((window.tasks[&TaskId(1)].beside_stolen_ns - 50.0 * 0.2).abs() < 1e-9);
        assert!((window.tasks[&TaskId(2)].beside_stolen_ns - 80.0 * 0.5).abs() < 1e-9);
    }

    #[test]
    fn queueing_behind_siblings_is_stolen_as_far_as_corunners_had_cpus() {
        let spent = |queued_ns| Spent { life_ns: 100.0, queued_ns, ..Spent::default() };
        let tasks = || [(TaskId(1), spent(40.0)), (TaskId(2), spent(0.0))].into();
        let mut alone = Window { wall_ns: 100.0, tasks: tasks(), ..Window::default() };
        alone.see_siblings(0.0);
        assert_eq!(alone.tasks[&TaskId(1)].stolen_ns, 0.0);
        let mut beside = Window { wall_ns: 100.0, tasks: tasks(), corunners_ns: 90.0, ..Window::default() };
        beside.see_siblings(0.0);
        assert_eq!(beside.tasks[&TaskId(1)].stolen_ns, 40.0);
        assert_eq!(beside.tasks[&TaskId(2)].beside_stolen_ns, 40.0);
    }

    #[test]
    fn what_corun_itself_took_of_a_queue_is_not_stolen_because_a_neighbour_has_another_cpu() {
        // Two tasks on the first of two CPUs, of which corun had a tenth, and a co-runner on the second.
        let spent = |queued_ns, other_ns| Spent {
            life_ns: 100.0,
            compute_ns: 45.0,
            queued_ns,
            other_ns,
            ..Spent::default()
        };
        let busy = |busy_ns| CpuSpent { on_ns: 100.0, busy_ns, most_on: 1.0 };
        let reach = || Reach {
            cpus: [(0, busy(100.0)), (1, busy(100.0))].into(),
            sets: vec![[0].into()],
            set_of: [(TaskId(1), 0), (TaskId(2), 0)].into(),
            ..Reach::default()
        };
        let stolen_ns = |apart_ns| {
            let tasks = [(TaskId(1), spent(45.0, 10.0)), (TaskId(2), spent(55.0, 0.0))].into();
            let mut window = Window {
                wall_ns: 100.0,
                cpus: 2,
                tasks,
                corunners_ns: 100.0,
                reach: reach(),
                ..Window::default()
            };
            window.see_siblings(apart_ns);
            window.tasks.values().map(|s| s.stolen_ns).sum::<f64>()
        };
        assert_eq!(stolen_ns(10.0), 0.0);
        assert!((stolen_ns(0.0) - 10.0).abs() < 1e-9, "had it not been corun's, it was a co-runner's");
    }
}
