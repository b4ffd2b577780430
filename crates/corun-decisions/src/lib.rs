//! The in-kernel decisions, called from Rust: safe wrappers around `include/decisions.h`, compiled by cc.
//!
//! The header documents each function. The modelled machine calls the same functions, so it simulates exactly what the sched_ext
//! scheduler does. All of them are pure: numbers in, a number out.

/// The shortest slice. A shorter one is raised to this.
pub const LEAST_SLICE_NS: u64 = 100_000;
/// The longest slice.
pub const MOST_SLICE_NS: u64 = 100_000_000;

/// The share of a task that is the only one of a tenant with weight 100.
pub const DEFAULT_SHARE: u64 = 100 * 1024;

mod c {
    extern "C" {
        pub fn corun_slice_ns(least: u64, most: u64, fallback: u64, random: u32) -> u64;
        pub fn corun_preempt_due_ns(now: u64, delay: u64, armed: u64) -> u64;
        pub fn corun_may_run(now: u64, parked_until: u64, exempt: u32) -> i32;
        pub fn corun_share(tenant_weight: u64, task_weight: u64, load: u64) -> u64;
        pub fn corun_vtime_of(ran: u64, share: u64) -> u64;
        pub fn corun_vtime_ran(vtime: u64, ran: u64, share: u64) -> u64;
        pub fn corun_vtime_join(vtime: u64, zero: u64, credit: u64, share: u64) -> u64;
        pub fn corun_vtime_move(vtime: u64, from: u64, to: u64) -> u64;
        pub fn corun_vtime_zero(zero: u64, dispatched: u64) -> u64;
        pub fn corun_wants_cpu(waking: u64, current: u64, granularity: u64, share: u64) -> i32;
        pub fn corun_before(a: u64, b: u64) -> i32;
    }
}

/// The slice of a task: a value between its own bounds, chosen by 32 random bits. `fallback_ns` if it has no bounds.
pub fn slice_ns(bounds_ns: Option<(u64, u64)>, fallback_ns: u64, random: u32) -> u64 {
    let (least, most) = bounds_ns.unwrap_or((0, 0));
    // SAFETY: a pure function of numbers.
    unsafe { c::corun_slice_ns(least, most, fallback_ns, random) }
}

/// When a waking task that wants a busy CPU gets it. `armed_ns` is the time of the CPU's timer, if it is set.
pub fn preempt_due_ns(now_ns: u64, delay_ns: u64, armed_ns: Option<u64>) -> u64 {
    // SAFETY: a pure function of numbers.
    unsafe { c::corun_preempt_due_ns(now_ns, delay_ns, armed_ns.unwrap_or(0)) }
}

/// Whether a task may be dispatched. Its tenant is parked until `parked_until_ns`.
pub fn may_run(now_ns: u64, parked_until_ns: Option<u64>, exempt: bool) -> bool {
    // SAFETY: a pure function of numbers.
    unsafe { c::corun_may_run(now_ns, parked_until_ns.unwrap_or(0), u32::from(exempt)) != 0 }
}

/// A task's effective weight on its CPU, in 1/1024 of a `cpu.weight`.
pub fn share(tenant_weight: u64, task_weight: u64, load: u64) -> u64 {
    // SAFETY: a pure function of numbers.
    unsafe { c::corun_share(tenant_weight, task_weight, load) }
}

/// How far a virtual time advances while its owner runs for `ran_ns`.
pub fn vtime_of(ran_ns: u64, share: u64) -> u64 {
    // SAFETY: a pure function of numbers.
    unsafe { c::corun_vtime_of(ran_ns, share) }
}

/// The virtual time after running for `ran_ns`.
pub fn vtime_ran(vtime: u64, ran_ns: u64, share: u64) -> u64 {
    // SAFETY: a pure function of numbers.
    unsafe { c::corun_vtime_ran(vtime, ran_ns, share) }
}

/// The virtual time with which a task joins a queue at virtual time `zero`.
pub fn vtime_join(vtime: u64, zero: u64, credit_ns: u64, share: u64) -> u64 {
    // SAFETY: a pure function of numbers.
    unsafe { c::corun_vtime_join(vtime, zero, credit_ns, share) }
}

/// The virtual time of a task that goes from a queue at virtual time `from` to one at `to`.
pub fn vtime_move(vtime: u64, from: u64, to: u64) -> u64 {
    // SAFETY: a pure function of numbers.
    unsafe { c::corun_vtime_move(vtime, from, to) }
}

/// A queue's virtual time after it dispatched a task.
pub fn vtime_zero(zero: u64, dispatched: u64) -> u64 {
    // SAFETY: a pure function of numbers.
    unsafe { c::corun_vtime_zero(zero, dispatched) }
}

/// Whether a waking task should take the CPU from the running one.
pub fn wants_cpu(waking: u64, current: u64, granularity_ns: u64, share: u64) -> bool {
    // SAFETY: a pure function of numbers.
    unsafe { c::corun_wants_cpu(waking, current, granularity_ns, share) != 0 }
}

/// Whether `a` lies before `b`, also across a wrap.
pub fn before(a: u64, b: u64) -> bool {
    // SAFETY: a pure function of numbers.
    unsafe { c::corun_before(a, b) != 0 }
}
