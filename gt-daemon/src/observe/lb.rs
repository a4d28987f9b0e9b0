//! LBs: asked while a pod drains, and what they say brought to the pods it is about.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tokio::sync::mpsc;
use tracing::{info, warn};

use super::{board::Board, faults::Faults, pod::PodState};
use crate::{
    clock::Moment,
    lb::{
        follow::{Said, Words},
        pattern::Identity,
        reader::{Heard, Look, Reader, Report, Settings},
        row::Row,
        source::Source,
        webhook::Note,
        word::Serving,
    },
};

/// What waits at most.
const ROOM: usize = 256;

/// An LB whose last answer is older, nanoseconds, is asked as soon as it may be, as by an alarm: the paces of readers that know
/// nothing of drains leave one that answers slowly alone for longer than a DOWN may take.
const HURRY: u64 = 2_000_000_000;

/// Names of servers that are told of when none is a pod's.
const SHOWN: usize = 10;

/// All LBs.
#[derive(Debug)]
pub(super) struct Lbs {
    settings: Settings,
    sender: mpsc::Sender<Heard>,
    heard: mpsc::Receiver<Heard>,
    /// None while no pod drains.
    readers: Vec<Reader>,
    /// The last words on each pod that drains, and when its drain began.
    words: BTreeMap<Arc<str>, (i64, Words)>,
    /// What was brought of pods before their drains were known here: they begin with it.
    early: BTreeMap<Arc<str>, Option<Serving>>,
    faults: BTreeMap<Arc<str>, Faults>,
    /// When each LB that answers was asked last.
    asked: BTreeMap<Arc<str>, Moment>,
    /// Pods that an LB did not list, and that LB: told once in each drain.
    unlisted: BTreeSet<(Arc<str>, Arc<str>)>,
}

/// What was said of one pod.
#[derive(Debug)]
pub(super) struct News {
    pub(super) uid: Arc<str>,
    pub(super) said: Vec<Said>,
    /// The LB that was asked, and whether it told of the pod.
    pub(super) answer: Option<(Arc<str>, bool)>,
    /// As of when.
    pub(super) at: Moment,
}

impl Lbs {
    pub(super) fn new(settings: Settings) -> Self {
        let (sender, heard) = mpsc::channel(ROOM);
        Self {
            settings,
            sender,
            heard,
            readers: Vec::new(),
            words: BTreeMap::new(),
            early: BTreeMap::new(),
            faults: BTreeMap::new(),
            asked: BTreeMap::new(),
            unlisted: BTreeSet::new(),
        }
    }

    /// Where words of LBs may be brought.
    pub(super) fn door(&self) -> mpsc::Sender<Heard> {
        self.sender.clone()
    }

    /// What comes next.
    pub(super) async fn next(&mut self) -> Option<Heard> {
        self.heard.recv().await
    }

    /// Asks while any pod drains, and not else. `draining`: which do, and since when. Gives those that do no longer.
    pub(super) fn follow(&mut self, draining: &[(Arc<str>, i64)], board: &Board) -> Vec<Arc<str>> {
        let is_over = |uid: &Arc<str>| !draining.iter().any(|(drains, _)| drains == uid);
        let over: Vec<_> = self.words.keys().filter(|uid| is_over(uid)).cloned().collect();
        self.words.retain(|uid, _| !is_over(uid));
        self.unlisted.retain(|(uid, _)| !is_over(uid));
        for (uid, begun) in draining {
            let (known, words) =
                self.words.entry(Arc::clone(uid)).or_insert_with(|| (*begun, Words::default()));
            if *begun > *known {
                // Another drain: all that holds is said anew.
                *words = Words::default();
            }
            *known = *begun;
        }
        board.lb.keep(|uid| self.words.contains_key(uid));
        for (uid, serving) in self.early.extract_if(.., |uid, _| self.words.contains_key(uid)) {
            board.lb.serves(&uid, serving);
        }
        if draining.is_empty() {
            if !self.readers.is_empty() {
                self.readers.clear();
                self.faults.clear();
                self.asked.clear();
                board.lb.not_asked();
            }
        } else if self.readers.is_empty() {
            let start = |source: &Source| {
                Reader::start(source.clone(), &self.settings, board.lb.meter.clone(), self.sender.clone())
            };
            self.readers = self.settings.sources.iter().map(start).collect();
        }
        over
    }

    /// Lets time pass: LBs that have not been heard for a while are asked at once, and what they do is not known after a while
    /// more. To be called before drains are judged.
    pub(super) fn unheard(&mut self, board: &Board, now: Moment) -> Vec<News> {
        for (source, reader) in self.settings.sources.iter().zip(&self.readers) {
            let asked = self.asked.get(&source.name);
            if asked.is_some_and(|asked| now.monotonic_ns.saturating_sub(asked.monotonic_ns) > HURRY) {
                reader.alarm();
            }
        }
        let mut news = Vec::new();
        for (uid, (_, words)) in &mut self.words {
            let said = words.unheard(now.utc_us);
            if !said.is_empty() {
                board.lb.serves(uid, words.serving());
                news.push(News { uid: Arc::clone(uid), said, answer: None, at: now });
            }
        }
        news
    }

    /// UTC was set: what LBs said before is by another clock.
    pub(super) fn clock_was_set(&mut self) {
        self.words.values_mut().for_each(|(_, words)| *words = Words::default());
    }

    /// A connection of a pod ended that an LB may have cut.
    pub(super) fn alarm(&self, uid: &str) {
        if self.words.contains_key(uid) {
            self.readers.iter().for_each(Reader::alarm);
        }
    }

    /// Takes something in; gives what it says of which pods.
    pub(super) fn heard(
        &mut self,
        heard: Heard,
        pods: &BTreeMap<Arc<str>, PodState>,
        board: &Board,
        now: Moment,
    ) -> Vec<News> {
        let news = match heard {
            Heard::Look(report) => self.look(&report, pods, board, now),
            Heard::Note(note) => self.note(note, pods, now),
        };
        for News { uid, .. } in &news {
            if let Some((_, words)) = self.words.get(uid) {
                board.lb.serves(uid, words.serving());
            }
        }
        news
    }

    fn look(
        &mut self,
        report: &Report,
        pods: &BTreeMap<Arc<str>, PodState>,
        board: &Board,
        now: Moment,
    ) -> Vec<News> {
        // One that was asked last before the last drain was over.
        if self.readers.is_empty() {
            return Vec::new();
        }
        let lb = &report.lb;
        board.lb.answers(lb, report.outcome.is_ok());
        let faults = self.faults.entry(Arc::clone(lb)).or_default();
        let look = match &report.outcome {
            Ok(look) => look,
            Err(cause) => {
                if faults.failed(cause, now.monotonic_ns) {
                    warn!(lb = &**lb, "the load balancer is not read: {cause}");
                }
                return Vec::new();
            }
        };
        if faults.answered() {
            info!(lb = &**lb, "the load balancer is read again");
        }
        self.asked.insert(Arc::clone(lb), look.asked);
        let prefix = if self.settings.sources.len() > 1 { format!("{lb} ") } else { String::new() };
        let mut news = Vec::new();
        for (uid, (_, words)) in &mut self.words {
            let Some(state) = pods.get(uid) else { continue };
            let rows = self.settings.patterns.of(&look.rows, identity(state));
            let said = words.look(lb, &prefix, &rows, look);
            let lists = !rows.is_empty();
            if !lists && self.unlisted.insert((Arc::clone(uid), Arc::clone(lb))) {
                tell_unlisted(state, lb, look);
            }
            news.push(News {
                uid: Arc::clone(uid),
                said,
                answer: Some((Arc::clone(lb), lists)),
                // What it did after that is not in the answer, however late that came.
                at: look.asked,
            });
        }
        news
    }

    fn note(&mut self, note: Note, pods: &BTreeMap<Arc<str>, PodState>, now: Moment) -> Vec<News> {
        let Note { server, status, at, reply } = note;
        let row = server
            .as_deref()
            .and_then(|server| server.split_once('/'))
            .map(|(backend, server)| [Row::new(backend, server, &status)]);
        let is_meant = |state: &PodState| match &row {
            Some(row) => !self.settings.patterns.of(row, identity(state)).is_empty(),
            None => true,
        };
        let name = server.as_deref().unwrap_or("webhook");
        self.early.retain(|uid, _| pods.contains_key(uid));
        let mut named = Vec::new();
        let mut news = Vec::new();
        let is_there = |uid: &str, state: &PodState| !state.followed.gone || self.words.contains_key(uid);
        let meant: Vec<_> =
            pods.iter().filter(|(uid, state)| is_there(uid, state) && is_meant(state)).collect();
        for (uid, state) in meant {
            named.push(format!("{}/{}", state.followed.pod.namespace, state.followed.pod.name));
            let said = match self.words.get_mut(uid) {
                Some((_, words)) => words.note(name, &status, at),
                // Its drain may be known a little later.
                None => {
                    self.early.insert(Arc::clone(uid), Serving::of(&status));
                    Words::default().note(name, &status, at)
                }
            };
            news.push(News { uid: Arc::clone(uid), said, answer: None, at: now });
        }
        info!(server = name, status, pods = named.join(" "), "a load balancer's word was brought");
        let _whoever_brought_it_has_gone = reply.send(named);
        news
    }
}

fn identity(state: &PodState) -> Identity<'_> {
    let pod = &state.followed.pod;
    Identity { namespace: &pod.namespace, pod: &pod.name, addresses: &pod.addresses }
}

fn tell_unlisted(state: &PodState, lb: &str, look: &Look) {
    let (pod, namespace) = (&state.followed.pod.name, &state.followed.pod.namespace);
    let names: Vec<_> = look.rows.iter().take(SHOWN).map(Row::name).collect();
    let (servers, all) = (names.join(" "), look.rows.len());
    warn!(
        pod,
        namespace,
        lb,
        servers,
        all,
        "none of the load balancer's servers is this pod's: say which by --lb-server BACKEND/SERVER"
    );
}
