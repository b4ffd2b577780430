//! The checks of the command line before anybody is watched.

use super::Args;
use crate::usage::{take_place, Usage};
use corun_model::duration::human_ns;
use corun_report::output::can_be_written;
use corun_session::error::Named;
use std::collections::BTreeSet;

/// Checks it.
///
/// # Errors
/// One sentence.
pub fn check(args: &Args) -> Result<(), Usage> {
    if args.tenants.is_empty() && !args.all {
        let what = "name whom to control: --tenant NAME (more than once for several), or --all";
        return Err(Usage(what.into()));
    }
    if let Some(empty) = args.tenants.iter().chain(&args.protect).find(|t| t.trim().is_empty()) {
        return Err(Usage(format!(
            "`{empty}` is no tenant's name; `corun profile --all --for 1s` lists them"
        )));
    }
    if args.json_lines && args.to_standard_output() {
        let what = "--json-lines has standard output for itself; give the other file a name instead of `-`";
        return Err(Usage(what.into()));
    }
    // Hours later would be too late to learn that a report cannot be written.
    for (flag, path) in args.files() {
        can_be_written(path).map_err(|e| Usage(format!("{flag} {}: {}", path.display(), e.why)))?;
    }
    let mut taken = BTreeSet::new();
    args.files().try_for_each(|(_, path)| take_place(&mut taken, path))
}

/// The flag that names somebody.
pub fn flag(named: &Named) -> String {
    match named {
        Named::Tenant(name) => format!("--tenant {name}"),
        Named::Subject(name) => format!("-o subject={name}"),
        Named::Everybody => "--all".to_owned(),
        Named::Epoch(ns) => format!("--epoch {}", human_ns(*ns)),
    }
}
