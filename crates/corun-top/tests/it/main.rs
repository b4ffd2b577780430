//! The output of `corun top`, on a terminal in memory.

mod frames;
mod machine;
mod walk;
