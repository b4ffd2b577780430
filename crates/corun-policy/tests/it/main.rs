//! All tests of policies that need a host, in one binary; what an epoch costs is measured in one of its own (`cost.rs`), where
//! no other test runs beside it.
//!
//! | module | holds |
//! | --- | --- |
//! | `toy` | the host: what tenants want is split fairly among those that are not parked |
//! | `policies` | what holds of every policy |
//! | `edges` | whatever a host shows, a policy decides and does not fall over |
//! | `controlled_contention` | the paper's worked example |
//! | `numbers` | the document has the numbers of `auto` |

mod controlled_contention;
mod edges;
mod numbers;
mod policies;
mod toy;
