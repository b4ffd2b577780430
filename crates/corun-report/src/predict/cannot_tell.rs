//! Why nothing can be said about a run, in a clause.

use super::kept;
use corun_model::duration::human_ns;
use corun_predict::CannotTell;

/// The clause while the program still runs.
pub fn cannot_tell(why: CannotTell) -> String {
    match why {
        CannotTell::NoTask => "the program had no task in a shared window".into(),
        CannotTell::OnlyWaited(waited) => match kept::all_of(&waited) {
            Some(kept) => format!("the program has not run yet: it was {kept}"),
            None => "the program has not run yet; it only waited".into(),
        },
        CannotTell::NoSharedWindow => "there is no shared window in it".into(),
        CannotTell::NoUsefulWork => "the program did no useful work in one kind of window".into(),
        CannotTell::TooShort { least_ns } => {
            format!("it takes {} of shared windows with the same behavior", human_ns(least_ns))
        }
        CannotTell::TooFewShared => "it takes three shared windows for an interval".into(),
        CannotTell::TooFewWindows => "there are too few windows for an interval".into(),
        CannotTell::TooFewDedicated => "this method takes three dedicated windows".into(),
    }
}

/// The clause once it has run for this long, and no more will be seen.
pub fn cannot_tell_at_end(why: CannotTell, ran_ns: u64) -> String {
    let lacked = match why {
        CannotTell::TooShort { least_ns } => format!("at least {} is needed", human_ns(least_ns)),
        CannotTell::TooFewShared | CannotTell::TooFewWindows => "an interval needs more".into(),
        CannotTell::TooFewDedicated => "the method takes three dedicated windows".into(),
        _ => return cannot_tell(why),
    };
    format!("it ran for {}, and {lacked}; give it more work, or watch it for longer", human_ns(ran_ns))
}
