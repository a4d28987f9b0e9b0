//! A gateway's pod, from its start to its deletion by a kubelet.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;

use super::{
    Programs,
    api_pod::{ApiPod, Deletion},
    plan::{Mode, Timing},
    sampler::Sampler,
    story::Story,
    topology::{DEVICE, Place, Slot, Topology},
    worker::Worker,
};
use crate::{
    sandbox::Process,
    stage::{
        api::Api,
        counts::Counts,
        envoy::{self, Envoy, text},
        hc::Hc,
        interrupt,
        pod::{self, Container, Pod},
        resets,
        wire::Capture,
    },
};

/// Segments that begin or end connections, of the requests and of the health checks.
pub(super) const ENDS: &str =
    "tcp and (port 8000 or port 8080 or port 18180) and tcp[tcpflags] & (tcp-syn|tcp-fin|tcp-rst) != 0";

/// At a pod every segment: what an RST meets there follows from the acknowledgements before it.
const ALL: &str = "tcp and (port 8080 or port 18180)";

/// From the deletion mark to the preStop command; as long as a kubelet 1.34 took.
const KUBELETS_FIRST: Duration = Duration::from_millis(200);

/// How long the kubelet goes on after the grace period, until it gives up a preStop command, and from SIGTERM to SIGKILL.
const KUBELETS_LAST: Duration = Duration::from_secs(2);

/// For the last words between the pod and its peers, before it is taken off the network.
const PARTING: Duration = Duration::from_secs(3);

/// A pod that runs. Dropped in this order: what looks on, the containers, the pod, its namespace, and its object in the API.
#[derive(Debug)]
pub(super) struct Gateway {
    sampler: Sampler,
    capture: Capture,
    envoy: Envoy,
    hc: Hc,
    app: Container,
    pod: Pod,
    place: Place,
    object: ApiPod,
    pub(super) name: String,
    pub(super) slot: Slot,
    /// Where what it leaves behind goes.
    directory: PathBuf,
    /// What gt had counted of it before it was on the network.
    before: Counts,
}

/// What a pod leaves behind, or has by now.
#[derive(Clone, Debug)]
pub(super) struct Traces {
    pub(super) name: String,
    pub(super) slot: Slot,
    pub(super) directory: PathBuf,
    /// Of one that was deleted.
    pub(super) deletion: Option<Deletion>,
    /// Envoy's own counters, of one that is gone just before it was told to end.
    pub(super) envoy: BTreeMap<String, u64>,
    /// Requests that Envoy had in flight when it was killed.
    pub(super) killed: u64,
    /// What gt had counted of it before it was on the network.
    pub(super) before: Counts,
    /// What was on its wire.
    pub(super) packets: Arc<Vec<String>>,
    /// The sidecar's log, as `kubectl logs` would show it.
    pub(super) hc: String,
}

impl Gateway {
    /// Starts the pod `name` in a slot of its worker, and waits until its containers listen. It is not on the network yet.
    pub(super) fn start(
        api: &Arc<Api>,
        worker: &Worker,
        slot: Slot,
        name: &str,
        timing: &Timing,
        programs: &Programs,
        directory: &Path,
    ) -> Result<Self> {
        let place = Topology::pod(slot, &worker.netns)?;
        let netns = Arc::clone(&place.netns);
        let pod = Pod::create(&netns, &worker.node, pod::NAMESPACE, name)?;
        let mut object = ApiPod::bind(api, &pod, name, &worker.name, timing.grace)?;
        let me = env::current_exe().context("cannot find this program's own file")?;
        let listen = envoy::APP.to_string();
        let mut app = pod.start("app", &[text(&me)?, "demo-app", "--listen", &listen], &[])?;
        let mut envoy = Envoy::start(&pod, &programs.envoy, &worker.node)?;
        app.listens(envoy::APP)?;
        let capture = Capture::start(&netns, DEVICE, ALL, Some(&directory.join(format!("{name}.pcap"))))?;
        let asked = Arc::clone(&netns);
        // Last, as Istio's holdApplicationUntilProxyStarts has it: it tells the load balancer 200 whether the gateway
        // listens or not.
        let seconds = |length: Duration| format!("{}ms", length.as_millis());
        let (poll, drain_timeout, lb_buffer) =
            (seconds(timing.poll), seconds(timing.drain_timeout), seconds(timing.lb_buffer));
        let settings =
            [("POLL_INTERVAL", &*poll), ("DRAIN_TIMEOUT", &*drain_timeout), ("LB_BUFFER", &*lb_buffer)];
        let mut hc = Hc::start(&pod, &programs.hc, &settings)?;
        object.run(slot.address(), &[envoy.container(), hc.container(), &app]);
        let sampler = Sampler::start(&directory.join("envoy-active.tsv"), timing.poll, move |stamp| {
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
            object,
            name: name.to_owned(),
            slot,
            directory: directory.to_owned(),
            before: Counts::nothing(),
        })
    }

    /// Puts it on the network, when gt has counted `before` of it.
    pub(super) fn plug(&mut self, before: Counts) -> Result<()> {
        self.before = before;
        self.place.plug()
    }

    /// Waits until so many requests are in flight in it.
    pub(super) fn in_flight(&self, count: u64) -> Result<()> {
        interrupt::wait_for("Envoy to have the requests", Duration::from_secs(20), || {
            Ok((active(&self.envoy.stats()?) >= count).then_some(()))
        })
    }

    /// Deletes it as a kubelet does: the deletion mark in the API; the sidecar's preStop command and SIGTERM, SIGTERM to the gateway
    /// as long after it as Istio's agent waits, here until the sidecar has ended; SIGKILL to what is left when the grace period is
    /// over; then namespace, cgroup, its object in the API and its logs go.
    pub(super) fn delete(mut self, mode: Mode, grace: Duration, story: &Story) -> Result<Traces> {
        let deadline = Instant::now() + grace;
        let left = || deadline.saturating_duration_since(Instant::now());
        let deletion = self.object.mark()?;
        interrupt::pause(KUBELETS_FIRST)?;
        let (mut killed, mut is_killed) = (0, false);
        let prestop = self.prestop(mode, left())?;
        let envoy = if let Some(prestop) = prestop {
            is_killed = true;
            story.tell("the grace period is over before the preStop command: SIGKILL to the gateway");
            let envoy = self.envoy.stats()?;
            killed = active(&envoy);
            self.envoy.kill()?;
            interrupt::pause(KUBELETS_LAST)?;
            drop(prestop);
            end(self.hc.container(), KUBELETS_LAST)?;
            envoy
        } else {
            end(self.hc.container(), left())?;
            let envoy = self.envoy.stats()?;
            end(self.envoy.container(), left())?;
            envoy
        };
        // It has no handler, and nothing to wait for.
        end(&mut self.app, left())?;
        self.object.end(!is_killed);
        self.part()?;
        self.place.unplug()?;

        let Self {
            sampler,
            capture,
            envoy: mut gateway,
            mut hc,
            app,
            pod,
            place,
            object,
            name,
            slot,
            directory,
            before,
        } = self;
        drop(sampler);
        let packets = Arc::new(capture.finish()?);
        let log = copy_log(hc.container().log(), &directory.join("hc.log"))?;
        copy_log(gateway.container().log(), &directory.join("envoy.log"))?;
        drop((gateway, hc, app));
        drop(place);
        pod.remove(move || drop(object))?;
        let deletion = Some(deletion);
        Ok(Traces { name, slot, directory, deletion, envoy, killed, before, packets, hc: log })
    }

    /// Runs the preStop command; what goes on when the grace period is over.
    fn prestop(&self, mode: Mode, limit: Duration) -> Result<Option<Process>> {
        if mode == Mode::Current {
            self.hc.call("/drain")?;
            let state = self.hc.call("/close-lb")?;
            ensure!(state == "CLOSING", "gt-hc is in {state} after /close-lb");
            return Ok(None);
        }
        let until = Instant::now() + limit;
        let mut drain = self.hc.drain()?;
        while Instant::now() < until {
            interrupt::pause(Duration::from_millis(10))?;
            if drain.wait(Duration::ZERO)?.is_some() {
                return Ok(None);
            }
        }
        Ok(Some(drain))
    }

    /// Waits until the connections of its users are over on the wire, at most as long as peers should need.
    fn part(&self) -> Result<()> {
        let until = Instant::now() + PARTING;
        while !resets::all_over(&self.capture.lines(), self.slot.address().into(), envoy::PORT)
            && Instant::now() < until
        {
            interrupt::pause(Duration::from_millis(10))?;
        }
        Ok(())
    }

    /// What it has left behind by now.
    pub(super) fn traces(&self) -> Result<Traces> {
        Ok(Traces {
            name: self.name.clone(),
            slot: self.slot,
            directory: self.directory.clone(),
            deletion: None,
            before: self.before.clone(),
            envoy: self.envoy.stats()?,
            killed: 0,
            packets: Arc::new(self.capture.lines()),
            hc: String::new(),
        })
    }

    /// Ends one that stayed to the end, and keeps its logs.
    pub(super) fn leave(self) -> Result<()> {
        let Self { capture, mut hc, mut envoy, directory, .. } = self;
        capture.finish()?;
        copy_log(hc.container().log(), &directory.join("hc.log"))?;
        copy_log(envoy.container().log(), &directory.join("envoy.log")).map(drop)
    }
}

fn active(stats: &BTreeMap<String, u64>) -> u64 {
    stats.get("downstream_rq_active").copied().unwrap_or_default()
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
