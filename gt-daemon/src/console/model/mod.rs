//! What a console knows: the messages of a stream, put together, in bounded memory.
//!
//! [`Model`] has the pods by name; a [`pod`] has what held since when ([`steps`]), its ends as [`marks`] and its lines
//! ([`event`]), in [`words`]. Pure: time is an argument.

pub mod event;
pub mod marks;
pub mod pod;
pub mod steps;
pub mod words;

use std::collections::BTreeMap;

use crate::{
    api::message::{Message, PodStatus, Word},
    drain::{fact::Timed, record::Summary},
};
use event::{About, Event, Events, Kind};
use pod::{Pod, micros};

/// So many pods are shown: of more, those that are gone give way, the one told of longest ago first.
pub const MOST_PODS: usize = 512;
/// So many lines are kept of all pods together, and of one alone.
pub const MOST_EVENTS: usize = 40_000;
const MOST_NOTES: usize = 256;
const MOST_DAEMONS: usize = 1_024;

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

/// What reaches a console.
#[expect(clippy::large_enum_variant, reason = "nearly all that comes are messages, and none stays")]
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    Message(Message),
    /// Something of the stream itself that is to be told.
    Note {
        text: String,
    },
}

impl From<Message> for Incoming {
    fn from(message: Message) -> Self {
        Self::Message(message)
    }
}

/// How the console stands to its daemons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// Nothing was heard yet.
    Waiting,
    On,
    /// One of them cannot be heard: since when, and why.
    Away(i64, &'a str),
    /// The stream is over.
    Over,
}

/// Everything that is known.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pods: BTreeMap<Key, Pod>,
    /// When each pod was told of last, in messages.
    told: BTreeMap<Key, u64>,
    /// Lines that are of no pod alone.
    notes: Events,
    /// The daemons by their nodes; those that cannot be heard with since when, and why.
    daemons: BTreeMap<Option<String>, Option<(i64, String)>>,
    is_over: bool,
    /// The newest instant that was heard of, UTC microseconds by the daemon's clock.
    pub newest: Option<i64>,
    /// Messages so far.
    pub heard: u64,
    /// Lines so far, and those that are kept of pods.
    lines: u64,
    kept: usize,
}

impl Model {
    /// Takes in what came at an instant (UTC microseconds, by the daemon's clock as well as is known).
    pub fn apply(&mut self, incoming: Incoming, at: i64) {
        match incoming {
            Incoming::Message(message) => {
                self.heard += 1;
                self.message(message, at);
            }
            Incoming::Note { text } => self.note(self.newest.unwrap_or(at), text),
        }
    }

    /// The stream is over: nothing more will come.
    pub fn over(&mut self) {
        self.is_over = true;
    }

    /// How it stands to its daemons.
    #[must_use]
    pub fn line(&self) -> Line<'_> {
        if self.is_over {
            return Line::Over;
        }
        match self.daemons.values().flatten().next() {
            Some((since, why)) => Line::Away(*since, why),
            None if self.daemons.is_empty() => Line::Waiting,
            None => Line::On,
        }
    }

    /// The node, or how many there are.
    #[must_use]
    pub fn node(&self) -> Option<String> {
        match self.daemons.len() {
            0 | 1 => self.daemons.keys().next().cloned().flatten(),
            nodes => Some(format!("{nodes} nodes")),
        }
    }

    fn message(&mut self, message: Message, at: i64) {
        match message {
            Message::Hello { node, now, .. } => self.hello(node, micros(&now).unwrap_or(at)),
            Message::Pod(status) => self.pod(*status),
            Message::Fact { namespace, pod, uid, word, fact } => {
                self.fact(&Key { namespace, name: pod }, &uid, word, &fact);
            }
            Message::Verdict(summary) => self.verdict(*summary, at),
            // Between what was told before and after it.
            Message::Lost { messages } => {
                let text = format!("this console was slow: {messages} messages were left out here");
                self.note(self.newest.unwrap_or(at), text);
            }
            Message::Gap { node, why, now } => self.gap(node, why, micros(&now).unwrap_or(at)),
        }
    }

    /// A daemon cannot be heard from an instant on.
    fn gap(&mut self, node: Option<String>, why: String, at: i64) {
        // Until then it was heard: where it told nothing, nothing happened.
        let since = self.newest.map_or(at, |newest| newest.max(at));
        self.note(since, format!("the daemon{} is not heard: {why}", of_node(node.as_deref())));
        if self.daemons.len() < MOST_DAEMONS || self.daemons.contains_key(&node) {
            self.daemons.insert(node, Some((since, why)));
        }
    }

    /// A stream begins. When it is not a daemon's first, nothing is known of the time since its last word.
    fn hello(&mut self, node: Option<String>, now: i64) {
        if let Some(away) = self.daemons.get(&node) {
            let last = away.as_ref().map(|(since, _)| *since).or(self.newest);
            let last = last.unwrap_or(now).min(now);
            // What was told last stands for that instant; of a pod that is gone nothing changes any more.
            let is_here = |pod: &&mut Pod| {
                let status = pod.status.as_ref();
                status.is_some_and(|status| !status.gone && (status.node == node || status.node.is_none()))
            };
            for pod in self.pods.values_mut().filter(is_here) {
                pod.unknown(last.saturating_add(1));
            }
            let length = words::seconds(now.saturating_sub(last));
            let of = of_node(node.as_deref());
            self.note(now, format!("the daemon{of} is heard again: {length} of events were not shown"));
        }
        if self.daemons.len() < MOST_DAEMONS || self.daemons.contains_key(&node) {
            self.daemons.insert(node, None);
        }
        self.hear(now);
    }

    fn pod(&mut self, status: PodStatus) {
        let key = Key { namespace: status.namespace.clone(), name: status.pod.clone() };
        if let Some(now) = micros(&status.now) {
            self.hear(now);
        }
        if let Some((ts, kind, text)) = self.pods_of(&key).status(status) {
            self.add_line(&key, ts, kind, text, None);
        }
    }

    fn fact(&mut self, key: &Key, uid: &str, word: Word, Timed { ts, fact }: &Timed) {
        self.hear(*ts);
        let pod = self.pods_of(key);
        pod.fact(uid, *ts, fact);
        let about = About::of(fact, word);
        // What weighs more was told before: a line less, not another one.
        if let Some(about) = &about {
            let Some(pod) = self.pods.get_mut(key) else { return };
            if !pod.events.make_room(about, word == Word::Better, &mut self.kept) {
                return;
            }
        }
        self.add_line(key, *ts, Kind::of(fact, word), words::fact(fact, word), about);
    }

    fn verdict(&mut self, summary: Summary, at: i64) {
        let key = Key { namespace: summary.namespace.clone(), name: summary.pod.clone() };
        let (ts, kind, text) = self.pods_of(&key).verdict(summary, at);
        self.add_line(&key, ts, kind, text, None);
    }

    fn hear(&mut self, ts: i64) {
        self.newest = self.newest.max(Some(ts));
    }

    /// The pod of a name, made when it is told of for the first time.
    fn pods_of(&mut self, key: &Key) -> &mut Pod {
        if !self.pods.contains_key(key) && self.pods.len() >= MOST_PODS {
            self.forget_one();
        }
        self.told.insert(key.clone(), self.heard);
        self.pods.entry(key.clone()).or_default()
    }

    fn forget_one(&mut self) {
        let age = |key: &Key| self.told.get(key).copied();
        let oldest = self.pods.iter().min_by_key(|(key, pod)| (!pod.is_gone(), age(key)));
        let Some(key) = oldest.map(|(key, _)| key.clone()) else { return };
        self.told.remove(&key);
        if let Some(pod) = self.pods.remove(&key) {
            self.kept = self.kept.saturating_sub(pod.events.len());
        }
    }

    fn add_line(&mut self, key: &Key, ts: i64, kind: Kind, text: String, about: Option<About>) {
        let Some(pod) = self.pods.get_mut(key) else { return };
        self.lines += 1;
        let event = Event::new(ts, self.lines, kind, text).about(about);
        if !pod.events.add(event, MOST_EVENTS) {
            self.kept += 1;
        }
        if self.kept > MOST_EVENTS
            && let Some(longest) = self.pods.values_mut().max_by_key(|pod| pod.events.len())
        {
            longest.events.drop_oldest();
            self.kept -= 1;
        }
    }

    fn note(&mut self, ts: i64, text: String) {
        self.lines += 1;
        self.notes.add(Event::new(ts, self.lines, Kind::Gap, text), MOST_NOTES);
    }

    /// All pods, by namespace and name.
    pub fn pods(&self) -> impl DoubleEndedIterator<Item = (&Key, &Pod)> {
        self.pods.iter()
    }

    /// One pod.
    #[must_use]
    pub fn pod_of(&self, key: &Key) -> Option<&Pod> {
        self.pods.get(key)
    }

    /// Lines of a pod and those of none, the newest first.
    pub fn lines(&self, key: &Key) -> impl Iterator<Item = &Event> {
        let mut own = self.pods.get(key).map(|pod| pod.events.iter().rev()).into_iter().flatten().peekable();
        let mut notes = self.notes.iter().rev().peekable();
        std::iter::from_fn(move || match (own.peek(), notes.peek()) {
            (Some(line), Some(note)) if line < note => notes.next(),
            (Some(_), _) => own.next(),
            (None, _) => notes.next(),
        })
    }
}

fn of_node(node: Option<&str>) -> String {
    node.map_or(String::new(), |node| format!(" on {node}"))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
