//! Bad scenarios are refused in one sentence with file, line and remedy.

use crate::rig::Repository;
use corun_sim::experiment::co_runs;
use corun_sim::scenario::{Participants, Scenario};

const GOOD: &str = r#"schema = "corun.scenario/1"
machine = "atc16-haswell-80"
seeds = [1, 2]

[scheduler]
name = "cfs"

[[tenant]]
name = "a"
workload = "workloads/barrier-block.toml"

[[tenant]]
name = "b"
program = { kind = "interference", threads = 2 }
weight = 50
"#;

fn refusal(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    Scenario::parse("s.toml", &GOOD.replace(from, to), &Repository).unwrap_err().to_string()
}

#[test]
fn a_good_scenario_is_read() {
    let s = Scenario::parse("s.toml", GOOD, &Repository).unwrap();
    assert_eq!((s.name.as_str(), s.machine.machine.cpu_count(), s.tenants.len()), ("s", 80, 2));
    assert_eq!(s.tenants.iter().map(|t| t.background).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_scenario_that_another_machine_cannot_run_is_refused_before_it_runs_there() {
    let work = "program = { kind = \"parallel\", threads = 40, grain = \"1s\", iterations = 10 }";
    let text = GOOD.replace("workload = \"workloads/barrier-block.toml\"", work);
    let text = text.replace("seeds = [1, 2]", "seeds = [1, 2]\nhorizon = \"30s\"");
    let on = |machine: &str| {
        Scenario::parse("s.toml", &text, &Repository).unwrap().on_machine(machine, &Repository).map(|_| ())
    };
    assert_eq!(on("atc16-ivybridge-40"), Ok(()));
    let said = on("pact16-xeon-e5620").unwrap_err().to_string();
    assert!(said.starts_with("s.toml:9: 8 CPUs cannot do the work up to a before the horizon"), "{said}");
}

#[test]
fn every_refusal_names_file_line_and_remedy() {
    let cases = [
        ("atc16-haswell-80", "cray-1", "s.toml:2: there is no machine `cray-1`; name one of "),
        ("\"atc16-haswell-80\"", "\"machines/none.toml\"", "s.toml:2: cannot read machines/none.toml"),
        ("scenario/1", "scenario/9", "s.toml:1: schema is `corun.scenario/9`"),
        ("\"cfs\"", "\"cfs\"\nfirst-slice = \"random\"", "s.toml:5: only xen-credit has a first-slice; leave it out"),
        ("\"cfs\"", "\"xen-credit\"\nfirst-slice = \"long\"", "s.toml:7: there is no `long`; name one of whole, random"),
        ("\"cfs\"", "\"cfs\"\nlinux = \"6.18\"", "s.toml:5: cfs is modelled as in Linux 2.6.32, 3.8, 3.14 and 6.5; give one"),
        ("\"cfs\"", "\"xen-credit\"\nlinux = \"3.8\"", "s.toml:5: linux is a release of Linux, which xen-credit is not part of"),
        ("\"cfs\"", "\"eevdf\"\nlinux = \"5.10\"", "s.toml:5: eevdf came with Linux 6.6; give a later release"),
        ("\"cfs\"", "\"eevdf\"\nlinux = \"new\"", "s.toml:7: `new` is no release of Linux; give one such as \"6.18\""),
        ("[1, 2]", "[]", "s.toml:3: 0 seeds are given"),
        ("[1, 2]", "[2, 1, 2]", "s.toml:3: seed 2 is given twice"),
        ("[1, 2]", "1", "s.toml:3: invalid type: integer `1`, expected a list such as [1, 2]"),
        ("[1, 2]", "{ first = 1 }", "s.toml:3: invalid type: table, expected a list such as [1, 2]"),
        ("[1, 2]", "[-1]", "s.toml:3: invalid value: integer `-1`, expected a whole number of at least 0"),
        ("\"cfs\"", "\"bfs\"", "s.toml:6: there is no `bfs`; name one of eevdf, cfs, xen-credit"),
        ("machine = \"atc16-haswell-80\"\n", "", "s.toml:1: `machine` is missing; give it"),
        (
            "schema = \"corun.scenario/1\"\nmachine = \"atc16-haswell-80\"",
            "schema = \"corun.workload/1\"",
            "s.toml:1: this is a workload, which `corun load` runs; a scenario has schema = ",
        ),
        (
            "schema = \"corun.scenario/1\"\nmachine = \"atc16-haswell-80\"",
            "schema = \"corun.scenario/2\"",
            "s.toml:1: schema is `corun.scenario/2`, this corun reads `corun.scenario/1`",
        ),
        (GOOD, "", "s.toml:1: the file is empty; a scenario has schema = \"corun.scenario/1\" and a machine"),
        ("threads = 2", "threads = 0", "s.toml:14: threads is 0; a program needs at least 1"),
        ("threads = 2", "threads = 99999", "s.toml:14: threads is 99999; at most 10000 are allowed"),
        ("weight = 50", "weight = 0", "s.toml:15: weight is 0; give 1 to 10000"),
        ("weight = 50", "cpus = [80]", "s.toml:15: atc16-haswell-80 has no CPU 80; it has 80"),
        ("weight = 50", "cpus = [0]\nallowed = [1]", "s.toml:16: `cpus` pins the tasks already"),
        ("weight = 50", "slice = [\"1ms\"]", "s.toml:15: a slice is a time such as \"3ms\", or "),
        ("weight = 50", "slice = [\"10ns\", \"1ms\"]", "s.toml:15: a slice must be at least 1us, and its"),
        ("weight = 50", "start = 50", "s.toml:15: invalid type: integer `50`, expected a time in quotes"),
        ("weight = 50", "vm = { vcpus = 0 }", "s.toml:15: vcpus is 0; a VM needs at least 1"),
        ("weight = 50", "count = 60000\nthreads = 2", "s.toml:12: the scenario has more than 100000 tasks"),
        ("weight = 50", "after = \"nobody\"", "s.toml:15: there is no tenant `nobody` to start after"),
        ("weight = 50", "after = \"b\"", "s.toml:15: `b` never ends, so nothing can start after it; leave"),
        ("weight = 50", "wait = 50", "s.toml:15: unknown field `wait`"),
        (
            "weight = 50",
            "workload = \"w.toml\"",
            "s.toml:14: a tenant has either a `workload` file or a `program`",
        ),
        ("workloads/barrier-block.toml", "workloads/no.toml", "s.toml:10: cannot read workloads/no.toml"),
        ("workloads/barrier-block.toml", "workloads/redis.toml", "s.toml:8: `"),
        ("workload = \"workloads/barrier-block.toml\"\n", "", "s.toml:8: this tenant runs nothing"),
        ("name = \"b\"", "name = \"\"", "s.toml:13: a tenant's name must be one line"),
        ("name = \"b\"", "name = \"b\\nc\"", "s.toml:13: a tenant's name must be one line"),
        ("name = \"b\"", "name = \"a\"", "s.toml:12: two tenants are called `a`"),
        (
            "seeds = [1, 2]",
            "policy = { name = \"gang\", protect = [\"c\"] }",
            "s.toml:3: there is no tenant `c`; name one of a, b",
        ),
        (
            "seeds = [1, 2]",
            "policy = { name = \"gang\", tenants = [\"sim/a\", \"d\"] }",
            "s.toml:3: there is no tenant `d`",
        ),
        (
            "seeds = [1, 2]",
            "policy = { name = \"gang\", options = { slot = -1 } }",
            "s.toml:3: an option is a whole number of at least 0, a text, true or false",
        ),
        (
            "workload = \"workloads/barrier-block.toml\"",
            "program = { kind = \"parallel\", sync = \"lock\", locks = 4000000000, grain = \"1ms\", iterations = 1 }",
            "s.toml:10: locks is 4000000000; at most 100000 are allowed",
        ),
        (
            "workload = \"workloads/barrier-block.toml\"",
            "program = { kind = \"parallel\", threads = 100, grain = \"1ns\", iterations = 1000000000 }",
            "s.toml:8: a has 100000000000 grains, which takes a day to model even alone; give it fewer",
        ),
        (
            "workload = \"workloads/barrier-block.toml\"",
            "program = { kind = \"parallel\", grain = \"1ms\", iterations = 99999999999999999999 }",
            "s.toml:10: invalid type: integer `99999999999999999999`, which is too large",
        ),
        ("seeds = [1, 2]", "duration = \"0\"", "s.toml:3: duration is 0"),
        ("[1, 2]", "[99999999999999999999]", "s.toml:3: invalid type: integer `99999999999999999999`, which"),
        ("name = \"cfs\"", "name = \"cfs\"\nbase-slice = \"1ms\"", "s.toml:5: only eevdf has a base-slice"),
    ];
    for (from, to, expected) in cases {
        let said = refusal(from, to);
        assert!(said.starts_with(expected), "{from} -> {to}\n  said     {said}\n  expected {expected}");
        assert_eq!(said.lines().count(), 1);
    }
}

#[test]
fn a_lone_tenant_in_single_brackets_gets_the_correct_form() {
    let lone = "schema = \"corun.scenario/1\"\nmachine = \"host\"\n[tenant] # the only one\nname = \"a\"\n";
    let said = Scenario::parse("s.toml", lone, &Repository).unwrap_err().to_string();
    let expected =
        "s.toml:3: there can be several of these; write [[tenant]] instead of [tenant], above each of them";
    assert_eq!(said, expected);
}

#[test]
fn tenants_that_wait_for_each_others_end_deadlock() {
    let said = refusal(
        "workload = \"workloads/barrier-block.toml\"",
        "workload = \"workloads/barrier-block.toml\"\nafter = \"c\"\n[[tenant]]\nname = \"c\"\nworkload = \"workloads/barrier-block.toml\"\nafter = \"a\"",
    );
    assert!(said.starts_with("s.toml:8: the scenario deadlocks: a after c after a"), "{said}");
    assert!(said.ends_with("wait for each other's end; leave one `after` out"), "{said}");
}

#[test]
fn too_many_tenants_on_one_cpu_are_refused_but_not_if_spread_or_short() {
    let with = |count: u32, cpus: &str, duration: &str| {
        let loops = format!("program = {{ kind = \"interference\" }}\ncount = {count}\n{cpus}");
        let text = GOOD.replace("program = { kind = \"interference\", threads = 2 }", &loops);
        let text = text.replace("seeds = [1, 2]", &format!("duration = \"{duration}\""));
        Scenario::parse("s.toml", &text, &Repository).map(|_| ()).map_err(|e| e.to_string())
    };
    let said = with(2_500, "cpus = [3]", "1m").unwrap_err();
    let expected = "s.toml:12: too many tenants share CPUs (2500 of them CPU 3): the account of their steal has more than 4000000 parts; give fewer tenants, more CPUs, or a shorter `duration`";
    assert_eq!(said, expected);
    assert_eq!(with(1_500, "cpus = [3]", "1m"), Ok(()));
    assert_eq!(with(2_500, "cpus = [3]", "100ms"), Ok(()));
    assert_eq!(with(10_000, "", "1m"), Ok(()));
    assert!(with(50_000, "", "1m").unwrap_err().contains(" of them CPU "));
    let work =
        "program = { kind = \"parallel\", threads = 1, sync = \"none\", grain = \"1s\", iterations = 1 }";
    let text = GOOD.replace("program = { kind = \"interference\", threads = 2 }", work);
    let text = text.replace("weight = 50", "count = 2500\nallowed = [7]");
    let said = Scenario::parse("s.toml", &text, &Repository).unwrap_err().to_string();
    assert!(said.starts_with("s.toml:12: too many tenants share CPUs (2500 of them CPU 7)"), "{said}");
}

#[test]
fn a_tenant_that_starts_when_the_duration_is_over_is_refused() {
    let with = |start: &str| {
        let text = GOOD.replace("weight = 50", &format!("start = \"{start}\""));
        Scenario::parse("s.toml", &text.replace("seeds = [1, 2]", "duration = \"10ms\""), &Repository)
    };
    assert!(with("9ms").is_ok());
    let said = with("10ms").unwrap_err().to_string();
    assert!(said.starts_with("s.toml:12: b starts when the `duration` is over; start it earlier"), "{said}");
}

#[test]
fn a_scenario_in_which_nothing_ever_ends_needs_a_duration() {
    let said =
        refusal("workload = \"workloads/barrier-block.toml\"", "program = { kind = \"interference\" }");
    assert!(said.contains("no tenant ever ends") && said.contains("give a `duration`"), "{said}");
}

#[test]
fn a_tenant_with_almost_no_weight_starves_and_is_named() {
    let body = "schema = \"corun.scenario/1\"\nmachine = \"host\"\n[[tenant]]\nname = \"a\"\nweight = 1\nprogram = { kind = \"parallel\", threads = 1, sync = \"none\", grain = \"10ms\", iterations = 50 }\ncpus = [0]\n[[tenant]]\nname = \"b\"\ncount = 8\nweight = 10000\nprogram = { kind = \"interference\", cpus = [0] }\n";
    let s = Scenario::parse("s.toml", body, &Repository).unwrap();
    let mut e = s.engine(1, Participants::All, 0).unwrap();
    let said = s.failed(e.run_to_end(s.horizon_ns).unwrap_err().to_string()).to_string();
    assert!(said.starts_with("s.toml:3: the scenario starves"), "{said}");
    assert!(said.contains("runnable for 60."), "{said}");
}

/// Good text becomes bad in one place. The error names that place, in these words.
fn refused_at_its_line(place: &str, text: &str, cases: &[(&str, &str, &str)]) {
    for (from, to, expected) in cases {
        assert!(text.contains(from));
        let said = refusal(place, &text.replace(from, to));
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn an_error_in_a_policy_is_reported_at_its_own_line() {
    let policy =
        "[policy]\nname = \"auto\"\nepoch = \"5ms\"\n[policy.options]\nslot = \"50ms\"\nhold = \"1s\"\n[scheduler]";
    refused_at_its_line(
        "[scheduler]",
        policy,
        &[
            ("\"auto\"", "\"autos\"", "s.toml:6: there is no policy `autos`; name one of"),
            ("\"5ms\"", "\"5us\"", "s.toml:7: an epoch below 100us makes no sense"),
            ("\"5ms\"", "\"2h\"", "s.toml:7: an epoch above 1h makes no sense"),
            ("\"50ms\"", "\"1h\"", "s.toml:9: auto: `slot` is `1h`; give"),
            ("\"1s\"", "1", "s.toml:10: auto: `hold` is `1`; give"),
            ("slot", "slots", "s.toml:9: auto has no option `slots`; it has"),
        ],
    );
}

#[test]
fn too_many_grains_are_refused_even_in_a_short_run_since_solo_runs_model_them_all() {
    let program =
        "program = { kind = \"parallel\", threads = 100, grain = \"1ns\", iterations = 1000000000 }";
    let text = GOOD.replace("workload = \"workloads/barrier-block.toml\"", program);
    let text = text.replace("seeds = [1, 2]", "duration = \"1ms\"");
    let said = Scenario::parse("s.toml", &text, &Repository).unwrap_err().to_string();
    assert!(said.starts_with("s.toml:8: a has 100000000000 grains, which takes a day to model even alone"));
}

#[test]
fn an_endless_tenant_may_be_in_the_foreground_only_if_the_run_is_cut_off() {
    let text = GOOD.replace("weight = 50", "background = false");
    let run = |text: &str| co_runs(&Scenario::parse("s.toml", text, &Repository).unwrap());
    assert!(run(&text.replace("seeds = [1, 2]", "duration = \"1ms\"")).is_ok());
    let said = run(&text).unwrap_err().to_string();
    assert!(said.starts_with("s.toml:12: b never ends, but with `background = false` the run waits for it"));
    assert!(said.ends_with("leave `background` out, or give a `duration`"), "{said}");
}

#[test]
fn a_cpu_that_would_only_switch_is_refused() {
    let said = |scheduler: &str, vm: &str| {
        let text = GOOD.replace("name = \"cfs\"", scheduler).replace("weight = 50", vm);
        let s = Scenario::parse("s.toml", &text, &Repository).unwrap();
        s.engine(1, Participants::All, 0).err().map(|bad| bad.to_string())
    };
    let vm = "vm = { vcpus = 2 }";
    let guest = "name = \"xen-credit\"\nguest-slice = \"1us\"";
    assert_eq!(said(guest, "weight = 50"), None);
    let what = said(guest, vm).unwrap();
    assert!(
        what.starts_with("s.toml:5: guest-slice is 1.00 µs, but a switch on atc16-haswell-80 takes 1.50 µs")
    );
    assert!(what.ends_with("give a longer guest-slice"), "{what}");
    let tick = "name = \"cfs\"\ntick = \"1us\"";
    assert!(said(tick, vm).unwrap().starts_with("s.toml:5: tick is 1.00 µs, but a switch on "));
    // Xen's credit scheduler has a tick of its own.
    assert_eq!(said("name = \"xen-credit\"\ntick = \"1us\"", vm), None);
    assert_eq!(said("name = \"cfs\"\ntick = \"100us\"\nguest-slice = \"100us\"", vm), None);
}

#[test]
fn a_program_with_lines_of_its_own_is_refused_at_the_line_of_the_key() {
    let program = "[tenant.program]\nkind = \"parallel\"\nsync = \"pipeline\"\nthreads = 2\niterations = 1\n[[tenant.program.stage]]\nname = \"in\"\nfeeds = [\"out\"]\n[[tenant.program.stage]]\nname = \"out\"\n[tenant.character]\nipc = 1.5";
    refused_at_its_line(
        "workload = \"workloads/barrier-block.toml\"",
        program,
        &[
            ("threads = 2", "threads = 0", "s.toml:13: threads is 0"),
            ("iterations = 1", "grain = \"0\"", "s.toml:14: grain is 0"),
            ("\"out\"]", "\"off\"]", "s.toml:16: stage `in` feeds `off`"),
            ("ipc = 1.5", "ipc = 99", "s.toml:21: ipc is 99"),
        ],
    );
}
