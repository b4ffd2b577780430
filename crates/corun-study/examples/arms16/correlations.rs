//! Table 6: which hardware events correlate with the degradation of a VM.
//!
//! Each program runs once alone, once with milc and once with STREAM on the other hyperthread of its core. Counts until its end are
//! correlated (Pearson) with its time. The paper has three points of each VM, and means over VMs. This also prints the correlation over
//! all VMs at once, of values relative to those alone.
//!
//! An event that the model does not have, or that is the same in all runs, has no correlation.

use crate::{account, mean, run, seen, vm};
use corun_model::Counters;
use corun_report::table::Table;
use corun_sim::experiment::Options;
use corun_study::schedulers::presets::Presets;
use rayon::prelude::*;

/// The eleven VMs of the paper's section 6.
const VMS: [&str; 11] =
    ["soplex", "milc", "mcf", "lbm", "gcc", "sphinx3", "gobmk", "gromacs", "povray", "gamess", "stream"];
/// The program on the other hyperthread.
const BESIDE: [Option<&str>; 3] = [None, Some("milc"), Some("stream")];

/// Counts that differ by less than this count as equal. The model keeps a rate until it would change by a 2,048th of full speed, so
/// counts for the same work differ by up to 0.16 %.
const RESOLUTION: f64 = 0.002;

/// A column of table 6.
struct Event {
    name: &'static str,
    /// `None` if the model has no such event.
    count: Option<fn(&Counters) -> Option<u64>>,
    /// The paper's correlation with degradation.
    paper: f64,
    /// The paper's correlations with the events that follow here.
    with: &'static [f64],
}

const EVENTS: [Event; 7] = [
    Event {
        name: "Clk_r",
        count: Some(|c| c.cycles),
        paper: 0.96,
        with: &[0.99, 0.89, 0.01, 0.07, 0.05, 0.54],
    },
    Event { name: "Clk_c", count: Some(|c| c.cycles), paper: 0.97, with: &[0.91, 0.03, 0.05, 0.02, 0.55] },
    Event { name: "IC", count: Some(|c| c.instructions), paper: 0.96, with: &[0.12, 0.11, 0.15, 0.59] },
    Event { name: "DTLB", count: None, paper: 0.12, with: &[0.14, 0.03, 0.19] },
    Event { name: "LLC", count: Some(|c| c.llc_misses), paper: 0.03, with: &[0.66, 0.12] },
    Event { name: "L2", count: Some(|c| c.l2_misses), paper: 0.07, with: &[0.10] },
    Event { name: "L1", count: None, paper: 0.58, with: &[] },
];

/// The results of one run of a VM.
#[derive(Clone, Copy, Debug)]
struct Point {
    time_ns: f64,
    /// By event.
    counts: [Option<f64>; EVENTS.len()],
}

/// A VM's runs, in the order of `BESIDE`.
type Runs = [Point; BESIDE.len()];

/// A run of a program in a VM. `services` is the part of the time, by the wall clock, in which the guest works for itself: services and
/// kernel.
fn point(program: &str, beside: Option<&str>, services: Option<f64>) -> Point {
    let pinned = |cpu: u32| format!("cpus = [{cpu}]\n");
    let mut tenants = format!("{}{}session = \"subject\"\n", vm("subject", program), pinned(0));
    let mut parts = vec!["subject"];
    if let Some(demand) = services {
        tenants += &format!("[[tenant]]\nname = \"services\"\nsession = \"subject\"\nprogram = {{ kind = \"interference\", pattern = \"periodic\", busy = \"1ms\", busy-by = \"wall\", demand = {demand} }}\n{}", pinned(0));
        parts.push("services");
    }
    if let Some(other) = beside {
        tenants += &format!("{}{}repeat = true\n", vm("beside", other), pinned(4));
    }
    let outcome = run(&Presets, "", &tenants, &Options::default());
    let counters = parts.iter().map(|part| account(seen(&outcome), part).counters.expect("the model counts"));
    let counters = counters.reduce(|a, b| a.plus(&b)).expect("a VM has a part");
    Point {
        time_ns: outcome.tenants[0].time_ns.expect("it has ended").mean,
        counts: std::array::from_fn(|e| EVENTS[e].count.and_then(|of| of(&counters)).map(|n| n as f64)),
    }
}

fn runs(programs: &[&str], services: Option<f64>) -> Vec<Runs> {
    programs.par_iter().map(|program| std::array::from_fn(|i| point(program, BESIDE[i], services))).collect()
}

/// Pearson's correlation. `None` if one of the two is constant.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let changes = |v: &[f64]| {
        let (least, most) = v.iter().fold((f64::INFINITY, 0.0), |(a, b), x| (x.min(a), x.max(b)));
        most - least > RESOLUTION * most
    };
    if !changes(&x) || !changes(&y) {
        return None;
    }
    let (mx, my) = (mean(&x), mean(&y));
    let sum = |f: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(f).sum::<f64>();
    let both = sum(&|p| (p.0 - mx) * (p.1 - my));
    Some(both / (sum(&|p| (p.0 - mx).powi(2)) * sum(&|p| (p.1 - my).powi(2))).sqrt())
}

/// A quantity of a run. `None` if unknown.
type Quantity<'a> = &'a dyn Fn(&Point) -> Option<f64>;

fn time(p: &Point) -> Option<f64> {
    Some(p.time_ns)
}

/// The result of a correlation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Found {
    /// The model does not have the event.
    NotModelled,
    /// It is the same in all runs.
    Constant,
    /// The mean over those VMs in which it changes, and their number.
    Is { r: f64, vms: usize },
}

impl Found {
    fn text(self) -> String {
        match self {
            Found::NotModelled => "not modelled".into(),
            Found::Constant => "constant".into(),
            Found::Is { r, vms } if vms == VMS.len() => format!("{r:.2}"),
            Found::Is { r, vms } => format!("{r:.2} ({vms} VMs)"),
        }
    }
}

/// The mean over VMs of the correlation within each.
fn within(all: &[Runs], a: Quantity, b: Quantity) -> Found {
    let pairs = |runs: &Runs| runs.iter().map(|p| Some((a(p)?, b(p)?))).collect::<Option<Vec<_>>>();
    let Some(pairs) = all.iter().map(pairs).collect::<Option<Vec<_>>>() else { return Found::NotModelled };
    let each: Vec<f64> = pairs.iter().filter_map(|p| correlation(p)).collect();
    if each.is_empty() {
        return Found::Constant;
    }
    Found::Is { r: mean(&each), vms: each.len() }
}

/// The correlation over all VMs at once, of quantities relative to those alone.
fn across(all: &[Runs], a: Quantity, b: Quantity) -> Found {
    let ratios = |runs: &Runs| {
        let ratio = |of: Quantity, p: &Point| Some(of(p)? / of(&runs[0])?);
        runs[1..].iter().map(|p| Some((ratio(a, p)?, ratio(b, p)?))).collect::<Option<Vec<_>>>()
    };
    let Some(pairs) = all.iter().map(ratios).collect::<Option<Vec<_>>>() else { return Found::NotModelled };
    correlation(&pairs.concat()).map_or(Found::Constant, |r| Found::Is { r, vms: all.len() })
}

/// Prints the changes in each VM: its time, and an event.
fn changes(what: &str, event: &str, all: &[Runs]) {
    let e = EVENTS.iter().position(|e| e.name == event).expect("it is an event");
    let mut table = Table::new(&["VM", ">beside milc: time", ">event", ">beside stream: time", ">event"]);
    for (program, runs) in VMS.into_iter().zip(all) {
        let against_alone = |i: usize| {
            let count = runs[i].counts[e].zip(runs[0].counts[e]).map(|(a, b)| a / b);
            let count = count.map_or("unknown".into(), |m| format!("× {m:.3}"));
            [format!("{:.2}", runs[i].time_ns / runs[0].time_ns), count]
        };
        let cells = (1..BESIDE.len()).flat_map(against_alone);
        table.row(std::iter::once(program.to_owned()).chain(cells));
    }
    println!("Table 6, the runs: time and {what} against alone\n{}", table.text());
}

/// Prints the runs, their correlations with degradation, and those between events.
pub fn table_6() {
    let plain = runs(&VMS, None);
    changes("LLC misses", "LLC", &plain);
    let guests: Vec<(String, Vec<Runs>)> = [0.01, 0.05]
        .into_iter()
        .map(|share| (format!(">guest works {:.0} %: within", share * 100.0), runs(&VMS, Some(share))))
        .collect();
    changes("instructions where guests work 1 %", "IC", &guests[0].1);
    let mut columns = vec!["event", ">paper", ">within VMs", ">across VMs"];
    for (name, _) in &guests {
        columns.extend([name.as_str(), ">across"]);
    }
    let mut table = Table::new(&columns);
    for (e, event) in EVENTS.iter().enumerate() {
        let count = |p: &Point| p.counts[e];
        let of = |all: &[Runs]| [within(all, &count, &time).text(), across(all, &count, &time).text()];
        let cells = std::iter::once(&plain).chain(guests.iter().map(|g| &g.1)).flat_map(|all| of(all));
        table.row([event.name.to_owned(), format!("{:.2}", event.paper)].into_iter().chain(cells));
    }
    println!("Table 6: correlation with degradation\n{}", table.text());

    let mut table = Table::new(&["events", ">paper", ">within VMs", ">across VMs"]);
    for (a, event) in EVENTS.iter().enumerate() {
        for (i, paper) in event.with.iter().enumerate() {
            let b = a + 1 + i;
            let (of_a, of_b) = (|p: &Point| p.counts[a], |p: &Point| p.counts[b]);
            let found = [within(&plain, &of_a, &of_b).text(), across(&plain, &of_a, &of_b).text()];
            let name = format!("{} and {}", event.name, EVENTS[b].name);
            table.row([name, format!("{paper:.2}")].into_iter().chain(found));
        }
    }
    println!("Table 6: correlations between events\n{}", table.text());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(name: &str) -> impl Fn(&Point) -> Option<f64> {
        let e = EVENTS.iter().position(|e| e.name == name).unwrap();
        move |p: &Point| p.counts[e]
    }

    #[test]
    fn a_correlation_is_one_on_a_rising_line_minus_one_on_a_falling_one_and_none_without_change() {
        let line = |slope: f64| [1.0, 2.0, 4.0].map(|x| (x, 10.0 + slope * x));
        assert!((correlation(&line(2.0)).unwrap() - 1.0).abs() < 1e-12);
        assert!((correlation(&line(-2.0)).unwrap() + 1.0).abs() < 1e-12);
        assert_eq!((correlation(&line(0.0)), correlation(&line(1e-3))), (None, None));
    }

    #[test]
    fn table_6_has_no_number_for_a_counter_that_is_not_modelled_or_does_not_change() {
        let all = runs(&["gcc", "gromacs"], None);
        let with_time = |name: &str| within(&all, &count(name), &time);
        assert_eq!([with_time("DTLB"), with_time("L1")], [Found::NotModelled; 2]);
        assert_eq!([with_time("IC"), with_time("L2")], [Found::Constant; 2]);
        assert_eq!(across(&all, &count("L1"), &time), Found::NotModelled);
        assert_eq!(across(&all, &count("IC"), &time), Found::Constant);
    }

    #[test]
    fn table_6_llc_misses_correlate_within_a_vm_and_not_across_vms_and_cycles_do_both() {
        let all = runs(&VMS, None);
        let r = |found| match found {
            Found::Is { r, .. } => r,
            _ => panic!("{found:?}"),
        };
        let (llc, cycles) = (count("LLC"), count("Clk_r"));
        assert!(r(within(&all, &llc, &time)) > 0.9 && r(across(&all, &llc, &time)).abs() < 0.4);
        assert!(r(within(&all, &cycles, &time)) > 0.99 && r(across(&all, &cycles, &time)) > 0.99);
    }

    #[test]
    fn table_6_instructions_correlate_with_degradation_if_the_guest_works_by_the_clock() {
        let found = within(&runs(&["gcc", "soplex", "sphinx3"], Some(0.01)), &count("IC"), &time);
        assert!(matches!(found, Found::Is { r, .. } if r > 0.8), "{found:?}");
    }
}
