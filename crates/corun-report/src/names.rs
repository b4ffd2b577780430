//! What tenants are called for people: by their names, and where several of one report have the same name, with what tells
//! them apart behind it, from their keys: `bash (pgid 4711)`, `worker (cgroup /a/worker)`. Only where the keys tell nothing
//! their numbers in the report do: `sh (#7)`.

use crate::profile::schema::ProfileReport;
use crate::words::name;
pub(crate) use corun_model::tenant::what_tells;
use std::collections::BTreeMap;

/// Of a name that is cut so many characters stay, and of what is behind it so many.
const NAME: usize = 6;
const APART: usize = 16;

/// What the tenants of one report are called, by their numbers in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(BTreeMap<u32, Called>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Called {
    name: String,
    apart: Option<String>,
}

impl Names {
    /// The names of all that a report speaks of.
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

    /// What a tenant is called, at any length and as it was named; only its number when nobody named it.
    pub fn whole(&self, id: u32) -> String {
        match self.0.get(&id) {
            Some(Called { name, apart: None }) => name.clone(),
            Some(Called { name, apart: Some(apart) }) => format!("{name} ({apart})"),
            None => format!("tenant {id}"),
        }
    }

    /// The same, safe on a terminal and at most `width` characters long, or what is needed to keep it apart: then its name is
    /// cut, and of what tells it apart the end is kept.
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
    fn tenants_of_one_name_are_told_apart_by_their_keys_and_others_have_their_names() {
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
    fn where_keys_tell_nothing_the_numbers_in_the_report_do() {
        let names = Names::disambiguated([(1, "a", ""), (2, "a", "a"), (3, "a", "x:1"), (4, "a", "x:1")]);
        assert_eq!([1, 2, 3, 4].map(|id| names.whole(id)), ["a (#1)", "a (#2)", "a (#3)", "a (#4)"]);
    }

    #[test]
    fn a_name_that_is_cut_still_tells_its_tenant_apart() {
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
