//! The encoding of events that a PMU expects: `/sys/bus/event_source/devices/PMU/{type,format/*}`.
//!
//! Each file under `format` names a field and lists its bits in `config`, `config1` or `config2`, lowest
//! first. On AMD, `event` is `config:0-7,32-35`, so the upper four bits of an event's number are apart from
//! the lower eight. The kernel's files are followed to the letter; no layout is built in.

use super::perf_event::Event;
use crate::root::{ReadError, Root};
use std::collections::BTreeMap;
use thiserror::Error;

/// Where PMUs describe themselves.
pub(crate) const DEVICES: &str = "/sys/bus/event_source/devices";

/// The fields of one PMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The PMU's name.
    pub pmu: String,
    kind: u32,
    fields: BTreeMap<String, Field>,
}

/// The location of a field: one of the three words, and its bits from the lowest.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    word: usize,
    bits: Vec<u32>,
}

/// An event cannot be encoded for this PMU.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// The PMU has no such field.
    #[error("the PMU `{pmu}` has no field `{field}`")]
    NoField {
        /// The PMU.
        pmu: String,
        /// The field.
        field: String,
    },
    /// The field has too few bits.
    #[error("the field `{field}` of the PMU `{pmu}` cannot hold {value:#x}")]
    TooLarge {
        /// The PMU.
        pmu: String,
        /// The field.
        field: String,
        /// The value that does not fit.
        value: u64,
    },
    /// The terms are not `name=number,…`.
    #[error("`{0}` is not of the form event=0xa3,umask=0x5")]
    Terms(String),
}

/// The PMU that counts the events of the cores.
///
/// # Errors
/// One sentence if there is none, or if there is more than one kind of core: a task's counts would mix two
/// kinds.
pub fn core_pmu(root: &Root) -> Result<String, String> {
    let names = root.names(DEVICES).unwrap_or_default();
    let arm = names.iter().filter(|n| n.starts_with("armv8_") || n.starts_with("armv9_"));
    let cores: Vec<&String> = names.iter().filter(|n| *n == "cpu").chain(arm).collect();
    match cores.as_slice() {
        [one] => Ok((*one).clone()),
        [] if names.iter().any(|n| n == "cpu_core") => {
            Err("this CPU has two sorts of cores, which count differently".into())
        }
        [] => Err("the kernel shows no PMU of the cores".into()),
        _ => Err("this machine has several sorts of cores, which count differently".into()),
    }
}

impl Format {
    /// Reads the fields of a PMU.
    ///
    /// # Errors
    /// [`ReadError`] if a file is missing or does not describe bits.
    pub fn read(root: &Root, pmu: &str) -> Result<Format, ReadError> {
        let dir = format!("{DEVICES}/{pmu}");
        let kind = root.value(format!("{dir}/type"), "a PMU's number")?;
        let mut fields = BTreeMap::new();
        for name in root.names(format!("{dir}/format"))? {
            let file = format!("{dir}/format/{name}");
            let text = root.read(&file)?;
            let field = field(text.trim());
            let field = field.ok_or_else(|| root.unexpected(&file, &text, "bits such as config:0-7"))?;
            // Words beyond the third hold nothing that corun counts.
            if field.word < 3 {
                fields.insert(name, field);
            }
        }
        Ok(Format { pmu: pmu.to_owned(), kind, fields })
    }

    /// Encodes `event=0xa3,umask=0x5,cmask=5`.
    ///
    /// # Errors
    /// [`EncodeError`] if this PMU has no such field or too few bits for it.
    pub fn encode(&self, terms: &str) -> Result<Event, EncodeError> {
        let mut words = [0u64; 3];
        for term in terms.split(',') {
            let parts = term.split_once('=').and_then(|(name, value)| Some((name, number(value)?)));
            let (name, value) = parts.ok_or_else(|| EncodeError::Terms(terms.to_owned()))?;
            let field = self
                .fields
                .get(name)
                .ok_or_else(|| EncodeError::NoField { pmu: self.pmu.clone(), field: name.to_owned() })?;
            if field.bits.len() < 64 && value >> field.bits.len() != 0 {
                let (pmu, field) = (self.pmu.clone(), name.to_owned());
                return Err(EncodeError::TooLarge { pmu, field, value });
            }
            for (n, bit) in field.bits.iter().enumerate() {
                words[field.word] |= (value >> n & 1) << bit;
            }
        }
        let [config, config1, config2] = words;
        Ok(Event { kind: self.kind, config, config1, config2 })
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `config:0-7,32-35` or `config1:0`.
fn field(text: &str) -> Option<Field> {
    let (word, ranges) = text.split_once(':')?;
    let word = match word.strip_prefix("config")? {
        "" => 0,
        n => n.parse().ok()?,
    };
    let mut bits = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last > 63 {
            return None;
        }
        bits.extend(first..=last);
    }
    Some(Field { word, bits })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::fixture::{self, Machine};
    use proptest::prelude::*;

    #[test]
    fn an_intel_event_with_a_response_mask_fills_two_words() {
        let format = Format::read(&fixture::root(Machine::Intel).1, "cpu").unwrap();
        let stall = format.encode("event=0xa3,umask=0x5,cmask=0x5").unwrap();
        assert_eq!((stall.kind, stall.config), (4, 0x0500_05a3));
        let read = format.encode("event=0xb7,umask=0x1,offcore_rsp=0x73c000477").unwrap();
        assert_eq!((read.config, read.config1), (0x1b7, 0x7_3c00_0477));
    }

    #[test]
    fn an_amd_event_number_is_split_over_the_word() {
        let format = Format::read(&fixture::root(Machine::Amd).1, "cpu").unwrap();
        assert_eq!(format.encode("event=0x120,umask=0x1").unwrap().config, 0x1_0000_0120);
        let e = format.encode("event=0xb7,offcore_rsp=0x1").unwrap_err();
        assert_eq!(e.to_string(), "the PMU `cpu` has no field `offcore_rsp`");
    }

    #[test]
    fn an_arm_event_has_sixteen_bits() {
        let (_dir, root) = fixture::root(Machine::Arm);
        assert_eq!(core_pmu(&root).unwrap(), "armv8_pmuv3_0");
        let format = Format::read(&root, "armv8_pmuv3_0").unwrap();
        assert_eq!(format.encode("event=0x4005").unwrap().config, 0x4005);
        let e = format.encode("event=0x14005").unwrap_err();
        assert_eq!(e.to_string(), "the field `event` of the PMU `armv8_pmuv3_0` cannot hold 0x14005");
    }

    #[test]
    fn two_kinds_of_cores_are_refused_with_the_reason() {
        let (_dir, root) = fixture::with(&[
            ("/sys/bus/event_source/devices/cpu_core/type", "4\n"),
            ("/sys/bus/event_source/devices/cpu_atom/type", "10\n"),
        ]);
        assert!(core_pmu(&root).unwrap_err().starts_with("this CPU has two sorts of cores"));
        assert_eq!(core_pmu(&fixture::with(&[]).1).unwrap_err(), "the kernel shows no PMU of the cores");
    }

    #[test]
    fn invalid_terms_and_bits_are_refused() {
        let (_dir, root) = fixture::root(Machine::Amd);
        let format = Format::read(&root, "cpu").unwrap();
        assert!(matches!(format.encode("event"), Err(EncodeError::Terms(_))));
        assert!(matches!(format.encode("event=0xzz"), Err(EncodeError::Terms(_))));
        for bad in ["", "config", "config:", "config:7-0", "config:64", "config:x", "word:0-7"] {
            assert_eq!(field(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_bit_is_lost_or_shared(event in 0u64..0x1000, umask in 0u64..0x100, cmask in 0u64..0x100) {
            let format = Format::read(&fixture::root(Machine::Amd).1, "cpu").unwrap();
            let encoded = format.encode(&format!("event={event:#x},umask={umask:#x},cmask={cmask}")).unwrap();
            let c = encoded.config;
            prop_assert_eq!((c & 0xff) | (c >> 32 & 0xf) << 8, event);
            prop_assert_eq!((c >> 8 & 0xff, c >> 24 & 0xff), (umask, cmask));
            prop_assert_eq!(c.count_ones(), event.count_ones() + umask.count_ones() + cmask.count_ones());
        }
    }
}
