//! The configuration file of an agent, in TOML. Every key has a default; a key that nobody knows is refused.

use corun_model::duration::{written_bytes, written_ns};
use corun_model::workload::read_toml;
use serde::{Deserialize, Serialize, Serializer};
use std::net::SocketAddr;
use std::path::PathBuf;

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
    /// Its folder.
    pub folder: PathBuf,
    /// The most that it takes on the disk.
    #[serde(default = "default_size", deserialize_with = "written_bytes", serialize_with = "as_size")]
    pub size: u64,
    /// How often it is written.
    #[serde(default = "default_interval", deserialize_with = "written_ns", serialize_with = "as_time")]
    pub interval: u64,
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

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 9965)),
            source: Source::Auto,
            window: 1_000_000_000,
            max_tenants: 1_000,
            max_tasks: None,
            ring: None,
        }
    }
}

impl Ring {
    /// A ring in a folder, with the defaults of the rest.
    pub fn new(folder: PathBuf) -> Ring {
        Ring { folder, size: default_size(), interval: default_interval() }
    }
}

impl Config {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// The line at fault, from 1, and one sentence.
    pub fn parse(text: &str) -> Result<Config, (usize, String)> {
        let config: Config = read_toml(text)?;
        let line = |key: &str| {
            let is_it = |l: &str| l.split('=').next().is_some_and(|k| k.trim() == key);
            text.lines().position(is_it).map_or(1, |at| at + 1)
        };
        config.check().map_err(|(key, what)| (line(key), what))
    }

    /// Whether an agent can work like this.
    ///
    /// # Errors
    /// The key at fault, and one sentence.
    pub fn check(self) -> Result<Config, (&'static str, String)> {
        let must = |key, ok: bool, what: &str| ok.then_some(()).ok_or((key, what.to_owned()));
        let of_window = LEAST_WINDOW_NS..=MOST_WINDOW_NS;
        must("window", of_window.contains(&self.window), "window is 100ms to 60s; give one such as \"1s\"")?;
        let of_tenants = 1..=100_000;
        must("max-tenants", of_tenants.contains(&self.max_tenants), "max-tenants is 1 to 100000")?;
        let of_tasks = self.max_tasks.is_none_or(|n| (64..=4_194_304).contains(&n));
        must("max-tasks", of_tasks, "max-tasks is 64 to 4194304")?;
        if let Some(ring) = &self.ring {
            let least = crate::ring::LEAST_BYTES;
            let what = format!("size is at least {}KiB", least >> 10);
            must("size", ring.size >= least, &what)?;
            must("interval", ring.interval >= self.window, "interval is at least the window")?;
            let hour = ring.interval <= 3_600_000_000_000;
            must("interval", hour, "interval is at most 1h; give one such as \"5s\"")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back_as_the_same() {
        let with_ring = Config { ring: Some(Ring::new("/var/lib/corun".into())), ..Config::default() };
        for config in [Config::default(), with_ring] {
            let text = config.text().unwrap();
            assert_eq!(Config::parse(&text).unwrap(), config, "{text}");
        }
        assert_eq!(Config::parse("").unwrap(), Config::default());
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
            ("[ring]\nsize = \"1MiB\"\n", 1, "`folder` is missing"),
        ] {
            let (at, said) = Config::parse(text).unwrap_err();
            assert!(said.contains(what), "{text}: {said}");
            assert_eq!(at, line, "{text}: {said}");
        }
    }
}
