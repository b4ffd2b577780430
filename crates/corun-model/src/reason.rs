//! Why a knob is turned, as a fact with its figures; `corun-report` makes the sentences.
//!
//! A tenant is named as it was called when it was decided: it may have gone by the time that somebody reads it.

/// Why a decision was made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Tenants take turns, and this is the part of one of them in a slot.
    Slot {
        /// Which slot since the policy began; `None`: any.
        number: Option<u64>,
        /// Its part.
        part: SlotPart,
        /// Who runs together, or why there are slots.
        rule: Rule,
    },
    /// Nobody is parked any longer.
    Release(Release),
    /// It waits for a dedicated window of somebody, or that one runs alone.
    DedicatedWindow {
        /// Whose window.
        of: String,
    },
    /// A dry run: whether it helps, only a real run tells.
    WouldTry(Box<Reason>),
    /// A new task, whose slices shall differ from CPU to CPU.
    NewTaskSlices,
    /// A new task, whose wake-ups wait.
    NewTaskDelay {
        /// For how long, in nanoseconds.
        delay_ns: u64,
    },
    /// A new task, which does not have the delay of the one that made it.
    NewTaskOwnDelay,
    /// What a task computed against its fair share (PACT'16, equation 1).
    Lag {
        /// What it computed, in percent of its time.
        computed_percent: u64,
        /// What was fair, likewise.
        fair_percent: u64,
        /// The lag in millionths.
        lag_millionths: i64,
    },
    /// Nobody shares data or is bound by memory: it may run anywhere.
    NobodyShares,
    /// How much data the threads of a program share, and where it goes for that (ATC'16 §2 to §4).
    Sharing {
        /// Whose tasks.
        tenant: String,
        /// How much they share.
        sharing: Sharing,
        /// Stalls per coherence event, where that decided.
        spc: Option<u64>,
        /// Instructions per cycle, in thousandths.
        ipc_milli: u64,
        /// Whether memory holds it up.
        wants_memory: bool,
        /// The socket it goes to.
        socket: u32,
        /// The core, where it has one of its own.
        core: Option<u32>,
    },
}

/// What a tenant does in a slot.
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
    /// Two, where their demands fit.
    Paired,
    /// As many as their weights allow.
    Weights {
        /// The degree of contention.
        dc: u64,
        /// How far the search for it is; `None`: it was given.
        search: Option<DcSearched>,
        /// Whether somebody is heavier than that and runs alone.
        is_alone: bool,
    },
    /// Slots are tried, because somebody lacks its fair share.
    Tried {
        /// Who has least; `None`: nobody starves.
        who: Option<String>,
        /// What it has of its fair share, in percent.
        percent: u64,
    },
    /// Slots are kept, for this.
    Kept(Kept),
}

/// How far the search for a degree of contention is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DcSearched {
    /// The first one is being measured.
    Measured,
    /// Another one is tried.
    Tried {
        /// Useful CPU time at the one that holds, in thousandths of the CPUs.
        useful_milli: u64,
        /// That one.
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
    /// It does next to nothing without.
    NothingWithout {
        /// Who.
        who: String,
    },
    /// It does so many times as much as without.
    More {
        /// Who gains most.
        who: String,
        /// How many times as much, in hundredths.
        times_percent: u64,
    },
    /// They cost nobody anything, and spinning cannot be seen here.
    Free,
    /// It has less than its share of the slots that it shared with others, and gets its own.
    OwnSlots {
        /// Who.
        who: String,
        /// What it had of that share, in percent.
        percent: u64,
    },
}

/// Why nobody is parked any longer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// The policy has begun.
    Begun,
    /// No tenant is left to share with.
    Single,
    /// Nobody competes any more.
    NoCompetition,
    /// Who lacked its fair share for a moment has it.
    HasItsShare,
    /// Slots help nobody who needs them.
    HelpNobody {
        /// Useful work with them, in thousandths more.
        gain_milli: i64,
    },
    /// So much in so short a time may be chance.
    NotSure {
        /// The gain, in thousandths.
        gain_milli: i64,
    },
    /// Slots leave somebody less than it is entitled to.
    LeavesLess {
        /// Whom.
        who: String,
        /// What they leave, in percent of that.
        percent: u64,
        /// What follows.
        then: Then,
    },
    /// Who was to be helped has gone.
    HelpedHasGone,
    /// Nobody is left whom slots are for.
    NobodyNeedsSlots,
    /// A tenant has come that was not tried.
    TenantHasCome,
    /// A tenant has gone.
    TenantHasGone,
    /// It is time to ask again.
    TimeToAsk,
    /// Somebody has less than when slots were tried.
    LessThanTried,
    /// The dedicated window is over.
    WindowIsOver,
}

/// What follows from slots that leave somebody too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Then {
    /// Another look: it is not clear yet.
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
    /// What it is called in JSON.
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

    /// The same without what changes from one decision to the next for one reason: the number of a slot, and the figures of
    /// a single task.
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

    /// Why tenants take turns, where they do.
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
