//! The numbers of `auto`, with units, and the consequence of leaving each out. `docs/policies.md` quotes them from here. The error rate
//! and the number of pairs are those of every test ([`crate::sequential`]). The demand from which a task counts as CPU-bound is that of
//! the paper ([`crate::census::CPU_BOUND_PERCENT`]). Slot and hold are options.

/// A number.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// Its name; the last word is the unit.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// Its meaning.
    pub is: &'static str,
    /// The consequence of leaving it out.
    pub without: &'static str,
}

macro_rules! numbers {
    ($($name:ident = $value:literal, $is:literal, $without:literal;)*) => {
        $(#[doc = $is] pub const $name: u64 = $value;)*
        /// All numbers.
        pub const ALL: &[Number] =
            &[$(Number { name: stringify!($name), value: $value, is: $is, without: $without }),*];
    };
}

numbers! {
    WATCH_SLOTS = 4,
        "The length of one half of a pair, in which everybody shares the CPUs.",
        "One slot shows chance alone; only very large gains stand out.";
    LACKS_PERCENT = 75,
        "A tenant that gets less than this part of its fair share lacks it.",
        "Everybody would be tried all the time, and every trial disturbs.";
    NOTICEABLE_PERCENT = 5,
        "How much slots may cost a tenant of what it is entitled to; a tenant that waits less than this does not count as waiting.",
        "No slots would be kept: no two periods are alike to the last percent.";
    SCATTER_PERCENT = 15,
        "How much the logarithm of a tenant's gain scatters by chance between slots.",
        "One lucky slot would decide.";
    LAG_SLOTS = 3,
        "How far a tenant may fall behind its share to make up for what others lost.",
        "A program that leaves CPUs idle in its slots would get more and more slots.";
    BURST_MS = 5,
        "A tenant that waits for requests from outside and runs for less than this at a time is a server.",
        "Servers would be parked for whole slots, and their clients would wait with them.";
    QUESTION_PERCENT = 10,
        "A question about kept slots takes at most this part of the time; an answer holds at least long enough for that.",
        "Questions would starve programs: during each, everybody shares the CPUs for a while.";
    LONGEST_HOLD_MINUTES = 5,
        "The longest time for which an answer holds.",
        "An answer about what a program did hours ago would still be in force.";
}
