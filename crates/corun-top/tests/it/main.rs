//! What `corun top` shows, on a terminal that is only memory.

mod frames;
mod machine;
mod walk;
