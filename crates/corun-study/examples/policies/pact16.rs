//! PACT'16 figures 9 and 10: the paper's Xeon under Xen's credit scheduler, two VMs pinned to the same four cores.

use super::matrix::{geometric, mean, policy, rate, runs, variation};
use corun_report::table::Table;
use corun_study::bars::{chart, Bar, Group, Part, COMPUTE, STEAL, SYNC};
use std::collections::BTreeMap;
use std::path::Path;

const PINNED: &str = "vm = { vcpus = 4 }\ncpus = [0, 1, 2, 3]\n";
const ADAPTIVE: Part = Part { name: "adaptive", colour: "#009e73" };

fn head(length: &str, policy: &str) -> String {
    format!(
        "schema = \"corun.scenario/1\"\nmachine = \"pact16-xeon-e5620\"\nduration = \"{length}\"\n\
         seeds = [1, 2, 3, 4, 5, 6, 7, 8]\n[scheduler]\nname = \"xen-credit\"\n{policy}"
    )
}

fn program(name: &str) -> String {
    format!(
        "[[tenant]]\nname = \"{name}\"\nworkload = \"workloads/papers/{name}.toml\"\nrepeat = true\n{PINNED}"
    )
}

/// Work per second of a tenant alone.
fn alone(tenant: &str, length: &str) -> f64 {
    let runs = runs(&format!("{}{tenant}", head(length, "")));
    mean(&runs.iter().map(|r| rate(r, 0)).collect::<Vec<_>>())
}

fn loops(pattern: &str) -> String {
    format!(
        "[[tenant]]\nname = \"loops\"\nprogram = {{ kind = \"interference\", pattern = \"{pattern}\", threads = 4 }}\n{PINNED}"
    )
}

/// A program as the other side, also of itself.
fn other(name: &str) -> String {
    program(name).replacen(&format!("name = \"{name}\""), "name = \"background\"", 1)
}

/// Work per second of both sides, per seed.
fn beside(foreground: &str, background: &str, policy: &str, length: &str) -> Vec<(f64, f64)> {
    runs(&format!("{}{}{background}", head(length, policy), program(foreground)))
        .iter()
        .map(|r| (rate(r, 0), rate(r, 1)))
        .collect()
}

/// Figure 9: PARSEC beside streamcluster and beside fluidanimate.
pub fn figure_9(folder: &Path) {
    let length = "60s";
    let programs = [
        "streamcluster",
        "facesim",
        "canneal",
        "dedup",
        "bodytrack",
        "swaptions",
        "blackscholes",
        "x264",
        "fluidanimate",
    ];
    let policies = [
        ("Xen", String::new(), STEAL),
        ("DP 2 ms", policy("delayed_preemption", "delay = \"2ms\""), COMPUTE),
        ("DP 8 ms", policy("delayed_preemption", "delay = \"8ms\""), SYNC),
        ("adaptive", policy("delayed_preemption", ""), ADAPTIVE),
    ];
    let alone: BTreeMap<&str, f64> = programs.iter().map(|p| (*p, alone(&program(p), length))).collect();
    let mut groups = Vec::new();
    let backgrounds = [
        ("streamcluster", other("streamcluster")),
        ("fluidanimate", other("fluidanimate")),
        // Not in the paper's figure: the loops of its section 3, whose wake-ups section 5.1 blames.
        ("periodic loops", loops("periodic")),
        ("intermittent loops", loops("intermittent")),
    ];
    for (background, other) in &backgrounds {
        let other_alone = self::alone(other, length);
        let mut table = Table::new(&[
            "foreground",
            ">Xen",
            ">DP 2 ms",
            ">DP 8 ms",
            ">adaptive",
            ">best static",
            ">adaptive",
        ]);
        // Per policy: overall slowdowns, the geometric mean of both sides, one per foreground.
        let mut overall: Vec<Vec<f64>> = vec![Vec::new(); policies.len()];
        let (mut best, mut near) = ((0.0, ""), Vec::new());
        for foreground in programs {
            let mut slow = Vec::new();
            let mut cells = vec![foreground.to_owned()];
            for (i, (_, text, _)) in policies.iter().enumerate() {
                let rates = beside(foreground, other, text, length);
                let fore = alone[foreground] / mean(&rates.iter().map(|r| r.0).collect::<Vec<_>>());
                let back = other_alone / mean(&rates.iter().map(|r| r.1).collect::<Vec<_>>());
                overall[i].push((fore * back).sqrt());
                slow.push(fore);
                cells.push(format!("{fore:.2} / {back:.2}"));
            }
            let gain = slow[0] / slow[1].min(slow[2]) - 1.0;
            if gain > best.0 {
                best = (gain, foreground);
            }
            let latest = |i: usize| overall[i].last().copied().expect("just pushed");
            near.push(latest(3) / latest(1).min(latest(2)));
            cells.push(format!("{:+.0} %", gain * 100.0));
            cells.push(format!("{:+.0} %", (slow[0] / slow[3] - 1.0) * 100.0));
            table.row(cells);
            let bars = policies.iter().zip(&slow).map(|((name, _, part), s)| Bar {
                name: (*name).into(),
                parts: vec![(*part, *s)],
                paper: None,
            });
            groups.push(Group { name: format!("{foreground} / {background}"), bars: bars.collect() });
        }
        println!(
            "Figure 9 beside {background}: slowdown of foreground / background; gain over Xen\n{}",
            table.text()
        );
        for (i, (name, _, _)) in policies.iter().enumerate().skip(1) {
            let gain = geometric(&overall[0]) / geometric(&overall[i]) - 1.0;
            println!(
                "{name}: overall slowdown {:.3}, {:+.1} % against Xen's {:.3}",
                geometric(&overall[i]),
                gain * 100.0,
                geometric(&overall[0])
            );
        }
        println!("best case of a static delay: {} {:+.1} % (paper: up to +23 %)", best.1, best.0 * 100.0);
        println!(
            "adaptive against the better of 2 ms and 8 ms, overall slowdown: {:.3} (geometric mean), worst {:.3}\n",
            geometric(&near),
            near.iter().copied().fold(0.0, f64::max)
        );
    }
    let title = "Delayed preemption (PACT'16 figure 9, modelled)";
    super::save(folder, "pact16-fig9.svg", &chart(title, "slowdown of the foreground", &groups));
}

/// Figure 10: NPB beside persistent and periodic loops and beside sp.
pub fn figure_10(folder: &Path) {
    let length = "30s";
    let programs = ["bt", "cg", "ep", "ft", "is", "lu", "mg", "sp", "ua"];
    let backgrounds =
        [("persistent", loops("persistent")), ("periodic", loops("periodic")), ("sp", other("sp"))];
    let alone: BTreeMap<&str, f64> = programs.iter().map(|p| (*p, alone(&program(p), length))).collect();
    let ds = policy("differential", "");
    let mut groups = Vec::new();
    for (name, background) in backgrounds {
        let mut table = Table::new(&["program", ">Xen", ">DS", ">gain", ">variation Xen", ">variation DS"]);
        let (mut gains, mut spread) = (BTreeMap::new(), (Vec::new(), Vec::new()));
        for program in programs {
            let rates = |policy: &str| {
                beside(program, &background, policy, length).iter().map(|r| r.0).collect::<Vec<_>>()
            };
            let (xen, differential) = (rates(""), rates(&ds));
            let gain = mean(&differential) / mean(&xen) - 1.0;
            gains.insert(program, gain);
            spread.0.push(variation(&xen));
            spread.1.push(variation(&differential));
            let slow = |rates: &[f64]| alone[program] / mean(rates);
            table.row([
                program.to_owned(),
                format!("{:.2}", slow(&xen)),
                format!("{:.2}", slow(&differential)),
                format!("{:+.0} %", gain * 100.0),
                format!("{:.1} %", variation(&xen) * 100.0),
                format!("{:.1} %", variation(&differential) * 100.0),
            ]);
            let bar =
                |name: &str, part, value| Bar { name: name.into(), parts: vec![(part, value)], paper: None };
            groups.push(Group {
                name: format!("{program} / {name}"),
                bars: vec![bar("Xen", STEAL, slow(&xen)), bar("DS", COMPUTE, slow(&differential))],
            });
        }
        println!("Figure 10 beside {name}: slowdown\n{}", table.text());
        let best = gains.iter().max_by(|a, b| a.1.total_cmp(b.1)).expect("some program");
        println!("best: {} {:+.1} % (paper: up to +38 % over all three)", best.0, best.1 * 100.0);
        if name == "persistent" {
            let bound = mean(&["sp", "lu", "ua"].map(|p| gains[p]));
            println!("sp, lu, ua: {:+.1} % on average (paper: +32 %)", bound * 100.0);
        }
        println!(
            "run-to-run variation: Xen {:.2} %, DS {:.2} % (paper: DS 0.5 %)\n",
            mean(&spread.0) * 100.0,
            mean(&spread.1) * 100.0
        );
    }
    let title = "Differential scheduling (PACT'16 figure 10, modelled)";
    super::save(folder, "pact16-fig10.svg", &chart(title, "slowdown", &groups));
}
