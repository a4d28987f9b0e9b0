//! The pods that an API server has, everything that happened to them, and who follows that.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use serde_json::{Value, json};

/// All pods. Nothing that happened is forgotten: a stage does not last long.
#[derive(Debug, Default)]
pub(super) struct Store {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// By UID.
    pods: BTreeMap<String, Value>,
    /// Everything that happened.
    events: Vec<Event>,
    closed: bool,
}

#[derive(Debug)]
struct Event {
    kind: &'static str,
    pod: Value,
}

impl Store {
    pub(super) fn apply(&self, pod: &Value) {
        let mut state = self.lock();
        let uid = uid(pod);
        let kind = if state.pods.contains_key(&uid) { "MODIFIED" } else { "ADDED" };
        let pod = state.tell(kind, pod.clone());
        state.pods.insert(uid, pod);
        self.changed.notify_all();
    }

    pub(super) fn delete(&self, uid: &str) {
        let mut state = self.lock();
        if let Some(pod) = state.pods.remove(uid) {
            state.tell("DELETED", pod);
            self.changed.notify_all();
        }
    }

    /// Ends all watches.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// A `PodList` of a node.
    pub(super) fn list(&self, node: &str) -> Value {
        let state = self.lock();
        let pods: Vec<_> = state.pods.values().filter(|pod| is_on(pod, node)).collect();
        let version = version(state.events.len());
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": pods})
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes an event; gives its pod with the resource version that this made.
    fn tell(&mut self, kind: &'static str, mut pod: Value) -> Value {
        pod["metadata"]["resourceVersion"] = json!(version(self.events.len() + 1));
        self.events.push(Event { kind, pod: pod.clone() });
        pod
    }
}

/// The resource version after so many events. Never 0, which means any to those who ask.
fn version(events: usize) -> String {
    (events + 1).to_string()
}

fn uid(pod: &Value) -> String {
    pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

fn is_on(pod: &Value, node: &str) -> bool {
    pod["spec"]["nodeName"] == node
}

/// The lines of a watch's answer: one an event. It ends in time, or with the server.
#[derive(Debug)]
pub(super) struct Watch {
    store: Arc<Store>,
    node: String,
    /// How many events are known.
    seen: usize,
    ready: VecDeque<String>,
    until: Instant,
}

impl Watch {
    /// One that goes on where another, or a list, has ended.
    pub(super) fn since(store: &Arc<Store>, node: &str, version: usize, until: Instant) -> Self {
        let seen = version.saturating_sub(1);
        Self { store: Arc::clone(store), node: node.to_owned(), seen, ready: VecDeque::new(), until }
    }

    /// One that begins with all pods that are there, and a bookmark that says that these were all.
    pub(super) fn with_list(store: &Arc<Store>, node: &str, until: Instant) -> Self {
        let state = store.lock();
        let pods = state.pods.values().filter(|pod| is_on(pod, node));
        let mut ready: VecDeque<_> = pods.map(|pod| line("ADDED", pod)).collect();
        let seen = state.events.len();
        let end = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {
            "resourceVersion": version(seen),
            "annotations": {"k8s.io/initial-events-end": "true"},
        }});
        ready.push_back(line("BOOKMARK", &end));
        drop(state);
        Self { store: Arc::clone(store), node: node.to_owned(), seen, ready, until }
    }
}

impl Iterator for Watch {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut state = self.store.lock();
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if state.closed {
                return None;
            }
            let news = state.events.iter().skip(self.seen).filter(|event| is_on(&event.pod, &self.node));
            self.ready.extend(news.map(|event| line(event.kind, &event.pod)));
            self.seen = self.seen.max(state.events.len());
            if self.ready.is_empty() {
                let left = self.until.checked_duration_since(Instant::now())?;
                let woken = self.store.changed.wait_timeout(state, left);
                (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

fn line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn pod(uid: &str, node: &str) -> Value {
        json!({"metadata": {"uid": uid}, "spec": {"nodeName": node}})
    }

    /// `ADDED a@1` of each line.
    fn told(watch: Watch) -> Vec<String> {
        let lines = watch.map(|line| {
            let line: Value = serde_json::from_str(&line).unwrap();
            let meta = &line["object"]["metadata"];
            let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            format!("{} {}@{}", word(&line["type"]), word(&meta["uid"]), word(&meta["resourceVersion"]))
        });
        lines.collect()
    }

    /// Exercises pods that come, change and go on two nodes so that a list and a watch from there tell of each once.
    #[test]
    fn what_happened() {
        let store = Arc::new(Store::default());
        store.apply(&pod("a", "n"));
        store.apply(&pod("b", "m"));
        let listed = store.list("n");
        assert_eq!(listed["metadata"]["resourceVersion"], "3");
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(1));
        let until = Instant::now();
        let streamed = Watch::with_list(&store, "n", until);
        store.apply(&pod("a", "n"));
        store.delete("b");
        store.delete("b");
        store.delete("a");
        assert_eq!(told(streamed), ["ADDED a@2", "BOOKMARK -@3", "MODIFIED a@4", "DELETED a@6"]);
        assert_eq!(told(Watch::since(&store, "m", 3, until)), ["DELETED b@5"]);
        assert_eq!(told(Watch::since(&store, "n", 6, until)), Vec::<String>::new());
    }

    /// Exercises a server that ends so that nobody waits for what will not come.
    #[test]
    fn the_end() {
        let store = Arc::new(Store::default());
        let watch = Watch::since(&store, "n", 1, Instant::now() + Duration::from_secs(600));
        let waits = std::thread::spawn(move || told(watch));
        std::thread::sleep(Duration::from_millis(20));
        store.close();
        assert_eq!(waits.join().unwrap(), Vec::<String>::new());
    }
}
