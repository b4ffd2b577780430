//! Random scenarios on random machines under every scheduler. All checkers run at every event, every
//! observation conserves time, and every finite program ends with exactly the work that it was given.

use corun_model::{Action, Host, Machine, TaskId, TenantId};
use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::{Files, Participants, Scenario};
use proptest::prelude::*;

/// A machine of any regular shape.
struct Shape(Machine);

impl Files for Shape {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        Err(format!("no files here, not even {path}"))
    }

    fn host(&self) -> Result<MachineModel, String> {
        Ok(MachineModel::of(self.0.clone()))
    }
}

/// A program that ends, and the number of its iterations: a synthetic one, or phases that are repeated.
fn finite() -> impl Strategy<Value = (String, u64)> {
    let synthetic =
        part().prop_map(|(keys, iterations)| (format!("{{ kind = \"parallel\", {keys} }}"), iterations));
    let phases = (proptest::collection::vec(part(), 1..4), 1u64..4).prop_map(|(parts, laps)| {
        let model: Vec<String> = parts.iter().map(|(keys, _)| format!("{{ {keys} }}")).collect();
        let program = format!(
            "{{ kind = \"command\", argv = [\"it\"], iterations = {laps}, model = [{}] }}",
            model.join(", ")
        );
        (program, laps * parts.iter().map(|part| part.1).sum::<u64>())
    });
    prop_oneof![2 => synthetic, 1 => phases]
}

/// The keys of a program that ends, and the number of its iterations.
fn part() -> impl Strategy<Value = (String, u64)> {
    let wait = prop_oneof![Just("spin"), Just("block"), Just("spin-then-block")];
    let sync = prop_oneof![
        Just("barrier"),
        Just("lock"),
        Just("pipeline"),
        Just("queue"),
        Just("steal"),
        Just("none")
    ];
    (sync, wait, 1u32..6, 1u64..20, 5u64..3_000, 0u32..10, 1u32..4).prop_map(
        |(sync, wait, threads, iterations, grain_us, tenths, parts)| {
            let stages = parts.min(threads);
            let program = format!(
                "sync = \"{sync}\", wait = \"{wait}\", threads = {threads}, iterations = {iterations}, grain = \"{grain_us}us\", imbalance = 0.{tenths}, locks = {parts}, critical = 0.{tenths}, stages = {stages}, queue-depth = {parts}"
            );
            let expected = match sync {
                "lock" | "none" => iterations * u64::from(threads),
                _ => iterations,
            };
            (program, expected)
        },
    )
}

fn scenario_text() -> impl Strategy<Value = (Machine, String, Vec<u64>)> {
    let shape = (1u32..3, 1u32..3, 1u32..4, 1u32..3);
    let scheduler = prop_oneof![
        3 => Just("eevdf"),
        3 => Just("cfs"),
        1 => Just("cfs\"\nlinux = \"2.6.32"),
        1 => Just("cfs\"\nlinux = \"3.8"),
        1 => Just("cfs\"\nlinux = \"3.14"),
        3 => Just("xen-credit"),
    ];
    let place = (any::<bool>(), 0u32..4, 1u32..400, any::<bool>());
    let tenants = proptest::collection::vec((finite(), place), 1..4);
    let noise = prop_oneof![Just("persistent"), Just("periodic"), Just("intermittent")];
    (shape, scheduler, tenants, noise, 1u32..4, any::<bool>()).prop_map(
        |((s, l, c, t), scheduler, tenants, noise, loops, groups)| {
            let machine = Machine::synthetic(s, l, c, t);
            let mut text = format!(
                "schema = \"corun.scenario/1\"\nmachine = \"host\"\n[scheduler]\nname = \"{scheduler}\"\ngroups = {groups}\n[[tenant]]\nname = \"noise\"\nprogram = {{ kind = \"interference\", pattern = \"{noise}\", threads = {loops}, busy = \"2ms\", busy-min = \"100us\", busy-max = \"5ms\" }}\n"
            );
            let mut expected = Vec::new();
            for (i, ((program, iterations), (pinned, vcpus, weight, batch))) in tenants.into_iter().enumerate() {
                text += &format!("[[tenant]]\nname = \"t{i}\"\nprogram = {program}\nweight = {weight}\nbatch = {batch}\n");
                if pinned {
                    text += &format!("cpus = [{}]\n", i % machine.cpu_count());
                }
                if vcpus > 0 {
                    text += &format!("vm = {{ vcpus = {vcpus} }}\n");
                }
                expected.push(iterations);
            }
            (machine, text, expected)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_program_ends_with_its_work_done_and_every_nanosecond_counted((machine, text, expected) in scenario_text(), seed in 1u64..1000) {
        let scenario = Scenario::parse("random", &text, &Shape(machine)).unwrap();
        let mut e = scenario.engine(seed, Participants::All, 0).unwrap();
        e.paranoid = true;
        let ended = e.run_to_end(600_000_000_000).map_err(|f| TestCaseError::fail(format!("{f}\n{text}")))?;
        prop_assert!(ended, "not ended after ten minutes\n{}", text);
        e.observe().check().map_err(|wrong| TestCaseError::fail(wrong.join("; ")))?;
        let done: Vec<u64> = e.progress()[1..].iter().map(|p| p.completions.first.unwrap().iterations).collect();
        prop_assert_eq!(done, expected);
    }

    #[test]
    fn turning_knobs_at_random_breaks_nothing((machine, text, _) in scenario_text(), turns in proptest::collection::vec((0u8..6, 0u32..12, 1u64..40), 1..25)) {
        let cpus: Vec<_> = machine.cpus().iter().map(|c| c.id).collect();
        let scenario = Scenario::parse("random", &text, &Shape(machine)).unwrap();
        let mut e = scenario.engine(1, Participants::All, 0).unwrap();
        e.paranoid = true;
        for (knob, target, amount) in turns {
            let (task, tenant) = (TaskId(target + 1), TenantId(target % 4));
            let action = match knob {
                0 => Action::Slice { task, min_ns: amount * 100_000, max_ns: amount * 200_000 },
                1 => Action::PreemptDelay { task, delay_ns: amount * 50_000 },
                2 => Action::Cpus { task, cpus: vec![cpus[amount as usize % cpus.len()]] },
                3 => Action::Park { tenant },
                4 => Action::Unpark { tenant },
                _ => Action::Weight { tenant, weight: amount as u32 * 25 },
            };
            e.apply(&action);
            e.advance(amount * 100_000).map_err(|f| TestCaseError::fail(format!("{action:?}: {f}\n{text}")))?;
            let seen = Host::observe(&mut e).map_err(|f| TestCaseError::fail(format!("{action:?}: {f}\n{text}")))?;
            seen.check().map_err(|wrong| TestCaseError::fail(wrong.join("; ")))?;
        }
        e.undo_all().unwrap();
        let ended = e.run_to_end(600_000_000_000).map_err(|f| TestCaseError::fail(format!("{f}\n{text}")))?;
        prop_assert!(ended, "not ended after it was undone\n{}", text);
    }
}
