//! One watch: it begins again for as long as the daemon runs, with pauses that grow.
//!
//! kube's watcher lists, watches and resumes a watch that ended. What it leaves to its user is done here:
//!
//! - pauses after faults, with jitter, as long as the server asks;
//! - a list anew after every fault: the watcher would ask again from the same place, also where the server has
//!   answered 410 to that, and would not tell when the server answers again;
//! - a streaming list where the server has it, an ordinary one where it has not or never ends it.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use futures_util::StreamExt as _;
use kube::{
    Api, Client,
    runtime::watcher::{self, Event, InitialListStrategy, watcher},
};
use tracing::debug;

use super::{
    client::AskedPause,
    fault::{self, End},
    object::Object,
    store::{Entries, Scope, Store},
};

/// How many pods a page of an ordinary list has.
const PAGE: u32 = 100;

/// How a watch is timed.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The first pause after a fault; jitter may double each.
    pub least: Duration,
    /// The pause that pauses grow to.
    pub most: Duration,
    /// A watch that lasted so long was sound: pauses begin anew.
    pub sound: Duration,
    /// How long the first list may take, all pages or events of it.
    pub list: Duration,
    /// How long the server is asked to keep a watch open. When nothing, not even its end, is heard for five
    /// seconds longer, the connection is taken for dead.
    pub watch: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            least: Duration::from_millis(800),
            most: Duration::from_secs(15),
            sound: Duration::from_secs(60),
            list: Duration::from_secs(60),
            watch: Duration::from_secs(180),
        }
    }
}

/// What is asked of whom.
#[derive(Clone, Debug)]
pub struct Question {
    /// The API server's address, for messages.
    pub server: String,
    pub node: String,
    pub scope: Scope,
    pub timing: Timing,
}

/// Follows the pods of a node, until it is dropped.
pub async fn follow(client: Client, asked: AskedPause, question: Question, store: Arc<Store>) {
    let api: Api<Object> = match &question.scope {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let mut streaming = true;
    let mut pauses = pauses(question.timing);
    loop {
        let mut told_since = None;
        let end = session(&api, &question, &store, streaming, &mut told_since).await;
        let sound = told_since.is_some_and(|since: Instant| since.elapsed() >= question.timing.sound);
        if sound {
            pauses = self::pauses(question.timing);
        }
        let wanted = asked.take();
        let pause = match end {
            End::Expired if sound => Duration::ZERO,
            End::Expired => pauses.next().unwrap_or(question.timing.most),
            End::NoStreaming => {
                debug!(server = question.server, "no streaming list here: ordinary lists from now on");
                streaming = false;
                Duration::ZERO
            }
            End::Fault { text, pause } => {
                store.fail(&question.scope, text, Instant::now());
                let own = pauses.next().unwrap_or(question.timing.most);
                own.max(pause.or(wanted).unwrap_or_default())
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Lists and watches until something ends it. Sets `told_since` once the list is whole.
async fn session(
    api: &Api<Object>,
    question: &Question,
    store: &Store,
    streaming: bool,
    told_since: &mut Option<Instant>,
) -> End {
    let Question { server, scope, timing, .. } = question;
    let mut events = pin!(watcher(api.clone(), config(question, store, streaming)));
    let deadline = tokio::time::Instant::now() + timing.list;
    let mut list: Option<Entries> = None;
    loop {
        let next = match told_since {
            Some(_) => events.next().await,
            None => match tokio::time::timeout_at(deadline, events.next()).await {
                Ok(next) => next,
                Err(_) => return unended(server, streaming, timing.list),
            },
        };
        match next {
            Some(Ok(Event::Init)) if list.is_some() || told_since.is_some() => {
                return unended(server, streaming, timing.list);
            }
            Some(Ok(Event::Init)) => list = Some(Entries::new()),
            Some(Ok(Event::InitApply(object))) => store.gather(list.get_or_insert_default(), &object),
            Some(Ok(Event::InitDone)) => {
                store.replace(scope, list.take().unwrap_or_default());
                *told_since = Some(Instant::now());
            }
            Some(Ok(Event::Apply(object))) => store.change(scope, &object),
            Some(Ok(Event::Delete(object))) => store.remove(scope, &object),
            Some(Err(error)) => return fault::end(&error, server, scope, streaming),
            None => return unended(server, streaming, timing.list),
        }
    }
}

/// The first list did not come to its end.
fn unended(server: &str, streaming: bool, time: Duration) -> End {
    if streaming {
        // Servers have been seen that take the parameters and never send the end of the list.
        return End::NoStreaming;
    }
    let text = format!("{server} did not send the whole list of pods within {} s", time.as_secs_f32());
    End::Fault { text, pause: None }
}

fn config(question: &Question, store: &Store, streaming: bool) -> watcher::Config {
    let labels = &store.selection().labels;
    watcher::Config {
        label_selector: (!labels.selects_all()).then(|| labels.to_string()),
        field_selector: Some(format!("spec.nodeName={}", question.node)),
        timeout: u32::try_from(question.timing.watch.as_secs()).ok(),
        initial_list_strategy: match streaming {
            true => InitialListStrategy::StreamingList,
            false => InitialListStrategy::ListWatch,
        },
        page_size: Some(PAGE),
        ..watcher::Config::default()
    }
}

fn pauses(timing: Timing) -> ExponentialBackoff {
    ExponentialBuilder::new()
        .with_min_delay(timing.least)
        .with_max_delay(timing.most)
        .with_factor(2.0)
        .with_jitter()
        .without_max_times()
        .build()
}
