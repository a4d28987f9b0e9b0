//! What the views see of LBs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{lb::word::Serving, poll::Meter};

/// Shared by the observer, which writes, and the views.
#[derive(Debug, Default)]
pub struct LbBoard {
    /// Calls to all LBs.
    pub meter: Meter,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether each LB answered last time.
    answers: BTreeMap<Arc<str>, bool>,
    /// What they do with each pod that drains.
    serves: BTreeMap<Arc<str>, Serving>,
}

impl LbBoard {
    /// Whether all LBs answered last time; `None` while none is asked, or has not had the time to answer.
    #[must_use]
    pub fn all_up(&self) -> Option<bool> {
        let state = self.lock();
        (!state.answers.is_empty()).then(|| state.answers.values().all(|up| *up))
    }

    /// What they do with a pod, by its UID; `None` where that is not known, and for one that does not drain.
    #[must_use]
    pub fn serving(&self, uid: &str) -> Option<Serving> {
        self.lock().serves.get(uid).copied()
    }

    pub(super) fn answers(&self, lb: &Arc<str>, up: bool) {
        self.lock().answers.insert(Arc::clone(lb), up);
    }

    pub(super) fn not_asked(&self) {
        self.lock().answers.clear();
    }

    pub(super) fn serves(&self, uid: &Arc<str>, serving: Option<Serving>) {
        let mut state = self.lock();
        match serving {
            Some(serving) => drop(state.serves.insert(Arc::clone(uid), serving)),
            None => drop(state.serves.remove(uid)),
        }
    }

    pub(super) fn keep(&self, drains: impl Fn(&str) -> bool) {
        self.lock().serves.retain(|uid, _| drains(uid));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises LBs and pods over a drain, so that what is not asked is not told of.
    #[test]
    fn a_drain() {
        let board = LbBoard::default();
        assert_eq!((board.all_up(), board.serving("u")), (None, None));
        board.answers(&"a".into(), true);
        board.answers(&"b".into(), false);
        board.serves(&"u".into(), Some(Serving::NoNew));
        assert_eq!((board.all_up(), board.serving("u")), (Some(false), Some(Serving::NoNew)));
        board.answers(&"b".into(), true);
        assert_eq!(board.all_up(), Some(true));
        board.serves(&"u".into(), None);
        assert_eq!(board.serving("u"), None);
        board.serves(&"v".into(), Some(Serving::Up));
        board.keep(|uid| uid != "v");
        board.not_asked();
        assert_eq!((board.all_up(), board.serving("v")), (None, None));
    }
}
