//! `corun agent`: always on, for a machine's monitoring.

use crate::cmd::doctor;
use crate::lines;
use crate::reading;
use crate::usage::{make_folder, Usage};
use corun_agent::agent::{self, Caller};
use corun_agent::config::{Config, File, Flags};
use corun_report::output::print;
use corun_report::places::unread;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  sudo corun agent                               metrics for Prometheus at 127.0.0.1:9965
  sudo corun agent --listen 0.0.0.0:9965         for scrapers on other machines
  sudo corun agent --ring /var/lib/corun/ring    keeps the last hours as well
  sudo corun agent --otlp http://localhost:4318  for a collector of OpenTelemetry, too
  corun agent --config agent.toml --print-config what is in force
  corun profile --from /var/lib/corun/ring --cgroup web.service --at 03:10 --for 2m

`curl -s 127.0.0.1:9965/metrics | grep blame` shows who takes CPU time from whom.
It observes only. Once its probe is loaded it keeps CAP_BPF and CAP_PERFMON and drops all other privileges.
SIGHUP reads the configuration again, SIGTERM ends it.
Exit status: 0 when it was asked to end, 2 bad usage or configuration, 1 when it can no longer watch.";

/// Run all the time: serve who takes CPU time from whom as metrics, and keep the last hours
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where to serve /metrics, /livez, /readyz and /doctor [default: 127.0.0.1:9965]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Read the configuration from this file, in TOML; flags override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Keep the last hours in this folder, in 256 MiB at most unless the configuration says otherwise [default: keep nothing]
    #[arg(long, value_name = "FOLDER")]
    ring: Option<PathBuf>,
    /// Export the same metrics to this collector of OpenTelemetry, every minute unless the configuration says otherwise
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Tenants that have series of their own; all others are summed in `other` [default: 1000]
    #[arg(long, value_name = "N")]
    max_tenants: Option<usize>,
    /// Print the configuration that would be in force, and end
    #[arg(long)]
    print_config: bool,
}

impl Args {
    /// The configuration: the file's, overridden by flags.
    fn effective(&self) -> Result<Config, String> {
        let flags = Flags {
            listen: self.listen.clone(),
            ring: self.ring.clone(),
            otlp: self.otlp.clone(),
            max_tenants: self.max_tenants,
        };
        let Some(path) = &self.config else { return Config::of(None, &flags) };
        let name = path.display().to_string();
        let text = reading::text_of(path);
        let text = text.map_err(|e| format!("cannot read {name}: {}", unread(path, &e)))?;
        Config::of(Some(File { name: &name, text: &text }), &flags)
    }
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = args.effective().map_err(Usage)?;
    if args.print_config {
        print(&config.text().map_err(|why| Usage(format!("--print-config: {why}")))?)?;
        return Ok(ExitCode::SUCCESS);
    }
    config.ring.iter().try_for_each(|ring| make_folder(&ring.folder))?;
    let caller = Caller {
        reload: &|| args.effective(),
        say: &|what| lines::say(&format!("corun: {}", corun_report::one_line(what))),
        doctor: &doctor::examined,
    };
    match agent::run(config, &caller) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(e) if e.is_usage() => Err(Usage(e.to_string()).into()),
        Err(e) => Err(e.into()),
    }
}
