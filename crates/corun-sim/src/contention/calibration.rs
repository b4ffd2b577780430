//! Tests of all models together: the calibration points of the papers, and what must hold of any machine.

use super::*;
use crate::machine_file::MachineModel;
use corun_model::workload::Character;
use corun_model::Counters;

fn character(ipc: f64) -> Character {
    Character { ipc, llc_refs_pki: 0.0, compulsory: 0.0, hidden: 0.0, ..Character::default() }
}

/// Runs tasks given as (cpu, program, character) for a while; returns their mean progress and counters at the end.
fn run(model: &MachineModel, tasks: &[(u32, u32, Character)], ms: u64) -> Vec<(f64, Counters)> {
    let mut system = System::new(model);
    let mut progress = vec![f64::from(ONE); model.machine.cpu_count()];
    for (i, (cpu, program, c)) in tasks.iter().enumerate() {
        let character = system.character(c);
        system.set(0, *cpu, Some(Running { task: i as u32, program: *program, character, spinning: false }));
    }
    let (mut now, end, mut changed) = (0, ms * 1_000_000, Vec::new());
    while now <= end {
        system.refresh(now, &mut changed);
        changed.drain(..).for_each(|r| progress[r.cpu as usize] = f64::from(r.progress));
        match system.next_ns() {
            Some(next) => {
                assert!(next > now, "time must pass");
                now = next;
            }
            None => break,
        }
    }
    let read = |(i, (cpu, ..)): (usize, &(u32, u32, Character))| {
        (progress[*cpu as usize] / f64::from(ONE), system.counters(end.max(now), i as u32).unwrap())
    };
    tasks.iter().enumerate().map(read).collect()
}

#[test]
fn a_thread_alone_progresses_at_one() {
    let m = MachineModel::shipped("atc16-ivybridge-40").unwrap();
    let r = run(&m, &[(0, 0, character(2.0))], 1);
    assert_eq!(r[0].0, 1.0);
}
