//! All tests of policies that need a host, in one binary. The cost of an epoch has its own binary (`cost.rs`), so that no other test
//! runs at the same time.
//!
//! | module | holds |
//! | --- | --- |
//! | `toy` | the host: splits CPU time fairly among tenants that are not parked |
//! | `policies` | properties of every policy |
//! | `edges` | a policy decides without a panic, whatever a host shows |
//! | `controlled_contention` | the paper's worked example |
//! | `numbers` | the document has the numbers of `auto` |

mod controlled_contention;
mod edges;
mod numbers;
mod policies;
mod toy;
