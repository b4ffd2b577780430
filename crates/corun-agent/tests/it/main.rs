//! The data that an agent keeps, on real files.

mod chart;
mod made;
mod metrics;
mod otlp;
mod past;
mod protobuf;
mod ring;
mod series;
mod slurm;
mod text;
