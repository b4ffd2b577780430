//! Affinity: no task runs on a CPU that is forbidden to it.

use super::bug;
use crate::cpu_set::CpuSet;
use crate::engine::Fault;

/// Checks one dispatch.
///
/// # Errors
/// The violation.
pub fn affinity(allowed: Option<&CpuSet>, cpu: usize, task: &str) -> Result<(), Fault> {
    match allowed {
        Some(set) if !set.contains(cpu) => {
            Err(bug("affinity", format!("task {task} runs on CPU index {cpu}, which is forbidden to it")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_on_a_forbidden_cpu_is_found() {
        let set = CpuSet::of(4, [1, 2]);
        assert!(affinity(Some(&set), 2, "t").is_ok() && affinity(None, 3, "t").is_ok());
        assert!(affinity(Some(&set), 3, "t").unwrap_err().to_string().contains("forbidden"));
    }
}
