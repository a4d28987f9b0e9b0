//! How load balancers are read; docs/lb.md has the whole.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use clap::Args;

use crate::lb::{
    pattern::{Pattern, Patterns},
    predict::Prediction,
    reader::Settings,
    source::Source,
};

#[derive(Debug, Args)]
pub struct LbOptions {
    /// Ask this load balancer while a pod here drains: http://HOST:PORT/PATH;csv, http://HOST:PORT/metrics, unix:/PATH or
    /// tcp:HOST:PORT.
    #[arg(long, value_name = "SOURCE", value_delimiter = ',', env = "GT_LB", hide_env_values = true)]
    pub lb: Vec<Source>,
    /// Which of its servers are a pod's: BACKEND/SERVER with *, {pod}, {namespace}, {ip}, {node}, {host}, {node-ip}.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',', env = "GT_LB_SERVER")]
    pub lb_server: Vec<Pattern>,
    /// The address of this node, as the load balancer knows it.
    #[arg(long, value_name = "ADDRESS", env = "NODE_IP")]
    pub node_ip: Option<IpAddr>,
    /// The interval of its health checks, to predict DOWN where it cannot be asked (seconds, or with a unit: 2s, 500ms).
    #[arg(long, value_name = "INTERVAL", value_parser = interval, requires = "lb_fall", env = "GT_LB_INTER")]
    pub lb_inter: Option<Duration>,
    /// How many health checks must fail.
    #[arg(long, value_name = "N", requires = "lb_inter", env = "GT_LB_FALL",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub lb_fall: Option<u32>,
    /// Take words of load balancers by POST /lb on this address, which must be one of 127.0.0.0/8 or ::1.
    #[arg(long, value_name = "ADDRESS", value_parser = loopback, env = "GT_LB_WEBHOOK")]
    pub lb_webhook: Option<SocketAddr>,
}

impl LbOptions {
    /// How load balancers are read; `node`: the node's name.
    #[must_use]
    pub fn settings(&self, node: Option<&str>) -> Settings {
        Settings {
            sources: self.lb.clone(),
            patterns: Patterns {
                servers: self.lb_server.clone(),
                node: node.map(str::to_owned),
                node_address: self.node_ip,
            },
            prediction: self.lb_inter.zip(self.lb_fall).map(|(inter, fall)| Prediction { inter, fall }),
            ..Settings::default()
        }
    }
}

/// Whoever reaches it can change what a drain is called.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| format!("{text:?} is no address: use 127.0.0.1:PORT"))?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err(format!("{address} can be reached from elsewhere: use 127.0.0.1:PORT"))
}

/// A number of seconds, or a number with one of the units ms, s, m, h.
fn interval(text: &str) -> Result<Duration, String> {
    match text.strip_suffix("ms") {
        Some(number) => {
            let wrong = || format!("{text:?} is no duration: write 500ms or 2s");
            number.parse().map(Duration::from_millis).map_err(|_| wrong())
        }
        None => super::duration(text),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn settings(arguments: &[&str]) -> Option<Settings> {
        let all = ["gt-daemon", "run"].iter().chain(arguments);
        match Cli::try_parse_from(all).ok()?.command {
            Command::Run(options) => Some(options.lb.settings(Some("worker-1"))),
            _ => None,
        }
    }

    /// Exercises the options together, so that lists may come in one word or several, and what belongs together is asked for.
    #[test]
    fn options() {
        let lb = settings(&[
            "--lb",
            "unix:/run/a,tcp:b:1",
            "--lb",
            "http://c/s;csv",
            "--lb-server",
            "igw/{host},x/*",
        ]);
        let lb = lb.unwrap();
        let names: Vec<_> = lb.sources.iter().map(|source| &*source.name).collect();
        assert_eq!(names, ["/run/a", "b:1", "c:80"]);
        assert_eq!((lb.patterns.servers.len(), lb.patterns.node.as_deref()), (2, Some("worker-1")));
        let lb = settings(&["--lb-inter", "500ms", "--lb-fall", "3"]).unwrap();
        assert_eq!(lb.prediction, Some(Prediction { inter: Duration::from_millis(500), fall: 3 }));
        assert!(settings(&[]).unwrap().sources.is_empty());
        for wrong in [
            &["--lb", "lb"][..],
            &["--lb-inter", "2s"],
            &["--lb-fall", "2"],
            &["--lb-inter", "2s", "--lb-fall", "0"],
            &["--lb-inter", "xms", "--lb-fall", "2"],
            &["--lb-webhook", "0.0.0.0:9465"],
            &["--lb-webhook", "lb"],
        ] {
            assert!(settings(wrong).is_none(), "{wrong:?}");
        }
    }
}
