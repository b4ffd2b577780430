//! The names of tenants for people. If several tenants in one report have the same name, a distinction from
//! their keys follows it: `bash (pgid 4711)`, `worker (cgroup /a/worker)`. Only if the keys do not help,
//! their numbers in the report follow: `sh (#7)`.

use crate::profile::schema::ProfileReport;
use crate::words::name;
pub(crate) use corun_model::tenant::what_tells;
use std::collections::BTreeMap;

/// The characters that stay of a shortened name, and of its distinction.
const NAME: usize = 6;
const APART: usize = 16;

/// The names of the tenants of one report, by their numbers in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(BTreeMap<u32, Called>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Called {
    name: String,
    apart: Option<String>,
}

impl Names {
    /// The names of all tenants in a report.
    pub fn of(report: &ProfileReport) -> Names {
        let sections = || report.tenants.iter().chain([&report.subject]);
        let culprits = sections().flat_map(|s| &s.account.culprits);
        let mut tenants: BTreeMap<u32, (&str, &str)> =
            culprits.map(|c| (c.tenant.id, (c.tenant.name.as_str(), ""))).collect();
        tenants.extend(sections().map(|s| (s.tenant.id, (s.tenant.name.as_str(), s.key.as_str()))));
        Names::disambiguated(tenants.into_iter().map(|(id, (name, key))| (id, name, key)))
    }

    /// The names of tenants that are given by number, name and key.
    pub fn disambiguated<'a>(tenants: impl IntoIterator<Item = (u32, &'a str, &'a str)>) -> Names {
        let tenants: Vec<(u32, &str, &str)> = tenants.into_iter().collect();
        let mut named: BTreeMap<&str, u32> = BTreeMap::new();
        let mut told: BTreeMap<(&str, String), u32> = BTreeMap::new();
        for (_, name, key) in &tenants {
            *named.entry(name).or_default() += 1;
            *told.entry((name, what_tells(key))).or_default() += 1;
        }
        let apart = |id: u32, name: &str, key: &str| {
            let what = what_tells(key);
            let is_alone = told[&(name, what.clone())] == 1;
            if is_alone && !what.is_empty() && what != name {
                what
            } else {
                format!("#{id}")
            }
        };
        let called = |(id, name, key): (u32, &str, &str)| {
            let apart = (named[name] > 1).then(|| apart(id, name, key));
            (id, Called { name: name.to_owned(), apart })
        };
        Names(tenants.into_iter().map(called).collect())
    }

    /// The full name of a tenant; only its number if it has no name.
    pub fn whole(&self, id: u32) -> String {
        match self.0.get(&id) {
            Some(Called { name, apart: None }) => name.clone(),
            Some(Called { name, apart: Some(apart) }) => format!("{name} ({apart})"),
            None => format!("tenant {id}"),
        }
    }

    /// The same, safe on a terminal and at most `width` characters long, or longer if the distinction
    /// requires it. Then its name is shortened, and the end of the distinction is kept.
    pub fn within(&self, id: u32, width: usize) -> String {
        let whole = self.whole(id);
        let Some(Called { name: called, apart: Some(apart) }) = self.0.get(&id) else {
            return name(&whole, width);
        };
        if whole.chars().count() <= width {
            return name(&whole, width);
        }
        let most = width.saturating_sub(NAME + 3).max(APART - 3);
        let long = apart.chars().count();
        let apart: String = match long > most {
            true => ['~'].into_iter().chain(apart.chars().skip(long - most + 1)).collect(),
            false => apart.clone(),
        };
        let apart = name(&format!(" ({apart})"), usize::MAX);
        let room = width.saturating_sub(apart.chars().count()).max(NAME);
        name(called, room) + &apart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_with_the_same_name_are_distinguished_by_their_keys_and_others_keep_their_names() {
        let names = Names::disambiguated([
            (1, "bash", "pgid:4711"),
            (2, "postgres", "pgid:12"),
            (3, "bash", "pgid:4712"),
            (4, "bash", "pid:99"),
            (5, "web", "unit:/a/web"),
            (6, "web", "cgroup:/b/web"),
        ]);
        let whole: Vec<String> = (1..=7).map(|id| names.whole(id)).collect();
        assert_eq!(
            whole,
            [
                "bash (pgid 4711)",
                "postgres",
                "bash (pgid 4712)",
                "bash (pid 99)",
                "web (unit /a/web)",
                "web (cgroup /b/web)",
                "tenant 7"
            ]
        );
    }

    #[test]
    fn if_keys_do_not_help_the_numbers_in_the_report_distinguish() {
        let names = Names::disambiguated([(1, "a", ""), (2, "a", "a"), (3, "a", "x:1"), (4, "a", "x:1")]);
        assert_eq!([1, 2, 3, 4].map(|id| names.whole(id)), ["a (#1)", "a (#2)", "a (#3)", "a (#4)"]);
    }

    #[test]
    fn a_shortened_name_still_identifies_its_tenant() {
        let path = "unit:/system.slice/system-worker.slice/worker@1.service";
        let names = Names::disambiguated([
            (1, "a-long-command", "pgid:4711"),
            (2, "a-long-command", "pgid:4712"),
            (3, "worker\x1b[31m", path),
            (4, "worker\x1b[31m", "unit:/other.slice/worker@2.service"),
            (5, "postgresql.service", "unit:/postgresql.service"),
        ]);
        assert_eq!(names.within(1, 40), "a-long-command (pgid 4711)");
        assert_eq!(names.within(1, 20), "a-long-~ (pgid 4711)");
        assert_eq!(names.within(2, 10), "a-lon~ (pgid 4712)");
        assert_eq!(names.within(3, 30), "worke~ (~ice/worker@1.service)");
        assert_eq!(names.within(5, 14), "postgresql.se~");
        for id in 1..=5 {
            assert!((10..40).all(|width| names.within(id, width).chars().count() <= width.max(NAME + APART)));
            assert!(!names.within(id, 30).contains('\x1b'));
        }
    }
}
