//! The result of a study of programs as words and tables, and as the files of a record: one workload file per program.

use super::choice::Part;
use super::outcome::{DescribeOutcome, ProgramOutcome, ALONE};
use crate::statistics::median;
use corun_model::duration::human_ns;
use corun_report::json;
use corun_report::table::Table;
use std::fmt::Write;
use std::path::PathBuf;

fn percent(x: f64) -> String {
    format!("{:.0} %", x * 100.0)
}

fn sync(part: &Part) -> String {
    let threads = part.traits.threads();
    let or: String = part.is.or.iter().map(|other| format!(" or {other}")).collect();
    match threads {
        1 => "one thread".into(),
        _ => format!("{threads}, {}{or}", part.is.sync),
    }
}

/// The description of each program.
pub fn programs(o: &DescribeOutcome) -> Table {
    let columns = [
        "program",
        ">length",
        ">serial",
        ">threads made, ended",
        "parts: threads and how they depend",
        ">left out",
        ">misfit",
    ];
    let mut table = Table::new(&columns);
    for p in &o.programs {
        let Some(is) = &p.is else { continue };
        let parts = is.parts.iter().map(|part| {
            format!("{} {}", percent(part.traits.wall_ns as f64 / is.wall_ns.max(1) as f64), sync(part))
        });
        let worst = is.parts.iter().map(|part| part.is.misfit).fold(0.0, f64::max);
        table.row([
            p.name.clone(),
            human_ns(is.wall_ns),
            percent(is.serial),
            format!("{}, {}", is.births, is.ends),
            parts.collect::<Vec<_>>().join("; "),
            percent(is.left_out),
            format!("{worst:.2}"),
        ]);
    }
    table
}

/// The parts of each program, with the measurements.
fn parts(p: &ProgramOutcome) -> Table {
    let columns = [
        "part",
        ">length",
        ">threads",
        "is",
        ">from wait to wait",
        ">waits for each other",
        ">blocked",
        ">work of each, of the mean",
        ">misfit",
    ];
    let mut table = Table::new(&columns);
    for part in p.is.iter().flat_map(|is| &is.parts) {
        let t = &part.traits;
        let mean_ns = t.all_cpu_ns() as f64 / t.threads().max(1) as f64;
        let shares = t.cpu_ns.iter().map(|ns| format!("{:.2}", *ns as f64 / mean_ns));
        let blocked = t.blocked_ns.iter().map(|ns| percent(*ns as f64 / t.wall_ns.max(1) as f64));
        table.row([
            format!("from {}", percent(part.from)),
            human_ns(t.wall_ns),
            t.threads().to_string(),
            sync(part),
            format!("{} ± {}", human_ns(t.span_ns), percent(t.span_varies)),
            t.waits.to_string(),
            blocked.collect::<Vec<_>>().join(", "),
            shares.collect::<Vec<_>>().join(", "),
            format!("{:.2}", part.is.misfit),
        ]);
    }
    table
}

/// Co-runs, live and modelled.
pub fn beside(o: &DescribeOutcome) -> Table {
    let mut table = Table::new(&[
        "program",
        "next to",
        ">alone, live",
        ">modelled",
        ">slowdown, live",
        ">modelled",
        ">error",
    ]);
    for p in &o.programs {
        for b in &p.beside {
            let slowdowns = p.slowdowns(b);
            let range = match (slowdowns.first(), median(&slowdowns), slowdowns.last()) {
                (Some(least), Some(median), Some(most)) => format!("{median:.2}× ({least:.2} to {most:.2})"),
                _ => "-".into(),
            };
            let alone: Vec<f64> = p.alone_ns.iter().map(|ns| *ns as f64).collect();
            table.row([
                p.name.clone(),
                b.interferer.clone(),
                median(&alone).map_or("-".into(), |ns| human_ns(ns as u64)),
                p.modelled_alone_ns.map_or("-".into(), human_ns),
                range,
                b.modelled.map_or("-".into(), |x| format!("{x:.2}×")),
                p.error(b).map_or("-".into(), |x| format!("{:+.1} %", x * 100.0)),
            ]);
        }
    }
    table
}

/// Everything, for a terminal or as Markdown.
pub fn text(o: &DescribeOutcome, markdown: bool) -> String {
    let show = |t: Table| if markdown { t.markdown() } else { t.text() };
    let mut out = show(programs(o));
    let co_runs = beside(o);
    if !co_runs.is_empty() {
        out += "\nNext to loops, which no description has seen:\n\n";
        out += &show(co_runs);
        let errors = o.errors();
        if let (Some(median), Some(worst)) = (median(&errors), errors.iter().copied().reduce(f64::max)) {
            let _ = writeln!(
                out,
                "\nThe modelled slowdown is off by {:.1} % (median of {}), {:.1} % at worst.",
                median * 100.0,
                errors.len(),
                worst * 100.0
            );
        }
    }
    for p in o.programs.iter().filter(|p| p.is.is_some() && p.others > ALONE) {
        let _ = writeln!(
            out,
            "{}: others had {} of the CPUs while it was recorded, so this is not what it does alone; record it again on a quiet machine",
            p.name,
            percent(p.others)
        );
    }
    for p in &o.programs {
        if let Some(why) = &p.skipped {
            let _ = writeln!(out, "skipped {}: {why}", p.name);
        }
    }
    out
}

/// The files of a record. `command` is the command that makes the record again.
pub fn files(o: &DescribeOutcome, command: &str) -> Vec<(PathBuf, String)> {
    let mut readme = format!(
        "# Programs as workload files\n\nMade {} by corun {} with\n\n```\n{command}\n```\n\n\
         | | |\n| --- | --- |\n| machine | {} |\n| kernel | {} |\n| fair shares | {} |\n\n\
         `result.json` has every run and each program's workload, which the study also writes as a file by program, for `corun sim`.\n\n{}",
        o.head.when(),
        o.head.corun,
        o.head.machine,
        o.head.kernel,
        o.shares,
        text(o, true)
    );
    let described = o.programs.iter().filter(|p| p.is.is_some());
    for p in described.clone() {
        let _ = writeln!(
            readme,
            "\n## {}\n\n{} events. `{}`\n\n{}",
            p.name,
            p.events,
            p.recipe.argv.join(" "),
            parts(p).markdown().trim_end()
        );
    }
    let mut files = vec![("README.md".into(), readme), ("result.json".into(), json::indented(o))];
    files.extend(described.map(|p| (format!("{}.toml", p.name).into(), p.workload.clone())));
    files
}
