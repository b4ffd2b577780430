//! The configuration file of an agent, in TOML. Every key has a default; a key that nobody knows is refused.

use crate::otlp::target::Target;
use corun_model::duration::{written_bytes, written_ns};
use corun_model::workload::read_toml;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The shortest window: shorter ones cost more than they tell.
const LEAST_WINDOW_NS: u64 = 100_000_000;
/// The longest: tenants that come and go are seen late.
const MOST_WINDOW_NS: u64 = 60_000_000_000;

/// How an agent works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Config {
    /// Where metrics are served.
    pub listen: SocketAddr,
    /// How it sees.
    pub source: Source,
    /// How long a window is.
    #[serde(deserialize_with = "written_ns", serialize_with = "as_time")]
    pub window: u64,
    /// Tenants that have series of their own.
    pub max_tenants: usize,
    /// Tasks that can be followed at a time; absent: four times those there are, at least 16384.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tasks: Option<u32>,
    /// The ring on disk; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<Ring>,
    /// A collector that metrics are exported to; absent: none.
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
    /// Its folder; empty: the file does not name it, and somebody else must.
    #[serde(default)]
    pub folder: PathBuf,
    /// The most that it takes on the disk.
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
    /// Where it listens; empty: the file does not say it, and somebody else must.
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

/// What the command line says, so that a file need not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flags {
    /// The ring's folder.
    pub ring: bool,
    /// The collector's URL.
    pub otlp: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 9965)),
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

    /// The same as an exporter takes it, of an agent of whom this is known.
    ///
    /// # Errors
    /// The key at fault with its table, and one sentence.
    pub fn target(&self, resource: Vec<(String, String)>) -> Result<Target, (&'static str, String)> {
        Target::new(&self.url, Duration::from_nanos(self.interval), &self.headers, resource)
    }
}

impl Config {
    /// Reads the text of a file, which need not say what flags do.
    ///
    /// # Errors
    /// The line at fault, from 1, and one sentence.
    pub fn parse(text: &str, flags: Flags) -> Result<Config, (usize, String)> {
        let config: Config = read_toml(text)?;
        let mut whole = config.clone();
        if let Some(ring) =
            whole.ring.as_mut().filter(|ring| flags.ring && ring.folder.as_os_str().is_empty())
        {
            ring.folder = "/".into();
        }
        if let Some(otlp) = whole.otlp.as_mut().filter(|otlp| flags.otlp && otlp.url.is_empty()) {
            otlp.url = "http://localhost".into();
        }
        whole.check().map(|_| config).map_err(|(key, what)| (line_of(key, text), what))
    }

    /// Whether an agent can work like this.
    ///
    /// # Errors
    /// The key at fault with its table, such as `ring.size`, and one sentence.
    pub fn check(self) -> Result<Config, (&'static str, String)> {
        let must = |key, ok: bool, what: &str| ok.then_some(()).ok_or((key, what.to_owned()));
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
            must("ring.interval", ring.interval >= self.window, "interval is at least the window")?;
            let hour = ring.interval <= 3_600_000_000_000;
            must("ring.interval", hour, "interval is at most 1h; give one such as \"5s\"")?;
        }
        if let Some(otlp) = &self.otlp {
            must("otlp.url", !otlp.url.is_empty(), "`url` is missing; give it, or --otlp URL")?;
            let of_interval = 1_000_000_000..=3_600_000_000_000;
            let is_of_it = of_interval.contains(&otlp.interval);
            must("otlp.interval", is_of_it, "otlp.interval is 1s to 1h; give one such as \"60s\"")?;
            otlp.target(Vec::new())?;
        }
        Ok(self)
    }

    /// The text of a file that says the same.
    ///
    /// # Errors
    /// A file of text cannot say it: the name of the ring's folder is no text.
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

/// The line that gives a key of a table, from 1; or that table's own.
fn line_of(key: &str, text: &str) -> usize {
    let (table, key) = key.rsplit_once('.').unwrap_or(("", key));
    let (mut inside, mut of_table) = (String::new(), 1);
    for (at, line) in text.lines().map(str::trim).enumerate() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            inside = name.trim().to_owned();
            if inside == table || inside == format!("{table}.{key}") {
                of_table = at + 1;
            }
        }
        let given = line.split('=').next().unwrap_or_default().trim();
        if inside.is_empty() && given.split_once('.').is_some_and(|(of, _)| of == table) {
            of_table = at + 1;
        }
        if (inside == table && given == key) || (inside.is_empty() && given == format!("{table}.{key}")) {
            return at + 1;
        }
    }
    of_table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back_as_the_same() {
        let with_ring = Config { ring: Some(Ring::new("/var/lib/corun".into())), ..Config::default() };
        let headers = BTreeMap::from([("Authorization".to_owned(), "Bearer \"x\"".to_owned())]);
        let otlp = Otlp { headers, interval: 1_500_000_000, ..Otlp::new("http://localhost:4318".into()) };
        let with_both = Config { otlp: Some(otlp), ..with_ring.clone() };
        for config in [Config::default(), with_ring, with_both] {
            let text = config.text().unwrap();
            assert_eq!(Config::parse(&text, Flags::default()).unwrap(), config, "{text}");
        }
        assert_eq!(Config::parse("", Flags::default()).unwrap(), Config::default());
    }

    #[test]
    fn a_folder_whose_name_is_no_text_cannot_be_printed_and_that_is_said() {
        use std::os::unix::ffi::OsStrExt;
        let folder = std::path::Path::new(std::ffi::OsStr::from_bytes(b"/var/lib/\xff"));
        let config = Config { ring: Some(Ring::new(folder.into())), ..Config::default() };
        let why = config.text().unwrap_err();
        assert!(why.contains("not UTF-8; give the folder another name"), "{why}");
    }

    #[test]
    fn what_headers_hold_is_not_shown_in_passing() {
        let headers = BTreeMap::from([("authorization".to_owned(), "secret".to_owned())]);
        let otlp = Otlp { headers, ..Otlp::new("http://c".into()) };
        let shown = format!("{otlp:?}");
        assert!(shown.contains("authorization") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn the_most_that_a_configuration_may_hold_can_be_printed() {
        let ring = Ring { size: u64::MAX, ..Ring::new("/r".into()) };
        let config = Config { ring: Some(ring), max_tenants: 100_000, ..Config::default() };
        config.text().unwrap();
    }

    #[test]
    fn a_key_that_nobody_knows_and_a_value_that_cannot_be_are_refused_with_their_line() {
        for (text, line, what) in [
            ("window = \"1s\"\nlisten-on = 3\n", 2, "unknown field `listen-on`"),
            ("[ring]\nfolder = \"/r\"\nsice = \"1MiB\"\n", 3, "unknown field `sice`"),
            ("\nwindow = \"1ms\"\n", 2, "window is 100ms to 60s"),
            ("window = 3\n", 1, "a time in quotes"),
            ("listen = \"here\"\n", 1, "invalid socket address"),
            ("[ring]\nfolder = \"/r\"\nsize = \"1KiB\"\n", 3, "size is at least 64KiB"),
            (
                "window = \"10s\"\n[ring]\nfolder = \"/r\"\ninterval = \"5s\"\n",
                4,
                "interval is at least the window",
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
            let (at, said) = Config::parse(text, Flags::default()).unwrap_err();
            assert!(said.contains(what), "{text}: {said}");
            assert_eq!(at, line, "{text}: {said}");
        }
    }
}
