//! Bursts by wall time on a crowded CPU. In its own file, since it crowds a CPU.

use corun_load::{run, Options, Stop};
use corun_model::workload::{BusyBy, Interference, Pattern, Program};

const MS: u64 = 1_000_000;

#[test]
fn bursts_by_wall_time_keep_their_cycle_under_steal_and_do_less() {
    let of = |busy_by| {
        let crowd = |stop: &Stop| {
            let load = Interference { threads: 4, cpus: vec![0], ..Interference::default() };
            run(&Program::Interference(load), &Options::default(), stop, |_| {}).unwrap();
        };
        let load = Interference {
            pattern: Pattern::Periodic,
            busy: 20 * MS,
            busy_by,
            cpus: vec![0],
            ..Interference::default()
        };
        let options = Options { limit_ns: Some(1_000 * MS), ..Options::default() };
        let stop = Stop::new();
        std::thread::scope(|scope| {
            scope.spawn(|| crowd(&stop));
            let report = run(&Program::Interference(load), &options, &Stop::new(), |_| {}).unwrap();
            stop.request();
            (report.threads[0].iterations as f64, report.threads[0].cpu_ns as f64)
        })
    };
    let (cpu, wall) = (of(BusyBy::Cpu), of(BusyBy::Wall));
    // A fifth of the CPU stretches a burst of 20 ms to 100 ms and more. With wall time one begins every 40 ms.
    assert!(wall.0 > 1.5 * cpu.0, "bursts in a second: {} by wall time, {} by CPU time", wall.0, cpu.0);
    assert!(wall.1 / wall.0 < 0.75 * cpu.1 / cpu.0.max(1.0), "CPU time of a burst: {wall:?} and {cpu:?}");
}
