//! Why a knob is changed, as a fact with its figures; `corun-report` makes the sentences.
//!
//! A tenant has the name from the time of the decision, since it may be gone when somebody reads it.

/// Why a decision was made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Tenants take turns, and this is the part of one of them in a slot.
    Slot {
        /// The number of the slot since the policy began. `None` for any.
        number: Option<u64>,
        /// Its part.
        part: SlotPart,
        /// Who runs together, or why there are slots.
        rule: Rule,
    },
    /// Nobody is parked any more.
    Release(Release),
    /// It waits during another tenant's dedicated window, or it is the tenant that runs alone.
    DedicatedWindow {
        /// The tenant of the window.
        of: String,
    },
    /// A dry run. Only a real run shows whether it helps.
    WouldTry(Box<Reason>),
    /// A new task, whose slices should differ from CPU to CPU.
    NewTaskSlices,
    /// A new task, whose wake-ups wait.
    NewTaskDelay {
        /// The delay, in nanoseconds.
        delay_ns: u64,
    },
    /// A new task, which does not keep the delay of its parent.
    NewTaskOwnDelay,
    /// The computing of a task compared with its fair share (PACT'16, equation 1).
    Lag {
        /// Its computing, in percent of its time.
        computed_percent: u64,
        /// Its fair share, in percent of its time.
        fair_percent: u64,
        /// The lag in millionths.
        lag_millionths: i64,
    },
    /// No task shares data or is bound by memory: it may run anywhere.
    NobodyShares,
    /// How much data the threads of a program share, and where it goes because of that (ATC'16 §2 to §4).
    Sharing {
        /// The tenant of the tasks.
        tenant: String,
        /// How much they share.
        sharing: Sharing,
        /// Stalls per coherence event, if that decided.
        spc: Option<u64>,
        /// Instructions per cycle, in thousandths.
        ipc_milli: u64,
        /// Whether it is bound by memory.
        wants_memory: bool,
        /// The socket it goes to.
        socket: u32,
        /// The core, if it has its own.
        core: Option<u32>,
    },
}

/// The role of a tenant in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotPart {
    /// It runs.
    Runs,
    /// It runs, since the slot has room again.
    FindsRoom,
    /// It waits for a slot of its own.
    Waits,
}

/// Who runs together in a slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// One tenant at a time.
    Single,
    /// Two, if their demands fit.
    Paired,
    /// As many as their weights allow.
    Weights {
        /// The degree of contention.
        dc: u64,
        /// The state of the search for it. `None` if it was given.
        search: Option<DcSearched>,
        /// Whether a tenant is heavier than that and runs alone.
        is_alone: bool,
    },
    /// Slots are tried, because a tenant lacks its fair share.
    Tried {
        /// The tenant with the least. `None` if no tenant starves.
        who: Option<String>,
        /// Its part of its fair share, in percent.
        percent: u64,
    },
    /// Slots are kept, for this reason.
    Kept(Kept),
}

/// The state of the search for a degree of contention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DcSearched {
    /// The first one is being measured.
    Measured,
    /// Another one is tried.
    Tried {
        /// Useful CPU time at the present one, in thousandths of the CPUs.
        useful_milli: u64,
        /// The present one.
        holds: u64,
    },
    /// It is found.
    Found {
        /// Useful CPU time, in thousandths of the CPUs.
        useful_milli: u64,
    },
}

/// Why slots are kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// It does almost nothing without slots.
    NothingWithout {
        /// The tenant.
        who: String,
    },
    /// It does several times as much as without slots.
    More {
        /// The tenant with the largest gain.
        who: String,
        /// The factor, in hundredths.
        times_percent: u64,
    },
    /// Slots have no cost, and spinning cannot be seen here.
    Free,
    /// It has less than its share of the slots that it shared with others, and gets its own.
    OwnSlots {
        /// The tenant.
        who: String,
        /// Its part of that share, in percent.
        percent: u64,
    },
}

/// Why nobody is parked any more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// The policy has begun.
    Begun,
    /// No tenant is left to share with.
    Single,
    /// Nobody competes any more.
    NoCompetition,
    /// The tenant that briefly lacked its fair share has it.
    HasItsShare,
    /// Slots help no tenant that needs them.
    HelpNobody {
        /// The gain in useful work, in thousandths.
        gain_milli: i64,
    },
    /// Such a gain in such a short time may be chance.
    NotSure {
        /// The gain, in thousandths.
        gain_milli: i64,
    },
    /// Slots leave a tenant less than its entitlement.
    LeavesLess {
        /// The tenant.
        who: String,
        /// Its rate in slots, in percent of its entitlement.
        percent: u64,
        /// The consequence.
        then: Then,
    },
    /// The tenant that needed help has gone.
    HelpedHasGone,
    /// No tenant is left that needs slots.
    NobodyNeedsSlots,
    /// A tenant has come that was not tried.
    TenantHasCome,
    /// A tenant has gone.
    TenantHasGone,
    /// It is time to ask again.
    TimeToAsk,
    /// A tenant has less than when slots were tried.
    LessThanTried,
    /// The dedicated window is over.
    WindowIsOver,
}

/// The consequence of slots that leave a tenant too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Then {
    /// It is not clear yet, so another pair follows.
    NotClear,
    /// Slots are given up.
    GivenUp,
    /// It is left alone.
    LeftAlone,
}

/// How much data the threads of a program share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sharing {
    /// Little.
    Low,
    /// Some.
    Moderate,
    /// Much.
    High,
}

impl Reason {
    /// The name used in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Reason::Slot { .. } => "slot",
            Reason::Release(_) => "release",
            Reason::DedicatedWindow { .. } => "dedicated_window",
            Reason::WouldTry(_) => "would_try",
            Reason::NewTaskSlices | Reason::NewTaskDelay { .. } | Reason::NewTaskOwnDelay => "new_task",
            Reason::Lag { .. } => "lag",
            Reason::NobodyShares => "nobody_shares",
            Reason::Sharing { .. } => "sharing",
        }
    }

    /// The same without the details that change from one decision to the next: the number of a slot, and the figures of a single task.
    #[must_use]
    pub fn kind(&self) -> Reason {
        match self {
            Reason::Slot { part, rule, .. } => Reason::Slot { number: None, part: *part, rule: rule.clone() },
            Reason::WouldTry(what) => Reason::WouldTry(Box::new(what.kind())),
            Reason::NewTaskDelay { .. } => Reason::NewTaskDelay { delay_ns: 0 },
            Reason::Lag { .. } => Reason::Lag { computed_percent: 0, fair_percent: 0, lag_millionths: 0 },
            Reason::Sharing { tenant, sharing, spc, wants_memory, core, .. } => Reason::Sharing {
                tenant: tenant.clone(),
                sharing: *sharing,
                spc: spc.map(|_| 0),
                ipc_milli: 0,
                wants_memory: *wants_memory,
                socket: 0,
                core: core.map(|_| 0),
            },
            Reason::Release(_)
            | Reason::DedicatedWindow { .. }
            | Reason::NewTaskSlices
            | Reason::NewTaskOwnDelay
            | Reason::NobodyShares => self.clone(),
        }
    }

    /// Why tenants take turns, if they do.
    pub fn rule(&self) -> Option<&Rule> {
        match self {
            Reason::Slot { rule, .. } => Some(rule),
            Reason::WouldTry(what) => what.rule(),
            _ => None,
        }
    }

    /// Whether slots are kept.
    pub fn keeps_slots(&self) -> bool {
        matches!(self.rule(), Some(Rule::Kept(_)))
    }
}
