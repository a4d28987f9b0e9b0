//! How many connections there may be, and which one goes when another comes.
//!
//! A peer that is kept out because others hold all places is what a health server must not have. So a new
//! connection always gets a place, and the oldest one loses it: an answer takes less than a millisecond,
//! so the oldest is idle or slow.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::task::AbortHandle;

/// Whose places they are: nobody from outside pushes out the pod's own commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pool {
    Inside,
    Outside,
}

/// The places of all connections. Cloned freely.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    inside: Arc<Mutex<Places>>,
    outside: Arc<Mutex<Places>>,
}

#[derive(Debug)]
struct Places {
    limit: usize,
    next: u64,
    taken: VecDeque<(u64, AbortHandle)>,
}

/// The right to be connected; given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    places: Arc<Mutex<Places>>,
}

impl Slots {
    pub(super) fn new(inside: usize, outside: usize) -> Self {
        let places = |limit| Arc::new(Mutex::new(Places { limit, next: 0, taken: VecDeque::new() }));
        Self { inside: places(inside), outside: places(outside) }
    }

    /// A place that nobody has yet.
    pub(super) fn place(&self, pool: Pool) -> Place {
        let places = match pool {
            Pool::Inside => Arc::clone(&self.inside),
            Pool::Outside => Arc::clone(&self.outside),
        };
        let number = {
            let mut places = lock(&places);
            places.next += 1;
            places.next
        };
        Place { number, places }
    }

    /// Takes the place `number` for a task; gives the tasks that lose theirs.
    pub(super) fn take(&self, pool: Pool, number: u64, task: AbortHandle) -> Vec<AbortHandle> {
        let mut places = match pool {
            Pool::Inside => lock(&self.inside),
            Pool::Outside => lock(&self.outside),
        };
        if !task.is_finished() {
            places.taken.push_back((number, task));
        }
        let over = places.taken.len().saturating_sub(places.limit);
        places.taken.drain(..over).map(|(_, task)| task).collect()
    }
}

impl Place {
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.places).taken.retain(|(number, _)| *number != self.number);
    }
}

/// The lock is held for list operations only, so a panic cannot leave half of one behind.
fn lock(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises more connections than places so that the oldest goes, the newest stays, and the other pool
    /// is not touched.
    #[tokio::test]
    async fn the_oldest_goes() {
        let slots = Slots::new(1, 2);
        let mut tasks = Vec::new();
        for pool in [Pool::Inside, Pool::Outside, Pool::Outside, Pool::Outside] {
            let place = slots.place(pool);
            let number = place.number();
            let task = tokio::spawn(async move {
                let _place = place;
                std::future::pending::<()>().await;
            });
            tokio::task::yield_now().await;
            for loser in slots.take(pool, number, task.abort_handle()) {
                loser.abort();
            }
            tasks.push(task);
        }
        tokio::task::yield_now().await;
        let ended: Vec<_> = tasks.iter().map(tokio::task::JoinHandle::is_finished).collect();
        assert_eq!(ended, [false, true, false, false]);
        assert_eq!(lock(&slots.outside).taken.len(), 2);
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        for task in tasks {
            assert!(task.await.unwrap_err().is_cancelled());
        }
        assert!(lock(&slots.outside).taken.is_empty() && lock(&slots.inside).taken.is_empty());
    }
}
