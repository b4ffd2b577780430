//! Sessions on this machine, only about these tests' own processes. Nobody is parked.

mod definitions;
mod servers;
mod sessions;
