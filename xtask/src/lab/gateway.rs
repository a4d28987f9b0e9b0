//! A gateway's pod, from its start to its deletion by a kubelet.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;

use super::{
    Programs,
    plan::{Mode, Timing},
    sampler::Sampler,
    topology::{DEVICE, Place, Slot, Topology},
    worker::Worker,
};
use crate::stage::{
    counts::Counts,
    envoy::{self, Envoy, text},
    hc::Hc,
    interrupt,
    pod::{self, Container, Pod},
    wire::Capture,
};

/// Segments that begin or end connections, of the requests and of the health checks.
pub(super) const ENDS: &str =
    "tcp and (port 8000 or port 8080 or port 18180) and tcp[tcpflags] & (tcp-syn|tcp-fin|tcp-rst) != 0";

/// A pod that runs. Dropped in this order: what looks on, the containers, the pod, its namespace.
#[derive(Debug)]
pub(super) struct Gateway {
    sampler: Sampler,
    capture: Capture,
    envoy: Envoy,
    hc: Hc,
    app: Container,
    pod: Pod,
    place: Place,
    pub(super) name: String,
    pub(super) slot: Slot,
    /// What gt counted of it before its first request.
    pub(super) before: Counts,
}

/// What a pod leaves behind, or has by now.
#[derive(Clone, Debug)]
pub(super) struct Traces {
    pub(super) name: String,
    pub(super) slot: Slot,
    /// Whether it was deleted.
    pub(super) gone: bool,
    /// Envoy's own counters, of one that is gone just before it was told to end.
    pub(super) envoy: BTreeMap<String, u64>,
    /// What gt had counted of it before its first request.
    pub(super) before: Counts,
    /// What was on its wire.
    pub(super) packets: Vec<String>,
    /// The sidecar's log, as `kubectl logs` would show it.
    pub(super) hc: String,
}

impl Gateway {
    /// Starts the pod `name` in a slot of its worker, and waits until its containers listen.
    pub(super) fn start(
        worker: &Worker,
        slot: Slot,
        name: &str,
        timing: &Timing,
        programs: &Programs,
        artifacts: &Path,
    ) -> Result<Self> {
        let place = Topology::pod(slot, &worker.netns)?;
        let netns = Arc::clone(&place.netns);
        let pod = Pod::create(&netns, &worker.node, pod::NAMESPACE, name)?;
        let me = env::current_exe().context("cannot find this program's own file")?;
        let listen = envoy::APP.to_string();
        let mut app = pod.start("app", &[text(&me)?, "demo-app", "--listen", &listen], &[])?;
        let envoy = Envoy::start(&pod, &programs.envoy, &worker.node)?;
        app.listens(envoy::APP)?;
        let file = artifacts.join(format!("{name}.pcap"));
        let capture = Capture::start(&netns, DEVICE, ENDS, Some(&file))?;
        let asked = Arc::clone(&netns);
        // Last, as Istio's holdApplicationUntilProxyStarts has it: it tells the load balancer 200 whether the gateway
        // listens or not.
        let seconds = |length: Duration| format!("{}ms", length.as_millis());
        let (poll, drain_timeout, lb_buffer) =
            (seconds(timing.poll), seconds(timing.drain_timeout), seconds(timing.lb_buffer));
        let settings =
            [("POLL_INTERVAL", &*poll), ("DRAIN_TIMEOUT", &*drain_timeout), ("LB_BUFFER", &*lb_buffer)];
        let hc = Hc::start(&pod, &programs.hc, &settings)?;
        let sampler = Sampler::start(&artifacts.join("envoy-active.tsv"), timing.poll, move |stamp| {
            let active = envoy::active(&asked).ok()?;
            Some(format!("{stamp}\t{}\n", active.trim().replace('\n', " ")))
        })?;
        Ok(Self {
            sampler,
            capture,
            envoy,
            hc,
            app,
            pod,
            place,
            name: name.to_owned(),
            slot,
            before: Counts::nothing(),
        })
    }

    /// Waits until so many requests are in flight in it.
    pub(super) fn in_flight(&self, count: u64) -> Result<()> {
        interrupt::wait_for("Envoy to have the requests", Duration::from_secs(20), || {
            let active = self.envoy.stats()?.get("downstream_rq_active").copied();
            Ok((active.unwrap_or_default() >= count).then_some(()))
        })
    }

    /// Deletes it as a kubelet does: the sidecar's preStop command and SIGTERM, SIGTERM to the gateway as long after it as
    /// Istio's agent waits, here until the sidecar has ended; SIGKILL to what is left when the grace period is over; then
    /// namespace, cgroup and logs go.
    pub(super) fn delete(mut self, mode: Mode, grace: Duration, artifacts: &Path) -> Result<Traces> {
        let deadline = Instant::now() + grace;
        let left = || deadline.saturating_duration_since(Instant::now());
        match mode {
            Mode::Current => {
                self.hc.call("/drain")?;
                let state = self.hc.call("/close-lb")?;
                ensure!(state == "CLOSING", "gt-hc is in {state} after /close-lb");
            }
            Mode::Improved => {
                let mut drain = self.hc.drain()?;
                interrupt::wait_for("gt-hc drain to end", left(), || drain.wait(Duration::ZERO))?;
            }
        }
        end(self.hc.container(), left())?;
        let envoy = self.envoy.stats()?;
        end(self.envoy.container(), left())?;
        // It has no handler, and nothing to wait for.
        end(&mut self.app, left())?;

        let Self { sampler, capture, envoy: mut gateway, mut hc, app, pod, place, name, slot, before } = self;
        drop(sampler);
        let packets = capture.finish()?;
        let log = copy_log(hc.container().log(), &artifacts.join("hc.log"))?;
        copy_log(gateway.container().log(), &artifacts.join("envoy.log"))?;
        drop((gateway, hc, app));
        drop(place);
        pod.remove()?;
        Ok(Traces { name, slot, gone: true, before, envoy, packets, hc: log })
    }

    /// What it has left behind by now.
    pub(super) fn traces(&self) -> Result<Traces> {
        Ok(Traces {
            name: self.name.clone(),
            slot: self.slot,
            gone: false,
            before: self.before.clone(),
            envoy: self.envoy.stats()?,
            packets: self.capture.lines(),
            hc: String::new(),
        })
    }
}

/// SIGTERM, and SIGKILL when that has not ended it in time.
fn end(container: &mut Container, limit: Duration) -> Result<()> {
    container.signal(Signal::SIGTERM)?;
    if container.ended(limit)?.is_none() {
        container.end(Signal::SIGKILL)?;
    }
    Ok(())
}

/// Appends a container's log to a file: `<time> <line>`; gives what it appended without the times.
fn copy_log(from: &Path, to: &Path) -> Result<String> {
    let text = fs::read_to_string(from).with_context(|| format!("cannot read {}", from.display()))?;
    let (mut stamped, mut plain) = (String::new(), String::new());
    for line in text.lines() {
        // `<time> stdout F <line>`
        let mut parts = line.splitn(4, ' ');
        let (Some(at), Some(_), Some(_), Some(words)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        for part in [at, " ", words, "\n"] {
            stamped.push_str(part);
        }
        for part in [words, "\n"] {
            plain.push_str(part);
        }
    }
    super::artifacts::append(to, &stamped)?;
    Ok(plain)
}
