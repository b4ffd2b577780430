//! `dedicated`: from time to time, one tenant has the machine to itself. The dedicated mode of PACT'16 §2.3
//! and §4.
//!
//! In a dedicated window, every other tenant in scope is parked. So the subject does what it would do in a
//! solo run. Predictions are calibrated with these measurements. Between windows, nothing is touched. A
//! `subject` given by name is not touched either, so it need not be in scope. Without a name, every tenant in
//! scope with CPU-bound tasks gets a window in turn.
//!
//! Limits: parking costs the others the window's share of their time (`window` of `every`); caches are still
//! cold at its beginning.

use crate::census::{Census, CPU_BOUND_PERCENT};
use crate::options::{BadPolicy, Kind, OptionSpec, Values};
use crate::parking::Parking;
use corun_model::reason::Release;
use corun_model::{Decision, Knob, Machine, Observation, Policy, Reason, Tenant, TenantId};

pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "subject",
        default: "each",
        kind: Kind::Name,
        words: &["each"],
        about: "the tenant that gets the windows; each: every tenant with CPU-bound tasks in turn",
    },
    OptionSpec {
        name: "window",
        default: "50ms",
        kind: Kind::Time { least_ns: 1_000_000, most_ns: 10_000_000_000 },
        words: &[],
        about: "length of a window",
    },
    OptionSpec {
        name: "every",
        default: "2s",
        kind: Kind::Time { least_ns: 10_000_000, most_ns: 3_600_000_000_000 },
        words: &[],
        about: "from the beginning of one window to that of the next",
    },
];

/// Dedicated windows.
#[derive(Debug)]
pub struct Dedicated {
    census: Census,
    parking: Parking,
    /// `None`: each in turn.
    subject: Option<String>,
    window_ns: u64,
    every_ns: u64,
    next_ns: Option<u64>,
    /// The tenant that has the machine, and until when.
    open: Option<(TenantId, u64)>,
    last: Option<TenantId>,
}

impl Dedicated {
    pub(crate) fn new(values: &Values) -> Result<Dedicated, BadPolicy> {
        let time = |name| values.number(name).expect("no words");
        let (window_ns, every_ns) = (time("window"), time("every"));
        if window_ns >= every_ns {
            return Err(BadPolicy::NotShorter { policy: "dedicated", options: ["window", "every"] });
        }
        Ok(Dedicated {
            census: Census::new(values.scope.clone(), CPU_BOUND_PERCENT),
            parking: Parking::default(),
            subject: values.name("subject"),
            window_ns,
            every_ns,
            next_ns: None,
            open: None,
            last: None,
        })
    }
}

impl Policy for Dedicated {
    fn name(&self) -> &'static str {
        "dedicated"
    }

    fn knobs(&self) -> &'static [Knob] {
        &[Knob::Park]
    }

    fn epoch_ns(&self) -> u64 {
        self.window_ns
    }

    fn windows_every_ns(&self) -> Option<u64> {
        Some(self.every_ns)
    }

    fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    fn decide(&mut self, _: &Machine, seen: &Observation) -> Vec<Decision> {
        let uses = self.census.take(seen, self.parking.parked());
        let is_here = |id: TenantId| seen.tasks.iter().any(|t| t.alive && t.tenant == id);
        // Windows open and close at the epoch nearest to their time.
        let now_ns = seen.end_ns + seen.window_ns() / 2;
        if let Some((subject, until_ns)) = self.open {
            if now_ns < until_ns && is_here(subject) {
                return Vec::new();
            }
            self.open = None;
            return self.parking.release(Release::WindowIsOver);
        }
        let next_ns = *self.next_ns.get_or_insert(seen.end_ns + self.every_ns);
        if now_ns < next_ns {
            return Vec::new();
        }
        self.next_ns = Some(seen.end_ns + self.every_ns);
        let subjects: Vec<TenantId> = match &self.subject {
            Some(name) => {
                let is_it = |t: &&Tenant| t.kind.is_controllable() && t.is_called(name) && is_here(t.id);
                seen.tenants.iter().filter(is_it).map(|t| t.id).collect()
            }
            None => uses.iter().filter(|u| u.weight > 0).map(|u| u.id).collect(),
        };
        let after = subjects.iter().find(|&&id| Some(id) > self.last);
        let Some(&subject) = after.or(subjects.first()) else { return Vec::new() };
        self.last = Some(subject);
        self.open = Some((subject, seen.end_ns + self.window_ns));
        let others = uses.iter().map(|u| u.id).filter(|&id| id != subject).collect();
        let why = Reason::DedicatedWindow { of: crate::census::name(seen, subject) };
        self.parking.change(others, &why, &why)
    }
}
