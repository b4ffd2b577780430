//! Figures 3 and 4: the loss of a VM depends on which other VM is on its core.
//!
//! Four VMs are pinned to the four CPUs of two cores, so there are three ways to pair them. Figure 3 compares each VM with its solo
//! run, figure 4 with its best of the three pairings.

use crate::{account, mean, percent, run, save, seen, vm};
use corun_report::table::Table;
use corun_sim::experiment::Options;
use corun_sim::metrics::geometric_mean;
use corun_study::bars::{chart, Bar, Group, Part};
use corun_study::schedulers::presets::Presets;
use rayon::prelude::*;
use std::path::Path;

type Programs = [&'static str; 4];

/// Table 3 of the paper.
const TWO: [Programs; 2] = [["soplex", "milc", "gromacs", "sjeng"], ["soplex", "sphinx3", "gamess", "namd"]];

/// Table 4 of the paper. The last but one has the same programs as the sixth to the eighth, and the ninth the same as the second.
const THIRTEEN: [Programs; 13] = [
    ["mcf", "lbm", "gcc", "gamess"],
    ["mcf", "gcc", "gamess", "milc"],
    ["gcc", "gamess", "milc", "stream"],
    ["mcf", "lbm", "milc", "stream"],
    ["mcf", "lbm", "milc", "gcc"],
    ["gamess", "gromacs", "soplex", "sphinx3"],
    ["gamess", "gobmk", "mcf", "soplex"],
    ["gamess", "gcc", "mcf", "povray"],
    ["gamess", "gcc", "mcf", "milc"],
    ["gamess", "gromacs", "soplex", "sphinx3"],
    ["gamess", "gobmk", "mcf", "soplex"],
    ["gamess", "gcc", "mcf", "povray"],
    ["gamess", "gcc", "sphinx3", "stream"],
];

/// The paper's figures over its thirteen workloads: least, most, mean and geometric mean.
const AVERAGE: [f64; 4] = [0.01, 0.15, 0.06, 0.042];
const WORST: [f64; 4] = [0.05, 1.35, 0.326, 0.182];

/// CPU of each VM, by pairing. CPUs 0 and 4 are one core, 1 and 5 the other.
const PAIRINGS: [[u32; 4]; 3] = [[0, 4, 1, 5], [0, 1, 4, 5], [0, 1, 5, 4]];

/// The VM on the same core.
fn partner(pairing: usize, vm: usize) -> usize {
    let cpus = PAIRINGS[pairing];
    (0..4).find(|&o| cpus[o] == cpus[vm] ^ 4).expect("two of a core")
}

/// How long programs run. The paper does not say whether they were started again while others still ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runs {
    /// All start together and run once. The last ones have the machine to themselves.
    Once,
    /// All start again until the time is up, so that all always run together.
    Again(&'static str),
}

/// Slowdown of each VM compared with its solo run, for each pairing.
fn slowdowns(programs: &Programs, runs: Runs) -> [[f64; 4]; 3] {
    PAIRINGS.map(|cpus| {
        let (head, again) = match runs {
            Runs::Once => (String::new(), false),
            Runs::Again(duration) => (format!("duration = \"{duration}\""), true),
        };
        let tenants = programs
            .iter()
            .zip(cpus)
            .map(|(program, cpu)| format!("{}cpus = [{cpu}]\nrepeat = {again}\n", vm(program, program)));
        let outcome = run(&Presets, &head, &tenants.collect::<String>(), &Options::default());
        std::array::from_fn(|i| outcome.tenants[i].slowdown.expect("everybody came somewhere").mean)
    })
}

/// The result of a workload in figure 4.
#[derive(Clone, Copy, Debug)]
struct Degradation {
    /// Mean over VMs and pairings, each compared with the VM's best pairing.
    average: f64,
    /// The most of them.
    worst: f64,
    /// The program, and the one on its core.
    of: (&'static str, &'static str),
}

fn degradation(programs: &Programs, runs: Runs) -> Degradation {
    let slowdowns = slowdowns(programs, runs);
    let best: [f64; 4] =
        std::array::from_fn(|vm| slowdowns.iter().map(|s| s[vm]).fold(f64::INFINITY, f64::min));
    let each = (0..3).flat_map(|p| (0..4).map(move |vm| (p, vm)));
    let each: Vec<(usize, usize, f64)> =
        each.map(|(p, vm)| (p, vm, slowdowns[p][vm] / best[vm] - 1.0)).collect();
    let &(p, vm, worst) = each.iter().max_by(|a, b| a.2.total_cmp(&b.2)).expect("there are twelve");
    Degradation {
        average: mean(&each.iter().map(|e| e.2).collect::<Vec<_>>()),
        worst,
        of: (programs[vm], programs[partner(p, vm)]),
    }
}

/// The four figures of these values, as in [`AVERAGE`].
fn summary(values: &[f64]) -> [f64; 4] {
    let (least, most) = (f64::min, f64::max);
    [
        values.iter().copied().fold(f64::INFINITY, least),
        values.iter().copied().fold(0.0, most),
        mean(values),
        geometric_mean(values).expect("there are thirteen"),
    ]
}

/// LLC misses per thousand instructions, solo. Programs that the paper calls memory-intensive have many.
fn mpki_alone(program: &str) -> f64 {
    let tenants = format!("{}cpus = [0]\n", vm(program, program));
    let outcome = run(&Presets, "duration = \"5s\"", &tenants, &Options::default());
    let counters = account(seen(&outcome), program).counters.expect("the model counts");
    counters.mpki().expect("it has executed something")
}

const STEADY: Runs = Runs::Again("20s");

/// Prints the loss of each VM in each pairing, against its solo run.
pub fn figure_3() {
    for (name, programs) in ["A", "B"].into_iter().zip(TWO) {
        let slowdowns = slowdowns(&programs, STEADY);
        let mut table = Table::new(&[
            "VM",
            ">beside 1st",
            ">2nd",
            ">3rd",
            ">4th",
            ">suffers",
            ">inflicts",
            ">MPKI alone",
        ]);
        let mut lost = [[None; 4]; 4];
        for (p, s) in slowdowns.iter().enumerate() {
            (0..4).for_each(|vm| lost[vm][partner(p, vm)] = Some(s[vm] - 1.0));
        }
        for vm in 0..4 {
            let suffers = mean(&lost[vm].iter().flatten().copied().collect::<Vec<_>>());
            let inflicts = mean(&lost.iter().filter_map(|l| l[vm]).collect::<Vec<_>>());
            let cells = lost[vm].iter().map(|l| l.map_or("-".into(), percent));
            let sums = [percent(suffers), percent(inflicts), format!("{:.2}", mpki_alone(programs[vm]))];
            table.row(std::iter::once(programs[vm].to_owned()).chain(cells).chain(sums));
        }
        println!("Figure 3, workload {name}: degradation against running alone\n{}", table.text());
    }
}

/// Prints and draws the loss of each VM compared with its best pairing.
pub fn figure_4(folder: &Path) {
    let of = |runs: Runs| -> Vec<Degradation> { THIRTEEN.par_iter().map(|w| degradation(w, runs)).collect() };
    let (steady, once) = (of(STEADY), of(Runs::Once));
    let mut table = Table::new(&[
        "workload",
        "programs",
        ">average",
        ">worst",
        "whose",
        "beside",
        ">once: average",
        ">worst",
    ]);
    for (i, (s, o)) in steady.iter().zip(&once).enumerate() {
        let numbers = |d: &Degradation| [percent(d.average), percent(d.worst)];
        let [average, worst] = numbers(s);
        let name = [format!("WL{}", i + 1), THIRTEEN[i].join(" ")];
        let whose = [s.of.0.to_owned(), s.of.1.to_owned()];
        table.row(name.into_iter().chain([average, worst]).chain(whose).chain(numbers(o)));
    }
    println!("Figure 4: degradation against the best of three pairings\n{}", table.text());

    let mut table = Table::new(&["over 13 workloads", ">least", ">most", ">mean", ">geometric mean"]);
    let mut row = |what: &str, values: [f64; 4]| {
        table.row(std::iter::once(what.to_owned()).chain(values.map(percent)));
    };
    let all = |d: &[Degradation], f: fn(&Degradation) -> f64| summary(&d.iter().map(f).collect::<Vec<_>>());
    row("average, the paper", AVERAGE);
    row("average, again and again", all(&steady, |d| d.average));
    row("average, once", all(&once, |d| d.average));
    row("worst VM, the paper", WORST);
    row("worst VM, again and again", all(&steady, |d| d.worst));
    row("worst VM, once", all(&once, |d| d.worst));
    println!("{}", table.text());

    // In this workload the paper has its 135 %.
    let sixth = THIRTEEN[5];
    let sphinx3 = sixth.iter().position(|p| *p == "sphinx3").expect("it is one of them");
    let slowdowns = slowdowns(&sixth, STEADY);
    let mut table = Table::new(&["WL6: sphinx3 beside", ">slowdown"]);
    for p in 0..3 {
        table.row([sixth[partner(p, sphinx3)].to_owned(), format!("{:.2}", slowdowns[p][sphinx3])]);
    }
    println!("{}", table.text());

    save(folder, "arms16-fig4.svg", &drawn(&steady));
}

/// Figure 4 as a chart.
fn drawn(workloads: &[Degradation]) -> String {
    let average = Part { name: "mean of VMs and pairings".into(), colour: "#0072b2" };
    let worst = Part { name: "worst VM".into(), colour: "#d55e00" };
    let bar = |name: String, part: &Part, x: f64, paper: Option<f64>| Bar {
        name,
        parts: vec![(part.clone(), x * 100.0)],
        paper: paper.map(|x| x * 100.0),
    };
    let group = |(i, d): (usize, &Degradation)| {
        let whose = format!("{} + {}", d.of.0, d.of.1);
        let bars = vec![bar("all".into(), &average, d.average, None), bar(whose, &worst, d.worst, None)];
        Group { name: format!("WL{}", i + 1), bars }
    };
    let mut groups: Vec<Group> = workloads.iter().enumerate().map(group).collect();
    let over = |f: fn(&Degradation) -> f64| mean(&workloads.iter().map(f).collect::<Vec<_>>());
    let bars = vec![
        bar("all".into(), &average, over(|d| d.average), Some(AVERAGE[2])),
        bar("worst".into(), &worst, over(|d| d.worst), Some(WORST[2])),
    ];
    groups.push(Group { name: "mean".into(), bars });
    let title = "Degradation against the best of three pairings (ARMS-CC'16 figure 4, modelled)";
    chart(title, "degradation in percent", &groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_three_pairings_every_vm_runs_next_to_every_other_once() {
        for vm in 0..4 {
            let mut partners: Vec<usize> = (0..3).map(|p| partner(p, vm)).collect();
            partners.sort_unstable();
            assert_eq!(partners, (0..4).filter(|o| *o != vm).collect::<Vec<_>>());
        }
    }

    #[test]
    fn table_3_has_many_misses_for_programs_whose_presets_have_many() {
        let [many, few] = [
            ["soplex", "milc"].map(mpki_alone).to_vec(),
            ["gromacs", "sjeng", "sphinx3", "gamess", "namd"].map(mpki_alone).to_vec(),
        ];
        let least = many.iter().copied().fold(f64::INFINITY, f64::min);
        let most = few.iter().copied().fold(0.0, f64::max);
        assert!(least > 2.0 * most, "{many:?} and {few:?}");
    }

    #[test]
    fn figure_3_gromacs_suffers_more_than_milc_and_sjeng_disturbs_more_than_milc() {
        let lost = slowdowns(&TWO[0], Runs::Again("5s"));
        let loss = |of: &dyn Fn(usize) -> usize| mean(&[0, 1, 2].map(|p| lost[p][of(p)])) - 1.0;
        let (milc, gromacs, sjeng) = (1, 2, 3);
        let suffers = [milc, gromacs].map(|vm| loss(&|_| vm));
        let inflicts = [milc, sjeng].map(|vm| loss(&|p| partner(p, vm)));
        assert!(suffers[0] > 0.1 && suffers[1] > 1.2 * suffers[0], "{suffers:?}");
        assert!(inflicts[0] > 0.1 && inflicts[1] > 1.2 * inflicts[0], "{inflicts:?}");
    }

    #[test]
    fn figure_4_pairing_decides_over_some_percent_on_average_and_over_tens_for_the_worst_vm() {
        let all: Vec<Degradation> =
            THIRTEEN.par_iter().map(|programs| degradation(programs, Runs::Again("5s"))).collect();
        let average = summary(&all.iter().map(|d| d.average).collect::<Vec<_>>());
        let worst = summary(&all.iter().map(|d| d.worst).collect::<Vec<_>>());
        assert!(average[0] > 0.005 && average[1] < 0.2, "{average:?}");
        assert!(
            (0.04..0.10).contains(&average[2]) && (0.2..0.45).contains(&worst[2]),
            "{average:?} {worst:?}"
        );
    }
}
