//! The command line.

use clap::{Args, Parser, Subcommand};

use crate::settings::Name;

/// The health sidecar of a gateway: tells the load balancer to turn away when nothing is in flight.
#[derive(Debug, Parser)]
#[command(name = "gt-hc", version, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 the command line, a value or the environment is wrong; 2 the drain timed out with \
requests in flight, a rule is broken, or the call was refused; 3 the drain timed out and Envoy could not be \
read, or a rule cannot be judged; 4 reopened while draining; 5 ended by a signal.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve health answers until SIGTERM; then drain, if that has not been done, and end.
    Run(RunOptions),
    /// Drain, and wait for the end: the preStop command.
    Drain(ServerOptions),
    /// Compute the runbook's times, and check the ones in use against its rules.
    Check(CheckOptions),
    /// Print the state as JSON.
    State(ServerOptions),
    /// Take the pod back: stop the drain and answer 200 again.
    Reopen(ServerOptions),
    /// Tell the LB 503 now, also with requests in flight (in DRAINING).
    CloseLb(ServerOptions),
    /// Take readiness down now, without waiting for the LB (in CLOSING).
    Close(ServerOptions),
}

/// Values are texts here: [`crate::settings`] reads them, and names the variable of a wrong one.
#[derive(Debug, Args)]
pub struct RunOptions {
    #[command(flatten)]
    pub times: TimeOptions,
    /// Time from one look at Envoy to the next [env: POLL_INTERVAL] [default: 2]
    #[arg(long, value_name = "SECONDS")]
    pub poll_interval: Option<String>,
    #[command(flatten)]
    pub server: ServerOptions,
    /// Envoy's admin server [env: GT_HC_ENVOY_ADMIN] [default: 127.0.0.1:15000]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub envoy_admin: Option<String>,
    /// Clusters whose requests do not count, beyond Envoy's and Istio's own; names as in Envoy's stats, with
    /// commas between, `*` at the end for any end [env: GT_HC_IGNORE_CLUSTERS]
    #[arg(long, value_name = "NAMES")]
    pub ignore_clusters: Option<String>,
}

#[derive(Debug, Args)]
pub struct TimeOptions {
    /// Time for requests to end before the drain is a fault [env: DRAIN_TIMEOUT] [default: 120]
    #[arg(long, value_name = "SECONDS")]
    pub drain_timeout: Option<String>,
    /// Time for the LB to notice the 503 [env: LB_BUFFER] [default: 10]
    #[arg(long, value_name = "SECONDS")]
    pub lb_buffer: Option<String>,
}

#[derive(Debug, Args)]
pub struct ServerOptions {
    /// Address the server listens on; commands come to its port by the loopback device
    /// [env: GT_HC_LISTEN] [default: 0.0.0.0:18180]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
}

#[derive(Debug, Args)]
pub struct CheckOptions {
    #[command(flatten)]
    pub times: TimeOptions,
    /// terminationGracePeriodSeconds of the pod
    #[arg(long, value_name = "SECONDS")]
    pub grace_period: Option<String>,
    /// terminationDrainDuration of the gateway's Envoy
    #[arg(long, value_name = "SECONDS")]
    pub drain_duration: Option<String>,
    /// Time within which 99 of 100 long requests end
    #[arg(long, value_name = "SECONDS")]
    pub p99: Option<String>,
    /// Time between two health checks of the LB
    #[arg(long, value_name = "SECONDS")]
    pub inter: Option<String>,
    /// Failed health checks until the LB marks the pod DOWN
    #[arg(long, value_name = "COUNT")]
    pub fall: Option<String>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// The flags of a command, by setting.
pub type Flags = Vec<(Name, Option<String>)>;

impl RunOptions {
    #[must_use]
    pub fn flags(&self) -> Flags {
        let mut flags = self.times.flags();
        flags.extend(self.server.flags());
        flags.push((Name::PollInterval, self.poll_interval.clone()));
        flags.push((Name::EnvoyAdmin, self.envoy_admin.clone()));
        flags.push((Name::IgnoreClusters, self.ignore_clusters.clone()));
        flags
    }
}

impl TimeOptions {
    #[must_use]
    pub fn flags(&self) -> Flags {
        vec![(Name::DrainTimeout, self.drain_timeout.clone()), (Name::LbBuffer, self.lb_buffer.clone())]
    }
}

impl ServerOptions {
    #[must_use]
    pub fn flags(&self) -> Flags {
        vec![(Name::Listen, self.listen.clone())]
    }
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

    /// Exercises the help so that each setting's flag, variable and default stand in it as they are.
    #[test]
    fn the_help_names_variables_and_defaults() {
        let mut cli = Cli::command();
        let help = cli.find_subcommand_mut("run").unwrap().render_long_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for name in [Name::DrainTimeout, Name::LbBuffer, Name::PollInterval, Name::Listen, Name::EnvoyAdmin] {
            assert!(help.contains(name.flag()), "{name:?}");
            let note = format!("[env: {}] [default: {}]", name.variable(), name.default());
            assert!(help.contains(&note), "{note} is not in {help}");
        }
        assert!(help.contains("[env: GT_HC_IGNORE_CLUSTERS]"));
    }
}
