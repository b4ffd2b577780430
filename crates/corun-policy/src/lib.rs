//! Scheduling policies: pure, one file each, named as in the papers; and the decisions that the kernel makes for them.

pub mod decisions;
