//! Whether this machine's kernel accepts the probe. Only an attempt shows that: kernels are built with and
//! without much of what the probe reads.

use super::config::config;
use super::options::{LiveError, LiveOptions};
use crate::root::Root;
use crate::target::Subject;
use crate::topology;
use corun_bpf::Probe;

/// The smallest possible ring: a page.
const LEAST_RING: u32 = 4_096;

/// Loads the probe with everything that it can be asked for, and unloads it again. Nothing is watched.
///
/// # Errors
/// [`LiveError`]; nothing stays behind.
pub fn try_loading(root: &Root) -> Result<(), LiveError> {
    let options = LiveOptions {
        trace_bytes: LEAST_RING,
        waits: true,
        record_bytes: LEAST_RING,
        ..LiveOptions::new(Subject::All)
    };
    Ok(Probe::try_loading(&config(root, &topology::read_machine(root)?, &options))?)
}
