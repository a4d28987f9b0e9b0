//! The command line. Exit codes: 0 all well, 1 the environment is wrong, 2 the command line is wrong. Commands that end with a
//! verdict have its code instead, 0, 2 or 3, and 1 for a wrong command line.

pub mod client;
pub mod door;
mod lb;
pub mod screen;

use std::{collections::BTreeSet, ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use tracing_subscriber::EnvFilter;

pub use self::lb::LbOptions;
use self::{
    client::{ClientOptions, DrainsOptions, TraceOptions},
    door::DoorOptions,
};
use crate::{
    envoy::{self, scope::Ignored},
    hc::{
        self,
        names::{Alias, Names},
    },
    kernel::plan::Attach,
    observe,
    pods::{
        api::config::Surroundings,
        label_selector::{LabelSelector, is_subdomain},
        open::Order,
        selection::Selection,
        source::Choice,
    },
    timeline,
};

/// Tells whether a rolling update cut anybody's request.
#[derive(Debug, Parser)]
#[command(name = "gt-daemon", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch this node's pods and serve what is seen as metrics.
    Run(Box<RunOptions>),
    /// Say what this machine's kernel can show, and whether `run` could work.
    Doctor(DoctorOptions),
    /// Write the page of a drain: both clocks on one time axis, the verdict and all facts, in one file.
    Report(ReportOptions),
    /// Say whether a drain cut requests, by gt's records or by the artifacts of a run: logs, statistics, captures.
    ///
    /// Exit codes: 0 protected, 1 the environment or the command line is wrong, 2 broken, 3 inconclusive.
    Timeline(timeline::Options),
    /// Show what happens to pods, as it happens, by the daemon on their node.
    Trace(Box<TraceOptions>),
    /// List the drains that are over.
    Drains(Box<DrainsOptions>),
    /// Print what a shell needs to complete this command line.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page, in roff.
    Man,
}

/// The exit code of a command line that is wrong, by its words: 2, or 1 where 2 is a verdict.
#[must_use]
pub fn refused(error: &clap::Error, words: impl IntoIterator<Item = OsString>) -> u8 {
    let has_verdict = words.into_iter().nth(1).is_some_and(|word| word == "timeline" || word == "trace");
    match error.exit_code() {
        0 => 0,
        _ if has_verdict => 1,
        _ => 2,
    }
}

#[derive(Debug, Args)]
pub struct RunOptions {
    /// Address for /metrics, /healthz and /readyz.
    #[arg(long, default_value = "0.0.0.0:9464", value_parser = address, env = "GT_LISTEN")]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub kernel: KernelOptions,
    #[command(flatten)]
    pub pods: PodOptions,
    #[command(flatten)]
    pub readers: ReaderOptions,
    #[command(flatten)]
    pub lb: LbOptions,
    #[command(flatten)]
    pub drains: DrainOptions,
    #[command(flatten)]
    pub door: DoorOptions,
    /// How long a pod that is gone keeps its series, in seconds (or with a unit: 90s, 10m, 1h).
    #[arg(long, default_value = "10m", value_parser = duration, env = "GT_RETAIN")]
    pub retain: Duration,
    /// How many pods and containers can be told apart at a time.
    #[arg(long, default_value_t = gt_common::owner::DEFAULT_SLOTS, env = "GT_SLOTS",
          value_parser = clap::value_parser!(u32).range(2..=i64::from(gt_common::owner::MAX_SLOTS)))]
    pub slots: u32,
    /// How many connections of watched pods can be open at a time, at least.
    #[arg(long, default_value_t = 131_072, env = "GT_CONNECTIONS",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(gt_common::places::MAX_CONNECTIONS)))]
    pub connections: u32,
    /// Inbound ports of every pod that serve health checks: the hc's and Istio's.
    #[arg(long, value_delimiter = ',', default_value = "18180,15021", env = "GT_HEALTH_PORTS")]
    pub health_ports: Vec<u16>,
    /// Inbound ports of every pod that serve administration: Envoy's and Istio's.
    #[arg(long, value_delimiter = ',', default_value = "15000,15020,15090", env = "GT_ADMIN_PORTS")]
    pub admin_ports: Vec<u16>,
    /// An answer written less than this long ago may be a stream (seconds, or with a unit: 5s, 1m).
    #[arg(long, default_value = "5s", value_parser = duration, env = "GT_STREAM_WINDOW")]
    pub stream_window: Duration,
    /// Log every state change of watched connections too, at debug level.
    #[arg(long, env = "GT_STATE_EVENTS")]
    pub state_events: bool,
    #[command(flatten)]
    pub logging: LoggingOptions,
}

/// Which pods are watched, and where they are read from; docs/pods.md has the whole.
#[derive(Debug, Args)]
pub struct PodOptions {
    /// Where pods are read from: auto, api, kubelet[:DIRECTORY] or static:FILE.
    #[arg(long, default_value = "auto", env = "GT_PODS")]
    pub pods: Choice,
    /// Watch the pods that have a container of this name; an empty name watches all.
    #[arg(long, default_value = "hc", env = "GT_CONTAINER")]
    pub container: String,
    /// Watch pods of these namespaces only.
    #[arg(long, value_delimiter = ',', value_parser = namespace, env = "GT_NAMESPACE")]
    pub namespace: Vec<String>,
    /// Watch pods with these labels only, as for kubectl -l: app=igw,tier!=test or app in (a,b).
    #[arg(long, default_value = "", hide_default_value = true, env = "GT_SELECT")]
    pub select: LabelSelector,
    /// How to reach the Kubernetes API from outside of it; inside, the pod's service account is used.
    #[arg(long, env = "KUBECONFIG")]
    pub kubeconfig: Option<String>,
    /// The name of this node in the Kubernetes API.
    #[arg(long, env = "NODE_NAME")]
    pub node_name: Option<String>,
}

impl PodOptions {
    /// What is to be opened.
    #[must_use]
    pub fn order(&self) -> Order {
        let named: BTreeSet<_> = self.namespace.iter().filter(|name| !name.is_empty()).cloned().collect();
        Order {
            choice: self.pods.clone(),
            selection: Selection {
                container: (!self.container.is_empty()).then(|| self.container.clone()),
                namespaces: named,
                labels: self.select.clone(),
            },
            surroundings: Surroundings::look(self.kubeconfig.clone(), self.node_name.clone()),
        }
    }
}

/// What is read inside pods; docs/pods.md has the whole.
#[derive(Debug, Args)]
pub struct ReaderOptions {
    /// Ask the container of this name for its state, as a health sidecar; with an empty name only declared ones.
    #[arg(long, default_value = "hc", env = "GT_HC_CONTAINER")]
    pub hc_container: String,
    /// Another word for a state of the health sidecar: STOPPED=CLOSED.
    #[arg(long, value_delimiter = ',', env = "GT_HC_ALIAS")]
    pub hc_alias: Vec<Alias>,
    /// Ask containers of these names for their requests in flight, as Envoys.
    #[arg(long, value_delimiter = ',', default_value = "istio-proxy,envoy", env = "GT_ENVOY_CONTAINERS")]
    pub envoy_containers: Vec<String>,
    /// Clusters of Envoys whose requests nobody waits for; a * at the end stands for any end.
    #[arg(long, value_delimiter = ',', env = "GT_ENVOY_IGNORE_CLUSTERS")]
    pub envoy_ignore_clusters: Vec<String>,
}

impl ReaderOptions {
    /// How pods are read.
    #[must_use]
    pub fn settings(&self) -> observe::Settings {
        let named = |names: &[String]| -> Vec<String> {
            names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
        };
        let hc = hc::reader::Settings {
            names: Names::default().with(self.hc_alias.iter().cloned()),
            ..hc::reader::Settings::default()
        };
        let envoy = envoy::reader::Settings {
            ignored: Ignored { clusters: named(&self.envoy_ignore_clusters) },
            ..envoy::reader::Settings::default()
        };
        let signs = observe::Signs {
            hc_container: Some(self.hc_container.clone()).filter(|name| !name.is_empty()),
            hc_port: hc.port,
            envoy_containers: named(&self.envoy_containers),
            envoy_endpoints: envoy.endpoints.clone(),
        };
        observe::Settings { signs, hc, envoy, ..observe::Settings::default() }
    }
}

/// Where drains that are over are kept.
#[derive(Debug, Args)]
pub struct DrainOptions {
    /// How many drains that are over are kept in memory.
    #[arg(long, default_value = "100", env = "GT_DRAINS", value_parser = number)]
    pub drains: usize,
    /// Write each drain that is over to a directory of its own below this one.
    #[arg(long, value_name = "DIR", env = "GT_RECORD")]
    pub record: Option<PathBuf>,
    /// How many of these directories are kept: the oldest are removed.
    #[arg(long, default_value = "200", env = "GT_RECORD_KEEP", value_parser = number)]
    pub record_keep: usize,
}

#[derive(Debug, Args)]
pub struct KernelOptions {
    /// How to attach to the kernel.
    #[arg(long, default_value = "auto", env = "GT_ATTACH")]
    pub attach: Attach,
    /// Where the host's cgroup trees are mounted.
    #[arg(long, default_value = "/sys/fs/cgroup", env = "GT_CGROUP_ROOT")]
    pub cgroup_root: PathBuf,
}

#[derive(Debug, Args)]
pub struct DoctorOptions {
    #[command(flatten)]
    pub kernel: KernelOptions,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ReportOptions {
    /// A directory that `run --record` has made for a drain, or a timeline.jsonl; else the id of a drain that `drains` lists,
    /// or a part of it that only one has, as its pod's name.
    #[arg(value_name = "DRAIN")]
    pub drain: PathBuf,
    /// Where the page goes; - is stdout.
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
    #[command(flatten)]
    pub client: ClientOptions,
}

#[derive(Debug, Args)]
pub struct LoggingOptions {
    /// Form of the log on stderr.
    #[arg(long, default_value = "text", env = "GT_LOG_FORMAT")]
    pub log_format: LogFormat,
    /// What is logged: a level (error, warn, info, debug, trace), or filters like gt_daemon::run=debug.
    #[arg(long, default_value = "info", env = "GT_LOG", value_parser = filter)]
    pub log: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// A filter of `tracing`, kept as text. A misspelt level would be taken for a module, and silence all.
fn filter(text: &str) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

    let help = "use off, error, warn, info, debug, trace or module=level";
    if let Some(word) = text.split(',').find(|word| !word.contains('=') && !LEVELS.contains(word)) {
        return Err(format!("{word:?} is no level; {help}"));
    }
    EnvFilter::try_new(text).map_err(|error| format!("{error}; {help}"))?;
    Ok(text.to_owned())
}

/// A namespace's name; it becomes a part of a request's path.
fn namespace(text: &str) -> Result<String, String> {
    let name = text.trim();
    if name.is_empty() || is_subdomain(name) && !name.contains('.') {
        return Ok(name.to_owned());
    }
    Err(format!("{text:?} is no name of a namespace; give it as `kubectl get namespaces` shows it"))
}

/// How many things are kept: one at least, and not so many that a directory of them cannot be read.
fn number(text: &str) -> Result<usize, String> {
    let kept = text.parse().ok().filter(|number| (1..=100_000).contains(number));
    kept.ok_or_else(|| format!("{text:?} is no number from 1 to 100000"))
}

/// An address with its port.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "{text:?} is no address with a port: write it as 0.0.0.0:9464 or [::]:9464; names such as localhost are not looked up"
        )
    })
}

/// A number of seconds, or a number with one of the units s, m, h.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration: write seconds, or a number with s, m or h, such as 10m");
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, text.get(number.len()..).unwrap_or_default()),
        None => (text, "s"),
    };
    let factor = match unit {
        "m" => 60,
        "h" => 3600,
        _ => 1,
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(factor).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Exercises clap's own check of the definition.
    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    /// Exercises addresses with something missing, so that the refusal shows how to write one.
    #[test]
    fn addresses() {
        assert_eq!(address("127.0.0.1:9464").map(|address| address.port()), Ok(9464));
        assert!(address("[::]:9464").is_ok());
        for wrong in ["9464", ":9464", "localhost:9464", "127.0.0.1", "::9464"] {
            assert!(address(wrong).is_err_and(|told| told.contains("write it as")), "{wrong}");
        }
    }

    /// Exercises wrong command lines, so that none of them ends with a verdict's code.
    #[test]
    fn wrong_command_lines() {
        let code = |words: &[&str]| {
            let error = Cli::try_parse_from(words).unwrap_err();
            refused(&error, words.iter().map(OsString::from))
        };
        assert_eq!(code(&["gt-daemon", "timeline"]), 1);
        assert_eq!(code(&["gt-daemon", "timeline", "x", "--offset", "lb=1"]), 1);
        assert_eq!(code(&["gt-daemon", "timeline", "--help"]), 0);
        assert_eq!(code(&["gt-daemon", "trace", "--nonsense"]), 1);
        assert_eq!(code(&["gt-daemon", "run", "--nonsense"]), 2);
    }

    /// Exercises namespaces given in one word, in several, and by an empty variable.
    #[test]
    fn namespaces() {
        let named = |arguments: &[&str]| {
            let all = ["gt-daemon", "run"].iter().chain(arguments);
            match Cli::try_parse_from(all).unwrap().command {
                Command::Run(options) => Vec::from_iter(options.pods.order().selection.namespaces),
                _ => vec![],
            }
        };
        assert_eq!(named(&["--namespace", "edge, lb", "--namespace", "app"]), ["app", "edge", "lb"]);
        assert_eq!(named(&["--namespace", ""]), Vec::<String>::new());
        for wrong in ["a/b", "A", "a.b", "../secrets"] {
            assert!(Cli::try_parse_from(["gt-daemon", "run", "--namespace", wrong]).is_err(), "{wrong}");
        }
    }

    /// Exercises names of containers, so that an empty one switches a reader off, and a word that means no state is
    /// refused.
    #[test]
    fn readers() {
        let signs = |arguments: &[&str]| {
            let all = ["gt-daemon", "run"].iter().chain(arguments);
            match Cli::try_parse_from(all).unwrap().command {
                Command::Run(options) => options.readers.settings().signs,
                _ => observe::Signs::default(),
            }
        };
        let usual = signs(&[]);
        assert_eq!((usual.hc_container.as_deref(), usual.hc_port), (Some("hc"), 18_180));
        assert_eq!(usual.envoy_containers, ["istio-proxy", "envoy"]);
        let off = signs(&["--hc-container", "", "--envoy-containers", "", "--hc-alias", "STOPPED=CLOSED"]);
        assert!(off.hc_container.is_none() && off.envoy_containers.is_empty());
        assert!(Cli::try_parse_from(["gt-daemon", "run", "--hc-alias", "STOPPED=GONE"]).is_err());
    }

    /// Exercises durations, so that a wrong one is refused and none overflows.
    #[test]
    fn durations() {
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for wrong in ["", "m", "-1", "1.5s", "10d", "18446744073709551615h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
