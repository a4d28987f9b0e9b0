//! The picture of a drain: both clocks on one time axis, row by row. Pure: facts in order and a width give a scene.

mod bands;
mod canvas;
mod ends;
mod gaps;
mod instants;
pub mod spans;
mod steps;

use self::{
    canvas::{Canvas, LINE},
    instants::{Instant, key_instants},
};
use super::{
    scene::{Anchor, Scene},
    series::{flight, hc, lb, life},
    text::{day, length, plain},
};
use crate::drain::{fact::Timed, record::Record};

/// How wide a picture for a desk and for paper is, in units of its view box, and how wide one for a phone.
pub const WIDE: f64 = 880.0;
pub const NARROW: f64 = 420.0;

/// Servers of load balancers that have a row each; the table has the words of all.
const MOST_SERVERS: usize = 6;

/// From when to when a picture goes, UTC microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: i64,
    pub to: i64,
}

impl Window {
    /// All facts, with a little room on both sides.
    #[must_use]
    pub fn whole(facts: &[Timed]) -> Self {
        let from = facts.iter().map(|timed| timed.ts).min().unwrap_or(0);
        let to = facts.iter().map(|timed| timed.ts).max().unwrap_or(0);
        Self { from, to }.widened(50)
    }

    /// The instants that decided, when they are so close together that the whole picture does not show their order: all of
    /// them, or those around the one that tells most.
    #[must_use]
    pub fn decisive(facts: &[Timed]) -> Option<Self> {
        let decided: Vec<Instant> = key_instants(facts).into_iter().filter(|one| one.decides).collect();
        let whole = Self::whole(facts).length();
        let turn = ["first cut", "LB: DOWN", "nothing in flight any more"];
        let turn = turn.iter().find_map(|name| decided.iter().find(|one| one.name == *name))?.at;
        let within = |length: i64| {
            let near = |one: &&Instant| one.at.abs_diff(turn) <= length.unsigned_abs();
            let near: Vec<i64> = decided.iter().filter(near).map(|one| one.at).collect();
            let (from, to) = (*near.iter().min()?, *near.iter().max()?);
            let close = Self { from, to: to.max(from.saturating_add(1_000)) }.widened(4);
            (near.len() > 1 && close.length() < whole / 3).then_some(close)
        };
        within(i64::MAX).or_else(|| within(whole / 20))
    }

    fn length(self) -> i64 {
        self.to.saturating_sub(self.from)
    }

    /// Longer by one part of so many at either end.
    fn widened(self, part: i64) -> Self {
        let more = (self.length() / part).max(1_000);
        Self { from: self.from.saturating_sub(more), to: self.to.saturating_add(more) }
    }
}

/// Lays out the facts of a record that lie in a window.
#[must_use]
pub fn layout(record: &Record, window: Window, width: f64) -> Scene {
    let facts = &record.facts;
    let mut canvas = Canvas::new(width, window.from, window.to);
    // What a calendar has of it.
    let span = (canvas.scale.from, canvas.scale.to);
    let ticks = if width > 800.0 { 9 } else { 4 };

    axis(&mut canvas, ticks);
    let guides = instants::row(&mut canvas, facts);

    canvas.heading("Clock A: the gateway finishes what it holds", "clock");
    canvas.heading("health sidecar", "row");
    bands::row(&mut canvas, hc::states(facts, span).iter().map(bands::state));
    let (downstream, upstream) = flight::requests(facts, span);
    steps::row(&mut canvas, "requests in flight at the proxy", 80.0, &downstream, &upstream);
    let (active, closing) = flight::connections(facts, span);
    steps::row(&mut canvas, "connections of users", 36.0, &active, &closing);

    canvas.heading("Clock B: the load balancer turns away", "clock");
    canvas.heading("health answer to the load balancer", "row");
    bands::row(&mut canvas, hc::told(facts, span).iter().map(bands::told));
    let servers = lb::servers(facts, span);
    if servers.is_empty() {
        canvas.heading("load balancer", "row");
        bands::unread(&mut canvas);
    }
    for server in servers.iter().take(MOST_SERVERS) {
        canvas.heading(&format!("load balancer: {}", plain(&server.name)), "row");
        bands::row(&mut canvas, server.words.iter().map(bands::word));
    }
    if servers.len() > MOST_SERVERS {
        let more = format!("and {} further servers: see the table of facts", servers.len() - MOST_SERVERS);
        canvas.heading(&more, "row");
    }

    canvas.heading("What happened", "clock");
    ends::rows(&mut canvas, facts);
    canvas.heading("pod", "row");
    bands::row(&mut canvas, life::life(facts, span).iter().map(bands::life));
    gaps::rows(&mut canvas, facts);
    let bottom = canvas.y + 4.0;

    canvas.heading("Intervals", "clock");
    spans::rows(&mut canvas, facts);
    instants::guides(&mut canvas, &guides, bottom);
    distances(&mut canvas, record.begun().unwrap_or(span.0), ticks);

    let description = describe(record, span);
    Scene { width, height: canvas.y + 6.0, title: title(record), description, items: canvas.items }
}

/// The pod's name, as it may stand on a page.
#[must_use]
pub fn name(record: &Record) -> String {
    if record.pod.is_empty() {
        return "a pod whose name is not known".to_owned();
    }
    format!("{}/{}", plain(&record.namespace), plain(&record.pod))
}

fn title(record: &Record) -> String {
    format!("Drain of {}: {}", name(record), record.outcome().word())
}

fn describe(record: &Record, (from, to): (i64, i64)) -> String {
    let told = [
        ("from the drain's beginning until nothing was in flight", record.intervals.drain_to_active_zero),
        ("from there until the load balancer's DOWN", record.intervals.active_zero_to_lb_down),
        ("from there until the first RST", record.intervals.lb_down_to_first_rst),
    ];
    let interval = |(what, seconds): (&str, Option<f64>)| {
        let seconds = seconds.map_or("not known".to_owned(), |seconds| format!("{seconds:.6} s"));
        format!("{what}: {seconds}")
    };
    let intervals: Vec<String> = told.into_iter().map(interval).collect();
    let reasons: Vec<String> = record.verdict.reasons.iter().map(|reason| plain(reason)).collect();
    format!(
        "{} of time, in rows one below the other. {}. {}. All facts are in the table below.",
        length(to.saturating_sub(from)),
        reasons.join("; "),
        intervals.join("; ")
    )
}

/// The time of day.
fn axis(canvas: &mut Canvas, ticks: u16) {
    let caption = format!("UTC, {}", day(canvas.scale.from));
    canvas.heading(&caption, "row");
    ticked(canvas, canvas.scale.ticks(ticks));
}

/// Seconds since the drain began.
fn distances(canvas: &mut Canvas, zero: i64, ticks: u16) {
    canvas.heading("since the drain began", "row");
    ticked(canvas, canvas.scale.distances(zero, ticks));
}

fn ticked(canvas: &mut Canvas, ticks: Vec<(f64, String)>) {
    let (left, right, y) = (canvas.scale.left, canvas.scale.right, canvas.y);
    canvas.line((left, y + 0.5), (right, y + 0.5), "axis");
    // Where the last label ends: the one at the right edge stands to the left of its tick, if there is room.
    let mut until = f64::MIN;
    for (x, label) in ticks {
        canvas.line((x, y), (x, y + 5.0), "axis");
        let width = canvas::extent(&label) + 2.0;
        let is_last = x + width > canvas.width;
        let (anchor, from) = if is_last { (Anchor::End, x - width) } else { (Anchor::Start, x) };
        if from >= until {
            canvas.text(x, y + 4.0, anchor, "tick", &label);
            until = from + width;
        }
    }
    canvas.y += LINE + 5.0;
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
