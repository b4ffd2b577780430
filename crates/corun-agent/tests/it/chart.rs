//! The Helm chart, read as text: its values exist and are used, its configuration is valid, its pods have no
//! privileges.

use corun_agent::config::{Config, File, Flags};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn chart(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/helm/corun-agent").join(file)
}

fn read(file: &str) -> String {
    fs::read_to_string(chart(file)).unwrap()
}

/// The values with their paths, such as `config.ring.size`. Items of lists are left out.
fn values() -> BTreeMap<String, String> {
    let (mut path, mut found): (Vec<(usize, String)>, _) = (Vec::new(), BTreeMap::new());
    for line in read("values.yaml").lines() {
        let text = line.trim_start();
        let Some((key, value)) = text.split_once(':').filter(|_| !text.starts_with(['#', '-'])) else {
            continue;
        };
        let indent = line.len() - text.len();
        path.retain(|(of, _)| *of < indent);
        path.push((indent, key.to_owned()));
        let whole: Vec<&str> = path.iter().map(|(_, key)| key.as_str()).collect();
        found.insert(whole.join("."), value.trim().trim_matches('"').to_owned());
    }
    found
}

fn templates() -> String {
    ["config", "daemonset", "podmonitor"].map(|name| read(&format!("templates/{name}.yaml"))).concat()
}

/// The paths of the values that templates use.
fn used(text: &str) -> Vec<String> {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let parts = text.split(".Values.").skip(1);
    parts.map(|rest| rest.chars().take_while(|c| is_of_path(*c)).collect()).collect()
}

#[test]
fn every_value_that_a_template_uses_exists_and_each_is_used() {
    let (values, used) = (values(), used(&templates()));
    for path in &used {
        assert!(values.contains_key(path), "a template uses {path}, which has no value");
    }
    for path in values.keys() {
        let is_used = |of: &String| {
            path == of || path.starts_with(&format!("{of}.")) || of.starts_with(&format!("{path}."))
        };
        assert!(used.iter().any(is_used), "nothing uses {path}");
    }
}

#[test]
fn its_configuration_is_valid_for_an_agent() {
    let template = read("templates/config.yaml");
    let (_, block) = template.split_once("agent.toml: |\n").unwrap();
    let mut text = String::new();
    for line in block.lines().map(str::trim).filter(|line| !line.starts_with("{{-")) {
        let mut line = line.to_owned();
        while let Some((before, rest)) = line.split_once("{{ ") {
            let (inner, after) = rest.split_once(" }}").unwrap();
            let (path, quoted) = match inner.strip_suffix(" | quote") {
                Some(path) => (path, true),
                None => (inner, false),
            };
            let value = &values()[path.strip_prefix(".Values.").unwrap()];
            let value = if quoted { format!("\"{value}\"") } else { value.clone() };
            line = format!("{before}{value}{after}");
        }
        text += &format!("{line}\n");
    }
    let parsed = |text: &str| Config::of(Some(File { name: "agent.toml", text }), &Flags::default());
    let config = parsed(&text).unwrap_or_else(|e| panic!("{e} in\n{text}"));
    let (usual, ring) = (Config::default(), config.ring.unwrap());
    assert_eq!((config.window, config.max_tenants), (usual.window, usual.max_tenants));
    let port = |listen: &str| listen.rsplit_once(':').map(|(_, port)| port.to_owned());
    assert_eq!(port(&config.listen), port(&usual.listen));
    assert_eq!((ring.size, ring.folder.to_str()), (256 << 20, Some("/var/lib/corun/ring")));
    let otlp = config.otlp.unwrap();
    assert_eq!(otlp.interval, corun_agent::config::Otlp::new(otlp.url.clone()).interval);
    let own = fs::read_to_string(chart("../../agent.toml")).unwrap();
    let packaged = parsed(&own).unwrap();
    assert_eq!(
        (packaged.listen, packaged.window, packaged.max_tenants),
        (usual.listen, usual.window, usual.max_tenants)
    );
    assert_eq!(packaged.ring, Some(ring), "packages and the chart keep the same");
}

#[test]
fn its_pods_have_two_capabilities_and_can_write_only_to_the_ring() {
    let text = read("templates/daemonset.yaml");
    for line in [
        "privileged: false",
        "allowPrivilegeEscalation: false",
        "readOnlyRootFilesystem: true",
        "drop: [\"ALL\"]",
        "add: [\"BPF\", \"PERFMON\"]",
        "automountServiceAccountToken: false",
        "hostPID: true",
    ] {
        assert!(text.contains(line), "it lacks `{line}`");
    }
    let mounts = text.matches("mountPath:").count();
    assert_eq!((mounts, text.matches("readOnly: true").count()), (4, 3));
    let workspace = fs::read_to_string(chart("../../../Cargo.toml")).unwrap();
    let version = workspace.lines().find_map(|line| line.strip_prefix("version = ")).unwrap();
    let of_chart = read("Chart.yaml");
    assert!(of_chart.contains(&format!("appVersion: {version}")), "its version is not {version}");
}

#[test]
fn helm_finds_nothing_wrong_with_it() {
    let helm = |args: &[&str]| Command::new("helm").args(args).arg(chart("")).output();
    let Ok(linted) = helm(&["lint", "--strict"]) else {
        return println!("skipped: helm is not there");
    };
    assert!(linted.status.success(), "{}", String::from_utf8_lossy(&linted.stdout));
    let made =
        helm(&["template", "corun-agent", "--set", "podMonitor.enabled=true,config.otlp.enabled=true"])
            .unwrap();
    let text = String::from_utf8_lossy(&made.stdout).into_owned();
    assert!(made.status.success(), "{text}");
    for words in ["kind: DaemonSet", "kind: PodMonitor", "OTEL_RESOURCE_ATTRIBUTES", "[otlp]"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}
