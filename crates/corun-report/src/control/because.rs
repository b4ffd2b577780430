//! Why a knob was set, in a clause with its figures.

use corun_model::duration::human_ns;
use corun_model::reason::{DcSearched, Kept, Release, Rule, Sharing, SlotPart, Then};
use corun_model::Reason;

/// The clause. It does not name the knob's target.
pub fn because(reason: &Reason) -> String {
    match reason {
        Reason::Slot { number, part, rule } => {
            let slot = number.map_or("a slot".to_owned(), |n| format!("slot {n}"));
            let rule = by(rule);
            match part {
                SlotPart::Runs => format!("{slot}: {rule}"),
                SlotPart::FindsRoom => format!("{slot} has room again: {rule}"),
                SlotPart::Waits => format!("skips {slot}: {rule}"),
            }
        }
        Reason::Release(why) => release(why),
        Reason::DedicatedWindow { of } => format!("a dedicated window of {of}"),
        Reason::WouldTry(what) => match what.as_ref() {
            Reason::Slot { rule: Rule::Tried { who, percent }, .. } => {
                format!("would try slots: {}", lacks(who.as_deref(), *percent))
            }
            other => format!("would try slots; {}", because(other)),
        },
        Reason::NewTaskSlices => "a new task: its slices differ from CPU to CPU".into(),
        Reason::NewTaskDelay { delay_ns } => {
            format!("a new task: its wake-ups wait for {}", human_ns(*delay_ns))
        }
        Reason::NewTaskOwnDelay => "a new task: it does not inherit its creator's delay".into(),
        Reason::Lag { computed_percent, fair_percent, lag_millionths } => {
            // A value near zero loses its sign.
            let lag = (*lag_millionths as f64 / 1e4).round() / 100.0 + 0.0;
            format!(
                "computed for {computed_percent} % of its time, its fair share is {fair_percent} %: lag {lag:+.2}"
            )
        }
        Reason::NobodyShares => "no task shares data or is bound by memory now: it may run anywhere".into(),
        Reason::Sharing { tenant, sharing, spc, ipc_milli, wants_memory, socket, core } => {
            let much = match sharing {
                Sharing::High => "much",
                Sharing::Moderate => "some",
                Sharing::Low => "little",
            };
            let spc = spc.map_or(String::new(), |spc| format!("SPC {spc}, "));
            let memory = if *wants_memory { ", is bound by memory" } else { "" };
            let core = core.map_or(String::new(), |core| format!(", core {core}"));
            let ipc = *ipc_milli as f64 / 1_000.0;
            format!("{tenant} shares {much} ({spc}IPC {ipc:.2}){memory}: socket {socket}{core}")
        }
    }
}

fn by(rule: &Rule) -> String {
    match rule {
        Rule::Single => "one tenant at a time".into(),
        Rule::Paired => "together with one whose demand fits".into(),
        Rule::Weights { dc, search, is_alone } => {
            let useful = |milli: &u64| format!("{:.2}", *milli as f64 / 1_000.0);
            let found = match search {
                None => String::new(),
                Some(DcSearched::Measured) => " (being measured)".into(),
                Some(DcSearched::Tried { useful_milli, holds }) => {
                    format!(" (tried; useful {} of the CPUs at {holds})", useful(useful_milli))
                }
                Some(DcSearched::Found { useful_milli }) => {
                    format!(" (found; useful {} of the CPUs)", useful(useful_milli))
                }
            };
            let alone = if *is_alone { "; a heavier tenant runs alone" } else { "" };
            format!("weights up to DC {dc}{found}{alone}")
        }
        Rule::Tried { who, percent } => format!("on trial; {}", lacks(who.as_deref(), *percent)),
        Rule::Kept(why) => format!("kept, since {}", kept(why)),
    }
}

fn lacks(who: Option<&str>, percent: u64) -> String {
    match who {
        Some(who) => format!("{who} has {percent} % of its fair share"),
        None => "no tenant lacks its fair share".into(),
    }
}

/// Why slots are kept.
pub fn kept(why: &Kept) -> String {
    match why {
        Kept::NothingWithout { who } => format!("{who} does almost nothing without slots"),
        Kept::More { who, times_percent: times } => {
            format!("{who} does {}.{:02} times as much as without slots", times / 100, times % 100)
        }
        Kept::Free => "slots cost nobody anything, and spinning cannot be seen here".into(),
        Kept::OwnSlots { who, percent } => {
            format!("{who} has {percent} % of its share of the slots that it shared with others")
        }
    }
}

fn release(why: &Release) -> String {
    let percent = |milli: &i64| *milli as f64 / 10.0;
    match why {
        Release::Begun => "it has begun".into(),
        Release::Single => "no tenant is left to share with".into(),
        Release::NoCompetition => "no tenant competes any more".into(),
        Release::HasItsShare => "the tenant that briefly lacked its fair share has it again".into(),
        Release::HelpNobody { gain_milli } => {
            format!("slots do not help the tenants that need them: {:+.1} % useful work", percent(gain_milli))
        }
        Release::NotSure { gain_milli } => {
            format!("not sure yet: {:+.0} % in so short a time may be chance", percent(gain_milli))
        }
        Release::LeavesLess { who, percent, then } => {
            let told = format!("slots leave {who} {percent} % of what it is entitled to");
            match then {
                Then::NotClear => format!("not clear yet: {told}"),
                Then::GivenUp => told,
                Then::LeftAlone => format!("{told}; it is left alone"),
            }
        }
        Release::HelpedHasGone => "the tenant to be helped has gone".into(),
        Release::NobodyNeedsSlots => "no tenant is left that needs slots".into(),
        Release::TenantHasCome => "a new tenant has come".into(),
        Release::TenantHasGone => "a tenant has gone".into(),
        Release::TimeToAsk => "it is time to ask again".into(),
        Release::LessThanTried => "a tenant gets less than in the trial of slots".into(),
        Release::WindowIsOver => "the dedicated window is over".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_clause_with_its_figures() {
        let slot = |number, part, rule| Reason::Slot { number, part, rule };
        let tried = || Rule::Tried { who: Some("solver".into()), percent: 19 };
        let weights = |search, is_alone| Rule::Weights { dc: 16, search, is_alone };
        let less = |then| Reason::Release(Release::LeavesLess { who: "a".into(), percent: 61, then });
        let sharing = |spc: Option<u64>, core: Option<u32>| Reason::Sharing {
            tenant: "solver".into(),
            sharing: if spc == Some(550) { Sharing::High } else { Sharing::Low },
            spc,
            ipc_milli: 1_234,
            wants_memory: core.is_none(),
            socket: 1,
            core,
        };
        for (reason, clause) in [
            (slot(Some(8), SlotPart::Runs, Rule::Single), "slot 8: one tenant at a time"),
            (
                slot(Some(1), SlotPart::FindsRoom, Rule::Paired),
                "slot 1 has room again: together with one whose demand fits",
            ),
            (
                slot(None, SlotPart::Waits, weights(Some(DcSearched::Measured), false)),
                "skips a slot: weights up to DC 16 (being measured)",
            ),
            (
                slot(None, SlotPart::Runs, weights(Some(DcSearched::Tried { useful_milli: 876, holds: 8 }), true)),
                "a slot: weights up to DC 16 (tried; useful 0.88 of the CPUs at 8); a heavier tenant runs alone",
            ),
            (
                Reason::WouldTry(Box::new(slot(Some(1), SlotPart::Waits, tried()))),
                "would try slots: solver has 19 % of its fair share",
            ),
            (
                Reason::WouldTry(Box::new(slot(Some(1), SlotPart::Waits, Rule::Single))),
                "would try slots; skips slot 1: one tenant at a time",
            ),
            (
                slot(None, SlotPart::Waits, Rule::Kept(Kept::More { who: "a".into(), times_percent: 121 })),
                "skips a slot: kept, since a does 1.21 times as much as without slots",
            ),
            (
                Reason::Release(Release::HelpNobody { gain_milli: -25 }),
                "slots do not help the tenants that need them: -2.5 % useful work",
            ),
            (less(Then::NotClear), "not clear yet: slots leave a 61 % of what it is entitled to"),
            (less(Then::LeftAlone), "slots leave a 61 % of what it is entitled to; it is left alone"),
            (
                Reason::Lag { computed_percent: 60, fair_percent: 40, lag_millionths: 204_000 },
                "computed for 60 % of its time, its fair share is 40 %: lag +0.20",
            ),
            (sharing(Some(550), Some(3)), "solver shares much (SPC 550, IPC 1.23): socket 1, core 3"),
            (sharing(None, None), "solver shares little (IPC 1.23), is bound by memory: socket 1"),
        ] {
            assert_eq!(because(&reason), clause);
        }
    }
}
