//! Findings about a machine: what can be seen and done on it, and why not. The doctor of the live machine makes them, and a report
//! shows them.

/// The subject of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// What can be seen.
    See,
    /// What can be done to co-runners.
    Act,
    /// What a session is allowed to start.
    Allow,
    /// The kind of machine.
    Machine,
}

impl Part {
    /// The name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Part::See => "see",
            Part::Act => "act",
            Part::Allow => "allow",
            Part::Machine => "machine",
        }
    }
}

/// Whether something can be seen or done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It can.
    Yes,
    /// It can, with the restriction that the finding names.
    Partly,
    /// It cannot.
    No,
    /// A fact that explains other answers.
    Fact,
}

impl Answer {
    /// The name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Answer::Yes => "yes",
            Answer::Partly => "partly",
            Answer::No => "no",
            Answer::Fact => "fact",
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its subject.
    pub part: Part,
    /// The feature: "eBPF", "freezer".
    pub what: &'static str,
    /// Whether it can be used.
    pub answer: Answer,
    /// The result; for a no, the reason.
    pub found: String,
    /// A remedy, for every no and every partly.
    pub remedy: Option<String>,
}
