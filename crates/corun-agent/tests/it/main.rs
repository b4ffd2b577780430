//! What an agent keeps, on real files.

mod chart;
mod made;
mod metrics;
mod past;
mod ring;
mod slurm;
