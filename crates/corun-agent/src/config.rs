//! The configuration file of an agent, in TOML. Every key has a default; an unknown key is refused.

use crate::otlp::target::Target;
use corun_model::duration::{written_bytes, written_ns};
use corun_model::workload::read_toml;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The shortest window: shorter ones cost more than they are worth.
const LEAST_WINDOW_NS: u64 = 100_000_000;
/// The longest: tenants that come and go are seen late.
const MOST_WINDOW_NS: u64 = 60_000_000_000;

/// How an agent works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Config {
    /// Where metrics are served: an address or the name of a host, and a port.
    pub listen: String,
    /// How it sees.
    pub source: Source,
    /// How long a window is.
    #[serde(deserialize_with = "written_ns", serialize_with = "as_time")]
    pub window: u64,
    /// Tenants that have series of their own.
    pub max_tenants: usize,
    /// Tasks that can be followed at a time; absent: four times the present number, at least 16384.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tasks: Option<u32>,
    /// The ring on disk; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<Ring>,
    /// The collector for exports; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp: Option<Otlp>,
}

/// How to see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// eBPF where possible, else `schedstat`.
    #[default]
    Auto,
    /// eBPF, or not at all.
    Ebpf,
    /// `schedstat`: without culprits.
    Schedstat,
}

/// The ring on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Ring {
    /// Its folder; empty: not in the file, so another source must give it.
    #[serde(default)]
    pub folder: PathBuf,
    /// The most disk space that it takes.
    #[serde(default = "default_size", deserialize_with = "written_bytes", serialize_with = "as_size")]
    pub size: u64,
    /// How often it is written.
    #[serde(default = "default_interval", deserialize_with = "written_ns", serialize_with = "as_time")]
    pub interval: u64,
}

/// A collector of OpenTelemetry.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Otlp {
    /// The address; empty: not in the file, so another source must give it.
    #[serde(default)]
    pub url: String,
    /// How often metrics are exported.
    #[serde(
        default = "default_export_interval",
        deserialize_with = "written_ns",
        serialize_with = "as_time"
    )]
    pub interval: u64,
    /// Header lines of each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// What headers hold may be secret.
impl std::fmt::Debug for Otlp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let headers: Vec<&String> = self.headers.keys().collect();
        let Otlp { url, interval, .. } = self;
        f.debug_struct("Otlp")
            .field("url", url)
            .field("interval", interval)
            .field("headers", &headers)
            .finish()
    }
}

fn default_export_interval() -> u64 {
    60_000_000_000
}

fn default_size() -> u64 {
    256 << 20
}

fn default_interval() -> u64 {
    5_000_000_000
}

fn as_time<S: Serializer>(ns: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&match ns {
        ns if ns.is_multiple_of(1_000_000_000) => format!("{}s", ns / 1_000_000_000),
        ns if ns.is_multiple_of(1_000_000) => format!("{}ms", ns / 1_000_000),
        ns => format!("{ns}ns"),
    })
}

fn as_size<S: Serializer>(bytes: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&match bytes {
        bytes if bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{}KiB", bytes >> 10),
        bytes => format!("{bytes}B"),
    })
}

/// A file of configuration.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// What people call it.
    pub name: &'a str,
    /// Its content.
    pub text: &'a str,
}

/// The command line's settings, which override the file's.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// Where metrics are served.
    pub listen: Option<String>,
    /// The ring's folder.
    pub ring: Option<PathBuf>,
    /// The collector's URL.
    pub otlp: Option<String>,
    /// Tenants that have series of their own.
    pub max_tenants: Option<usize>,
}

impl Flags {
    /// The flag for a key, if it was given.
    fn giving(&self, key: &str) -> Option<&'static str> {
        let (is_given, flag) = match key {
            "listen" => (self.listen.is_some(), "--listen"),
            "ring.folder" => (self.ring.is_some(), "--ring"),
            "otlp.url" => (self.otlp.is_some(), "--otlp"),
            "max-tenants" => (self.max_tenants.is_some(), "--max-tenants"),
            _ => return None,
        };
        is_given.then_some(flag)
    }
}

/// What of a configuration cannot be.
struct Wrong {
    /// The keys involved, with their tables; among the given ones, the first is at fault.
    keys: Vec<&'static str>,
    /// One sentence.
    what: String,
}

impl Wrong {
    /// The sentence, preceded by the flag or the line at fault.
    fn said(&self, file: Option<File>, flags: &Flags) -> String {
        let lines = |key: &str| file.map_or((None, None), |file| lines_of(key, file.text));
        let given = self.keys.iter().find_map(|key| match (flags.giving(key), lines(key).0) {
            (Some(flag), _) => Some(flag.to_owned()),
            (None, Some(line)) => Some(format!("{}:{line}", file?.name)),
            (None, None) => None,
        });
        // A missing key is missing in its table.
        let missing = || Some(format!("{}:{}", file?.name, self.keys.iter().find_map(|key| lines(key).1)?));
        match given.or_else(missing) {
            Some(place) => format!("{place}: {}", self.what),
            None => self.what.clone(),
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: "127.0.0.1:9965".to_owned(),
            source: Source::Auto,
            window: 1_000_000_000,
            max_tenants: 1_000,
            max_tasks: None,
            ring: None,
            otlp: None,
        }
    }
}

impl Ring {
    /// A ring in a folder, with the defaults of the rest.
    pub fn new(folder: PathBuf) -> Ring {
        Ring { folder, size: default_size(), interval: default_interval() }
    }
}

impl Otlp {
    /// A collector at a URL, with the defaults of the rest.
    pub fn new(url: String) -> Otlp {
        Otlp { url, interval: default_export_interval(), headers: BTreeMap::new() }
    }

    /// The exporter's settings, for an agent about which this is known.
    ///
    /// # Errors
    /// The key at fault with its table, and one sentence.
    pub fn target(&self, resource: Vec<(String, String)>) -> Result<Target, (&'static str, String)> {
        Target::new(&self.url, Duration::from_nanos(self.interval), &self.headers, resource)
    }
}

impl Config {
    /// The result of a file, if there is one, and of flags.
    ///
    /// # Errors
    /// One sentence, preceded by the flag, or the file and its line.
    pub fn of(file: Option<File>, flags: &Flags) -> Result<Config, String> {
        let read =
            |file: File| read_toml(file.text).map_err(|(line, what)| format!("{}:{line}: {what}", file.name));
        let config: Config = file.map(read).transpose()?.unwrap_or_default();
        let config = config.with(flags);
        config.check().map_err(|wrong| wrong.said(file, flags))?;
        Ok(config)
    }

    fn with(mut self, flags: &Flags) -> Config {
        self.listen = flags.listen.clone().unwrap_or(self.listen);
        self.max_tenants = flags.max_tenants.unwrap_or(self.max_tenants);
        if let Some(folder) = &flags.ring {
            self.ring.get_or_insert_with(|| Ring::new(PathBuf::new())).folder.clone_from(folder);
        }
        if let Some(url) = &flags.otlp {
            self.otlp.get_or_insert_with(|| Otlp::new(String::new())).url.clone_from(url);
        }
        self
    }

    /// Whether an agent can work like this.
    fn check(&self) -> Result<(), Wrong> {
        let must_of = |keys: &[&'static str], ok: bool, what: &str| {
            ok.then_some(()).ok_or_else(|| Wrong { keys: keys.to_vec(), what: what.to_owned() })
        };
        let must = |key, ok, what: &str| must_of(&[key], ok, what);
        let what = format!(
            "`{}` is no address with a port; give one such as 127.0.0.1:9965, localhost:9965 or [::1]:9965",
            corun_report::one_line(&self.listen)
        );
        must("listen", is_address(&self.listen), &what)?;
        let of_window = LEAST_WINDOW_NS..=MOST_WINDOW_NS;
        must("window", of_window.contains(&self.window), "window is 100ms to 60s; give one such as \"1s\"")?;
        let of_tenants = 1..=100_000;
        must("max-tenants", of_tenants.contains(&self.max_tenants), "max-tenants is 1 to 100000")?;
        let of_tasks = self.max_tasks.is_none_or(|n| (64..=4_194_304).contains(&n));
        must("max-tasks", of_tasks, "max-tasks is 64 to 4194304")?;
        if let Some(ring) = &self.ring {
            let is_named = !ring.folder.as_os_str().is_empty();
            must("ring.folder", is_named, "`folder` is missing; give it, or --ring FOLDER")?;
            let least = crate::ring::LEAST_BYTES;
            let what = format!("size is at least {}KiB", least >> 10);
            must("ring.size", ring.size >= least, &what)?;
            let what = "the ring's interval is at least the window; make it longer, or the window shorter";
            must_of(&["ring.interval", "window"], ring.interval >= self.window, what)?;
            let hour = ring.interval <= 3_600_000_000_000;
            must("ring.interval", hour, "interval is at most 1h; give one such as \"5s\"")?;
        }
        if let Some(otlp) = &self.otlp {
            must("otlp.url", !otlp.url.is_empty(), "`url` is missing; give it, or --otlp URL")?;
            let of_interval = 1_000_000_000..=3_600_000_000_000;
            let is_of_it = of_interval.contains(&otlp.interval);
            must("otlp.interval", is_of_it, "otlp.interval is 1s to 1h; give one such as \"60s\"")?;
            otlp.target(Vec::new()).map_err(|(key, what)| Wrong { keys: vec![key], what })?;
        }
        Ok(())
    }

    /// The text of a file with the same settings.
    ///
    /// # Errors
    /// A text file cannot express it: the name of the ring's folder is not text.
    pub fn text(&self) -> Result<String, String> {
        toml::to_string(self).map_err(|_| match &self.ring {
            Some(ring) if ring.folder.to_str().is_none() => {
                let folder = ring.folder.display();
                format!(
                    "a configuration cannot name {folder}, which is not UTF-8; give the folder another name"
                )
            }
            _ => "a configuration cannot say that".into(),
        })
    }
}

/// Whether this is an address and a port, or possibly a host name and a port. Whether the host exists is
/// unknown.
fn is_address(text: &str) -> bool {
    let is_host =
        |host: &str| !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    let parts = text.rsplit_once(':');
    text.parse::<SocketAddr>().is_ok()
        || parts.is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok())
}

/// The lines of a key and of its table, from 1.
fn lines_of(key: &str, text: &str) -> (Option<usize>, Option<usize>) {
    let table = key.rsplit_once('.').map(|(table, _)| table);
    let is_in =
        |given: &str| table.is_some_and(|t| given.strip_prefix(t).is_some_and(|r| r.starts_with('.')));
    let (mut inside, mut of_key, mut of_table) = (String::new(), None, None);
    for (at, line) in (1..).zip(text.lines().map(str::trim)) {
        let given = match line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            Some(header) => {
                inside = header.trim().to_owned();
                inside.clone()
            }
            None => {
                let given = line.split('=').next().unwrap_or_default().trim();
                if inside.is_empty() {
                    given.to_owned()
                } else {
                    format!("{inside}.{given}")
                }
            }
        };
        if given == key {
            of_key.get_or_insert(at);
        }
        if table == Some(&*given) || is_in(&given) {
            of_table.get_or_insert(at);
        }
    }
    (of_key, of_table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, flags: &Flags) -> Result<Config, String> {
        Config::of(Some(File { name: "agent.toml", text }), flags)
    }

    #[test]
    fn what_is_printed_is_read_back_as_the_same() {
        let with_ring = Config { ring: Some(Ring::new("/var/lib/corun".into())), ..Config::default() };
        let headers = BTreeMap::from([("Authorization".to_owned(), "Bearer \"x\"".to_owned())]);
        let otlp = Otlp { headers, interval: 1_500_000_000, ..Otlp::new("http://localhost:4318".into()) };
        let with_both = Config { otlp: Some(otlp), ..with_ring.clone() };
        for config in [Config::default(), with_ring, with_both] {
            let text = config.text().unwrap();
            assert_eq!(parsed(&text, &Flags::default()).unwrap(), config, "{text}");
        }
        assert_eq!(parsed("", &Flags::default()).unwrap(), Config::default());
    }

    #[test]
    fn a_folder_whose_name_is_not_text_cannot_be_printed_and_that_is_reported() {
        use std::os::unix::ffi::OsStrExt;
        let folder = std::path::Path::new(std::ffi::OsStr::from_bytes(b"/var/lib/\xff"));
        let config = Config { ring: Some(Ring::new(folder.into())), ..Config::default() };
        let why = config.text().unwrap_err();
        assert!(why.contains("not UTF-8; give the folder another name"), "{why}");
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for (text, is) in [
            ("127.0.0.1:0", true),
            ("[::1]:9965", true),
            ("localhost:9965", true),
            ("node-7.cluster.local:65535", true),
            ("localhost", false),
            ("localhost:", false),
            ("localhost:http", false),
            ("localhost:65536", false),
            (":9965", false),
            ("::1:9965", false),
            ("[::1]", false),
            ("a b:1", false),
            ("http://localhost:9965", false),
            ("", false),
        ] {
            assert_eq!(is_address(text), is, "{text}");
        }
    }

    #[test]
    fn the_content_of_headers_is_not_shown_by_accident() {
        let headers = BTreeMap::from([("authorization".to_owned(), "secret".to_owned())]);
        let otlp = Otlp { headers, ..Otlp::new("http://c".into()) };
        let shown = format!("{otlp:?}");
        assert!(shown.contains("authorization") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn the_largest_possible_configuration_can_be_printed() {
        let ring = Ring { size: u64::MAX, ..Ring::new("/r".into()) };
        let config = Config { ring: Some(ring), max_tenants: 100_000, ..Config::default() };
        config.text().unwrap();
    }

    #[test]
    fn an_unknown_key_and_an_impossible_value_are_refused_with_their_line() {
        for (text, line, what) in [
            ("window = \"1s\"\nlisten-on = 3\n", 2, "unknown field `listen-on`"),
            ("[ring]\nfolder = \"/r\"\nsice = \"1MiB\"\n", 3, "unknown field `sice`"),
            ("\nwindow = \"1ms\"\n", 2, "window is 100ms to 60s"),
            ("window = 3\n", 1, "a time in quotes"),
            ("listen = \"here\"\n", 1, "`here` is no address with a port; give one such as 127.0.0.1:9965"),
            ("\nlisten = \"::1:9965\"\n", 2, "or [::1]:9965"),
            ("[ring]\nfolder = \"/r\"\nsize = \"1KiB\"\n", 3, "size is at least 64KiB"),
            (
                "window = \"10s\"\n[ring]\nfolder = \"/r\"\ninterval = \"5s\"\n",
                4,
                "the ring's interval is at least the window",
            ),
            ("[ring]\nsize = \"1MiB\"\n", 1, "`folder` is missing; give it, or --ring FOLDER"),
            ("ring.size = \"1MiB\"\n", 1, "`folder` is missing; give it, or --ring FOLDER"),
            ("[otlp]\nurl = \"collector:4318\"\n", 2, "does not begin with http://"),
            ("[otlp]\nurl = \"https://c:4318\"\n", 2, "is encrypted"),
            ("otlp.url = \"here\"\n", 1, "does not begin with http://"),
            ("otlp = { url = \"\" }\n", 1, "`url` is missing"),
            ("[otlp]\ninterval = \"9s\"\n", 1, "`url` is missing"),
            ("[otlp]\nurl = \"http://c\"\ngzip = true\n", 3, "unknown field `gzip`"),
            (
                "[ring]\nfolder = \"/r\"\ninterval = \"5s\"\n[otlp]\nurl = \"http://c\"\ninterval = \"1ms\"\n",
                6,
                "otlp.interval is 1s to 1h",
            ),
            (
                "[otlp]\nurl = \"http://c\"\n[otlp.headers]\n\"a b\" = \"c\"\n",
                3,
                "header \"a b\" has a name that HTTP does not have",
            ),
            ("[otlp]\nurl = \"http://c\"\nheaders = { a = \"b\\n\" }\n", 3, "has a value that HTTP"),
        ] {
            let said = parsed(text, &Flags::default()).unwrap_err();
            assert!(said.starts_with(&format!("agent.toml:{line}: ")) && said.contains(what), "{text}: {said}");
        }
    }

    #[test]
    fn the_result_of_file_and_flags_is_checked_and_the_one_at_fault_is_named() {
        let flags = Flags {
            ring: Some("/r".into()),
            otlp: Some("http://c:4318".into()),
            max_tenants: Some(7),
            listen: Some("localhost:1".into()),
        };
        // Settings from flags need not be in the file, and may be wrong there.
        let text = "max-tenants = 0\n[ring]\nsize = \"1MiB\"\n[otlp]\nurl = \"here\"\ninterval = \"9s\"\n";
        let config = parsed(text, &flags).unwrap();
        assert_eq!((config.max_tenants, &*config.listen), (7, "localhost:1"));
        assert_eq!(config.ring, Some(Ring { size: 1 << 20, ..Ring::new("/r".into()) }));
        let otlp = Otlp { interval: 9_000_000_000, ..Otlp::new("http://c:4318".into()) };
        assert_eq!(config.otlp, Some(otlp));
        assert_eq!(Config::of(None, &flags).unwrap().ring, Some(Ring::new("/r".into())));

        let with_url = |url: &str| Flags { otlp: Some(url.into()), ..Flags::default() };
        let (none, of_all) = (Flags::default(), flags);
        for (text, flags, wanted) in [
            // A flag is wrong by itself, or in place of the file's value.
            ("", Flags { max_tenants: Some(0), ..none.clone() }, "--max-tenants: max-tenants is 1 to 100000"),
            (
                "",
                Flags { listen: Some(":9965".into()), ..none.clone() },
                "--listen: `:9965` is no address with a port",
            ),
            ("max-tenants = 9\n", Flags { max_tenants: Some(0), ..none.clone() }, "--max-tenants: max-"),
            ("", with_url("c:4318"), "--otlp: `c:4318` does not begin with http://"),
            ("[otlp]\nurl = \"http://c\"\n", with_url("http://"), "--otlp: `http://` is no URL"),
            // The file is wrong in keys that no flag gives.
            ("[ring]\nsize = \"1KiB\"\n", of_all.clone(), "agent.toml:2: size is at least 64KiB"),
            ("[otlp]\ninterval = \"1ms\"\n", of_all.clone(), "agent.toml:2: otlp.interval is 1s to 1h"),
            (
                "otlp.headers = { \"a b\" = \"c\" }\n",
                of_all.clone(),
                "agent.toml:1: header \"a b\" has a name",
            ),
            // It is wrong in combination with a default: a ring's interval is 5s by default.
            (
                "window = \"10s\"\n",
                of_all.clone(),
                "agent.toml:1: the ring's interval is at least the window",
            ),
            (
                "window = \"10s\"\n[ring]\nfolder = \"/r\"\n",
                none.clone(),
                "agent.toml:1: the ring's interval",
            ),
            // Neither gives it.
            (
                "\n[ring]\nsize = \"1MiB\"\n",
                with_url("http://c"),
                "agent.toml:2: `folder` is missing; give it",
            ),
            (
                "\n\notlp.interval = \"9s\"\n",
                none.clone(),
                "agent.toml:3: `url` is missing; give it, or --otlp",
            ),
        ] {
            let said = parsed(text, &flags).unwrap_err();
            assert!(said.starts_with(wanted), "{text}: {said}");
        }
        let said = Config::of(None, &with_url("here")).unwrap_err();
        assert!(said.starts_with("--otlp: `here` does not begin"), "{said}");
    }
}
