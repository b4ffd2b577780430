//! The pace of this machine: how many loops of corun's loads make a millisecond of work.

use corun_load::kernel::Kernel;
use corun_load::Calibration;

/// The fastest of several calibrations, in loops per millisecond.
pub fn pace() -> u64 {
    (0..5).map(|_| Calibration::measure(&mut Kernel::registers()).loops_per_ms).max().expect("five were made")
}
