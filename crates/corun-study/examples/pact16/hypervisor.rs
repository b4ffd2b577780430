//! The influence of the hypervisor: whether the slices of all cores begin together, and the activity of domain 0.
//!
//! The paper gives neither. Xen's first slice is as long as any other. If the vCPUs of both VMs start at one instant, all cores switch
//! together. A first slice of random length prevents that. Domain 0 is a VM of one vCPU that may run anywhere on the node.

use crate::rig::{
    beside, mean, preset, seen, speeds, subject, vm, with_whole_slices, Breakdown, Length, SEEDS,
};
use crate::table_2::four_loops;
use crate::{percent, state};
use corun_report::table::Table;

const SPEED_SEEDS: u32 = 8;
const SPINNERS: [&str; 5] = ["sp", "bt", "lu", "ua", "mg"];
const BLOCKERS: [&str; 3] = ["facesim", "streamcluster", "swaptions"];

fn slowdown(tenants: &[String]) -> f64 {
    let speed = |tenants: &[String]| mean(&speeds(tenants, SPEED_SEEDS), |s| *s);
    speed(&tenants[..1]) / speed(tenants) - 1.0
}

/// One figure of a program.
type Row = (String, Box<dyn Fn() -> f64>);

fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for program in SPINNERS.into_iter().chain(BLOCKERS) {
        let of = move || slowdown(&[subject(&preset(program)), beside("persistent", 4)]);
        rows.push((format!("figure 1, four loops: time, {program}"), Box::new(of)));
    }
    for program in ["streamcluster", "sp", "bt", "lu"] {
        let of = move || {
            let compute =
                |tenants: &[String]| Breakdown::of_all(&seen(tenants, SEEDS, Length::Short)).compute;
            let subject = subject(&preset(program));
            compute(&[subject.clone(), beside("persistent", 1)]) / compute(&[subject]) - 1.0
        };
        rows.push((format!("figure 3, one loop: compute, {program}"), Box::new(of)));
    }
    let table_2 =
        || slowdown(&std::iter::once(subject(&preset("sp"))).chain(four_loops()).collect::<Vec<_>>());
    rows.push(("table 2: time, sp".into(), Box::new(table_2)));
    for pattern in ["persistent", "periodic", "intermittent"] {
        let of = move || slowdown(&[subject(&preset("lu")), beside(pattern, 4)]);
        rows.push((format!("figure 6, {pattern}: time, lu"), Box::new(of)));
    }
    rows
}

pub fn first_slice() {
    let mut table = Table::new(&["change", ">random first slice", ">whole, as Xen's"]);
    for (what, of) in rows() {
        let (random, whole) = (percent(of()), percent(with_whole_slices(of)));
        let key = what.replace([':', ','], "").replace(' ', "-");
        state(&format!("first-slice.{key}.random"), &random);
        state(&format!("first-slice.{key}.whole"), &whole);
        table.row([what, random, whole]);
    }
    println!("By the first slice\n{}", table.text());
}

/// Domain 0 with this many wake-ups per second, of 100 µs each.
fn domain_0(per_second: u32) -> String {
    let preset = crate::rig::changed("xen-dom0", |program, _| {
        program.insert("demand".into(), toml::Value::Float(f64::from(per_second) * 100e-6));
        program.remove("iterations");
    });
    vm("dom0", &preset, 1, "allowed = [0, 1, 2, 3]")
}

pub fn with_domain_0() {
    let mut table = Table::new(&["four loops: time", ">no domain 0", ">100 wake-ups per second", ">1,000"]);
    for program in SPINNERS.into_iter().chain(BLOCKERS) {
        let beside = |others: &[String]| {
            let all = [vec![subject(&preset(program)), beside("persistent", 4)], others.to_vec()].concat();
            let alone = mean(&speeds(&all[..1], SPEED_SEEDS), |s| *s);
            percent(alone / mean(&speeds(&all, SPEED_SEEDS), |s| *s) - 1.0)
        };
        let row = [beside(&[]), beside(&[domain_0(100)]), beside(&[domain_0(1_000)])];
        state(&format!("domain-0.{program}"), &row.join(", "));
        table.row(std::iter::once(program.to_owned()).chain(row));
    }
    println!("By what domain 0 does\n{}", table.text());
}
