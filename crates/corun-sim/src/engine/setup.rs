//! The engine at time 0: its CPUs, and tenants that are about to start.

use super::account::{Distances, Occupancy, Tally};
use super::guest::Guest;
use super::noise::Noise;
use super::sync::SyncObject;
use super::timers::Timers;
use super::{Completions, Cpu, Doing, Engine, Pending, Slot, State, Task, TenantRun, Thread, Totals};
use crate::contention::{CharacterId, System, ONE};
use crate::cpu_set::CpuSet;
use crate::machine_file::MachineModel;
use crate::program::{Cursor, Plan, Shared};
use crate::sched::{CpuIx, Effects, Scheduler, TaskParams};
use crate::streams::Streams;
use corun_model::trace::Trace;
use corun_model::{Tenant, TenantId, TenantKind};
use std::rc::Rc;

/// A tenant, prepared for the engine.
#[derive(Clone, Debug)]
pub struct TenantSetup {
    /// Its name.
    pub name: String,
    /// When it starts.
    pub plan: Rc<Plan>,
    /// When it starts.
    pub start_ns: u64,
    /// It starts when this tenant has ended for the first time, or at `start_ns` if that is later.
    pub after: Option<usize>,
    /// It starts again whenever it ends.
    pub repeat: bool,
    /// The run does not wait for its end.
    pub background: bool,
    /// It runs in a VM with this many vCPUs.
    pub vcpus: Option<u32>,
    /// The scheduler's group.
    pub group: Option<usize>,
    /// CPUs to pin its tasks to, one each in turn. Empty: see `affinity`.
    pub pins: Vec<CpuIx>,
    /// CPUs that all its tasks may use; `None`: any.
    pub affinity: Option<Rc<CpuSet>>,
    /// CPUs that each single task may use; `None`: any. Empty: see `affinity`.
    pub affinities: Vec<Option<Rc<CpuSet>>>,
    /// SCHED_BATCH.
    pub batch: bool,
    /// Slices of its tasks: shortest and longest, in nanoseconds.
    pub slice_ns: Option<(u64, u64)>,
}

/// The parts of an engine.
pub struct Setup {
    /// The machine.
    pub model: Rc<MachineModel>,
    /// The scheduler, with its groups added and no task yet.
    pub scheduler: Box<dyn Scheduler>,
    /// Weights of the scheduler's groups, in the order in which they were added.
    pub weights: Vec<u32>,
    /// The tenants.
    pub tenants: Vec<TenantSetup>,
    /// Length of a guest's slice.
    pub guest_slice_ns: u64,
    /// The number of events that a trace may hold; 0: no trace.
    pub trace_limit: usize,
    /// The random streams.
    pub streams: Streams,
}

impl Engine {
    /// A machine at time 0 with its tenants about to start.
    pub fn new(setup: Setup) -> Engine {
        let Setup { model, scheduler, weights, tenants, guest_slice_ns, trace_limit, streams } = setup;
        let mut timers = Timers::default();
        let mut slots = Vec::new();
        fn slot(timers: &mut Timers, slots: &mut Vec<Slot>, what: Slot) -> u32 {
            slots.push(what);
            timers.add_slot()
        }
        let tick = slot(&mut timers, &mut slots, Slot::Tick);
        let contend = slot(&mut timers, &mut slots, Slot::Contention);
        let idle = tenants.len() as u32;
        let cpus: Vec<Cpu> = model
            .machine
            .cpus()
            .iter()
            .enumerate()
            .map(|(i, cpu)| Cpu {
                id: cpu.id,
                llc: cpu.llc,
                curr: None,
                since_ns: 0,
                rate: ONE,
                step: slot(&mut timers, &mut slots, Slot::Step(i)),
                resched: slot(&mut timers, &mut slots, Slot::Resched(i)),
                slice: slot(&mut timers, &mut slots, Slot::Slice(i)),
                delay: slot(&mut timers, &mut slots, Slot::Delay(i)),
                switched_in_ns: 0,
                busy_ns: 0,
                idle_ns: 0,
                occupancy: Occupancy::of(idle),
                dirty: false,
            })
            .collect();
        let noisy = if Noise::is_in(&model.costs) { cpus.len() } else { 0 };
        let noise = (0..noisy).map(|cpu| slot(&mut timers, &mut slots, Slot::Noise(cpu))).collect();
        let mut engine = Engine {
            now_ns: 0,
            noise: Noise::new(&streams, noise),
            timers,
            slots,
            tick,
            contend,
            contention: System::new(&model),
            busy: CpuSet::empty(cpus.len()),
            distances: Distances::of(&model.machine),
            notice_ns: model.latency.transfer_fixed_ns + model.latency.transfer_llc_ns,
            model,
            sched: scheduler,
            cpus,
            tasks: Vec::new(),
            threads: Vec::new(),
            tenants: Vec::new(),
            tenant_names: Vec::new(),
            weights_now: weights.clone(),
            weights,
            guest_slice_ns,
            fx: Effects::default(),
            rates: Vec::new(),
            dirty: Vec::new(),
            stirred: false,
            acting: None,
            window_ns: 0,
            master_ticks: 0,
            unfinished: tenants.iter().filter(|t| !t.background).count(),
            trace: (trace_limit > 0).then(Trace::default),
            trace_limit,
            totals: Totals::default(),
            fault: None,
            paranoid: cfg!(test),
        };
        tenants.into_iter().for_each(|t| engine.add_tenant(t));
        engine.tenant_names.push(Tenant {
            id: TenantId(idle),
            kind: TenantKind::Idle,
            key: "idle".into(),
            name: "idle".into(),
        });
        engine
    }

    pub(super) fn add_slot(&mut self, what: Slot) -> u32 {
        self.slots.push(what);
        self.timers.add_slot()
    }

    fn add_tenant(&mut self, setup: TenantSetup) {
        let ix = self.tenants.len();
        let plan = setup.plan.clone();
        let (first_task, first_thread) = (self.tasks.len(), self.threads.len());
        let threads = plan.threads as usize;
        let tasks = setup.vcpus.map_or(threads, |n| n as usize);
        for i in 0..tasks {
            let pin = (!setup.pins.is_empty()).then(|| setup.pins[i % setup.pins.len()]);
            let affinity = match pin {
                Some(cpu) => Some(Rc::new(CpuSet::of(self.cpus.len(), [cpu]))),
                None => match &setup.affinities[..] {
                    [] => setup.affinity.clone(),
                    own => own[i % own.len()].clone(),
                },
            };
            let name = match setup.vcpus {
                Some(_) => format!("vcpu-{i}"),
                None => format!("{}-{i}", plan.thread_name),
            };
            self.sched.add_task(&TaskParams {
                group: setup.group,
                weight: 1024,
                batch: setup.batch,
                slice_ns: setup.slice_ns,
                affinity: affinity.clone(),
            });
            self.tasks.push(Task {
                tenant: ix,
                name: name.into(),
                state: State::Unborn,
                since_ns: 0,
                born_ns: 0,
                cpu: 0,
                ran: false,
                queued: false,
                thread: setup.vcpus.is_none().then_some(first_thread + i),
                vcpu: setup.vcpus.is_some().then_some(i),
                wait_since_ns: 0,
                wait_mark: 0,
                tally: Tally::default(),
                counters: None,
                home_affinity: affinity.clone(),
                affinity,
                slice_ns: setup.slice_ns,
                preempt_delay_ns: 0,
            });
        }
        // Sharing groups are numbered consecutively over all tenants. A program that shares in pairs has one
        // for each pair.
        let program = self.tenants.last().map_or(0, |t| t.program + t.groups);
        let pair = |thread: usize| if plan.in_pairs { thread as u32 / 2 } else { 0 };
        let shares = plan.characters.iter().any(|c| c.coherence_pki > 0.0);
        let characters: Vec<CharacterId> =
            plan.characters.iter().map(|c| self.contention.character(c)).collect();
        for i in 0..threads {
            let wake = self.add_slot(Slot::Wake(first_thread + i));
            self.threads.push(Thread {
                tenant: ix,
                index: i as u32,
                cursor: Cursor::new(i as u32),
                task: first_task + i % tasks,
                doing: Doing::Ready,
                work: 0,
                more_ns: 0,
                share_ns: None,
                overhead_ns: 0,
                pending: Pending::Nothing,
                seen: 0,
                character: characters[0],
                program: program + pair(i),
                wake,
            });
        }
        let start = self.add_slot(Slot::Start(ix));
        let cut = self.add_slot(Slot::Cut(ix));
        if setup.after.is_none() {
            self.timers.arm(start, setup.start_ns);
        }
        self.tenant_names.push(Tenant {
            id: TenantId(ix as u32),
            kind: if setup.vcpus.is_some() { TenantKind::Vm } else { TenantKind::Command },
            key: format!("sim/{}", setup.name),
            name: setup.name.clone(),
        });
        self.tenants.push(TenantRun {
            first_task,
            tasks,
            first_thread,
            threads,
            guest: setup.vcpus.map(|n| Guest::new(n as usize)),
            objects: plan.objects.iter().map(|&o| SyncObject::new(o)).collect(),
            characters,
            shares,
            program,
            groups: pair(threads - 1) + 1,
            shared: Shared::new(plan.phases.len()),
            live_threads: 0,
            started: false,
            parked: false,
            started_ns: 0,
            phase: 0,
            phase_ns: 0,
            work_done: 0,
            completions: Completions::default(),
            start,
            cut,
            setup,
        });
    }
}
