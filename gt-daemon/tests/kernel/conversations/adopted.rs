//! Connections older than the daemon: taken in, and judged by no more than was seen of them.

use std::{io::Read as _, sync::Arc};

use anyhow::Result;

use super::{
    Counts, Held, Log, expect,
    pair::{Pair, REQUEST},
    phases::gone,
};
use crate::{
    Case, Skip,
    daemon::{self, Backend, Shared},
    scene::{Family, Scene},
};

/// What happens before the daemon comes and after, and what is counted.
struct Story {
    name: &'static str,
    lines: &'static str,
    /// Whether the pod has read the request before.
    reads: bool,
    counts: &'static str,
    phases: &'static str,
    then: fn(Pair<'_>) -> Result<Held>,
}

/// The story in which what is spoken is told by what is read.
const RECOGNIZED: &str = "a_request_line_read_since";

const STORIES: &[Story] = &[
    Story {
        name: "closed_while_nothing_is_known",
        lines: "",
        reads: true,
        counts: "adopted data, closed data",
        phases: "unknown",
        then: |pair| gone(pair.peer_close()?),
    },
    // Declared or not: it may be anywhere in a request.
    Story {
        name: "declared_http1_and_not_read_since",
        lines: "protocol = \"http1\"",
        reads: true,
        counts: "adopted data, closed data, rst data received reset",
        phases: "unknown",
        then: |pair| gone(pair.peer_rst()?),
    },
    Story {
        name: "declared_http1_and_read_since",
        lines: "protocol = \"http1\"",
        reads: true,
        counts: "adopted data, closed data, cut fin_received socket",
        phases: "awaiting",
        then: |mut pair| {
            pair.answer()?;
            pair.request()?;
            gone(pair.peer_close()?)
        },
    },
    Story {
        name: "declared_http1_and_answered_since",
        lines: "protocol = \"http1\"",
        reads: true,
        counts: "adopted data, closed data",
        phases: "idle",
        then: |mut pair| {
            pair.answer()?;
            pair.request()?;
            pair.answer()?;
            gone(pair.peer_close()?)
        },
    },
    Story {
        name: "unread_before_and_after",
        lines: "",
        reads: false,
        counts: "adopted data, closed data, cut rst_received possible, rst data received reset, \
                 cut_reset received possible",
        phases: "unread",
        then: |pair| gone(pair.peer_rst()?),
    },
    Story {
        name: RECOGNIZED,
        lines: "",
        reads: true,
        counts: "adopted data, closed data, cut fin_received socket",
        phases: "awaiting",
        then: |mut pair| {
            pair.answer()?;
            pair.request()?;
            gone(pair.peer_close()?)
        },
    },
    Story {
        name: "declared_http2",
        lines: "protocol = \"http2\"",
        reads: false,
        counts: "adopted data, closed data, rst data received reset",
        phases: "unread",
        then: |pair| gone(pair.peer_rst()?),
    },
    Story {
        name: "stays_open",
        lines: "",
        reads: true,
        counts: "adopted data, active data",
        phases: "",
        then: |pair| Ok(vec![pair.pod, pair.peer]),
    },
];

pub fn cases(backend: Backend, skip: Option<&String>) -> Vec<Case> {
    let skip: Skip = skip.cloned();
    let mut cases = Vec::new();
    for family in Family::ALL {
        let name = format!("{}::conversations::adopted_{}", backend.name(), family.name());
        cases.push(Case::new(name, skip.clone(), move || all(backend, family)));
    }
    cases
}

/// Each story on a pod that is first watched when the connection is there.
fn all(backend: Backend, family: Family) -> Result<()> {
    let late = Arc::new(Shared::start(backend, &[])?);
    // The rest of them say what they speak, or need not.
    let told = |story: &&Story| daemon::recognizes() || story.name != RECOGNIZED;
    for story in STORIES.iter().filter(told) {
        one(&Shared::of(backend)?, &late, family, story)
            .map_err(|error| error.context(format!("story {}", story.name)))?;
    }
    Ok(())
}

fn one(early: &Arc<Shared>, late: &Arc<Shared>, family: Family, story: &Story) -> Result<()> {
    let scene = Scene::new(early, family)?;
    let listener = scene.listen_in_pod()?;
    let peer = scene.dial_pod(listener.local_addr()?.port())??;
    let mut pair = Pair::of(&scene, crate::conversation::accept(&listener)?, peer)?;
    pair.send(REQUEST)?;
    if story.reads {
        pair.pod.read_exact(&mut [0; REQUEST.len()])?;
    }
    let netns = format!("netns = \"{}\"\n{}", scene.pod.path().display(), story.lines);
    let pod = late.watch(&format!("{}-late", scene.watched.name), &netns)?;
    expect(&pod, &Counts::none(), "adopted data, active data")?;
    let log = Log::begin(&pod);
    let held = (story.then)(pair)?;
    expect(&pod, &Counts::none(), story.counts)?;
    log.expect(&pod, story.phases)?;
    drop(held);
    Ok(())
}
