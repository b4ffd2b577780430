//! The machine's energy in words. Energy belongs to the machine, and the words say so: nobody knows how to
//! divide it.

use crate::profile::schema::MachineEnergy;
use corun_model::energy::watts;
use corun_model::Energy;

/// On the wire; `None` if nothing is known. `compute_ns`: how long the subject's tasks computed in the
/// window; `None` if there is no subject to relate it to.
pub(crate) fn written(energy: &Energy, window_ns: u64, compute_ns: Option<u64>) -> Option<MachineEnergy> {
    energy.known().next()?;
    let compute_s = compute_ns.filter(|ns| *ns > 0).map(|ns| ns as f64 / 1e9);
    Some(MachineEnergy {
        package_uj: energy.package_uj,
        core_uj: energy.core_uj,
        dram_uj: energy.dram_uj,
        psys_uj: energy.psys_uj,
        package_watts: energy.package_uj.and_then(|uj| watts(uj, window_ns)),
        j_per_compute_s: energy.package_uj.zip(compute_s).map(|(uj, s)| uj as f64 / 1e6 / s),
    })
}

/// The machine's energy, without a full stop: packages first, with their mean power.
pub(crate) fn sentence(energy: &MachineEnergy) -> Option<String> {
    let package = joules(energy.package_uj?);
    let power = energy.package_watts.map_or_else(String::new, |w| format!(" ({w:.1} W)"));
    let parts =
        [(", of it cores", energy.core_uj), (", memory", energy.dram_uj), (", the platform", energy.psys_uj)];
    let parts = parts.iter().filter_map(|(what, uj)| Some(format!("{what} {}", joules((*uj)?))));
    let per_work = energy.j_per_compute_s.map_or_else(String::new, |j| {
        format!("; {} for a second in which a task computed", joules((j * 1e6) as u64))
    });
    Some(format!("packages {package}{power}{}{per_work}", parts.collect::<String>()))
}

/// Microjoules as joules, with three digits or whole.
pub(crate) fn joules(uj: u64) -> String {
    let j = uj as f64 / 1e6;
    match j {
        j if j >= 100.0 => format!("{j:.0} J"),
        j if j >= 10.0 => format!("{j:.1} J"),
        j if j >= 1.0 => format!("{j:.2} J"),
        j => format!("{:.3} J", j),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_energy_is_reported_and_nothing_else() {
        let known = Energy { package_uj: Some(90_000_000), dram_uj: Some(1_500_000), ..Energy::default() };
        let energy = written(&known, 2_000_000_000, None).unwrap();
        assert_eq!(sentence(&energy).unwrap(), "packages 90.0 J (45.0 W), memory 1.50 J");
        let of_work = written(&known, 2_000_000_000, Some(3_000_000_000)).unwrap();
        let said = "packages 90.0 J (45.0 W), memory 1.50 J; 30.0 J for a second in which a task computed";
        assert_eq!(sentence(&of_work).unwrap(), said);
        let idle = written(&known, 2_000_000_000, Some(0)).unwrap();
        assert_eq!(idle.j_per_compute_s, None, "no work, and not work for nothing");
        assert_eq!(written(&Energy::default(), 5, Some(1)), None);
        assert_eq!((joules(4_321), joules(123_400_000)), ("0.004 J".into(), "123 J".into()));
    }
}
