//! Checkers find their faults: these tests give the engine schedulers that break the rules.

use corun_model::workload::Workload;
use corun_model::Machine;
use corun_sim::cpu_set::CpuSet;
use corun_sim::engine::{Engine, Fault, Setup, TenantSetup};
use corun_sim::machine_file::MachineModel;
use corun_sim::program::Plan;
use corun_sim::sched::{CpuIx, Eevdf, Effects, FairOptions, Pick, Scheduler, TaskIx, TaskParams, Wake};
use corun_sim::streams::Streams;
use std::rc::Rc;

/// The misbehavior of a scheduler.
#[derive(Clone, Copy, PartialEq)]
enum Breach {
    /// It ignores where a task may run.
    IgnoresAffinity,
    /// It reports a wrong queue for a task.
    LosesTasks,
}

/// EEVDF, except for one rule.
struct Broken(Eevdf, Breach);

impl Scheduler for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }
    fn add_task(&mut self, params: &TaskParams) {
        let mut params = params.clone();
        if self.1 == Breach::IgnoresAffinity {
            params.affinity = None;
        }
        self.0.add_task(&params);
    }
    fn add_group(&mut self, weight: u32) {
        self.0.add_group(weight);
    }
    fn wake(&mut self, now_ns: u64, task: TaskIx, how: Wake, fx: &mut Effects) -> CpuIx {
        self.0.wake(now_ns, task, how, fx)
    }
    fn block(&mut self, now_ns: u64, cpu: CpuIx, for_good: bool) {
        self.0.block(now_ns, cpu, for_good);
    }
    fn remove(&mut self, now_ns: u64, task: TaskIx) {
        self.0.remove(now_ns, task);
    }
    fn pick(&mut self, now_ns: u64, cpu: CpuIx, fx: &mut Effects) -> Pick {
        self.0.pick(now_ns, cpu, fx)
    }
    fn tick(&mut self, now_ns: u64, cpu: CpuIx, fx: &mut Effects) {
        self.0.tick(now_ns, cpu, fx);
    }
    fn tick_ns(&self) -> u64 {
        self.0.tick_ns()
    }
    fn set_slice(&mut self, task: TaskIx, bounds_ns: Option<(u64, u64)>) {
        self.0.set_slice(task, bounds_ns);
    }
    fn set_affinity(&mut self, task: TaskIx, affinity: Option<Rc<CpuSet>>) {
        self.0.set_affinity(task, affinity);
    }
    fn set_weight(&mut self, now_ns: u64, group: usize, weight: u32) {
        self.0.set_weight(now_ns, group, weight);
    }
    fn queued_on(&self, task: TaskIx) -> Option<CpuIx> {
        match self.1 {
            Breach::LosesTasks => None,
            Breach::IgnoresAffinity => self.0.queued_on(task),
        }
    }
}

fn fault_of(how: Breach) -> Fault {
    let machine = Machine::synthetic(1, 1, 2, 1);
    let model = Rc::new(MachineModel::of(machine.clone()));
    let text = "schema = \"corun.workload/1\"\nname = \"w\"\n[program]\nkind = \"parallel\"\nthreads = 4\nsync = \"none\"\niterations = 9\n";
    let plan = Plan::of(&Workload::parse("w.toml", text).unwrap(), &model, 0).unwrap();
    let tenant = TenantSetup {
        affinities: Vec::new(),
        name: "w".into(),
        plan: Rc::new(plan),
        start_ns: 0,
        after: None,
        repeat: false,
        background: false,
        vcpus: None,
        group: None,
        pins: vec![1],
        affinity: None,
        batch: false,
        slice_ns: None,
    };
    let eevdf = Eevdf::new(&machine, FairOptions::default(), None, &Streams::new(1));
    let mut engine = Engine::new(Setup {
        model,
        scheduler: Box::new(Broken(eevdf, how)),
        weights: vec![],
        tenants: vec![tenant],
        guest_slice_ns: 6_000_000,
        trace_limit: 0,
        streams: Streams::new(1),
    });
    engine.paranoid = true;
    engine.run_to_end(1_000_000_000).expect_err("a checker fires")
}

#[test]
fn a_scheduler_that_ignores_affinity_is_caught_at_the_dispatch() {
    let said = fault_of(Breach::IgnoresAffinity).to_string();
    assert!(said.starts_with("checker affinity: task free-") && said.contains("forbidden"), "{said}");
}

#[test]
fn a_scheduler_that_loses_tasks_is_caught_at_the_next_event() {
    let said = fault_of(Breach::LosesTasks).to_string();
    assert!(said.starts_with("checker queues: task free-"), "{said}");
}
