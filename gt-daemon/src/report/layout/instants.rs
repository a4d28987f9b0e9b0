//! The instants that a drain turns on: lines through all rows, with their names on top.

use super::{
    super::scene::Anchor,
    canvas::{Canvas, LINE, Label},
};
use crate::drain::{
    fact::{Fact, Timed},
    intervals::instants,
    verdict::Picture,
};

/// Lanes of names at most.
const MOST_LANES: u8 = 12;

/// An instant with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant {
    /// UTC microseconds.
    pub at: i64,
    pub name: &'static str,
    pub class: &'static str,
    /// Whether its order among others is what a verdict is about.
    pub decides: bool,
}

/// A line through all rows.
#[derive(Clone, Copy, Debug)]
pub struct Guide {
    x: f64,
    /// Where it begins: at its name.
    top: f64,
    class: &'static str,
}

/// The instants of a drain that are known, in order of time.
#[must_use]
pub fn key_instants(facts: &[Timed]) -> Vec<Instant> {
    let Some(picture) = Picture::of(facts) else { return Vec::new() };
    let known = instants(facts);
    let cuts = || picture.ends.iter().filter(|blamed| blamed.breaks()).map(|blamed| blamed.ts);
    let first =
        |is_it: fn(&Fact) -> bool| facts.iter().find(|timed| is_it(&timed.fact)).map(|timed| timed.ts);
    let predicted = first(|fact| matches!(fact, Fact::HaproxyBackendDown { predicted: true, .. }));
    let all = [
        (Some(picture.begun), "drain began", "begun", true),
        (first(|fact| matches!(fact, Fact::PodDeleted { .. })), "deletion asked for", "life", false),
        (first(|fact| *fact == Fact::EnvoyDrainListeners), "proxy began to drain", "life", false),
        (picture.turned, "LB first told 503", "turned", true),
        (picture.active_zero, "nothing in flight any more", "zero", true),
        (known.lb_down, "LB: DOWN", "down", true),
        (predicted.filter(|_| known.lb_down.is_none()), "LB: DOWN, predicted", "down", true),
        (cuts().min(), "first cut", "cut", true),
        (cuts().max().filter(|last| cuts().min() != Some(*last)), "last cut", "cut", true),
        (known.first_rst, "first RST", "rst", true),
        (picture.deadline, "grace period over", "life", false),
        (first(|fact| *fact == Fact::PodGone), "pod gone", "life", false),
        (picture.ended, "drain ended", "life", false),
    ];
    let known = |(at, name, class, decides)| Option::map(at, |at| Instant { at, name, class, decides });
    let mut all: Vec<Instant> = all.into_iter().filter_map(known).collect();
    all.sort_by_key(|one| one.at);
    all
}

/// The names of those that the picture shows.
pub fn row(canvas: &mut Canvas, facts: &[Timed]) -> Vec<Guide> {
    let shown: Vec<Instant> =
        key_instants(facts).into_iter().filter(|one| canvas.scale.has(one.at)).collect();
    let label = |one: &Instant| Label {
        x: canvas.scale.x(one.at) + 3.0,
        text: one.name.to_owned(),
        class: one.class,
    };
    let placed = canvas.place(shown.iter().map(label).collect(), MOST_LANES);
    let top = canvas.y;
    let lanes = placed.iter().map(|one| one.lane + 1).max().unwrap_or(0);
    let mut guides = Vec::new();
    for one in placed {
        let y = top + f64::from(one.lane) * LINE;
        // One that stands to the left of its instant touches the line from the other side.
        let x = if one.anchor == Anchor::End { one.x - 6.0 } else { one.x };
        canvas.text(x, y, one.anchor, one.class, &one.text);
        guides.push(Guide { x: one.wanted - 3.0, top: y + 2.0, class: one.class });
    }
    canvas.y += f64::from(lanes) * LINE;
    guides
}

/// Their lines, from the names to the last row.
pub fn guides(canvas: &mut Canvas, guides: &[Guide], bottom: f64) {
    for guide in guides {
        canvas.line((guide.x, guide.top), (guide.x, bottom), line_class(guide.class));
    }
}

fn line_class(class: &str) -> &'static str {
    match class {
        "begun" => "guide begun",
        "turned" => "guide turned",
        "zero" => "guide zero",
        "down" => "guide down",
        "cut" => "guide cut",
        "rst" => "guide rst",
        _ => "guide life",
    }
}
