//! The programs and the machine on which the examples judge policies.

use corun_model::workload::draw::bits;
use corun_model::{Ledger, Machine, Observation};
use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::Files;
use std::sync::Arc;

const MS: u64 = 1_000_000;

/// Name, number of laps through its phases, and the phases, as in a workload file for two CPUs.
pub type Program = (&'static str, usize, &'static str);

/// Programs by name. A program with several phases goes through them as often as given, and then ends.
#[rustfmt::skip]
pub const WAIT_FOR_EACH_OTHER: &[Program] = &[
    ("barrier spin 0.3 ms", 1, r#"{ wait = "spin", grain = "300us", imbalance = 0.1, iterations = 13000 },"#),
    ("barrier spin 1 ms", 1, r#"{ wait = "spin", grain = "1ms", imbalance = 0.3, iterations = 3600 },"#),
    ("barrier spin 3 ms", 1, r#"{ wait = "spin", grain = "3ms", imbalance = 0.3, iterations = 1200 },"#),
    ("barrier spin 10 ms", 1, r#"{ wait = "spin", grain = "10ms", imbalance = 0.3, iterations = 360 },"#),
    ("barrier spin-block 1 ms", 1, r#"{ wait = "spin-then-block", grain = "1ms", imbalance = 0.2, iterations = 3600 },"#),
    ("barrier block 0.3 ms", 1, r#"{ wait = "block", grain = "300us", imbalance = 0.1, iterations = 13000 },"#),
    ("barrier block 1 ms", 1, r#"{ wait = "block", grain = "1ms", imbalance = 0.3, iterations = 3600 },"#),
    ("barrier block 5 ms", 1, r#"{ wait = "block", grain = "5ms", imbalance = 0.3, iterations = 700 },"#),
    ("wavefront spin 0.3 ms", 1, r#"{ sync = "pipeline", wait = "spin", grain = "300us", imbalance = 0.3, iterations = 12000 },"#),
    ("lock spin 0.2 ms", 1, r#"{ sync = "lock", wait = "spin", grain = "200us", critical = 0.4, imbalance = 0.3, iterations = 16000 },"#),
    ("reads alone, then barriers", 1, r#"
        { threads = 1, sync = "none", grain = "10ms", iterations = 40 },
        { wait = "spin", grain = "500us", imbalance = 0.2, iterations = 6500 },"#),
    ("starts slowly, then barriers", 1, r#"
        { threads = 1, sync = "none", grain = "3ms", sleep = "5ms", iterations = 60 },
        { wait = "spin", grain = "100us", imbalance = 0.2, iterations = 30000 },"#),
    ("regions and serial parts", 60, r#"
        { wait = "spin", grain = "2ms", imbalance = 0.3, iterations = 20 },
        { threads = 1, sync = "none", grain = "1ms", iterations = 15 },"#),
    ("lengths that change, spin", 9, r#"
        { wait = "spin", grain = "12ms", imbalance = 0.3, iterations = 12 },
        { wait = "spin", grain = "4ms", imbalance = 0.3, iterations = 30 },
        { wait = "spin", grain = "1ms", imbalance = 0.3, iterations = 60 },
        { wait = "spin", grain = "200us", imbalance = 0.3, iterations = 200 },"#),
    ("lengths that change, block", 9, r#"
        { wait = "block", grain = "12ms", imbalance = 0.3, iterations = 12 },
        { wait = "block", grain = "4ms", imbalance = 0.3, iterations = 30 },
        { wait = "block", grain = "1ms", imbalance = 0.3, iterations = 60 },
        { wait = "block", grain = "200us", imbalance = 0.3, iterations = 200 },"#),
    ("by turns of 0.2 s", 10, r#"
        { sync = "none", grain = "10ms", iterations = 20 },
        { wait = "spin", grain = "1ms", imbalance = 0.3, iterations = 180 },"#),
    ("by turns of 0.5 s", 4, r#"
        { sync = "none", grain = "10ms", iterations = 50 },
        { wait = "spin", grain = "1ms", imbalance = 0.3, iterations = 450 },"#),
    ("by turns of 0.3 s, coarse", 8, r#"
        { sync = "none", grain = "10ms", iterations = 30 },
        { wait = "block", grain = "15ms", imbalance = 0.5, iterations = 15 },"#),
    ("barriers, then a device", 1, r#"
        { wait = "spin", grain = "500us", imbalance = 0.2, iterations = 1500 },
        { sync = "steal", wait = "block", grain = "2ms", imbalance = 0.5, io = "1ms", iterations = 2000 },"#),
    ("a device, then barriers", 1, r#"
        { sync = "steal", wait = "block", grain = "2ms", imbalance = 0.5, io = "1ms", iterations = 1300 },
        { wait = "spin", grain = "500us", imbalance = 0.2, iterations = 3500 },"#),
];

/// Programs that lose little by sharing, or nothing.
#[rustfmt::skip]
pub const NEED_NO_HELP: &[Program] = &[
    ("independent threads", 1, r#"{ sync = "none", grain = "10ms", iterations = 400 },"#),
    ("frames, as x264", 1, r#"{ threads = 3, sync = "pipeline", stages = 3, wait = "block", grain = "4ms", imbalance = 0.5, iterations = 650 },"#),
    ("five frames", 1, r#"{ threads = 5, sync = "pipeline", stages = 5, queue-depth = 2, wait = "block", grain = "3ms", imbalance = 0.6, iterations = 520 },"#),
    ("fine pipeline, as mksquashfs", 1, r#"{ threads = 4, sync = "pipeline", stages = 3, queue-depth = 16, wait = "block", grain = "500us", imbalance = 0.6, iterations = 5000 },"#),
    ("queue, as pigz", 1, r#"{ sync = "queue", wait = "block", grain = "4ms", imbalance = 0.6, iterations = 2000 },"#),
    ("stealing and a device", 1, r#"{ sync = "steal", wait = "block", grain = "2ms", imbalance = 0.5, io = "1ms", iterations = 2700 },"#),
    ("server that sleeps, as redis", 1, r#"{ sync = "pipeline", stages = 2, queue-depth = 8, wait = "block", grain = "60us", imbalance = 0.4, sleep = "30us", iterations = 40000 },"#),
    ("requests, as YCSB", 1, r#"{ threads = 4, sync = "lock", wait = "block", grain = "300us", imbalance = 0.8, sleep = "400us", iterations = 5000 },"#),
];

/// The model of a program: its phases, repeated as often as it does. Then each of several phases has its own
/// end.
pub fn phases(&(_, times, phases): &Program) -> String {
    phases.repeat(times) + "{ threads = 1, sync = \"none\", grain = \"10ms\", iterations = 1 }"
}

/// A machine with this many CPUs, as `host`.
pub struct Cpus(pub u32);

impl Files for Cpus {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        Err(format!("there is no {path}"))
    }

    fn host(&self) -> Result<MachineModel, String> {
        let mut model = MachineModel::of(Machine::synthetic(1, 1, self.0, 1));
        // Without noise, CPUs that begin alike stay alike.
        (model.costs.timer_late_ns, model.costs.noise_ns, model.costs.noise_every_ns) =
            (50_000, 30_000, 10 * MS);
        Ok(model)
    }
}

/// Reports spinning as a live machine does: unknown in one window of eight, and 70 to 100 % of it in the others.
pub fn tell_roughly(seen: &mut Observation, seed: u64) {
    for t in &mut seen.tasks {
        let mut parts = *t.account.ledger.parts();
        let draw = bits(seed, u64::from(t.id.0), seen.end_ns) >> 32;
        let all_ns = parts.spin_ns.unwrap_or(0);
        parts.spin_ns = (!draw.is_multiple_of(8)).then_some(all_ns * (70 + draw % 31) / 100);
        parts.compute_ns += all_ns - parts.spin_ns.unwrap_or(0);
        let total_ns = t.account.ledger.total_ns();
        Arc::make_mut(&mut t.account).ledger = Ledger::new(parts, total_ns).expect("the sum is the same");
    }
}
