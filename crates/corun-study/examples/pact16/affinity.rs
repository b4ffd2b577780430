//! Section 3.1: the slowdown of programs if the vCPUs of both VMs are not pinned, compared with pinned.

use crate::rig::{loops, mean, preset, seen, speeds, vm, Length, NPB, PARSEC, PINNED};
use crate::{percent, state};
use corun_report::table::Table;
use corun_sim::metrics::variation;

const SEEDS: u32 = 8;
/// The paper's mean slowdown and variation. It does not say for which programs and co-runners.
const STATED: [f64; 2] = [0.55, 0.15];
/// Where unpinned vCPUs may run: on the same four cores, or on both nodes.
const FREE: [(&str, &str); 2] = [("4", "allowed = [0, 1, 2, 3]"), ("8", "")];

/// The results of a program.
struct Freed {
    slowdown: f64,
    variation: f64,
    stolen_by_itself: f64,
}

fn freed(program: &str, other: &str, place: &str) -> Freed {
    let tenants = |place| [vm("subject", &preset(program), 4, place), vm("background", other, 4, place)];
    let (pinned, free) = (speeds(&tenants(PINNED), SEEDS), speeds(&tenants(place), SEEDS));
    Freed {
        slowdown: mean(&pinned, |s| *s) / mean(&free, |s| *s) - 1.0,
        variation: variation(&free).expect("there are several runs"),
        stolen_by_itself: mean(&seen(&tenants(place), SEEDS, Length::Short), |run| run.stolen_by_itself()),
    }
}

pub fn print() {
    let mut table = Table::new(&[
        "beside",
        ">cores",
        "programs",
        ">slowdown",
        ">variation",
        ">stolen by own threads",
        "worst",
    ]);
    let others = [
        ("persistent loops", loops("persistent", 4, None)),
        ("periodic loops", loops("periodic", 4, None)),
        ("intermittent loops", loops("intermittent", 4, None)),
        ("streamcluster", preset("streamcluster")),
    ];
    for (name, other) in others {
        for (cores, place) in FREE {
            for (suite, programs) in [("PARSEC", PARSEC.as_slice()), ("NPB", &NPB)] {
                let all: Vec<Freed> = programs.iter().map(|program| freed(program, &other, place)).collect();
                let (worst, of_worst) = programs
                    .iter()
                    .zip(&all)
                    .max_by(|a, b| a.1.slowdown.total_cmp(&b.1.slowdown))
                    .expect("a suite has programs");
                let key = format!("affinity.{}.{cores}.{suite}", name.replace(' ', "-"));
                state(&key, &percent(mean(&all, |f| f.slowdown)));
                state(&format!("{key}.variation"), &format!("{:.0} %", 100.0 * mean(&all, |f| f.variation)));
                table.row([
                    name.to_owned(),
                    cores.to_owned(),
                    suite.to_owned(),
                    percent(mean(&all, |f| f.slowdown)),
                    format!("{:.0} %", 100.0 * mean(&all, |f| f.variation)),
                    format!("{:.0} %", 100.0 * mean(&all, |f| f.stolen_by_itself)),
                    format!("{worst} {}", percent(of_worst.slowdown)),
                ]);
            }
        }
    }
    let [slowdown, variation] = STATED.map(percent);
    println!("Affinity off, against pinned (the paper: {slowdown}, variation {variation})\n{}", table.text());
}
