//! One round of a play, from the start of its pods to the end of what all witnesses say about it.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::{
    Programs, alerts,
    artifacts::{self, append},
    clients::{Answer, Asked},
    deletion,
    gateway::{ENDS, Gateway, Traces},
    hc_word, judge,
    load::Load,
    plan::{Play, Which},
    record::{self, Client, HaProxy, Pod, Record},
    sampler::Sampler,
    scene::{Scene, slots},
    story::Story,
    topology::{DEVICE, FRONTEND_PORT, Slot, UPLINK},
};
use crate::stage::{
    counts::Counts,
    envoy, interrupt,
    lb::{self, Checked},
    scrape::Scrape,
    wire::{self, Capture},
};

/// Looks in a row that find the same, before a round is over.
const LOOKS: usize = 3;

/// Until a verdict is told, some six seconds after a pod's end; and as long again on a busy machine.
const SETTLED: Duration = Duration::from_secs(25);

/// How a round ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) record: Record,
    pub(super) disagreements: Vec<String>,
}

/// What looks on from places that stay. Dropped in this order.
struct Watch {
    stat: Sampler,
    client: Capture,
    lb: Vec<Capture>,
    workers: Vec<Capture>,
    log_from: usize,
}

/// Plays it; an error is a round that could not be played, and no disagreement.
pub(super) fn play(
    scene: &mut Scene,
    play: &Play,
    programs: &Programs,
    directory: &Path,
    story: &Story,
) -> Result<Ended> {
    let slots = slots(play);
    let watch = Watch::start(scene, play, directory)?;
    let mut standing = Vec::new();
    for slot in &slots {
        standing.push(start(scene, play, *slot, programs, directory)?);
    }
    for slot in &slots {
        scene.lb.wait_for(&slot.server(), Checked::is_up)?;
    }
    story.tell(&format!("{} pods are UP; gt-daemon on each worker watches its own", slots.len()));

    alerts::sees(&scene.prometheus, &standing)?;
    let is_loaded = play.scenario == Which::S3;
    let load = is_loaded.then(|| Load::start(&scene.topology.client, scene.workdir())).transpose()?;
    let (mut client, mut gone) = (Client::default(), Vec::new());
    for (number, slot) in slots.iter().enumerate() {
        let gateway = standing.remove(0);
        client.answers.extend(drain(scene, play, *slot, gateway, &mut gone, story)?);
        if load.is_some() {
            standing.push(start(scene, play, *slot, programs, directory)?);
            scene.lb.wait_for(&slot.server(), Checked::is_up)?;
            story.tell(&format!("pod {} of {} is replaced", number + 1, slots.len()));
        }
    }
    if let Some(load) = load {
        client.load = load.end()?;
    }
    append(&directory.join("curl.out"), &record::curl(&client, |_| true))?;
    story.tell("waiting for the last words of all witnesses, gt's verdict among them");
    let mut ended = settle(scene, play, &watch, &client, &gone, &standing)?;
    ended.disagreements.extend(alerts::disagreements(&scene.prometheus, play, &ended.record, directory)?);
    ended.disagreements.extend(keep(scene, play, &ended.record, &gone, directory)?);
    watch.end()?;
    for gateway in standing {
        gateway.leave()?;
    }
    Ok(ended)
}

/// Starts a pod in a slot, waits until the daemon watches it, and puts it on the network: so gt and tcpdump count from the same
/// packet on.
fn start(
    scene: &mut Scene,
    play: &Play,
    slot: Slot,
    programs: &Programs,
    directory: &Path,
) -> Result<Gateway> {
    static MADE: AtomicUsize = AtomicUsize::new(1);
    let name = format!("istio-ingressgateway-6d8f9c7b5-{:05}", MADE.fetch_add(1, Ordering::Relaxed));
    // What is one pod's own stands in a directory of its own where there are several.
    let directory = if play.pods() > 1 { directory.join(&name) } else { directory.to_owned() };
    artifacts::make(&directory)?;
    let worker = scene.workers.get(slot.worker).context("a slot of a worker that is not there")?;
    let mut gateway = Gateway::start(&scene.api, worker, slot, &name, &play.timing, programs, &directory)?;
    let daemon = &mut scene.worker(slot)?.daemon;
    daemon.watches(&name)?;
    // While its containers came up they were asked whether they listen yet, and refused that by RSTs on its loopback.
    gateway.plug(Counts::of(&daemon.scrape()?, &name))?;
    Ok(gateway)
}

/// Asks a pod for something long, deletes it meanwhile, and gives what the clients saw.
fn drain(
    scene: &Scene,
    play: &Play,
    slot: Slot,
    gateway: Gateway,
    gone: &mut Vec<Traces>,
    story: &Story,
) -> Result<Vec<Answer>> {
    let timing = play.timing;
    let paths = judge::aimed(play.scenario, timing.asked.as_millis());
    let limit = timing.asked * 2 + Duration::from_secs(10);
    let asked = paths
        .iter()
        .map(|path| Asked::begin(&scene.topology.client, &format!("{path}&at={}", slot.server()), limit))
        .collect::<Result<Vec<_>>>()?;
    gateway.in_flight(paths.len() as u64)?;
    interrupt::pause(timing.delete_after)?;
    story.tell(&format!("pod {} is deleted with {} long requests in flight", gateway.name, paths.len()));
    gone.push(gateway.delete(play.mode, timing.grace, story)?);
    let answers = asked.into_iter().map(|asked| asked.answer(limit)).collect::<Result<Vec<_>>>()?;
    let whole = answers.iter().filter(|answer| answer.good()).count();
    story.tell(&format!("it is gone; {whole} of {} long requests had their whole answers", answers.len()));
    Ok(answers)
}

impl Watch {
    fn start(scene: &Scene, play: &Play, directory: &Path) -> Result<Self> {
        let stat = directory.join(artifacts::STAT);
        append(&stat, &artifacts::stat_head())?;
        let socket = scene.lb.socket().to_owned();
        let stat = Sampler::start(&stat, play.timing.poll, move |stamp| {
            artifacts::stat_rows(stamp, &lb::command_on(&socket, "show stat").ok()?)
        })?;
        let pcap = |name: &str| directory.join(format!("{name}.pcap"));
        let workers = scene.topology.workers.iter().enumerate().map(|(number, netns)| {
            Capture::start(netns, UPLINK, ENDS, Some(&pcap(&format!("worker{}", number + 1))))
        });
        // One for each: a capture of all devices has been seen to miss an RST that answers a segment at once.
        let port = |number: usize| {
            let worker = format!("worker{number}");
            Capture::start(&scene.topology.lb, &worker, ENDS, Some(&pcap(&format!("lb-{worker}"))))
        };
        Ok(Self {
            stat,
            client: Capture::start(&scene.topology.client, DEVICE, ENDS, Some(&pcap("client")))?,
            lb: (1..=scene.workers.len()).map(port).collect::<Result<_>>()?,
            workers: workers.collect::<Result<_>>()?,
            log_from: scene.lb.log().length(),
        })
    }

    /// Ends it; an error when a capture lost anything.
    fn end(self) -> Result<()> {
        drop(self.stat);
        self.lb
            .into_iter()
            .chain(self.workers)
            .chain([self.client])
            .try_for_each(|capture| capture.finish().map(drop))
    }
}

/// Waits until all witnesses agree, and go on to; or until they have had time enough.
fn settle(
    scene: &mut Scene,
    play: &Play,
    watch: &Watch,
    client: &Client,
    gone: &[Traces],
    standing: &[Gateway],
) -> Result<Ended> {
    let until = Instant::now() + SETTLED;
    let mut agreed = 0;
    loop {
        interrupt::pause(Duration::from_millis(100))?;
        let record = look(scene, watch, client, gone, standing)?;
        let disagreements = judge::disagreements(play, &record);
        agreed = if disagreements.is_empty() { agreed + 1 } else { 0 };
        if agreed == LOOKS || Instant::now() > until {
            return Ok(Ended { record, disagreements });
        }
    }
}

fn look(
    scene: &mut Scene,
    watch: &Watch,
    client: &Client,
    gone: &[Traces],
    standing: &[Gateway],
) -> Result<Record> {
    let mut traces = gone.to_vec();
    for gateway in standing {
        traces.push(gateway.traces()?);
    }
    let mut scrapes: Vec<Scrape> = Vec::new();
    for worker in &mut scene.workers {
        worker.daemon.running()?;
        scrapes.push(worker.daemon.scrape()?);
    }
    let pods = traces.iter().map(|traces| {
        let scrape = scrapes.get(traces.slot.worker).context("a slot of a worker that is not there")?;
        Ok(Pod::of(traces, scrape))
    });
    let lines = |captures: &[Capture]| captures.iter().flat_map(Capture::lines).collect::<Vec<_>>();
    Ok(Record {
        client: client.clone(),
        haproxy: HaProxy::of(&scene.lb.log().after(watch.log_from)),
        at_lb: wire::packets(&lines(&watch.lb), envoy::PORT),
        at_workers: wire::packets(&lines(&watch.workers), envoy::PORT),
        at_client: wire::packets(&watch.client.lines(), FRONTEND_PORT),
        pods: pods.collect::<Result<_>>()?,
    })
}

/// Puts what is not there yet among the artifacts: HAProxy's log, and what the daemons say; and tells in what their records differ
/// from what was played.
fn keep(
    scene: &Scene,
    play: &Play,
    record: &Record,
    gone: &[Traces],
    directory: &Path,
) -> Result<Vec<String>> {
    append(&directory.join("haproxy.log"), &(record.haproxy.lines.join("\n") + "\n"))?;
    scene.keep_daemons(directory)?;
    let mut found = Vec::new();
    for traces in gone {
        let told = record.pods.iter().find(|pod| pod.name == traces.name);
        if told.is_some_and(|pod| pod.gt.verdicts.as_ref().is_some_and(|told| !told.is_empty())) {
            let log = &record.haproxy.lines;
            let kept =
                scene.take_record(traces.slot, &traces.name, log, &traces.directory.join("gt-record"))?;
            found.extend(record_against(&kept, play, traces)?);
        }
        if traces.directory != directory {
            share(record, &traces.slot.server(), directory, &traces.directory)?;
        }
    }
    Ok(found)
}

/// In what gt's record differs from what was played, and from the sidecar's own log.
fn record_against(kept: &Path, play: &Play, traces: &Traces) -> Result<Vec<String>> {
    let read = |name: &str| {
        let file = kept.join(name);
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    };
    let (timeline, intervals) = (read("timeline.jsonl")?, read("intervals.json")?);
    let deletion = traces.deletion.context("a pod that is gone without a deletion")?;
    // Of streams nobody can be certain.
    let killed = Some(traces.killed).filter(|count| *count > 0 && !play.http2);
    let mut found = deletion::disagreements(&timeline, &intervals, deletion, killed)?;
    found.extend(hc_word::disagreements(&timeline, &traces.hc)?);
    Ok(found.into_iter().map(|what| format!("pod {}: {what}", traces.name)).collect())
}

/// Gives a pod that has a directory of its own what the witnesses of all pods say of its server, so that it stands for itself.
fn share(record: &Record, server: &str, from: &Path, to: &Path) -> Result<()> {
    let log: Vec<_> =
        record.haproxy.lines.iter().filter(|line| line.contains(&format!("/{server} "))).cloned().collect();
    append(&to.join("haproxy.log"), &(log.join("\n") + "\n"))?;
    append(
        &to.join("curl.out"),
        &record::curl(&record.client, |path| path.ends_with(&format!("at={server}"))),
    )?;
    let stat = from.join(artifacts::STAT);
    let text = fs::read_to_string(&stat).with_context(|| format!("cannot read {}", stat.display()))?;
    let rows = text.lines().filter(|row| row.starts_with('#') || row.contains(&format!(",{server},")));
    append(&to.join(artifacts::STAT), &rows.map(|row| format!("{row}\n")).collect::<String>())
}
