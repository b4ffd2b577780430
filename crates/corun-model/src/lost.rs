//! What a window lacks.

/// Lost events and times (invariant 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Events that found no room (records, ring).
    pub events: u64,
    /// Task time that fell into no category, in nanoseconds.
    pub unknown_ns: u64,
    /// Task time that an earlier window put into a category and that belongs to another, because the kernel reported a switch late or
    /// not at all, in nanoseconds. It stays in the first category.
    pub revised_ns: u64,
    /// Tasks that could not be followed because the table of tasks was full.
    pub untracked_tasks: u64,
    /// Tasks that are in their tenant's sums, but not in the list.
    pub unlisted_tasks: u64,
    /// CPU time of tasks too short-lived to be seen individually, in nanoseconds. It is in their tenant's
    /// sums. Their waiting time is in no sum.
    pub unseen_ns: u64,
}

impl Loss {
    /// Adds what another window lacks.
    pub fn add(&mut self, o: &Loss) {
        let Loss { events, unknown_ns, revised_ns, untracked_tasks, unlisted_tasks, unseen_ns } = o;
        self.events += events;
        self.unknown_ns += unknown_ns;
        self.revised_ns += revised_ns;
        self.untracked_tasks += untracked_tasks;
        self.unlisted_tasks += unlisted_tasks;
        self.unseen_ns += unseen_ns;
    }
}
