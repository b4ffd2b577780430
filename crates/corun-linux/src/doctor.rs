//! What can be seen and done on this machine, and why the rest cannot. Observe-only: nothing is changed,
//! nothing stays open.
//!
//! Method: facts come from `/proc` and `/sys` under a root path, and from a few system calls that query
//! without changing anything ([`Probes`]). Both are passed in, so a test can examine any machine. Every
//! answer other than yes carries its reason and a remedy.
//!
//! Limit: a mechanism that exists may still refuse a particular use (a security module may do so at any
//! time). If that happens later, the verb reports it.

mod act;
mod allow;
mod machine;
mod probes;
mod see;

use crate::root::Root;
pub use corun_model::finding::{Answer, Finding, Part};
pub use probes::Probes;

/// Makes the findings of one part.
struct Findings {
    part: Part,
    list: Vec<Finding>,
}

impl Findings {
    fn of(part: Part) -> Findings {
        Findings { part, list: Vec::new() }
    }

    /// Whether this part is available, by these findings.
    fn has(&self, what: &str) -> bool {
        says_yes(&self.list, what)
    }

    fn add(&mut self, what: &'static str, answer: Answer, found: impl Into<String>, remedy: Option<String>) {
        self.list.push(Finding { part: self.part, what, answer, found: found.into(), remedy });
    }

    fn yes(&mut self, what: &'static str, found: impl Into<String>) {
        self.add(what, Answer::Yes, found, None);
    }

    fn fact(&mut self, what: &'static str, found: impl Into<String>) {
        self.add(what, Answer::Fact, found, None);
    }

    fn partly(&mut self, what: &'static str, found: impl Into<String>, remedy: impl Into<String>) {
        self.add(what, Answer::Partly, found, Some(remedy.into()));
    }

    fn no(&mut self, what: &'static str, found: impl Into<String>, remedy: impl Into<String>) {
        self.add(what, Answer::No, found, Some(remedy.into()));
    }
}

/// Examines a machine.
pub fn examine(root: &Root, probes: &Probes) -> Vec<Finding> {
    let who = Privileges::read(root);
    let mut all = see::findings(root, probes, &who);
    all.extend(act::findings(root, probes, &who));
    all.extend(allow::findings(root));
    all.extend(machine::findings(root, probes));
    all
}

fn says_yes(findings: &[Finding], what: &str) -> bool {
    findings.iter().any(|f| f.what == what && f.answer == Answer::Yes)
}

/// How `corun profile` would watch on the machine with these findings, in one sentence.
pub fn verdict(findings: &[Finding]) -> &'static str {
    let can = |what: &str| says_yes(findings, what);
    if can(see::EBPF) && can(see::BTF) && can(see::TRACING) {
        "`corun profile` uses eBPF here: the exact ledger, and who took the stolen time"
    } else if can(see::SCHEDSTAT) {
        "`corun profile` uses schedstat here: the ledger, but not who took the stolen time"
    } else {
        "`corun profile` cannot see anything here: neither eBPF nor schedstat can be used"
    }
}

/// What this process may do, according to its effective capabilities.
struct Privileges {
    effective: u64,
}

impl Privileges {
    const SYS_ADMIN: u32 = 21;
    const SYS_NICE: u32 = 23;
    const PERFMON: u32 = 38;
    const BPF: u32 = 39;

    fn read(root: &Root) -> Privileges {
        let status = root.read("/proc/self/status").unwrap_or_default();
        let hex = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
        let effective = hex.and_then(|h| u64::from_str_radix(h.trim(), 16).ok()).unwrap_or(0);
        Privileges { effective }
    }

    fn has(&self, capability: u32) -> bool {
        self.effective >> capability & 1 == 1
    }

    /// The capability itself, or `CAP_SYS_ADMIN`, which includes the newer ones.
    fn has_or_admin(&self, capability: u32) -> bool {
        self.has(capability) || self.has(Privileges::SYS_ADMIN)
    }
}

/// A one-line file's text, trimmed; `None` if it cannot be read.
fn line(root: &Root, file: &str) -> Option<String> {
    root.read(file).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests;
