//! The width advised to a program that shares a page, and why: as JSON, and for people.

use super::decided::called;
use crate::words::count;
use corun_model::advice::{Advised, Limit};
use corun_model::Observation;
use serde::Serialize;

/// What one program was advised.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Its tenant's name.
    pub tenant: String,
    /// That tenant's key, which is unique.
    pub key: String,
    /// Its process.
    pub process: u32,
    /// How many threads.
    pub width: u32,
    /// The fewest that it runs.
    pub least: u32,
    /// The most that it would run.
    pub most: u32,
    /// Its assigned CPUs.
    pub cpus: f64,
    /// `most`, `least` or `share`: what decided.
    pub reason: &'static str,
    /// The same for people.
    pub because: String,
}

impl Advice {
    /// The advice to a program, with names from the observation that led to it.
    pub fn new(advised: &Advised, seen: &Observation) -> Advice {
        let tenant = seen.tenants.iter().find(|t| t.id == advised.tenant);
        let cpus = advised.dealt_milli as f64 / 1e3;
        let (reason, because) = match advised.limit {
            Limit::Most => ("most", "there is room for all of its threads".to_owned()),
            Limit::Least => ("least", format!("it runs no fewer, and its share by weight is {cpus:.2} CPUs")),
            Limit::Share => ("share", format!("its share by weight is {cpus:.2} CPUs")),
        };
        Advice {
            tenant: tenant.map_or_else(String::new, |t| t.name.clone()),
            key: tenant.map_or_else(String::new, |t| t.key.clone()),
            process: advised.process,
            width: advised.width,
            least: advised.least,
            most: advised.most,
            cpus,
            reason,
            because,
        }
    }

    /// For people, without the time: `solver, process 7: advised 1 of 2 threads, its share by weight is 1.33 CPUs`.
    pub fn line(&self) -> String {
        let (tenant, most) = (called(&self.tenant, None), count(self.most.into(), "thread"));
        let Advice { process, width, because, .. } = self;
        format!("{tenant}, process {process}: advised {width} of {most}, {because}")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::decided::tests::seen;
    use super::*;
    use corun_model::TenantId;

    fn advised(width: u32, dealt_milli: u64, limit: Limit) -> Advised {
        let (process, tenant) = (7, TenantId(3));
        Advised { process, tenant, width, least: 1, most: 4, dealt_milli, limit }
    }

    /// One thread, by its share.
    pub fn advice() -> Advice {
        Advice::new(&advised(1, 1_333, Limit::Share), &seen())
    }

    #[test]
    fn advice_says_what_decided_it() {
        let table = [
            (advised(4, 4_000, Limit::Most), "advised 4 of 4 threads, there is room for all of its threads"),
            (advised(1, 1_333, Limit::Share), "advised 1 of 4 threads, its share by weight is 1.33 CPUs"),
            (
                advised(1, 500, Limit::Least),
                "advised 1 of 4 threads, it runs no fewer, and its share by weight is 0.50 CPUs",
            ),
        ];
        for (advised, told) in table {
            let advice = Advice::new(&advised, &seen());
            assert_eq!(advice.line(), format!("ffmpeg, process 7: {told}"));
            assert_eq!((advice.key.as_str(), advice.cpus), ("k", advised.dealt_milli as f64 / 1e3));
        }
    }
}
