//! The pods of this node as the API told them last, shared between the watches and whoever reads.
//!
//! A watch that fails takes nothing away: what it told stays until it tells again. Deletions and changes come
//! from the API only.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tracing::{debug, warn};

use super::object::Object;
use super::pod::{Entry, read};
use crate::pods::{Pod, selection::Selection, wake::Waker};

/// How a watch fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// It has neither told anything nor failed.
    New { since: Instant },
    /// It has told all pods, and tells every change.
    Up,
    /// It tells nothing now, and why.
    Away { since: Instant, fault: String },
}

/// What is watched by one request: the pods of a namespace, or of all (`None`).
pub type Scope = Option<String>;

/// Entries by the API's UID.
pub type Entries = BTreeMap<String, Entry>;

#[derive(Debug)]
struct Told {
    link: Link,
    /// `None` until the first list is whole.
    entries: Option<Entries>,
}

/// The last told state of every watch.
#[derive(Debug)]
pub struct Store {
    selection: Selection,
    waker: Waker,
    scopes: Mutex<BTreeMap<Scope, Told>>,
}

/// What the watches together tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The selected pods, by the kubelet's UID; `None` until a list is whole.
    pub pods: Option<BTreeMap<String, Pod>>,
    /// The kubelet's UIDs of the pods that are not selected.
    pub refused: BTreeSet<String>,
    /// The worst of all watches.
    pub link: Link,
    /// The scopes that tell every change now.
    up: BTreeSet<Scope>,
}

impl View {
    /// Whether all that happens in a namespace is told now.
    #[must_use]
    pub fn tells(&self, namespace: &str) -> bool {
        self.up.contains(&None) || self.up.contains(&Some(namespace.to_owned()))
    }
}

impl Store {
    /// Nothing is told yet; there will be a watch for each namespace of the selection, or one for all.
    #[must_use]
    pub fn new(selection: Selection, waker: Waker, now: Instant) -> Self {
        let scopes: Vec<Scope> = match selection.namespaces.is_empty() {
            true => vec![None],
            false => selection.namespaces.iter().cloned().map(Some).collect(),
        };
        let told = |scope| (scope, Told { link: Link::New { since: now }, entries: None });
        Self { selection, waker, scopes: Mutex::new(scopes.into_iter().map(told).collect()) }
    }

    /// What has to be watched.
    #[must_use]
    pub fn scopes(&self) -> Vec<Scope> {
        self.told().keys().cloned().collect()
    }

    /// Whose pods are selected how.
    #[must_use]
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Reads an object and adds it to a list that is not whole yet.
    pub fn gather(&self, list: &mut Entries, object: &Object) {
        if let (Some(uid), Some(entry)) = (object.meta.uid.clone(), read(object, &self.selection)) {
            list.insert(uid, entry);
        }
    }

    /// A list is whole: it stands for all that was told before.
    pub fn replace(&self, scope: &Scope, list: Entries) {
        let mut told = self.told();
        let Some(told) = told.get_mut(scope) else { return };
        for (uid, entry) in &list {
            complain(told.entries.as_ref().and_then(|entries| entries.get(uid)), entry);
        }
        told.entries = Some(list);
        told.link = Link::Up;
        self.waker.wake();
    }

    /// A pod is new or has changed.
    pub fn change(&self, scope: &Scope, object: &Object) {
        let (Some(uid), Some(entry)) = (object.meta.uid.clone(), read(object, &self.selection)) else {
            return;
        };
        let mut told = self.told();
        let Some(entries) = told.get_mut(scope).and_then(|told| told.entries.as_mut()) else { return };
        complain(entries.get(&uid), &entry);
        // Most changes of a pod are of what gt does not look at.
        if entries.get(&uid).map(|known| &known.pod) != Some(&entry.pod) {
            self.waker.wake();
        }
        entries.insert(uid, entry);
    }

    /// A pod is no more in the API; its processes may be.
    pub fn remove(&self, scope: &Scope, object: &Object) {
        let mut told = self.told();
        let entries = told.get_mut(scope).and_then(|told| told.entries.as_mut());
        if let (Some(entries), Some(uid)) = (entries, &object.meta.uid)
            && entries.remove(uid).is_some()
        {
            self.waker.wake();
        }
    }

    /// A watch has failed. What it has told stays.
    pub fn fail(&self, scope: &Scope, fault: String, now: Instant) {
        let mut told = self.told();
        let Some(told) = told.get_mut(scope) else { return };
        let since = match &told.link {
            Link::Away { since, .. } | Link::New { since } => *since,
            Link::Up => now,
        };
        told.link = Link::Away { since, fault };
        self.waker.wake();
    }

    /// All of it.
    #[must_use]
    pub fn view(&self) -> View {
        let told = self.told();
        let mut view = View { pods: None, refused: BTreeSet::new(), link: Link::Up, up: BTreeSet::new() };
        for (scope, told) in told.iter() {
            match (&told.link, &view.link) {
                (Link::Up, _) => {
                    view.up.insert(scope.clone());
                }
                (Link::New { .. }, Link::Away { .. }) | (Link::Away { .. }, Link::Away { .. }) => {}
                (worse, _) => view.link = worse.clone(),
            }
            let Some(entries) = &told.entries else { continue };
            let pods = view.pods.get_or_insert_default();
            // A pod of the API that the kubelet gave no UID of its own goes before a mirror that claims its UID.
            let (own, claimed): (Vec<_>, Vec<_>) =
                entries.iter().partition(|(uid, entry)| **uid == entry.uid);
            for (_, entry) in own.into_iter().chain(claimed) {
                match &entry.pod {
                    Ok(pod) => {
                        pods.entry(entry.uid.clone()).or_insert_with(|| pod.clone());
                    }
                    Err(_) => {
                        view.refused.insert(entry.uid.clone());
                    }
                }
            }
        }
        view
    }

    fn told(&self) -> MutexGuard<'_, BTreeMap<Scope, Told>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells what of a pod's annotations is not used, once for each value; and, at debug level, why it is not
/// watched.
fn complain(known: Option<&Entry>, entry: &Entry) {
    let Entry { namespace, name, .. } = entry;
    for fault in &entry.complaints {
        if known.is_none_or(|known| !known.complaints.contains(fault)) {
            warn!(
                pod = name,
                namespace,
                annotation = fault.annotation,
                value = fault.value,
                "this annotation's value is not used: {}",
                fault.remedy
            );
        }
    }
    if let Err(refusal) = &entry.pod
        && known.is_none_or(|known| known.pod.as_ref() != Err(refusal))
    {
        debug!(pod = name, namespace, "not watched: {}", refusal.reason());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pods::wake::Sleeper;

    fn object(namespace: &str, name: &str, uid: &str, more: &str) -> Object {
        let text = format!(
            r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","uid":"{uid}"{more}}},
                "spec":{{"containers":[{{"name":"hc"}}]}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn store(sleeper: &Sleeper, namespaces: &[&str], now: Instant) -> Store {
        let selection = Selection {
            container: Some("hc".to_owned()),
            namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
            ..Selection::default()
        };
        Store::new(selection, sleeper.waker(), now)
    }

    fn names(view: &View) -> Vec<&str> {
        view.pods.iter().flatten().map(|(_, pod)| pod.name.as_str()).collect()
    }

    fn list(store: &Store, scope: &Scope, objects: &[Object]) {
        let mut entries = Entries::new();
        for object in objects {
            store.gather(&mut entries, object);
        }
        store.replace(scope, entries);
    }

    /// Exercises a fault between lists, so that it takes no pod away, and its beginning stays that of the first.
    #[test]
    fn faults_take_nothing_away() {
        let now = Instant::now();
        let store = store(&Sleeper::new().unwrap(), &[], now);
        assert_eq!((store.view().pods, store.view().link), (None, Link::New { since: now }));
        list(&store, &None, &[object("edge", "a", "u-a", ""), object("edge", "b", "u-b", "")]);
        let later = now + Duration::from_secs(1);
        store.fail(&None, "gone".to_owned(), later);
        store.fail(&None, "still gone".to_owned(), later + Duration::from_secs(1));
        let view = store.view();
        assert_eq!(names(&view), ["a", "b"]);
        assert_eq!(view.link, Link::Away { since: later, fault: "still gone".to_owned() });
        assert!(!view.tells("edge"));
        list(&store, &None, &[object("edge", "b", "u-b", "")]);
        let view = store.view();
        assert_eq!((names(&view), &view.link, view.tells("edge")), (vec!["b"], &Link::Up, true));
    }

    /// Exercises the same name with another UID, and opting out while watched.
    #[test]
    fn changes() {
        let store = store(&Sleeper::new().unwrap(), &[], Instant::now());
        list(&store, &None, &[object("edge", "a", "u-1", "")]);
        store.change(&None, &object("edge", "a", "u-2", ""));
        assert_eq!(store.view().pods.unwrap().into_keys().collect::<Vec<_>>(), ["u-1", "u-2"]);
        store.remove(&None, &object("edge", "a", "u-1", ""));
        assert_eq!(store.view().pods.unwrap().into_keys().collect::<Vec<_>>(), ["u-2"]);
        store.change(&None, &object("edge", "a", "u-2", r#","annotations":{"gt.dev/watch":"false"}"#));
        let view = store.view();
        assert!(names(&view).is_empty());
        assert_eq!(view.refused, ["u-2".to_owned()].into());
    }

    /// Exercises two namespaces, one of which fails, so that the other's pods are told on.
    #[test]
    fn scopes() {
        let now = Instant::now();
        let store = store(&Sleeper::new().unwrap(), &["edge", "lb"], now);
        let (edge, lb) = (Some("edge".to_owned()), Some("lb".to_owned()));
        assert_eq!(store.scopes(), [edge.clone(), lb.clone()]);
        list(&store, &edge, &[object("edge", "a", "u-a", "")]);
        assert_eq!(store.view().link, Link::New { since: now });
        store.fail(&lb, "forbidden".to_owned(), now);
        let view = store.view();
        assert_eq!((names(&view), view.tells("edge"), view.tells("lb")), (vec!["a"], true, false));
        assert!(matches!(view.link, Link::Away { .. }));
    }

    /// Exercises a mirror that claims a pod's UID, so that the pod keeps its own.
    #[test]
    fn a_false_mirror() {
        let store = store(&Sleeper::new().unwrap(), &[], Instant::now());
        let claim =
            r#","annotations":{"kubernetes.io/config.mirror":"u-b","kubernetes.io/config.hash":"u-b"}"#;
        list(&store, &None, &[object("bad", "claims", "u-a", claim), object("edge", "real", "u-b", "")]);
        assert_eq!(names(&store.view()), ["real"]);
    }

    /// Exercises a change of what gt does not look at, so that the tracker is not woken for it.
    #[test]
    fn wakes() {
        let sleeper = Sleeper::new().unwrap();
        let woken = || {
            let began = Instant::now();
            sleeper.sleep(Duration::ZERO, Duration::from_millis(200), None);
            began.elapsed() < Duration::from_millis(200)
        };
        let store = store(&sleeper, &[], Instant::now());
        list(&store, &None, &[object("edge", "a", "u-a", "")]);
        assert!(woken(), "a list");
        store.change(&None, &object("edge", "a", "u-a", r#","resourceVersion":"2""#));
        assert!(!woken(), "nothing that counts");
        store.change(&None, &object("edge", "a", "u-a", r#","annotations":{"gt.dev/protocol":"tls"}"#));
        assert!(woken(), "an annotation");
        store.remove(&None, &object("edge", "a", "u-a", ""));
        assert!(woken(), "a deletion");
    }
}
