//! The machine's energy, from RAPL: through powercap (`/sys/class/powercap/intel-rapl:*`, which AMD's CPUs
//! have, too), or else through perf's PMU `power`.
//!
//! A counter is a register of a socket that the processor updates about once a millisecond. Powercap shows it
//! in microjoules, and restarts at `max_energy_range_uj`; perf's sums do not wrap. A window's energy is the
//! difference of two readings. So differences add up: the sum over a hundred short windows equals that of one
//! long window.
//!
//! Since CVE-2020-8694 only root may read powercap's counters, because they reveal what code computes with.
//! Perf gives them to users who may count whole CPUs.
//!
//! A counter that did not move in a window says nothing about it. Some virtual machines show counters that
//! never move. Some processors show a counter for their cores that they never update. Their energy is
//! unknown.
//!
//! Limits: a counter is read some microseconds after the window's edge. If a counter wraps twice between two
//! readings, one wrap is missed. With ranges of 65 kJ and more that takes minutes, even at the power of a
//! large socket. A suspended machine may have lost its counters, which looks like a wrap. If several platform
//! counters are shown, none is used: each may count all of the machine.

use crate::counters::format::{self, Format};
use crate::counters::perf_event::{CountOptions, Event, Group, Whose};
use crate::counters::refusal::name_of;
use crate::cpulist;
use crate::root::Root;
use corun_model::why::NoEnergy;
use corun_model::{Energy, Observation, Unavailable, What, Why};

const POWERCAP: &str = "/sys/class/powercap";
const POWER_PMU: &str = "power";

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Domain {
    /// A socket's processor as a whole, or one die of it that has its own counter.
    Package,
    /// Its cores.
    Core,
    /// Its memory.
    Dram,
    /// The platform.
    Psys,
}

impl Domain {
    const ALL: [(Domain, &'static str, &'static str); 4] = [
        (Domain::Package, "package", "energy-pkg"),
        (Domain::Core, "core", "energy-cores"),
        (Domain::Dram, "dram", "energy-ram"),
        (Domain::Psys, "psys", "energy-psys"),
    ];

    /// From the name of a zone: `package-0`, `package-1-die-0`, `core`. Other zones are parts of these (`uncore`).
    fn of_zone(name: &str) -> Option<Domain> {
        let is = |known: &&(Domain, &str, &str)| name.split('-').next() == Some(known.1);
        Domain::ALL.iter().find(is).map(|(domain, ..)| *domain)
    }

    /// What reports call it.
    pub fn name(self) -> &'static str {
        Domain::ALL.iter().find(|(domain, ..)| *domain == self).map_or("", |(_, name, _)| name)
    }
}

/// Where a counter is read.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// A zone of powercap.
    Powercap {
        /// Its counter.
        file: String,
        /// The value at which it wraps, in microjoules.
        range_uj: u64,
    },
    /// An event of perf's PMU.
    Perf {
        /// Which.
        event: Event,
        /// A CPU of the socket.
        cpu: u32,
        /// Microjoules of one count.
        unit_uj: f64,
    },
}

/// The counters of a machine, as its files describe them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What counts, and where.
    pub counters: Vec<(Domain, Place)>,
}

impl Plan {
    /// Finds the counters of this machine, at least those of packages. Powercap's counters are readable.
    /// [`EnergyMeter::start`] finds out whether perf lets this user count.
    ///
    /// # Errors
    /// The machine has none, or they may not be read.
    pub fn make(root: &Root) -> Result<Plan, NoEnergy> {
        let powercap = powercap(root);
        let counters = match &powercap {
            Ok(counters) if !counters.is_empty() => counters.clone(),
            _ => power_pmu(root),
        };
        let platforms = counters.iter().filter(|(domain, _)| *domain == Domain::Psys).count();
        let is_believed = |counter: &(Domain, Place)| counter.0 != Domain::Psys || platforms == 1;
        let counters: Vec<(Domain, Place)> = counters.into_iter().filter(is_believed).collect();
        match counters.iter().any(|(domain, _)| *domain == Domain::Package) {
            true => Ok(Plan { counters }),
            false => Err(powercap.err().unwrap_or(NoEnergy::NoCounter)),
        }
    }

    /// Whether perf has to be asked.
    pub fn is_perf(&self) -> bool {
        self.counters.iter().any(|(_, place)| matches!(place, Place::Perf { .. }))
    }

    /// The names of the counted domains, without duplicates.
    pub fn names(&self) -> Vec<&'static str> {
        let mut domains: Vec<Domain> = self.counters.iter().map(|(domain, _)| *domain).collect();
        domains.sort();
        domains.dedup();
        domains.into_iter().map(Domain::name).collect()
    }
}

/// The powercap zones that this user may read, possibly none.
fn powercap(root: &Root) -> Result<Vec<(Domain, Place)>, NoEnergy> {
    let zones = root.names(POWERCAP).unwrap_or_default();
    let mut counters = Vec::new();
    for zone in zones.iter().filter(|zone| zone.starts_with("intel-rapl:")) {
        let of = |file: &str| format!("{POWERCAP}/{zone}/{file}");
        let name = root.read(of("name")).unwrap_or_default();
        let Some(domain) = Domain::of_zone(name.trim()) else { continue };
        let file = of("energy_uj");
        let range_uj = root.value(of("max_energy_range_uj"), "a number of microjoules");
        match range_uj.and_then(|range_uj| Ok((range_uj, counted_uj(root, &file)?))) {
            Ok((range_uj, _)) => counters.push((domain, Place::Powercap { file, range_uj })),
            Err(e) if e.is_forbidden() => return Err(NoEnergy::RootOnly),
            Err(e) => return Err(NoEnergy::Unreadable { error: e.to_string() }),
        }
    }
    Ok(counters)
}

fn counted_uj(root: &Root, file: &str) -> Result<u64, crate::root::ReadError> {
    root.value(file, "a number of microjoules")
}

/// The events of perf's PMU, on each CPU that its `cpumask` names: one per socket. Events that its files do
/// not describe are left out.
fn power_pmu(root: &Root) -> Vec<(Domain, Place)> {
    let folder = format!("{}/{POWER_PMU}", format::DEVICES);
    let described = || {
        let format = Format::read(root, POWER_PMU).ok()?;
        let cpus = cpulist::parse(root.read(format!("{folder}/cpumask")).ok()?.trim())?;
        Some((format, cpus))
    };
    let Some((format, cpus)) = described() else { return Vec::new() };
    let event = |name: &str| {
        let terms = root.read(format!("{folder}/events/{name}")).ok()?;
        let joules: f64 = root.value(format!("{folder}/events/{name}.scale"), "a scale").ok()?;
        let unit = root.read(format!("{folder}/events/{name}.unit")).ok()?;
        let is_known = unit.trim() == "Joules" && joules.is_finite() && joules > 0.0;
        is_known.then_some((format.encode(terms.trim()).ok()?, joules * 1e6))
    };
    let mut counters = Vec::new();
    for (domain, _, name) in Domain::ALL {
        let Some((event, unit_uj)) = event(name) else { continue };
        // The platform is counted once, on whichever CPU.
        let asked = if domain == Domain::Psys { 1 } else { cpus.len() };
        let places = cpus.iter().take(asked).map(|cpu| Place::Perf { event, cpu: cpu.0, unit_uj });
        counters.extend(places.map(|place| (domain, place)));
    }
    counters
}

/// The machine's energy from one reading to the next.
#[derive(Debug)]
pub struct EnergyMeter {
    root: Root,
    counters: Result<Vec<Counter>, NoEnergy>,
}

#[derive(Debug)]
struct Counter {
    domain: Domain,
    source: Source,
    last_uj: u64,
}

#[derive(Debug)]
enum Source {
    Powercap { file: String, range_uj: u64 },
    Perf { group: Group, unit_uj: f64 },
}

impl EnergyMeter {
    /// Starts now. If nothing can be read, every reading says why.
    pub fn start(root: &Root) -> EnergyMeter {
        let open = |(domain, place): (Domain, Place)| {
            let source = Source::open(place)?;
            let last_uj = source.read_uj(root)?;
            Ok(Counter { domain, source, last_uj })
        };
        let counters = Plan::make(root).and_then(|plan| plan.counters.into_iter().map(open).collect());
        EnergyMeter { root: root.clone(), counters }
    }

    /// The energy since the last reading, or since the start.
    ///
    /// # Errors
    /// Nothing is known of the packages.
    pub fn read(&mut self) -> Result<Energy, NoEnergy> {
        let counters = self.counters.as_mut().map_err(|why| why.clone())?;
        let mut energy = Energy::default();
        let mut of_package = None;
        for (domain, ..) in Domain::ALL {
            let own = counters.iter_mut().filter(|counter| counter.domain == domain);
            // Read all of them: one that is skipped would cover more time in its next window.
            let read: Vec<Result<u64, NoEnergy>> = own.map(|c| c.since_last_uj(&self.root)).collect();
            let sum: Result<Vec<u64>, NoEnergy> = read.into_iter().collect();
            let known = sum.as_ref().ok().filter(|all| !all.is_empty()).map(|all| all.iter().sum());
            match domain {
                Domain::Package => (energy.package_uj, of_package) = (known, sum.err()),
                Domain::Core => energy.core_uj = known,
                Domain::Dram => energy.dram_uj = known,
                Domain::Psys => energy.psys_uj = known,
            }
        }
        of_package.map_or(Ok(energy), Err)
    }

    /// Fills in the energy of the window that has just been closed, or why it is unknown.
    pub fn fill(&mut self, seen: &mut Observation) {
        match self.read() {
            Ok(energy) => seen.energy = energy,
            Err(why) => seen.unavailable.push(Unavailable::new(What::Energy, Why::NoEnergy(why))),
        }
    }
}

impl Counter {
    fn since_last_uj(&mut self, root: &Root) -> Result<u64, NoEnergy> {
        let now_uj = self.source.read_uj(root)?;
        let last_uj = std::mem::replace(&mut self.last_uj, now_uj);
        match &self.source {
            _ if now_uj == last_uj => Err(NoEnergy::StandsStill),
            _ if now_uj > last_uj => Ok(now_uj - last_uj),
            Source::Powercap { range_uj, .. } if last_uj <= *range_uj => Ok(range_uj - last_uj + now_uj),
            _ => Err(NoEnergy::Unreadable { error: "it went backwards".into() }),
        }
    }
}

impl Source {
    fn open(place: Place) -> Result<Source, NoEnergy> {
        match place {
            Place::Powercap { file, range_uj } => Ok(Source::Powercap { file, range_uj }),
            Place::Perf { event, cpu, unit_uj } => {
                let manner = CountOptions { kernel: true, inherit: false };
                let refused = |errno| match errno {
                    libc::EACCES | libc::EPERM => NoEnergy::WholeCpusForbidden,
                    errno => {
                        NoEnergy::Unreadable { error: format!("perf_event_open says {}", name_of(errno)) }
                    }
                };
                let group = Group::open(&[event], Whose::Cpu(cpu), manner).map_err(refused)?;
                Ok(Source::Perf { group, unit_uj })
            }
        }
    }

    fn read_uj(&self, root: &Root) -> Result<u64, NoEnergy> {
        let unreadable = |error: String| NoEnergy::Unreadable { error };
        match self {
            Source::Powercap { file, .. } => counted_uj(root, file).map_err(|e| unreadable(e.to_string())),
            Source::Perf { group, unit_uj } => {
                let readings = group.read().map_err(|e| unreadable(crate::root::in_words(&e)))?;
                Ok((readings.iter().map(|r| r.value).sum::<u64>() as f64 * unit_uj) as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests;
