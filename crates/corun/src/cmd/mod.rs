//! The verbs, one file each: `Args` has the flags, `run` is the glue to the libraries.

pub mod agent;
pub mod control;
pub mod doctor;
pub mod generate;
pub mod load;
pub mod policies;
pub mod predict;
pub mod profile;
pub mod record;
pub mod run;
pub mod sim;
pub mod study;
pub mod top;
pub mod validate;
pub mod verify;
