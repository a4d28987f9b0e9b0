//! The stage of one play: everything that stays while pods come and go.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result, anyhow};

use super::{
    Programs,
    artifacts::append,
    lb_word,
    plan::Play,
    topology::{FRONTEND, Slot, Topology, WORKERS},
    worker::Worker,
};
use crate::{
    deploy::rules,
    sandbox::Netns,
    stage::{
        api::Api,
        client,
        lb::{self, Checked, EXPORTER, LoadBalancer},
        prometheus::Prometheus,
        serve::{Response, Server},
        workdir::Workdir,
    },
};

/// Dropped in this order: the scraper, the daemons, the API server, the load balancer, the namespaces, the files.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) prometheus: Prometheus,
    _exporter: Server,
    pub(super) workers: Vec<Worker>,
    pub(super) api: Arc<Api>,
    pub(super) lb: LoadBalancer,
    pub(super) topology: Topology,
    workdir: Workdir,
}

impl Scene {
    /// Starts it, with a load balancer that finds no pod yet.
    pub(super) fn start(play: &Play, programs: &Programs) -> Result<Self> {
        let workdir = Workdir::create()?;
        let topology = Topology::create()?;
        let slots = slots(play);
        let aims = slots.iter().map(|slot| {
            let server = slot.server();
            format!("use-server {server} if {{ url_param(at) {server} }}")
        });
        let config = lb::Config {
            inter: play.timing.inter,
            http2: play.http2,
            // Else each client has connections of its own to the pods, and few streams share one.
            // And a client that opens a connection and needs it no more has asked for nothing.
            options: vec!["http-reuse always", "option dontlognull"],
            backend: aims.collect(),
            server_options: String::new(),
            listen: FRONTEND,
            servers: slots.iter().map(|slot| (slot.server(), slot.gateway())).collect(),
        };
        let mut lb = LoadBalancer::launch(&topology.lb, workdir.path(), &config)?;
        for slot in &slots {
            lb.wait_for(&slot.server(), Checked::is_down)?;
        }
        let api = Arc::new(Api::start()?);
        let mut workers = Vec::new();
        for (number, netns) in topology.workers.iter().enumerate() {
            let name = format!("worker{}", number + 1);
            let node = workdir.path().join(&name);
            workers.push(Worker::start(netns, &name, node, &api, lb.socket(), programs)?);
        }
        let targets: Vec<_> =
            workers.iter().map(|worker| (worker.name.clone(), worker.daemon.address())).collect();
        let exporter = relay(&topology.lb)?;
        let prometheus = Prometheus::start(&targets, exporter.address(), &rules::base()?, workdir.path())?;
        Ok(Self { prometheus, _exporter: exporter, workers, api, lb, topology, workdir })
    }

    /// Where files may be put that go with it.
    pub(super) fn workdir(&self) -> &Path {
        self.workdir.path()
    }

    /// The worker of a slot.
    pub(super) fn worker(&mut self, slot: Slot) -> Result<&mut Worker> {
        self.workers.get_mut(slot.worker).context("a slot of a worker that is not there")
    }

    /// Keeps what the daemons export and wrote, and all that HAProxy logged so far; a daemon that has ended exports nothing.
    pub(super) fn keep_words(&self, directory: &Path) -> Result<()> {
        let lines: Vec<_> = self.lb.log().after(0).iter().map(|line| format!("{line}\n")).collect();
        append(&directory.join("haproxy.log"), &lines.concat())?;
        self.keep_daemons(directory)
    }

    /// The daemons' part of it.
    pub(super) fn keep_daemons(&self, directory: &Path) -> Result<()> {
        for (number, worker) in self.workers.iter().enumerate() {
            let file = |what: &str| directory.join(format!("gt-worker{}.{what}", number + 1));
            if let Ok(metrics) = worker.daemon.metrics() {
                append(&file("metrics"), &metrics)?;
            }
            fs::copy(worker.log(), file("log"))
                .with_context(|| format!("cannot copy {}", worker.log().display()))?;
        }
        Ok(())
    }

    /// Adds to an error what the daemons wrote.
    pub(super) fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        self.workers.iter().fold(error, |error, worker| worker.daemon.explain(error))
    }

    /// Takes the record of a pod's drain from where its daemon wrote it, to be judged by HAProxy's log of the round; gives where it is
    /// now.
    pub(super) fn take_record(&self, slot: Slot, pod: &str, log: &[String], to: &Path) -> Result<PathBuf> {
        let worker = self.workers.get(slot.worker).context("a slot of a worker that is not there")?;
        let from = worker.records();
        let told = || format!("cannot take the record of pod {pod} from {}", from.display());
        for entry in fs::read_dir(&from).with_context(told)? {
            let path = entry.with_context(told)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !name.contains(&format!("_{pod}_")) {
                continue;
            }
            let to = to.join(name);
            fs::create_dir_all(&to).with_context(told)?;
            for file in files(&path).with_context(told)? {
                let name = file.file_name().unwrap_or_default();
                fs::copy(&file, to.join(name)).with_context(told)?;
            }
            let timeline = fs::read_to_string(to.join("timeline.jsonl")).with_context(told)?;
            lb_word::compare(&timeline, log, &slot.server()).with_context(|| format!("pod {pod}"))?;
            return Ok(to);
        }
        Err(anyhow!("gt-daemon has told the verdict of pod {pod} and left no record in {}", from.display()))
    }
}

fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect()
}

/// Where a play has its pods: on both workers where there are several.
pub(super) fn slots(play: &Play) -> Vec<Slot> {
    (0..play.pods())
        .map(|number| Slot {
            worker: number % WORKERS,
            place: u8::try_from(number / WORKERS).unwrap_or(u8::MAX),
        })
        .collect()
}

/// HAProxy's exporter where Prometheus finds it, which is in no namespace of the lab.
fn relay(lb: &Arc<Netns>) -> Result<Server> {
    let lb = Arc::clone(lb);
    Server::start(move |request| match client::ask(&lb, EXPORTER, &request.method, &request.path) {
        Ok(reply) => Response::new(reply.status, reply.body),
        Err(error) => Response::new(503, format!("{error:#}\n")),
    })
}
