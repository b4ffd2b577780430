//! The micro-architecture of this machine, in the notation of the event tables' source (`perf`'s own identity
//! string).
//!
//! x86: maker, family, model and stepping as `GenuineIntel-6-55-4` (family in decimal, the others in hexadecimal), from
//! `/proc/cpuinfo`. Arm: the main ID register of the first CPU that shows one, without variant and revision.

use crate::root::Root;

const CPUS: &str = "/sys/devices/system/cpu";

/// Bits 23:20 (variant) and 3:0 (revision) of Arm's main ID register do not distinguish micro-architectures.
const VARIANT_AND_REVISION: u64 = 0x00f0_000f;

/// This machine's identity; `None` if neither source exists.
pub fn of_machine(root: &Root) -> Option<String> {
    x86(&root.read("/proc/cpuinfo").unwrap_or_default()).or_else(|| arm(root))
}

fn x86(cpuinfo: &str) -> Option<String> {
    let field = |wanted: &str| {
        let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(key, _)| key.trim() == wanted).map(|(_, value)| value.trim())
    };
    let number = |wanted: &str| field(wanted)?.parse::<u32>().ok();
    let (family, model, stepping) = (number("cpu family")?, number("model")?, number("stepping")?);
    Some(format!("{}-{family}-{model:X}-{stepping:X}", field("vendor_id")?))
}

fn arm(root: &Root) -> Option<String> {
    let names = root.names(CPUS).ok()?;
    let mut cpus = names.iter().filter(|n| n.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok()));
    cpus.find_map(|cpu| {
        let text = root.read(format!("{CPUS}/{cpu}/regs/identification/midr_el1")).ok()?;
        let midr = u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()?;
        Some(format!("{:#018x}", midr & !VARIANT_AND_REVISION))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::fixture::{self, Machine};

    #[test]
    fn machines_have_the_names_of_the_tables() {
        let of = |machine| of_machine(&fixture::root(machine).1).unwrap();
        assert_eq!(of(Machine::Intel), "GenuineIntel-6-55-4");
        assert_eq!(of(Machine::Amd), "AuthenticAMD-26-2-1");
        assert_eq!(of(Machine::Arm), "0x00000000410fd400");
        assert_eq!(of_machine(&fixture::with(&[]).1), None);
    }
}
