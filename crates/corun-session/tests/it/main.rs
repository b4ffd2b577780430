//! Sessions on this machine, about these tests' own processes only. Nobody is parked.

mod definitions;
mod sessions;
