//! Releases of Linux: the differences of their schedulers that matter here.

use serde::{Deserialize, Deserializer};
use std::ops::RangeInclusive;

/// A release of Linux: its first two numbers, which identify its scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Linux(pub u32, pub u32);

impl Linux {
    /// The default release of the model, which it was validated against.
    pub const USUAL: Linux = Linux(6, 18);

    /// The first that schedules by EEVDF.
    pub const FIRST_EEVDF: Linux = Linux(6, 6);

    /// The last that schedules by CFS.
    pub const LAST_CFS: Linux = Linux(6, 5);

    /// Releases that stretch the lag of a running group when they re-weight it, so that groups do not get CPU time by their weights.
    /// Seen under 6.16.12 and 6.18.44, whose arithmetic all releases since 6.13 have. Fixed under 7.3.4.
    pub const STRETCH_WHO_RUNS: RangeInclusive<Linux> = Linux(6, 13)..=Linux(6, 18);

    /// The release in a kernel's name, such as `6.18.44-amd64`, or in its beginning.
    pub fn of(release: &str) -> Option<Linux> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().ok());
        Some(Linux(numbers.next()??, numbers.next()??))
    }
}

impl<'de> Deserialize<'de> for Linux {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Linux, D::Error> {
        let release = String::deserialize(d)?;
        let bad = || format!("`{release}` is no release of Linux; give one such as \"6.18\"");
        Linux::of(&release).ok_or_else(|| serde::de::Error::custom(bad()))
    }
}
