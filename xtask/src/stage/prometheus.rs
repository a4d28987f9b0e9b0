//! A real Prometheus that scrapes daemons of a stage, with rules.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{client, daemon::free_address, interrupt, pod::tail};
use crate::sandbox::Process;

/// Between two scrapes of a daemon, and between two evaluations of the rules.
pub const INTERVAL: Duration = Duration::from_millis(500);

/// One series of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// Prometheus, which keeps its data in the stage's directory; ended on drop.
#[derive(Debug)]
pub struct Prometheus {
    process: Process,
    address: SocketAddr,
    stderr: PathBuf,
}

impl Prometheus {
    /// Starts it with the daemons as targets, each with the name of its node, and the load balancer's exporter, and waits until
    /// it answers. `rules` is a file of rules as JSON. The daemons are scraped as the PodMonitor in `deploy/` has it: their own
    /// labels go first.
    pub fn start(
        targets: &[(String, SocketAddr)],
        lb: SocketAddr,
        rules: &Value,
        workdir: &Path,
    ) -> Result<Self> {
        let directory = workdir.join("prometheus");
        fs::create_dir(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let put = |name: &str, value: &Value| -> Result<PathBuf> {
            let file = directory.join(name);
            fs::write(&file, value.to_string())
                .with_context(|| format!("cannot write {}", file.display()))?;
            Ok(file)
        };
        let rules = put("rules.json", rules)?;
        let interval = format!("{}ms", INTERVAL.as_millis());
        let targets: Vec<_> = targets
            .iter()
            .map(|(node, address)| json!({"targets": [address.to_string()], "labels": {"node": node}}))
            .collect();
        // JSON is YAML as well.
        let config = put(
            "prometheus.json",
            &json!({
                "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
                "rule_files": [rules],
                "scrape_configs": [
                    {"job_name": "gt-daemon", "honor_labels": true, "static_configs": targets},
                    {"job_name": "haproxy", "static_configs": [{"targets": [lb.to_string()]}]}
                ],
            }),
        )?;
        let address = free_address()?;
        let stderr = directory.join("stderr");
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&stderr).with_context(|| format!("cannot make {}", stderr.display()))?)
            .process_group(0);
        let mut prometheus = Self { process: Process::start("prometheus", &mut command)?, address, stderr };
        interrupt::wait_for("Prometheus to be ready", Duration::from_secs(30), || {
            prometheus.running()?;
            Ok(prometheus.get("/-/ready").ok().filter(|reply| reply.status == 200).map(drop))
        })?;
        Ok(prometheus)
    }

    /// Fails when it has ended.
    fn running(&mut self) -> Result<()> {
        if let Some(status) = self.process.wait(Duration::ZERO)? {
            let said = fs::read_to_string(&self.stderr).unwrap_or_default();
            bail!("prometheus ended with {status}; its stderr ends:\n{}", tail(&said));
        }
        Ok(())
    }

    fn get(&self, path: &str) -> Result<client::Reply> {
        let stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(2))
            .with_context(|| format!("cannot connect to Prometheus on {}", self.address))?;
        client::request(stream, "GET", path, Duration::from_secs(10))
    }

    /// The answer to an expression, as of now.
    pub fn query(&self, expression: &str) -> Result<Vec<Series>> {
        let told = || format!("Prometheus cannot answer {expression:?}");
        let reply = self.get(&format!("/api/v1/query?query={}", escaped(expression))).with_context(told)?;
        series(&reply.body).with_context(told)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // Its files go with the stage's directory, which must not be written to any more.
        let _gone_already = self.process.signal(Signal::SIGTERM);
        let _ended = self.process.wait(Duration::from_secs(5));
    }
}

/// Everything but letters and digits as `%XX`.
fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// Reads an answer of `/api/v1/query`; a number without labels is a series without labels.
fn series(body: &str) -> Result<Vec<Series>> {
    let answer: Value = serde_json::from_str(body).with_context(|| format!("no JSON: {body:?}"))?;
    if answer["status"] != "success" {
        bail!("{}", answer["error"].as_str().unwrap_or(body));
    }
    let (kind, result) = (&answer["data"]["resultType"], &answer["data"]["result"]);
    let value = |pair: &Value| -> Result<f64> {
        let text = pair[1].as_str().context("a value that is no text")?;
        text.parse().with_context(|| format!("{text:?} is no number"))
    };
    if kind == "scalar" {
        return Ok(vec![Series { labels: BTreeMap::new(), value: value(result)? }]);
    }
    let result = result.as_array().with_context(|| format!("no series: {body}"))?;
    result
        .iter()
        .map(|one| {
            let labels = serde_json::from_value(one["metric"].clone()).context("labels that are no texts")?;
            Ok(Series { labels, value: value(&one["value"])? })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises answers of Prometheus's API so that nothing found, a number and an error are told apart.
    #[test]
    fn answers() {
        let vector = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"a"},"value":[1780211554.2,"2"]},{"metric":{},"value":[1,"NaN"]}]}}"#;
        let found = series(vector).unwrap();
        assert_eq!(found[0].labels["pod"], "a");
        assert!(found[0].value == 2.0 && found[1].value.is_nan());
        let empty = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
        assert_eq!(series(empty).unwrap(), []);
        let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"7"]}}"#;
        assert_eq!(series(scalar).unwrap()[0].value, 7.0);
        let wrong = r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#;
        assert!(series(wrong).unwrap_err().to_string().contains("parse error"));
        assert!(series("<html>").is_err());
    }

    /// Exercises an expression in an address so that none of its characters means something there.
    #[test]
    fn expressions_in_addresses() {
        assert_eq!(escaped("a{b=\"c d\"} > 1"), "a%7Bb%3D%22c%20d%22%7D%20%3E%201");
    }
}
