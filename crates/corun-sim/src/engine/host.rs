//! The engine as a host: the five knobs. Each remembers its old value, so that it can be undone.
//!
//! `slice` is as exact as the scheduler below: EEVDF and CFS round it up to the tick, and Xen is exact.
//! `preempt_delay` is a timer for each CPU, as PACT'16 §5.1 adds one to Xen. Under EEVDF and CFS, a tick may
//! end the running task's slice before that.

use super::{Engine, Fault, State};
use crate::cpu_set::CpuSet;
use crate::sched::{CpuIx, TaskIx};
use corun_model::{Action, CpuId, Host, HostError, Machine, Observation, Outcome, Refusal, TaskId};
use std::rc::Rc;

impl Engine {
    fn find_task(&self, id: TaskId) -> Result<TaskIx, Refusal> {
        let ix = (id.0 as usize).wrapping_sub(1);
        let lives = self.tasks.get(ix).is_some_and(|t| t.state != State::Ended);
        lives.then_some(ix).ok_or(Refusal::NoTask(id))
    }

    fn find_cpus(&self, cpus: &[CpuId]) -> Result<CpuSet, Refusal> {
        if cpus.is_empty() {
            return Err(Refusal::NoCpu);
        }
        let place = |id: &CpuId| self.cpus.iter().position(|c| c.id == *id).ok_or(*id);
        let found: Result<Vec<CpuIx>, CpuId> = cpus.iter().map(place).collect();
        found
            .map(|members| CpuSet::of(self.cpus.len(), members))
            .map_err(|cpu| Refusal::CpuNotThere { cpu, online: self.cpus.iter().map(|c| c.id).collect() })
    }

    fn carry_out(&mut self, action: &Action) -> Result<(), Refusal> {
        match action {
            Action::Slice { task, min_ns, max_ns } => {
                let ix = self.find_task(*task)?;
                if *min_ns == 0 || min_ns > max_ns {
                    return Err(Refusal::Slice { min_ns: *min_ns, max_ns: *max_ns, bounds_ns: None });
                }
                self.sched.set_slice(ix, Some((*min_ns, *max_ns)));
            }
            Action::PreemptDelay { task, delay_ns } => {
                let ix = self.find_task(*task)?;
                self.tasks[ix].preempt_delay_ns = *delay_ns;
            }
            Action::Cpus { task, cpus } => {
                let ix = self.find_task(*task)?;
                let set = self.find_cpus(cpus)?;
                self.confine(ix, Some(Rc::new(set)));
            }
            Action::Park { tenant } | Action::Unpark { tenant } => {
                let ix = tenant.0 as usize;
                let Some(run) = self.tenants.get(ix) else {
                    return Err(Refusal::NoTenant(*tenant));
                };
                match (matches!(action, Action::Park { .. }), run.parked) {
                    (true, false) => self.park(ix),
                    (false, true) => self.unpark(ix),
                    _ => {}
                }
            }
            Action::Weight { tenant, weight } => {
                let Some(run) = self.tenants.get(tenant.0 as usize) else {
                    return Err(Refusal::NoTenant(*tenant));
                };
                if !(1..=10_000).contains(weight) {
                    return Err(Refusal::Weight(*weight));
                }
                let group = run.setup.group.ok_or(Refusal::NoGroup)?;
                self.weights_now[group] = *weight;
                self.sched.set_weight(self.now_ns, group, *weight);
            }
        }
        Ok(())
    }
}

impl From<Fault> for HostError {
    fn from(fault: Fault) -> HostError {
        HostError::Failed { what: "the modelled machine stopped".into(), why: fault.to_string() }
    }
}

impl Host for Engine {
    fn machine(&self) -> &Machine {
        &self.model.machine
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn advance(&mut self, ns: u64) -> Result<(), HostError> {
        Ok(self.run_until(self.now_ns + ns)?)
    }

    fn observe(&mut self) -> Result<Observation, HostError> {
        Ok(self.try_observe()?)
    }

    fn apply(&mut self, action: &Action) -> Outcome {
        self.carry_out(action).into()
    }

    fn undo_all(&mut self) -> Result<(), HostError> {
        for ix in 0..self.tasks.len() {
            let t = &mut self.tasks[ix];
            t.preempt_delay_ns = 0;
            let (slice_ns, home) = (t.slice_ns, t.home_affinity.clone());
            self.sched.set_slice(ix, slice_ns);
            if self.tasks[ix].affinity != home {
                self.confine(ix, home);
            }
        }
        for ix in 0..self.tenants.len() {
            if self.tenants[ix].parked {
                self.unpark(ix);
            }
            if let Some(group) = self.tenants[ix].setup.group {
                self.weights_now[group] = self.weights[group];
                self.sched.set_weight(self.now_ns, group, self.weights[group]);
            }
        }
        Ok(())
    }
}
