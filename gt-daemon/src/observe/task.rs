//! The task: takes in whatever comes, in the order in which it comes.

mod clocks;
mod kernel;
mod telling;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{MissedTickBehavior, interval},
};
use tracing::error;

use super::{
    board::Board,
    drains::Watch,
    feed::Feed,
    kernel::Kernel,
    lb::Lbs,
    losses::{Lost, Missed},
    pod::PodState,
    pulse::Pulse,
    readers::Makings,
    slots::joined,
    tell::tell,
    teller::Teller,
    wanted::Signs,
};
use crate::{
    api::desk::{Desk, Request},
    clock::Moment,
    correlate::Joins,
    dial::Dialler,
    drain::{fact::Source, ledger::Ledger, writer::Writer},
    envoy::reader::{self as envoy, Report},
    hc::{log::follower::Follower, observation::HcObservation, reader as hc},
    lb::reader::{self as lb, Heard},
    pods::owners::Owners,
    probes::events::Next,
};

/// How often the join looks at the time.
const TICK: Duration = Duration::from_millis(100);

/// Every so many ticks the kernel's counts of cuts are read.
const CUTS_EVERY: u64 = 5;

/// Every so many ticks the follower of logs is asked how it fares.
const LOGS_EVERY: u64 = 10;

/// How long a stop waits for records to be written.
const STOP: Duration = Duration::from_millis(500);

/// What is told and waits at most: at the fast pace a hundred pods say a thousand things in a second.
const ROOM: usize = 4096;

/// How pods are read.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub signs: Signs,
    /// The port is that of each pod.
    pub hc: hc::Settings,
    /// The endpoints are those of each pod.
    pub envoy: envoy::Settings,
    /// The LBs, which are asked while a pod drains.
    pub lb: lb::Settings,
    /// How long after a pod is gone its last connections are waited for, before its drain is judged without their end.
    pub patience: Duration,
    /// The name of this node, where it is known.
    pub node: Option<String>,
    /// How many may listen at a time.
    pub streams: usize,
}

/// What the observer works on.
#[derive(Clone, Debug)]
pub struct Parts {
    pub owners: Arc<Owners>,
    pub kernel: Arc<dyn Kernel>,
    pub joins: Arc<Mutex<Joins>>,
    pub board: Arc<Board>,
    pub ledger: Arc<Ledger>,
    /// Where records of drains go, when they are kept in files.
    pub writer: Option<Writer>,
    /// Jiffies in a second, to tell times in the log.
    pub hz: u32,
}

/// Reads what is inside pods, until its task is dropped.
#[derive(Debug)]
pub struct Observer {
    parts: Parts,
    signs: Signs,
    makings: Makings,
    events: mpsc::Receiver<Next>,
    hc_said: mpsc::Receiver<HcObservation>,
    envoy_said: mpsc::Receiver<Report>,
    changes: watch::Receiver<u64>,
    pods: BTreeMap<Arc<str>, PodState>,
    /// The number of the pods that are followed now.
    generation: u64,
    ticks: u64,
    lost: Lost,
    pulse: Pulse,
    /// What sidecars told and found no room.
    hc_lost: u64,
    drains: Watch,
    lb: Lbs,
    desk: Desk,
    requests: mpsc::Receiver<Request>,
    teller: Teller,
}

impl Observer {
    /// An observer and the way of the kernel's events to it. Its own network namespace is that of the calling
    /// thread; an error when the thread that follows logs cannot be started, or the namespace not be opened.
    pub fn new(settings: Settings, parts: Parts) -> io::Result<(Self, Feed)> {
        let (feed, events) = Feed::new(Arc::clone(&parts.board.events_lost));
        let (hc_sender, hc_said) = mpsc::channel(ROOM);
        let (envoy_sender, envoy_said) = mpsc::channel(ROOM);
        let makings = Makings {
            dialler: Dialler::new()?,
            follower: Follower::start(settings.hc.names.clone(), hc_sender.clone())?,
            hc: hc::Settings { meter: parts.board.hc.clone(), ..settings.hc },
            envoy: envoy::Settings { meter: parts.board.envoy.clone(), ..settings.envoy },
            hc_said: hc_sender,
            envoy_said: envoy_sender,
        };
        let changes = parts.owners.changes();
        let drains =
            Watch::new(settings.patience, &settings.lb, Arc::clone(&parts.ledger), parts.writer.clone());
        let (desk, requests) = Desk::new(settings.streams);
        let observer = Self {
            parts,
            signs: settings.signs,
            makings,
            events,
            hc_said,
            envoy_said,
            changes,
            pods: BTreeMap::new(),
            generation: 0,
            ticks: 0,
            lost: Lost::default(),
            pulse: Pulse::default(),
            hc_lost: 0,
            drains,
            lb: Lbs::new(settings.lb),
            desk,
            requests,
            teller: Teller::new(settings.node),
        };
        Ok((observer, feed))
    }

    /// Where words of LBs that are not asked may be brought: see [`webhook`](crate::lb::webhook).
    #[must_use]
    pub fn lb_door(&self) -> mpsc::Sender<Heard> {
        self.lb.door()
    }

    /// Where it can be asked.
    #[must_use]
    pub fn desk(&self) -> Desk {
        self.desk.clone()
    }

    /// Observes until `stop` is notified or dropped; then drains that go on are recorded as far as they are known.
    pub async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.follow();
        loop {
            tokio::select! {
                Some(next) = self.events.recv() => self.next(&next),
                Some(said) = self.hc_said.recv() => self.hc(&said),
                Some(report) = self.envoy_said.recv() => self.envoy(&report),
                Some(heard) = self.lb.next() => self.lb(heard),
                Ok(()) = self.changes.changed() => self.follow(),
                Some(request) = self.requests.recv() => self.answer(request),
                _ = ticks.tick() => self.tick(),
                _ = &mut stop => break,
            }
        }
        if !self.drains.stop(Moment::now(), STOP) {
            error!("records of drains that go on are not written: the disk is slow, or too many wait");
        }
    }

    /// Brings pods, readers and the join in step with what was published last.
    fn follow(&mut self) {
        // The number first: what is published between the two is followed once more.
        self.generation = *self.changes.borrow_and_update();
        let published = self.parts.owners.now();
        let now = Moment::now();
        let known: BTreeMap<_, _> =
            published.pods.iter().map(|followed| (&*followed.uid, &followed.uid)).collect();
        self.pods.retain(|uid, state| {
            // One that was forgotten and came back between two looks is another life of the same name.
            let stays = known.get(&**uid).is_some_and(|known| Arc::ptr_eq(known, &state.followed.uid));
            if !stays {
                self.makings.follower.forget(uid);
                self.parts.board.hide(uid);
            }
            stays
        });
        for followed in &published.pods {
            let state = match self.pods.entry(Arc::clone(&followed.uid)) {
                Entry::Occupied(known) if Arc::ptr_eq(&known.get().followed, followed) => continue,
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(PodState::new(followed)),
            };
            state.follow(followed, &self.signs, &self.makings, now);
            show(&self.parts.board, state, now);
        }
        let joined = joined(&published, &self.pods);
        self.joins().pods(&joined);
        self.drains.follow(&joined, &self.pods, now);
        self.teller.follow(&joined);
        self.spread(None, now);
    }

    fn next(&mut self, next: &Next) {
        match next {
            Next::Event(event) => {
                self.teller.event(event);
                let alarmed = self.joins().event(event);
                self.alarm(alarmed);
            }
            Next::Drained(until_ns) => {
                self.look_for_losses();
                self.joins().drained(*until_ns);
                self.judge();
            }
        }
    }

    fn alarm(&self, uids: impl IntoIterator<Item = Arc<str>>) {
        for state in uids.into_iter().filter_map(|uid| self.pods.get(&uid)) {
            state.alarm();
            self.lb.alarm(&state.followed.uid);
        }
    }

    /// Judges what can be judged by now.
    fn judge(&mut self) {
        let now = Moment::now();
        let judged = self.joins().tick(now);
        for judged in &judged {
            tell(judged, self.parts.hz);
            self.drains.judged(judged, now);
        }
        let late = self.joins().late_resets();
        for late in late {
            self.drains.late_reset(&late, now);
        }
        self.spread(Some(&judged), now);
    }

    /// What was not seen to end may be the one that a proxy has counted: until it is calm again nothing is exact.
    fn look_for_losses(&mut self) {
        let losses = self.parts.kernel.losses().ok();
        let Board { events_lost, undecodable, skipped_runs, .. } = &*self.parts.board;
        let missed = Missed {
            unheard: events_lost.load(Ordering::Relaxed),
            undecodable: undecodable.load(Ordering::Relaxed),
            skipped: skipped_runs.load(Ordering::Relaxed),
        };
        let Some(lost) = self.lost.look(losses, missed) else { return };
        let now = Moment::now();
        self.joins().doubt(now);
        lost.into_iter().for_each(|what| self.drains.lost(Source::Kernel, what, now));
    }

    fn hc(&mut self, said: &HcObservation) {
        let now = Moment::now();
        let Some(state) = self.pods.get_mut(&said.uid) else { return };
        state.hc_said(said, now);
        self.drains.hc(state, said, now);
        // The kernel first: whoever sees a state may count on it that cuts bear it.
        self.tell_kernel(now);
        if let Some(state) = self.pods.get(&said.uid) {
            show(&self.parts.board, state, now);
        }
        if self.joins().hc(said)
            && let Some(state) = self.pods.get(&said.uid)
        {
            state.alarm_envoy();
        }
        self.spread(None, now);
    }

    fn envoy(&mut self, report: &Report) {
        let now = Moment::now();
        let Some(state) = self.pods.get_mut(&report.uid) else { return };
        state.envoy_said(report, now);
        self.drains.envoy(report);
        show(&self.parts.board, state, now);
        let users = self.users(&report.uid);
        self.joins().envoy(report, users);
        self.spread(None, now);
    }

    fn lb(&mut self, heard: Heard) {
        let now = Moment::now();
        for news in self.lb.heard(heard, &self.pods, &self.parts.board, now) {
            self.joins().lb(&news.uid, &news.said);
            self.drains.lb(news);
        }
        self.spread(None, now);
    }

    fn tick(&mut self) {
        let now = Moment::now();
        self.look_at_the_clocks(now);
        self.ticks += 1;
        if self.ticks.is_multiple_of(LOGS_EVERY) {
            self.ask_follower(now);
        }
        self.tell_kernel(now);
        if self.ticks.is_multiple_of(CUTS_EVERY) {
            self.read_cuts();
        }
        self.judge();
        self.count_users(now);
        for news in self.lb.unheard(&self.parts.board, now) {
            self.joins().lb(&news.uid, &news.said);
            self.drains.lb(news);
        }
        self.drains.tick(now);
        for over in self.lb.follow(&self.drains.draining(), &self.parts.board) {
            self.joins().lb_is_over(&over);
        }
        self.tell_status(now);
        let wanting = self.joins().wants(now);
        self.alarm(wanting);
    }

    /// How logs fare, and what time alone has changed.
    fn ask_follower(&mut self, now: Moment) {
        let faults = self.makings.follower.faults();
        for (uid, state) in &mut self.pods {
            state.tell_obstacle(now);
            state.log_fares(faults.get(uid).map(String::as_str), now);
            show(&self.parts.board, state, now);
        }
        let Board { log_lost, log_unreadable, hc, .. } = &*self.parts.board;
        let log_dropped = self.makings.follower.dropped();
        if self.hc_lost != hc.dropped() + log_dropped {
            self.hc_lost = hc.dropped() + log_dropped;
            self.drains.lost(Source::Hc, "gt's own queue of what sidecars told was full", now);
        }
        log_lost.store(log_dropped, Ordering::Relaxed);
        log_unreadable.store(self.makings.follower.unreadable(), Ordering::Relaxed);
    }

    fn joins(&self) -> MutexGuard<'_, Joins> {
        self.parts.joins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn show(board: &Board, state: &PodState, now: Moment) {
    match state.shown(now) {
        Some(shown) => board.show(&state.followed.uid, shown),
        None => board.hide(&state.followed.uid),
    }
}
