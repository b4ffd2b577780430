//! The windows of a co-run as a record keeps them: small enough for hundreds in a repository, and complete enough to predict every
//! co-run again.
//!
//! Method. Each figure of a window is a column, named by its place (`tasks/7/stolen_ns`), with a value per window. Values have five
//! digits (`19987e4`), times start at the first window, and repeated values are written once (`0*48`). So a co-run of twenty windows
//! takes one or two kilobytes in a compressed record. With more than [`MOST`] shared windows, neighbors are joined. The predictor also
//! joins them.
//!
//! Limits: names of tenants are not kept, so culprits have only numbers. A prediction from kept windows may differ from that of the
//! live windows in the fourth digit, and by more if neighbors were joined.

use corun_predict::useful_work::Window;
use corun_predict::{AloneTime, Label, Recorded};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The most shared windows that are kept apart: three times the batches of an interval.
pub const MOST: usize = 48;
/// Digits of a value.
const DIGITS: i32 = 5;
/// The resolution of times, in nanoseconds.
const GRAIN_NS: u64 = 1_000;
/// The entry of a column for a window without this figure.
const NONE: &str = "-";

/// The windows of a co-run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptWindows {
    /// One letter for each window, in order of time: `d` is dedicated, `s` shared.
    labels: String,
    /// The values of each figure in all windows, by the place of the figure.
    columns: BTreeMap<String, String>,
    /// The results of replays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    replayed: Vec<AloneTime>,
}

impl KeptWindows {
    /// Keeps the windows of a co-run, in order of time, with the results of its replays.
    pub fn of(recorded: &[Recorded], replayed: &[AloneTime]) -> KeptWindows {
        let recorded = thinned(recorded);
        let begin_ns = recorded.first().map_or(0, |r| r.window.start_ns);
        let since = |ns: u64| ns.saturating_sub(begin_ns) / GRAIN_NS * GRAIN_NS;
        let mut columns: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (n, Recorded { window, .. }) in recorded.iter().enumerate() {
            let window =
                Window { start_ns: since(window.start_ns), end_ns: since(window.end_ns), ..window.clone() };
            let mut keep = |place: &str, value: String| {
                let column = columns.entry(place.to_owned()).or_default();
                column.resize(n, NONE.to_owned());
                column.push(value);
            };
            let value = serde_json::to_value(&window).expect("a window is plain data");
            flatten(&mut String::new(), &value, &mut keep);
        }
        let columns = columns.into_iter().map(|(place, values)| (place, packed(&values))).collect();
        let labels = recorded.iter().map(|r| if r.label == Label::Dedicated { 'd' } else { 's' }).collect();
        let replayed = replayed.iter().map(|e| AloneTime {
            start_ns: since(e.start_ns),
            end_ns: since(e.end_ns),
            alone_ns: e.alone_ns.map(f64::round),
            ..*e
        });
        KeptWindows { labels, columns, replayed: replayed.collect() }
    }

    /// Restores the windows.
    ///
    /// # Errors
    /// One clause: what is wrong with the kept text.
    pub fn windows(&self) -> Result<Vec<Recorded>, String> {
        let mut windows = vec![Value::Object(Map::new()); self.labels.len()];
        for (place, column) in &self.columns {
            for (n, value) in unpacked(column).enumerate() {
                let value = value.map_err(|what| format!("`{place}` has `{what}`, which is no value"))?;
                let window = windows.get_mut(n).ok_or(format!("`{place}` has more values than windows"))?;
                if let Some(value) = value {
                    *placed(window, place).ok_or(format!("`{place}` is in the place of a figure"))? = value;
                }
            }
        }
        let labels = self.labels.chars().map(|c| if c == 'd' { "dedicated" } else { "shared" });
        let read = |(label, window): (&str, Value)| {
            let line = Map::from_iter([("label".into(), label.into()), ("window".into(), window)]);
            serde_json::from_value(Value::Object(line)).map_err(|e| e.to_string())
        };
        labels.zip(windows).map(read).collect()
    }

    /// The results of replays of the co-run.
    pub fn replayed(&self) -> &[AloneTime] {
        &self.replayed
    }
}

/// Joins neighbors if there are too many shared windows. Each pair takes the place of its last.
fn thinned(recorded: &[Recorded]) -> Vec<Recorded> {
    let shared = recorded.iter().filter(|r| r.label == Label::Shared).count();
    let together = shared.div_ceil(MOST).max(1);
    let (mut kept, mut open): (Vec<Recorded>, Vec<&Window>) = (Vec::new(), Vec::new());
    let close = |open: &mut Vec<&Window>, kept: &mut Vec<Recorded>| {
        let windows = std::mem::take(open);
        kept.push(Recorded { label: Label::Shared, window: Window::sum(windows) });
    };
    for r in recorded {
        if r.label == Label::Dedicated {
            kept.push(r.clone());
            continue;
        }
        open.push(&r.window);
        if open.len() == together {
            close(&mut open, &mut kept);
        }
    }
    if !open.is_empty() {
        close(&mut open, &mut kept);
    }
    kept
}

/// Calls `keep` with the place and value of every figure. Empty values and lists are figures too.
fn flatten(place: &mut String, value: &Value, keep: &mut dyn FnMut(&str, String)) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let length = place.len();
                let _ = write!(place, "{}{name}", if length == 0 { "" } else { "/" });
                flatten(place, value, keep);
                place.truncate(length);
            }
        }
        value => keep(place, written(value)),
    }
}

/// The place for a figure. `None` if another figure is on the way to it.
fn placed<'a>(window: &'a mut Value, place: &str) -> Option<&'a mut Value> {
    place.split('/').try_fold(window, |at, name| {
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        Some(at.as_object_mut()?.entry(name).or_insert(Value::Null))
    })
}

fn written(value: &Value) -> String {
    match value {
        Value::Number(number) => digits(number),
        Value::Array(list) => format!("[{}]", list.iter().map(written).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

/// A number with five digits. Whole numbers such as identities and instants stay as they are.
fn digits(number: &Number) -> String {
    let Some(x) = number.as_f64().filter(|x| number.is_f64() && *x != 0.0) else {
        return if number.is_f64() { "0".into() } else { number.to_string() };
    };
    let mut exponent = x.abs().log10().floor() as i32 + 1 - DIGITS;
    let mut mantissa = (x / 10f64.powi(exponent)).round() as i64;
    while mantissa % 10 == 0 {
        (mantissa, exponent) = (mantissa / 10, exponent + 1);
    }
    match exponent {
        0 => mantissa.to_string(),
        _ => format!("{mantissa}e{exponent}"),
    }
}

/// Joins values; equal values in a row are written once with their number.
fn packed(values: &[String]) -> String {
    let row = |same: &[String]| match same.len() {
        1 => same[0].clone(),
        n => format!("{}*{n}", same[0]),
    };
    values.chunk_by(|a, b| a == b).map(row).collect::<Vec<_>>().join(" ")
}

/// A longer sequence is damaged data, and would only fill memory.
const LONGEST: usize = 100_000;

fn unpacked(column: &str) -> impl Iterator<Item = Result<Option<Value>, &str>> {
    column.split(' ').flat_map(|row| {
        let (value, times) = match row.rsplit_once('*') {
            Some((value, times)) => (value, times.parse().unwrap_or(0)),
            None => (row, 1),
        };
        let read = match value {
            NONE => Ok(None),
            value => serde_json::from_str(value).map(Some).map_err(|_| row),
        };
        let read = if (1..=LONGEST).contains(&times) { read } else { Err(row) };
        std::iter::repeat_n(read, times.clamp(1, LONGEST))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::{TaskId, TenantId};
    use corun_predict::useful_work::Spent;
    use corun_report::json;

    fn windows(n: u64) -> Vec<Recorded> {
        let window = |i: u64| {
            let stolen_ns = 12_345_678.0 * (i + 1) as f64 / n as f64;
            let compute_ns = 200_000_000.0 - stolen_ns;
            let spent = Spent { life_ns: 200_000_000.0, compute_ns, stolen_ns, ..Spent::default() };
            let tasks = [(4_194_000 + i as u32 % 2, spent)].map(|(id, s)| (TaskId(id), s)).into();
            Window {
                start_ns: 7_000_000_123 + i * 200_000_000,
                end_ns: 7_000_000_123 + (i + 1) * 200_000_000,
                wall_ns: 200_000_000.0,
                tasks,
                cpus: 2,
                culprits: [(Some(TenantId(3)), stolen_ns), (None, 0.0)].into(),
                ..Window::default()
            }
        };
        let label = |i| if i % 10 == 9 { Label::Dedicated } else { Label::Shared };
        (0..n).map(|i| Recorded { label: label(i), window: window(i) }).collect()
    }

    #[test]
    fn windows_come_back_to_five_digits_with_their_tasks_and_culprits() {
        let all = windows(40);
        let kept = KeptWindows::of(&all, &[]);
        let text = json::compact(&kept);
        let again = serde_json::from_str::<KeptWindows>(&text).unwrap().windows().unwrap();
        assert_eq!(again.len(), 40);
        for (was, is) in all.iter().zip(&again) {
            let (was, is) = ((was.label, &was.window), (is.label, &is.window));
            assert_eq!((was.0, was.1.start_ns - 7_000_000_123), (is.0, is.1.start_ns));
            assert_eq!(was.1.tasks.keys().collect::<Vec<_>>(), is.1.tasks.keys().collect::<Vec<_>>());
            assert_eq!(was.1.culprits.len(), is.1.culprits.len());
            let stolen = |w: &Window| w.total().stolen_ns;
            assert!((stolen(was.1) / stolen(is.1) - 1.0).abs() < 1e-4);
        }
        let lines: usize = all.iter().map(|line| json::compact(line).len()).sum();
        assert!(4 * text.len() < lines, "{} bytes of {lines}", text.len());
    }

    #[test]
    fn neighbors_in_a_long_run_are_joined_and_no_time_is_lost() {
        let all = windows(500);
        let again = KeptWindows::of(&all, &[]).windows().unwrap();
        let wall_ns = |all: &[Recorded]| all.iter().map(|r| r.window.wall_ns).sum::<f64>();
        assert!((wall_ns(&again) / wall_ns(&all) - 1.0).abs() < 1e-4);
        assert!(again.iter().filter(|r| r.label == Label::Shared).count() <= MOST);
        assert_eq!(again.iter().filter(|r| r.label == Label::Dedicated).count(), 50);
    }

    #[test]
    fn text_that_is_not_a_window_is_refused() {
        let kept = KeptWindows::of(&windows(3), &[]);
        let with = |place: &str, column: &str| {
            let mut kept = kept.clone();
            kept.columns.insert(place.into(), column.into());
            kept.windows()
        };
        assert!(with("cpus", "2 2 2").is_ok());
        for (place, column) in [
            ("cpus", "2*9999999999"),
            ("cpus", "2*4"),
            ("cpus", "two"),
            ("wall_ns/x", "1"),
            ("wall_ns", "-1e9 2 3"),
        ] {
            assert!(with(place, column).is_err(), "{place} {column}");
        }
    }
}
