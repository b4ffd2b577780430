//! `corun agent` as an operator runs it: scraped, reloaded, stopped, killed, misconfigured; and read back.
//!
//! One file because all of it is one program from outside, and the tests share its victims and culprits.

mod serving;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use serving::{get, is_refused, run, said, Agent};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// An endless script with the given name, on the given CPU.
struct Loop(Child);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Loop {
    fn start(cpu: usize, folder: &Path, name: &str) -> Loop {
        use std::os::unix::fs::PermissionsExt;
        use std::os::unix::process::CommandExt;
        let path = folder.join(name);
        fs::write(&path, "#!/bin/sh\nwhile :; do :; done\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Loop(
            Command::new("taskset")
                .args(["-c", &cpu.to_string()])
                .arg(path)
                .process_group(0)
                .spawn()
                .unwrap(),
        )
    }
}

/// Whether culprits can be seen here.
fn sees_culprits() -> bool {
    let output = run(&["doctor", "--json", "-"]);
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ebpf = findings["findings"].as_array().unwrap().iter().find(|f| f["what"] == "eBPF").cloned();
    ebpf.is_some_and(|f| f["answer"] == "yes")
}

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file)
}

#[test]
fn the_culprits_of_a_victim_are_scraped_and_read_back_from_the_ring() {
    if !sees_culprits() {
        return println!("skipped: culprits cannot be seen here");
    }
    let folder = tempfile::tempdir().unwrap();
    let ring = folder.path().join("ring");
    let config = folder.path().join("agent.toml");
    let text = |most: u32| {
        format!("window = \"500ms\"\nmax-tenants = {most}\n[ring]\nfolder = {ring:?}\nsize = \"16MiB\"\ninterval = \"1s\"\n")
    };
    fs::write(&config, text(500)).unwrap();
    let _hurt = Loop::start(0, folder.path(), "agent-victim");
    let _hurts = Loop::start(0, folder.path(), "agent-culprit");
    let agent = Agent::start(&["--config", config.to_str().unwrap()]);
    let of_both = ["victim=\"agent-victim\"", "culprit=\"agent-culprit\""];
    agent.until("the blame", |a| (a.sum("corun_blame_seconds_total", &of_both) > 1.0).then_some(()));
    // All culprits of the victim sum to its steal, in one scrape.
    let (_, text_of) = agent.get("/metrics");
    let sum = |words: &[&str]| {
        let is_it = |line: &&str| words.iter().all(|w| line.contains(w)) && !line.starts_with('#');
        let values =
            text_of.lines().filter(is_it).map(|l| l.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
        values.sum::<f64>()
    };
    let steal = sum(&["corun_tenant_seconds_total", "tenant=\"agent-victim\"", "category=\"steal\""]);
    let blamed = sum(&["corun_blame_seconds_total", "victim=\"agent-victim\""])
        + sum(&["corun_blame_dropped_seconds_total", "victim=\"agent-victim\""]);
    assert!((steal - blamed).abs() < 1e-6, "{steal} s stolen, {blamed} s blamed on somebody");
    assert!(sum(&["corun_node_contended_ratio "]) > 0.1, "{text_of}");
    assert_eq!(agent.get("/livez").0, 200);
    assert_eq!(agent.get("/readyz"), (200, "ok\n".into()));
    let doctor: Value = serde_json::from_str(&agent.get("/doctor").1).unwrap();
    assert_eq!(doctor["schema"], "corun.doctor/1");
    let kept = &doctor["ring"];
    assert_eq!((kept["folder"].as_str(), kept["most_bytes"].as_u64()), (ring.to_str(), Some(16 << 20)));
    assert!(kept["used_bytes"].as_u64().is_some_and(|bytes| bytes > 0 && bytes <= 16 << 20), "{kept}");
    assert_eq!((&kept["is_written"], &kept["why_not"]), (&Value::Bool(true), &Value::Null));
    assert_eq!(agent.get("/nowhere").0, 404);
    let status = fs::read_to_string(format!("/proc/{}/status", agent.child.id())).unwrap();
    let kept = status.lines().find_map(|l| l.strip_prefix("CapEff:\t")).unwrap();
    // CAP_PERFMON is bit 38, CAP_BPF bit 39.
    assert_eq!(kept.trim_start_matches('0'), "c000000000", "{status}");

    // A wrong configuration leaves the one in force, and reports the error.
    fs::write(&config, "windoww = 3\n").unwrap();
    agent.signal(libc::SIGHUP);
    agent.hear("agent.toml:1: unknown field `windoww`");
    assert_eq!(agent.get("/readyz").0, 503);
    fs::write(&config, text(400)).unwrap();
    agent.signal(libc::SIGHUP);
    agent.hear("the configuration was read again");
    assert_eq!(agent.get("/readyz").0, 200);

    let second = Command::new(cargo_bin("corun"))
        .args(["agent", "--listen", &agent.address, "--ring", folder.path().join("other").to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(2), "{}", said(&second));
    assert!(
        said(&second).contains("stop the program that does, or choose another address"),
        "{}",
        said(&second)
    );
    is_refused(
        &["agent", "--listen", "127.0.0.1:0", "--ring", ring.to_str().unwrap()],
        &["in use by another agent"],
    );

    // The last seconds, while the ring is being written.
    let profile = |more: &[&str]| {
        let ring = ring.to_str().unwrap();
        let output = run(&[&["profile", "--from", ring, "--json", "-"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{more:?}: {}", said(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let past = profile(&["--tenant", "agent-victim", "--for", "3s"]);
    // Among three: on a machine with other work, that may take more.
    let worst: Vec<&Value> = past["subject"]["culprits"].as_array().unwrap().iter().take(3).collect();
    assert!(worst.iter().any(|c| c["tenant"]["name"] == "agent-culprit"), "{worst:?}");
    let culprits: u64 =
        past["subject"]["culprits"].as_array().unwrap().iter().map(|c| c["steal_ns"].as_u64().unwrap()).sum();
    let unattributed = past["subject"]["unattributed_ns"].as_u64().unwrap();
    assert_eq!(culprits + unattributed, past["subject"]["ledger"]["steal_ns"].as_u64().unwrap());
    assert!(profile(&[])["tenants"].as_array().unwrap().len() > 2);
    is_refused(
        &["profile", "--from", ring.to_str().unwrap(), "--tenant", "nobody-at-all"],
        &["no tenant of that time is called `nobody-at-all`", "there were"],
    );
    is_refused(&["profile", "--from", ring.to_str().unwrap(), "--at", "noon"], &["`noon` is no time"]);
    is_refused(
        &["profile", "--from", ring.to_str().unwrap(), "--at", "1999-01-01T00:00", "--for", "1s"],
        &["nothing of that time"],
    );
    is_refused(&["profile", "--from", folder.path().to_str().unwrap()], &["is no ring"]);
    is_refused(&["profile", "--from", "/no/such/ring"], &["cannot read the folder /no/such/ring"]);

    agent.signal(libc::SIGTERM);
    let mut agent = agent;
    assert_eq!(agent.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_wrong_configuration_is_refused_with_its_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.toml");
    let path = file.to_str().unwrap();
    for (text, words) in [
        ("\nlisten-at = \"x\"\n", "agent.toml:2: unknown field `listen-at`"),
        ("window = \"1ns\"\n", "agent.toml:1: window is 100ms to 60s"),
        ("[ring]\nfolder = \"/x\"\nsize = \"1B\"\n", "agent.toml:3: size is at least"),
    ] {
        fs::write(&file, text).unwrap();
        is_refused(&["agent", "--config", path], &[words]);
    }
    is_refused(&["agent", "--config", "/no/such/file"], &["cannot read /no/such/file: No such file"]);
    let no_port =
        "--listen: `nowhere` is no address with a port; give one such as 127.0.0.1:9965, localhost:9965";
    is_refused(&["agent", "--listen", "nowhere"], &[no_port]);
    let output = run(&["agent", "--listen", "localhost:9000", "--print-config"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("listen = \"localhost:9000\"\n"), "{printed}");
    fs::write(&file, "max-tenants = 7\n").unwrap();
    let output = run(&["agent", "--config", path, "--ring", "/r", "--print-config"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("max-tenants = 7\n") && printed.contains("folder = \"/r\"\n"), "{printed}");
    fs::write(&file, &printed).unwrap();
    assert_eq!(run(&["agent", "--config", path, "--print-config"]).stdout, printed.into_bytes());
}

#[test]
fn a_file_need_not_name_what_flags_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.toml");
    let path = file.to_str().unwrap();
    let flags: [&str; 4] = ["--ring", "/r", "--otlp", "http://c:4318"];
    let printed = |text: &str| {
        fs::write(&file, text).unwrap();
        let output = run(&[&["agent", "--config", path, "--print-config"], &flags[..]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = "ring.size = \"16MiB\"\notlp.interval = \"9s\"\n";
    let said = printed(text);
    for part in ["folder = \"/r\"", "size = \"16MiB\"", "url = \"http://c:4318\"", "interval = \"9s\""] {
        assert!(said.contains(part), "{said}");
    }
    is_refused(
        &["agent", "--config", path, "--ring", "/r"],
        &["agent.toml:2: `url` is missing; give it, or --otlp"],
    );
    is_refused(
        &["agent", "--config", path, "--otlp", "http://c"],
        &["agent.toml:1: `folder` is missing; give it, or"],
    );
}

#[test]
fn an_invalid_collector_url_is_refused_before_anything_begins() {
    for (url, words) in [
        ("localhost:4318", "does not begin with http://; give a URL such as"),
        ("https://localhost:4318", "give a collector on this machine that passes metrics on"),
        ("http://", "is no URL"),
        ("http://user:word@localhost", "give it as a header"),
    ] {
        is_refused(&["agent", "--listen", "127.0.0.1:0", "--otlp", url], &[words]);
        is_refused(&["agent", "--otlp", url, "--print-config"], &[words]);
    }
    let output = Command::new(cargo_bin("corun"))
        .args(["agent", "--listen", "127.0.0.1:0", "--otlp", "http://localhost:4318"])
        .env("OTEL_RESOURCE_ATTRIBUTES", "zone")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(
        said(&output).contains("`zone` in OTEL_RESOURCE_ATTRIBUTES is no attribute"),
        "{}",
        said(&output)
    );
}

/// Reads a request to its end, and answers that all is well.
fn take_request(stream: &mut std::net::TcpStream) -> String {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..at].to_vec()).unwrap().to_lowercase();
            let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")?.parse::<usize>().ok());
            if bytes.len() - at - 4 >= length.unwrap() {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
                return head;
            }
        }
        let read = std::io::Read::read(stream, &mut part).unwrap();
        assert!(read > 0, "the request ends in the middle");
        bytes.extend(&part[..read]);
    }
}

#[test]
fn a_collector_gets_metrics_and_while_it_is_away_the_agent_says_so_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("agent.toml");
    let collector = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = collector.local_addr().unwrap();
    let text = "window = \"200ms\"\n[otlp]\nurl = \"http://localhost:1\"\ninterval = \"1s\"\n";
    fs::write(&config, text).unwrap();
    let url = format!("http://{address}");
    let mut agent = Agent::start(&["--config", config.to_str().unwrap(), "--otlp", &url]);
    for _ in 0..2 {
        let head = take_request(&mut collector.accept().unwrap().0);
        assert!(head.starts_with("post /v1/metrics "), "{head}");
    }
    let exports = |a: &Agent, outcome: &str| a.sum("corun_otlp_exports_total", &[outcome]);
    agent.until("a delivered export", |a| (exports(a, "delivered") > 0.0).then_some(()));
    assert_eq!(exports(&agent, "failed") + exports(&agent, "rejected"), 0.0);
    drop(collector);
    let away = agent.hear("metrics do not arrive at http://");
    assert!(away.contains(&address.to_string()), "{away}");
    let (status, reasons) = agent.get("/readyz");
    assert!(status == 503 && reasons.contains("metrics do not arrive at"), "{status} {reasons}");
    let windows = |a: &Agent| a.sum("corun_windows_total", &[]);
    let before = windows(&agent);
    agent.until("more windows", |a| (windows(a) > before + 3.0).then_some(()));
    assert!(exports(&agent, "failed") >= 1.0);

    let collector = std::net::TcpListener::bind(address).unwrap();
    take_request(&mut collector.accept().unwrap().0);
    agent.hear("again");
    assert!(!agent.get("/readyz").1.contains("do not arrive"), "{:?}", agent.get("/readyz"));
    agent.signal(libc::SIGTERM);
    // The last export, of the counts since then.
    take_request(&mut collector.accept().unwrap().0);
    assert_eq!(agent.child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_agent_that_cannot_see_culprits_counts_the_rest_and_is_not_ready() {
    // SAFETY: takes nothing and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    if is_root && Command::new("setpriv").arg("--version").output().is_err() {
        return println!("skipped: setpriv is not there");
    }
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("corun");
    // If this process made the copy, a child of another test could have it open for writing, so that nobody can execute it.
    assert!(Command::new("cp").arg(cargo_bin("corun")).arg(&binary).status().unwrap().success());
    let open = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    open(folder.path());
    open(&binary);
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set", "-all"]);
    let mut command = if is_root {
        command.arg(&binary);
        command
    } else {
        Command::new(&binary)
    };
    let child = command.args(["agent", "--listen", "127.0.0.1:0"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut agent = Agent { child, address: String::new(), said: std::sync::mpsc::channel().1 };
    let mut lines = BufReader::new(agent.child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let why = lines.next().unwrap_or_default();
    assert!(why.contains("the occupants of the CPUs are not visible"), "{why}");
    let at = lines.next().unwrap_or_default();
    agent.address = at.split("http://").nth(1).unwrap().strip_suffix("/metrics").unwrap().to_owned();
    agent.until("a window", |a| (a.sum("corun_windows_total", &[]) > 0.0).then_some(()));
    let (status, reasons) = agent.get("/readyz");
    assert_eq!(status, 503);
    assert!(reasons.contains("the occupants of the CPUs are not visible"), "{reasons}");
    assert_eq!(agent.sum("corun_sees_culprits", &[]), 0.0);
    assert_eq!(agent.sum("corun_blame_seconds_total", &["culprit=\"other\""]), 0.0, "nobody is blamed");
    assert!(agent.sum("corun_tenant_seconds_total", &["compute"]) > 0.0);
}

#[test]
fn a_request_for_the_present_does_not_get_the_window_before() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("agent.toml");
    fs::write(&config, "window = \"60s\"\n").unwrap();
    let agent = Agent::start(&["--config", config.to_str().unwrap()]);
    let address = agent.address.clone();
    let windows = |path: &str| {
        let text = get(&address, path).1;
        let line = text.lines().find_map(|l| l.strip_prefix("corun_windows_total ")).unwrap();
        line.parse::<f64>().unwrap()
    };
    let before = windows("/metrics");
    assert!(windows("/metrics?now") > before, "the window of a minute is still open");

    // Continuous requests get the present as well, and share its cost.
    let (began, before) = (std::time::Instant::now(), windows("/metrics"));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let known = windows("/metrics");
                    assert!(windows("/metrics?now") > known, "that is not the present");
                }
            });
        }
    });
    let closed = windows("/metrics") - before;
    let at_most = began.elapsed().div_duration_f64(corun_agent::agent::LEAST_BETWEEN) + 1.0;
    assert!(closed >= 5.0 && closed <= at_most, "{closed} windows were closed, of {at_most:.1}");
}

#[test]
fn the_unit_is_as_restricted_as_it_says() {
    let unit = packaging("systemd/corun-agent.service");
    // 3.0 as systemd counts.
    let judged = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=30", "--no-pager"])
        .arg(&unit)
        .output();
    match judged {
        Err(_) => println!("skipped: systemd-analyze is not there"),
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("offline") => {
            println!("skipped: this systemd-analyze cannot judge a file")
        }
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned() + &said(&output);
            assert!(output.status.success(), "{text}");
        }
    }
}

#[test]
fn alert_rules_fire_when_somebody_is_harmed_and_use_existing_metrics() {
    let rules = fs::read_to_string(packaging("prometheus/corun-rules.yml")).unwrap();
    let recorded: Vec<&str> = rules.lines().filter_map(|l| l.trim().strip_prefix("- record: ")).collect();
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words =
        rules.split(|c| !is_of_name(c)).filter(|w| w.starts_with("corun_") || w.starts_with("corun:"));
    for word in words {
        let is_metric = corun_agent::metrics::METRICS.iter().any(|m| m.name == word);
        assert!(is_metric || recorded.contains(&word), "the rules speak of {word}, which nobody exports");
    }
    let tested = Command::new("promtool")
        .args(["test", "rules", "corun-rules.test.yml"])
        .current_dir(packaging("prometheus"))
        .output();
    match tested {
        Err(_) => println!("skipped: promtool is not there (Debian: prometheus)"),
        Ok(output) => {
            assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), said(&output));
        }
    }
}

/// The queries of the dashboard, and of its variables.
fn queries_of_the_dashboard() -> Vec<String> {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(key, value)| match value {
                Value::String(text) if key == "expr" || key == "query" => found.push(text.clone()),
                value => collect(value, found),
            }),
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            _ => {}
        }
    }
    let text = fs::read_to_string(packaging("grafana/corun.json")).unwrap();
    let mut found = Vec::new();
    collect(&serde_json::from_str(&text).unwrap(), &mut found);
    found.retain(|query| query != "prometheus");
    found
}

#[test]
fn every_query_of_the_dashboard_uses_existing_metrics_and_labels() {
    let queries = queries_of_the_dashboard();
    assert!(queries.len() > 10, "{queries:?}");
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for query in &queries {
        let mut rest = query.as_str();
        let mut metrics = 0;
        while let Some(at) = rest.find("corun_") {
            rest = &rest[at..];
            let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            let base = name.strip_suffix("_bucket").unwrap_or(name);
            let metric = corun_agent::metrics::METRICS.iter().find(|m| m.name == base);
            let metric = metric.unwrap_or_else(|| panic!("{query}: nobody exports {name}"));
            // The labels in the queries; Prometheus itself adds the instance.
            let inside = after.strip_prefix('{').and_then(|r| r.split('}').next()).unwrap_or_default();
            for label in inside.split(',').filter(|l| !l.trim().is_empty()) {
                let label = label.trim().split(['=', '!']).next().unwrap();
                assert!(
                    label == "instance" || metric.labels.contains(&label),
                    "{query}: {name} has no {label}"
                );
            }
            metrics += 1;
            rest = after;
        }
        assert!(metrics > 0, "{query} asks for no metric of corun's");
    }
}

/// A query of the dashboard as Prometheus gets it, with Grafana's values.
fn with_values(query: &str, tenant: &str) -> String {
    let query = query.replace("$__rate_interval", "10s").replace("$__range", "1h").replace("$instance", ".*");
    query.replace("$tenant", tenant)
}

/// A Prometheus that scrapes agents; killed when dropped.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_prometheus_of_three_agents_answers_who_hurt_a_tenant_now_and_at_a_past_time() {
    if Command::new("prometheus").arg("--version").output().is_err() {
        return println!("skipped: prometheus is not there (Debian: prometheus)");
    }
    if !sees_culprits() {
        return println!("skipped: culprits cannot be seen here");
    }
    let folder = tempfile::tempdir().unwrap();
    // Not on the CPU of the other tests, which want their own loops among the worst.
    let last = std::thread::available_parallelism().map_or(0, |cpus| cpus.get() - 1);
    let _hurt = Loop::start(last, folder.path(), "scraped-victim");
    let hurts = Loop::start(last, folder.path(), "scraped-culprit");
    let agents = ["first", "second", "third"].map(|name| {
        let ring = folder.path().join(name);
        Agent::start(&["--ring", ring.to_str().unwrap()])
    });
    let agent = &agents[0];
    let mut checked = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    checked.stdin.take().unwrap().write_all(agent.get("/metrics").1.as_bytes()).unwrap();
    let checked = checked.wait_with_output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));

    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let file = folder.path().join("prometheus.yml");
    let config = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{:?}]\nscrape_configs:\n- job_name: corun\n  static_configs: [{{targets: {:?}}}]\n",
        packaging("prometheus/corun-rules.yml").canonicalize().unwrap(),
        agents.each_ref().map(|agent| &agent.address),
    );
    fs::write(&file, config).unwrap();
    let prometheus = Command::new("prometheus")
        .arg("--enable-feature=native-histograms,exemplar-storage")
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("tsdb").display()))
        .arg(format!("--web.listen-address={server}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _prometheus = Prometheus(prometheus);
    let ask_at = |time: &str, query: &str| {
        let (url, time) = (format!("http://{server}"), format!("--time={time}"));
        let output =
            Command::new("promtool").args(["query", "instant", &time, &url, query]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let ask = |query: &str| ask_at(&jiff::Timestamp::now().to_string(), query);
    // Among three: on a machine with other work, that may take more.
    let query =
        "topk by (instance) (3, rate(corun_blame_seconds_total{victim=\"scraped-victim\"}[10s])) > 0.05";
    let named = |answer: &str| answer.lines().filter(|l| l.contains("culprit=\"scraped-culprit\"")).count();
    agent.until("the culprit among the three worst, by each agent", |_| {
        (named(&ask(query)) == 3).then_some(())
    });
    for query in queries_of_the_dashboard().iter().filter(|query| !query.starts_with("label_values(")) {
        let answer = ask(&with_values(query, "scraped-victim"));
        // If nobody has a quota, nobody is throttled.
        assert!(query.contains("throttled") || answer.contains("=> "), "{query}: {answer}");
    }
    // A classic histogram has no such sum. Two loops on a CPU wait for each other for a time slice.
    let waits = "corun_wait_seconds{tenant=\"scraped-victim\"}";
    let half = format!("histogram_quantile(0.5, rate({waits}[10s]))");
    let half = agent.until("a native histogram", |_| {
        let answer = ask(&half);
        answer.split("=> ").nth(1)?.split(' ').next()?.parse::<f64>().ok().filter(|s| s.is_finite())
    });
    assert!(half > 1e-4 && half < 1.0, "half of the waits were shorter than {half} s");
    // An exemplar names a thread that waited for long, and its main culprit: another one, if the machine has other work.
    let wanted = ["\"thread\":\"scraped-victim\"", "\"culprit\":\""];
    agent.until("an exemplar", |_| {
        let now = jiff::Timestamp::now().as_second();
        let query = format!("query=corun_wait_seconds&start={}&end={}", now - 300, now + 5);
        let (_, found) = get(&server, &format!("/api/v1/query_exemplars?{query}"));
        found.split("\"value\"").any(|one| wanted.iter().all(|word| one.contains(word))).then_some(())
    });

    // The question is about last night.
    let then = jiff::Timestamp::now().to_string();
    drop(hurts);
    agent.until("an end of the harm", |_| (named(&ask(query)) == 0).then_some(()));
    assert_eq!(named(&ask_at(&then, query)), 3, "{}", ask_at(&then, query));
}

#[test]
fn tests_of_a_past_run_are_judged_by_what_the_ring_kept() {
    if !sees_culprits() {
        return println!("skipped: culprits cannot be seen here");
    }
    let folder = tempfile::tempdir().unwrap();
    let (ring, config) = (folder.path().join("ring"), folder.path().join("agent.toml"));
    fs::write(&config, format!("[ring]\nfolder = {ring:?}\ninterval = \"1s\"\n")).unwrap();
    let agent = Agent::start(&["--config", config.to_str().unwrap()]);
    let hurt = Loop::start(0, folder.path(), "judged-tests");
    let hurts = Loop::start(0, folder.path(), "judged-culprit");
    let written = |agent: &Agent| agent.sum("corun_ring_intervals_written_total", &[]);
    let begin = written(&agent);
    agent.until("a window with both", |a| (written(a) >= begin + 2.0).then_some(()));
    let at = jiff::Timestamp::now();
    agent.until("five windows more", |a| (written(a) >= begin + 7.0).then_some(()));
    drop((hurt, hurts, agent));

    let tests = folder.path().join("tests.xml");
    let case = |name: &str, at: jiff::Timestamp| {
        format!("<testcase name='{name}' timestamp='{at}' time='3'><failure/></testcase>")
    };
    let long_ago = "2001-02-03T04:05:06Z".parse().unwrap();
    let suite = |cases: &str| fs::write(&tests, format!("<testsuite>{cases}</testsuite>")).unwrap();
    let annotate = |tenant: &str| {
        let mut command = Command::new(cargo_bin("corun"));
        command.args(["verify", "--annotate"]).arg(&tests).arg("--from").arg(&ring);
        command.args(["--tenant", tenant]).output().unwrap()
    };
    suite(&case("timed-out", at));
    let output = annotate("judged-tests");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("1 test, 1 failed (1 starved)"), "{}", said(&output));
    let copy = fs::read_to_string(folder.path().join("tests.corun.xml")).unwrap();
    assert!(copy.contains("name=\"corun.verdict\" value=\"starved\""), "{copy}");
    // On a machine with other work, that may have taken more than the other loop.
    assert!(copy.contains("name=\"corun.culprit\""), "{copy}");

    for (cases, tenant, why) in [
        (case("long-ago", long_ago), "judged-tests", "has nothing of that time"),
        (case("timed-out", at), "nobody-called-so", "no tenant of that time is called `nobody-called-so`"),
        ("<testcase name='timeless' time='1'/>".into(), "judged-tests", "does not say when its tests ran"),
    ] {
        suite(&cases);
        let output = annotate(tenant);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(why), "{}", said(&output));
    }
}
