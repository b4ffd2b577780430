//! Plans against kernels that accept everything, little, or nothing.

use super::*;
use crate::counters::fixture::{self, Machine};
use crate::counters::perf_event::Event;
use corun_model::What;

/// A kernel with this many counters per CPU.
fn kernel_with(counters: usize) -> impl Fn(&[Event], CountOptions) -> Result<(), i32> {
    move |events, _| if events.len() <= counters { Ok(()) } else { Err(libc::EINVAL) }
}

fn plan(machine: Machine, ask: Ask) -> Plan {
    let (_dir, root) = fixture::root(machine);
    Plan::make(&root, &Theme::ALL, ask).unwrap()
}

#[test]
fn six_counters_hold_all_of_zen_5_in_two_groups() {
    let plan = plan(Machine::Amd, &kernel_with(6));
    assert_eq!(plan.table.as_deref(), Some("amdzen5"));
    let sizes: Vec<usize> = plan.groups.iter().map(Vec::len).collect();
    assert_eq!(sizes, [4, 6]);
    assert_eq!(plan.counters.len(), 13, "events that several counters need are counted once");
    assert_eq!(plan.refused, []);
}

#[test]
fn four_counters_hold_no_group_of_more_than_four_and_lose_no_counter() {
    for machine in [Machine::Intel, Machine::Amd, Machine::Arm] {
        let (few, many) = (plan(machine, &kernel_with(4)), plan(machine, &kernel_with(40)));
        assert!(few.groups.iter().all(|g| (1..=4).contains(&g.len())), "{:?}", few.groups);
        assert_eq!(many.groups.len(), 1);
        assert_eq!(few.events(), many.events());
        assert!(few.counters.keys().eq(many.counters.keys()));
        assert!(few.groups[0].len() == 4 && few.counters[&Counter::Cycles].places == [(0, 0)]);
    }
}

#[test]
fn a_counter_that_the_cpu_lacks_is_reported_with_the_reason() {
    let plan = plan(Machine::Arm, &kernel_with(6));
    let lacking = plan.refused.iter().find(|u| u.what.name().contains("coherence_inter")).unwrap();
    assert_eq!(lacking.what.name(), "coherence_inter, coherence_intra");
    assert_eq!(lacking.why, Why::NoSuchEvent { cpu: "neoverse-v1".into() });
}

#[test]
fn an_event_that_the_kernel_refuses_removes_only_its_counters() {
    // This hypervisor lacks the off-core response: events with a second word.
    let ask = |events: &[Event], _: CountOptions| match events {
        [Event { config: 0x05a3_05a3 | 0x0500_05a3, .. }] => Err(libc::EOPNOTSUPP),
        _ => Ok(()),
    };
    let plan = plan(Machine::Intel, &ask);
    let gone = &plan.refused[0];
    assert_eq!(gone.what.name(), "offcore_stall_cycles, l2_stall_cycles");
    let is_that = matches!(&gone.why, Why::NoCounters { refusal: Refusal::NoPmu { error, .. }, is_needed: false } if error == "EOPNOTSUPP");
    assert!(is_that, "{:?}", gone.why);
    assert!(!plan.counters.contains_key(&Counter::L2StallCycles));
    assert!(plan.counters.contains_key(&Counter::CoherenceInter));
}

#[test]
fn a_counter_is_not_confused_with_one_whose_name_contains_its_own() {
    let mut plan = plan(Machine::Arm, &kernel_with(6));
    plan.needed = Refused::default();
    for counter in [Counter::OffcoreStallCycles, Counter::L2StallCycles] {
        plan.needed.add(counter, &Why::UnknownCpu);
    }
    plan.counters.clear();
    assert_eq!(plan.lacks(&[Counter::Cycles]).unwrap().why, Why::NoEventCountsIt);
    assert_eq!(plan.lacks(&[Counter::L2StallCycles]).unwrap().why, Why::UnknownCpu);
}

#[test]
fn without_any_counter_there_is_no_plan_but_a_reason() {
    let (_dir, root) = fixture::root(Machine::Amd);
    let none = Plan::make(&root, &Theme::ALL, &|_, _| Err(libc::ENOENT)).unwrap_err();
    assert!(matches!(&none, Refusal::NoPmu { error, .. } if error == "ENOENT"), "{none}");
    let forbidden = Plan::make(&root, &Theme::ALL, &|_, _| Err(libc::EACCES)).unwrap_err();
    assert!(forbidden.remedy().contains("perf_event_paranoid"), "{}", forbidden.remedy());
}

#[test]
fn if_only_user_mode_may_be_counted_that_is_counted_and_reported() {
    let ask = |_: &[Event], manner: CountOptions| if manner.kernel { Err(libc::EACCES) } else { Ok(()) };
    let plan = plan(Machine::Amd, &ask);
    assert!(!plan.kernel);
    assert_eq!(plan.counters.len(), 13);
    assert_eq!(plan.refused[0].what, What::KernelEvents);
}

#[test]
fn an_unknown_cpu_has_its_pace_counted_by_the_kernels_generic_names() {
    let cpuinfo = "vendor_id\t: GenuineIntel\ncpu family\t: 15\nmodel\t\t: 4\nstepping\t: 1\n";
    let (_dir, root) = fixture::with(&[
        ("/proc/cpuinfo", cpuinfo),
        ("/sys/bus/event_source/devices/cpu/type", "4\n"),
        ("/sys/bus/event_source/devices/cpu/format/event", "config:0-7\n"),
    ]);
    let plan = Plan::make(&root, &Theme::ALL, &kernel_with(4)).unwrap();
    assert_eq!((plan.table.as_deref(), plan.groups.len(), plan.counters.len()), (None, 1, 4));
    assert!(plan.groups[0].iter().all(|e| e.kind == 0));
    assert_eq!(plan.refused[0].why, Why::NoEventTable { cpu: "GenuineIntel-15-4-1".into() });
}

#[test]
fn counters_are_sums_of_scaled_events_and_unknown_if_one_was_never_counted() {
    let plan = plan(Machine::Amd, &kernel_with(6));
    let mut read: Vec<Vec<Reading>> = plan
        .groups
        .iter()
        .map(|g| vec![Reading { value: 10, enabled_ns: 100, running_ns: 50 }; g.len()])
        .collect();
    let counted = plan.counters(&read, 4);
    assert_eq!(counted.cycles, Some(20));
    assert_eq!(counted.llc_misses, Some(80), "the sum of four events");
    assert_eq!(counted.dram_bytes, Some(40 * 64), "two events, 64 bytes each");
    for reading in &mut read[1] {
        *reading = Reading { value: 0, enabled_ns: 100, running_ns: 0 };
    }
    let half = plan.counters(&read, 4);
    assert_eq!((half.cycles, half.llc_misses, half.dram_bytes), (Some(20), None, None));
}

#[test]
fn events_that_one_counter_alone_needs_become_one_event_if_masks_may_be_combined() {
    let (_dir, root) = fixture::root(Machine::Amd);
    let work = Plan::make(&root, &[Theme::Work], &kernel_with(6)).unwrap();
    assert_eq!(work.groups.iter().map(Vec::len).collect::<Vec<_>>(), [4], "no turns: {:?}", work.groups);
    let misses = work.groups[0][work.counters[&Counter::LlcMisses].places[0].1];
    assert_eq!(misses.config, 0x5c44, "fills from four places: masks 0x4, 0x8, 0x10 and 0x40");
    let all = plan(Machine::Amd, &kernel_with(40));
    assert_eq!(
        all.counters[&Counter::LlcMisses].places.len(),
        4,
        "each of them counts something else as well"
    );
    let (_dir, root) = fixture::root(Machine::Intel);
    let (few, many) = (&[Theme::Work][..], &Theme::ALL[..]);
    let places = |themes| {
        let plan = Plan::make(&root, themes, &kernel_with(40)).unwrap();
        plan.counters[&Counter::LlcMisses].places.len()
    };
    assert_eq!((places(few), places(many)), (1, 1));
}

#[test]
fn groups_that_would_be_counted_at_once_in_missing_counters_take_turns() {
    let (claimed, counted) = (6, 5);
    let sizes = |plan: &Plan| plan.groups.iter().map(Vec::len).collect::<Vec<_>>();
    let plan = plan(Machine::Amd, &kernel_with(counted));
    assert_eq!(sizes(&plan), [4, 4, 2], "4 + 2 would be counted at once");
    let apart = plan.clone().within(Room { claimed, counted });
    assert_eq!(sizes(&apart), [4, 4, 3]);
    assert_eq!(apart.counters, plan.counters, "every counter is where it was");
    assert_eq!(
        plan.clone().within(Room { claimed, counted: claimed }),
        plan,
        "nothing was lost, nothing changes"
    );
}

#[test]
fn a_counter_that_stood_still_while_its_task_ran_is_unknown_and_so_are_the_zeros_next_to_it() {
    let (_dir, root) = fixture::root(Machine::Amd);
    let plan = Plan::make(&root, &[Theme::Work], &kernel_with(6)).unwrap();
    let read = |values: [u64; 4], ns| {
        vec![values.map(|value| Reading { value, enabled_ns: ns, running_ns: ns }).to_vec()]
    };
    let of = |values, ns| {
        let c = plan.counters(&read(values, ns), 4);
        [c.cycles, c.instructions, c.offcore_stall_cycles, c.llc_misses]
    };
    assert_eq!(of([0, 9_000_000, 7, 0], RAN_NS), [None, Some(9_000_000), Some(7), None]);
    assert_eq!(of([5, 0, 0, 8], RAN_NS), [Some(5), None, None, Some(8)]);
    assert_eq!(of([5, 9, 0, 0], RAN_NS), [Some(5), Some(9), Some(0), Some(0)], "no stall and no miss may be");
    assert_eq!(of([0, 0, 0, 0], 0), [Some(0); 4], "who did not run did nothing");
    assert!(
        plan.lost(&read([0, 9, 9, 9], RAN_NS)).contains(&0) && plan.lost(&read([9; 4], RAN_NS)).is_empty()
    );
}
