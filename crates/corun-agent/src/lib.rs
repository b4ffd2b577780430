//! corun always on: what an agent on a node keeps of what it sees.
//!
//! | module | holds |
//! | --- | --- |
//! | [`ring`] | a bounded ring on disk: windows of the last hours, to be read back |

#![deny(missing_docs)]

pub mod ring;
