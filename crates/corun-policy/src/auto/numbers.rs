//! The numbers of `auto`: all of them, with their units, and what would break without each. `docs/policies.md` quotes them from
//! here. The error rate and the number of pairs are those of every test ([`crate::sequential`]); from which demand on a task
//! counts as CPU-bound is the paper's ([`crate::census::CPU_BOUND_PERCENT`]); slot and hold are options.

/// A number.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// What it is called; the last word is the unit.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// What it is.
    pub is: &'static str,
    /// What would break without it.
    pub without: &'static str,
}

macro_rules! numbers {
    ($($name:ident = $value:literal, $is:literal, $without:literal;)*) => {
        $(#[doc = $is] pub const $name: u64 = $value;)*
        /// All of them.
        pub const ALL: &[Number] =
            &[$(Number { name: stringify!($name), value: $value, is: $is, without: $without }),*];
    };
}

numbers! {
    WATCH_SLOTS = 4,
        "So long is one half of a pair, in which everybody shares.",
        "A look of one slot is chance; only very large gains are found in it.";
    LACKS_PERCENT = 75,
        "A tenant with less than this of its fair share lacks it.",
        "Everybody would be tried all the time, and every trial disturbs.";
    NOTICEABLE_PERCENT = 5,
        "What slots may cost a tenant of what it is entitled to; what waits for less does not wait.",
        "Nothing would be kept: no two periods are alike to the last per cent.";
    SCATTER_PERCENT = 15,
        "By how much a tenant's log gain scatters by chance between slots.",
        "One lucky slot would decide.";
    LAG_SLOTS = 3,
        "So far may a tenant fall behind its share to make up for what others lost.",
        "A program that leaves CPUs idle in its slots would be given ever more of them.";
    BURST_MS = 5,
        "A tenant that waits for the outside and runs for less than this at a time is a server.",
        "Servers would wait out whole slots, and their clients with them.";
    QUESTION_PERCENT = 10,
        "A question about kept slots takes no more than this part of the time: so long they hold at least.",
        "Programs would be starved by questions: each has everybody share for a while.";
    LONGEST_HOLD_MINUTES = 5,
        "A finding holds for no longer than this.",
        "What a program did hours ago would be taken for what it does.";
}
