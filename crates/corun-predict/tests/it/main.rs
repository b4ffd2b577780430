//! Tables of windows and what is said of them. Tests that run the modelled machine have binaries of their own.
//!
//! | module | holds |
//! | --- | --- |
//! | `budgets` | what keeps a program from running, beside neighbours, and what was lost |
//! | `facts` | facts of a run, and what was lost in it |
//! | `intervals` | when a run was disturbed |
//! | `spans` | parts of a run |

mod budgets;
mod facts;
mod intervals;
mod spans;
