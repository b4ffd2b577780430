//! Corun always on: the agent on a node.
//!
//! ```text
//! Watch ──window──▶ totals ──▶ metrics ──▶ http   who asks for /metrics
//!            │                        └▶ otlp   a collector
//!            └────▶ recorder ──▶ ring ─────▶ past   whoever asks for last night
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | [`agent`] | the loop: watches, answers, obeys its service manager |
//! | [`totals`], [`admission`], [`blame`], [`longest`], [`label`] | counters for a bounded number of tenants and culprits, who is among these, an example of a long wait, and what they are called |
//! | [`metrics`], [`exposition`], [`text`], [`protobuf`], [`field`], [`gzip`] | what is scraped: as text, and with native histograms; compressed |
//! | [`http`], [`health`] | who is answered, and whether all is well |
//! | [`otlp`] | metrics for a collector of OpenTelemetry |
//! | [`config`], [`privileges`] | what is configured, and what is given up |
//! | [`ring`], [`recorder`], [`past`], [`stretch`] | windows on disk: their bytes, what is written, what is read back: together, or one by one |

#![deny(missing_docs)]

pub mod admission;
pub mod agent;
pub mod blame;
pub mod config;
pub mod exposition;
pub mod field;
pub mod gzip;
pub mod health;
pub mod http;
pub mod label;
pub mod longest;
pub mod metrics;
pub mod otlp;
pub mod past;
pub mod privileges;
pub mod protobuf;
pub mod recorder;
pub mod ring;
pub mod stretch;
pub mod text;
pub mod totals;
