//! `gt-daemon trace` and `drains` beside a real daemon: what happens is printed, and the end of a pod ends them with its verdict.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Output, Stdio},
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::{
    Case,
    conversations::pair::Pair,
    daemon::{Backend, Daemon, Shared, binary},
    scene::{Family, Scene},
};

pub fn cases(backend: Backend, skip: Option<&String>) -> Vec<Case> {
    let name = |what| format!("{}::trace::{what}", backend.name());
    vec![
        Case::new(name("a_cut_is_printed"), skip.cloned(), move || a_cut_is_printed(backend)),
        Case::new(name("the_end_of_a_pod"), skip.cloned(), move || the_end_of_a_pod(backend)),
    ]
}

/// How long a line may take on a machine that is emulated: no statement about gt.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `gt-daemon trace`, killed on drop.
struct Trace {
    child: Child,
    lines: Option<Receiver<String>>,
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Trace {
    fn start(daemon: &Daemon, arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(binary())
            .args(["trace", "--socket"])
            .arg(daemon.socket())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().context("no pipe")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    // The pipe closes with this thread.
                    return;
                }
            }
        });
        Ok(Self { child, lines: Some(lines) })
    }

    /// Waits for a line.
    fn until(&self, what: &str, is_it: impl Fn(&str) -> bool) -> Result<String> {
        let lines = self.lines.as_ref().context("nobody reads")?;
        let (end, mut seen) = (Instant::now() + PATIENCE, Vec::new());
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = lines.recv_timeout(left) else { bail!("no {what} among {seen:#?}") };
            if is_it(&line) {
                return Ok(line);
            }
            seen.push(line);
        }
    }

    /// As [`until`](Self::until), of JSON.
    fn message(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Result<Value> {
        let line = self.until(what, |line| serde_json::from_str(line).is_ok_and(|value| is_it(&value)))?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Waits for its end.
    fn code(&mut self) -> Result<i32> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait()? {
                return status.code().context("a signal ended it");
            }
            thread::sleep(Duration::from_millis(50));
        }
        bail!("it does not end");
    }
}

/// `gt-daemon` with a client's command, to its end.
fn client(daemon: &Daemon, command: &str, arguments: &[&str]) -> Result<Output> {
    let mut run = Command::new(binary());
    run.arg(command).arg("--socket").arg(daemon.socket()).args(arguments).stdin(Stdio::null());
    run.output().map_err(Into::into)
}

/// The user asks, the pod reads it and says nothing, and the user's side ends: a request is cut.
fn cut(scene: &Scene) -> Result<()> {
    let mut pair = Pair::inbound(scene)?;
    pair.request()?;
    drop(pair.peer_close()?);
    Ok(())
}

fn is_cut(pod: &str) -> impl Fn(&Value) -> bool {
    move |message| {
        message["event"] == "tcp_teardown"
            && message["pod"] == pod
            && message["word"] == "told"
            && message["evidence"] == "socket"
            && message["how"] == "fin_received"
            && message["phase"] == "awaiting"
    }
}

/// Exercises a cut in a pod that is traced by a part of its name, as JSON and in words; a reader that goes away, which is no error;
/// and a name that no pod has, which is one with the names there are.
fn a_cut_is_printed(backend: Backend) -> Result<()> {
    let daemon = Shared::of(backend)?;
    let scene = Scene::new(&daemon, Family::V4)?;
    let pod = scene.watched.name.clone();
    let part = pod.strip_prefix("gt-test-").context("another name")?;
    let json = Trace::start(&daemon.daemon, &["--pod", part, "-o", "json"])?;
    let mut lines = Trace::start(&daemon.daemon, &["--pod", &format!("test/{pod}"), "-o", "lines"])?;
    let status = json.message("state", |message| message["type"] == "pod")?;
    ensure!(status["pod"] == pod && status["cuts"] == 0 && status["hc"].is_null(), "{status}");
    lines.until("beginning", |line| line.contains("is watched"))?;
    cut(&scene)?;
    let told = json.message("cut", is_cut(&pod))?;
    ensure!(told["type"] == "fact" && told["connection"].is_u64() && told["sure"] == true, "{told}");
    json.message("state", |message| message["type"] == "pod" && message["cuts"] == 1)?;
    let line = lines.until("cut", |line| line.contains("CUT: fin_received"))?;
    ensure!(line.contains(&format!(" test/{pod} ")) && line.contains("evidence=socket"), "{line}");
    lines.lines = None;
    let gone = (0..20).find_map(|_| {
        cut(&scene).ok()?;
        thread::sleep(Duration::from_millis(200));
        lines.child.try_wait().ok()?
    });
    ensure!(gone.is_some_and(|status| status.success()), "its reader is gone, and it: {gone:?}");
    // The daemon is shared, and may have pods of other tests.
    let unknown = client(&daemon.daemon, "trace", &["--pod", &format!("test/{pod}x")])?;
    let said = String::from_utf8_lossy(&unknown.stderr);
    ensure!(unknown.status.code() == Some(1) && said.contains(&format!("there are test/{pod}")), "{said}");
    Ok(())
}

/// Exercises a pod that goes away while it is traced until then, so that the end comes by itself, with the code of the verdict that
/// was told, and the drain is listed.
fn the_end_of_a_pod(backend: Backend) -> Result<()> {
    let daemon = Arc::new(Shared::start(backend, &["--retain", "60"])?);
    let scene = Scene::new(&daemon, Family::V4)?;
    let pod = scene.watched.name.clone();
    let mut trace = Trace::start(&daemon.daemon, &["--pod", &pod, "-o", "json", "--until-gone"])?;
    trace.message("state", |message| message["type"] == "pod")?;
    cut(&scene)?;
    trace.message("cut", is_cut(&pod))?;
    let Scene { watched, pod: inner, peer, .. } = scene;
    drop(watched);
    trace.message("end", |message| message["event"] == "pod_gone")?;
    let verdict = trace.message("verdict", |message| message["type"] == "verdict")?;
    let expected = match verdict["verdict"].as_str() {
        Some("protected") => 0,
        Some("broken") => 2,
        Some("inconclusive") => 3,
        other => bail!("{other:?}"),
    };
    // Its sidecar told nothing of its end, so nobody can say that it was well.
    ensure!(expected != 0, "{verdict}");
    let code = trace.code()?;
    ensure!(code == expected, "{code} after {verdict}");
    let listed = client(&daemon.daemon, "drains", &["-o", "json"])?;
    let drains: Value = serde_json::from_slice(&listed.stdout)?;
    ensure!(drains[0]["pod"] == pod && drains[0]["verdict"] == verdict["verdict"], "{drains}");
    drop((inner, peer));
    Ok(())
}
