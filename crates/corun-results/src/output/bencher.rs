//! Bencher's metric format: for every benchmark its latency in nanoseconds, cleaned and raw, and the share that others took, in
//! percent.

use super::{Outcome, Spread};
use serde_json::{json, Map, Value};

/// An outcome as JSON, with a newline at the end.
pub fn write(outcome: &Outcome) -> String {
    let ns = |spread: &Spread| json!({ "value": spread.mean_s * 1e9, "lower_value": spread.least_s * 1e9, "upper_value": spread.most_s * 1e9 });
    let mut all = Map::new();
    for measured in &outcome.benchmarks {
        let mut measures = Map::new();
        // Without a clean iteration no latency should be compared with a threshold.
        if let Some(cleaned) = &measured.cleaned {
            measures.insert("latency".into(), ns(cleaned));
        }
        measures.insert("latency-raw".into(), ns(&measured.raw));
        if let Some(disturbance) = measured.disturbance {
            measures.insert("disturbance".into(), json!({ "value": disturbance * 100.0 }));
        }
        all.insert(measured.name.clone(), Value::Object(measures));
    }
    if outcome.benchmarks.is_empty() {
        let of_command = json!({
            "latency": { "value": outcome.undisturbed_ns as f64 },
            "latency-raw": { "value": outcome.wall_ns as f64 },
            "disturbance": { "value": outcome.disturbance * 100.0 },
        });
        all.insert(outcome.command.clone(), of_command);
    }
    format!("{:#}\n", Value::Object(all))
}
