//! Scripted conversations, both ends controlled, each with every count it must leave behind.
//!
//! The table is in the files below. A conversation names all series of its pod that are not zero after it, so
//! that a count too many fails as one too few does, and the phase that each teardown was judged by.

mod adopted;
mod ends;
pub mod pair;
mod phases;
mod protocols;
mod raw;
mod roles;

use std::{
    collections::BTreeMap,
    net::TcpStream,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use xtask::sandbox::eventually;

use crate::{
    Case, Skip,
    daemon::{self, Backend, Shared, WatchedPod},
    scene::{Family, Scene},
};

pub use pair::ended;

/// Sockets that stay open while a conversation's counts are compared.
type Held = Vec<TcpStream>;

/// A conversation and what it leaves behind.
struct Talk {
    name: &'static str,
    place: Place,
    families: &'static [Family],
    /// As [`Counts`] writes them, with commas; without a number, 1.
    counts: &'static str,
    /// The phases of its teardowns, in the order of the alphabet.
    phases: &'static str,
    play: fn(&Scene) -> Result<Held>,
}

/// Where a conversation is held.
enum Place {
    /// On the pod that all use.
    Stage,
    /// On a pod of its own, with these lines in the pods file.
    Pod(&'static str),
    /// On a daemon of its own, with these arguments.
    Daemon(&'static [&'static str]),
}

/// Where it depends on the kernel which phase a teardown was judged by.
const ANY: &str = "?";

const BOTH: &[Family] = &[Family::V4, Family::V6];

const fn talk(
    name: &'static str,
    counts: &'static str,
    phases: &'static str,
    play: fn(&Scene) -> Result<Held>,
) -> Talk {
    Talk { name, place: Place::Stage, families: BOTH, counts, phases, play }
}

impl Talk {
    const fn at(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// Whether it is about what is recognized where nothing is declared.
    fn needs_recognition(&self) -> bool {
        let recognized = protocols::TALKS.iter().any(|talk| talk.name == self.name);
        matches!(self.place, Place::Stage) && (recognized || self.phases.contains("unknown"))
    }

    const fn by(self, families: &'static [Family]) -> Self {
        Self { families, ..self }
    }
}

pub fn cases(backend: Backend, skip: Option<&String>) -> Vec<Case> {
    let skip: Skip = skip.cloned();
    let mut cases = Vec::new();
    for family in Family::ALL {
        for talk in [phases::TALKS, ends::TALKS, protocols::TALKS, roles::TALKS].into_iter().flatten() {
            if talk.families.contains(&family) {
                let name = format!("{}::conversations::{}_{}", backend.name(), talk.name, family.name());
                let skip = skip.clone().or_else(|| talk.needs_recognition().then(daemon::unrecognized)?);
                cases.push(Case::new(name, skip, move || hold(backend, family, talk)));
            }
        }
    }
    cases.extend(adopted::cases(backend, skip.as_ref()));
    cases
}

/// The pod that conversations are held on, one after the other: counts are differences.
static STAGE: Mutex<Option<(Backend, Scene)>> = Mutex::new(None);

/// Takes the stage down: a static is never dropped.
pub fn leave_stage() {
    *STAGE.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

fn hold(backend: Backend, family: Family, talk: &Talk) -> Result<()> {
    match talk.place {
        Place::Pod(lines) => compare(&Scene::with(&Shared::of(backend)?, family, lines)?, talk),
        Place::Daemon(arguments) => {
            compare(&Scene::new(&Arc::new(Shared::start(backend, arguments)?), family)?, talk)
        }
        Place::Stage => {
            let mut stage = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
            // Taken: after a failure the next conversation begins on a new pod.
            let scene = match stage.take() {
                Some((its, scene)) if its == backend && scene.family == family => scene,
                other => {
                    drop(other);
                    Scene::new(&Shared::of(backend)?, family)?
                }
            };
            compare(&scene, talk)?;
            *stage = Some((backend, scene));
            Ok(())
        }
    }
}

/// Holds the conversation and compares all that it left behind.
fn compare(scene: &Scene, talk: &Talk) -> Result<()> {
    let log = Log::begin(&scene.watched);
    let before = Counts::of(&scene.watched)?;
    ensure!(before.is_quiet(), "a connection is open before the conversation: {before:?}");
    let held = (talk.play)(scene)?;
    expect(&scene.watched, &before, talk.counts)?;
    log.expect(&scene.watched, talk.phases)?;
    drop(held);
    eventually("all connections to close", Duration::from_secs(5), || {
        Counts::of(&scene.watched).ok()?.is_quiet().then_some(())
    })
}

/// Waits for the expected counts, and then some more: one too many would come right after.
fn expect(pod: &WatchedPod, before: &Counts, expected: &str) -> Result<()> {
    let expected = Counts::parse(expected)?;
    let mut last = None;
    let _compared_below = eventually("the counts", Duration::from_secs(5), || {
        last = Counts::of(pod).ok().map(|now| now.since(before));
        (last.as_ref() == Some(&expected)).then_some(())
    });
    thread::sleep(Duration::from_millis(30));
    let counted = Counts::of(pod)?.since(before);
    ensure!(counted == expected, "counted  {counted:?}\nexpected {expected:?}\n{}", pod.daemon().log());
    Ok(())
}

/// All series of a pod that are not zero, by short names:
/// `opened LANE`, `closed LANE`, `adopted LANE`, `active LANE`, `closing LANE`, `rst LANE DIRECTION REASON`,
/// `cut HOW EVIDENCE`, with ` killed` where that is the cause, `cut_reset DIRECTION EVIDENCE`. A lane is the class of an inbound one, else the role.
#[derive(Debug, PartialEq, Eq)]
struct Counts(BTreeMap<String, u64>);

impl Counts {
    fn parse(text: &str) -> Result<Self> {
        let mut counts = BTreeMap::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, count) = match part.rsplit_once(' ') {
                Some((name, number)) if number.starts_with(|first: char| first.is_ascii_digit()) => {
                    (name, number.parse().with_context(|| format!("{part:?} ends in no number"))?)
                }
                _ => (part, 1),
            };
            ensure!(counts.insert(name.to_owned(), count).is_none(), "{name} is expected twice");
        }
        Ok(Self(counts))
    }

    fn none() -> Self {
        Self(BTreeMap::new())
    }

    fn of(pod: &WatchedPod) -> Result<Self> {
        let metrics = pod.daemon().metrics()?;
        let mut counts = BTreeMap::new();
        for series in metrics.with("pod", &pod.name).filter(|series| series.value != 0.0) {
            let label = |name| series.label(name);
            let lane = match label("role") {
                "inbound" => label("class"),
                role => role,
            };
            let name = match series.name {
                "gt_connections_opened_total" => format!("opened {lane}"),
                "gt_connections_closed_total" => format!("closed {lane}"),
                "gt_connections_adopted_total" => format!("adopted {lane}"),
                "gt_active_connections" => format!("active {lane}"),
                "gt_closing_connections" => format!("closing {lane}"),
                "gt_rst_total" => format!("rst {lane} {} {}", label("direction"), label("reason")),
                "gt_inflight_cuts_total" => {
                    let killed = if label("cause") == "killed" { " killed" } else { "" };
                    format!("cut {} {}{killed}", label("how"), label("evidence"))
                }
                "gt_rst_during_inflight_total" => {
                    format!("cut_reset {} {}", label("direction"), label("evidence"))
                }
                _ => continue,
            };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are whole")]
            let value = series.value as u64;
            *counts.entry(name).or_default() += value;
        }
        Ok(Self(counts))
    }

    /// What has been added since.
    fn since(mut self, before: &Self) -> Self {
        for (name, count) in &mut self.0 {
            *count -= before.0.get(name).copied().unwrap_or_default().min(*count);
        }
        self.0.retain(|_, count| *count > 0);
        self
    }

    /// Whether no connection is open.
    fn is_quiet(&self) -> bool {
        !self.0.keys().any(|name| name.starts_with("active ") || name.starts_with("closing "))
    }
}

/// What the daemon's log tells of teardowns from a moment on.
struct Log {
    from: usize,
}

impl Log {
    /// Events reach the log some milliseconds after the counts: those of the last conversation come first.
    fn begin(pod: &WatchedPod) -> Self {
        thread::sleep(Duration::from_millis(50));
        Self { from: pod.daemon().log().len() }
    }

    /// Waits until the phases of the teardowns are the expected ones.
    fn expect(&self, pod: &WatchedPod, expected: &str) -> Result<()> {
        if expected == ANY {
            return Ok(());
        }
        let expected: Vec<_> = expected.split_ascii_whitespace().map(str::to_owned).collect();
        let mut last = Vec::new();
        let reached = eventually("the phases in the log", Duration::from_secs(5), || {
            last = self.phases(pod);
            (last == expected).then_some(())
        });
        ensure!(
            reached.is_ok(),
            "phases {last:?}, not {expected:?}\n{}",
            pod.daemon().log().get(self.from..).unwrap_or_default()
        );
        Ok(())
    }

    fn phases(&self, pod: &WatchedPod) -> Vec<String> {
        let log = pod.daemon().log();
        let mine = format!("pod=\"{}\"", pod.name);
        let lines = log.get(self.from..).unwrap_or_default().lines().filter(|line| line.contains(&mine));
        let words = lines.filter_map(|line| line.split_once("phase=")?.1.split(' ').next());
        let mut phases: Vec<_> = words.map(str::to_ascii_lowercase).collect();
        phases.sort_unstable();
        phases
    }
}
