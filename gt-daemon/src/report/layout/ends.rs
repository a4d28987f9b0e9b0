//! Rows of marks: how connections of users and streams ended, and RSTs. Each kind has a row and a shape of its own.

use super::{
    super::{
        scene::{Anchor, MARK, Shape},
        words,
    },
    canvas::{Canvas, extent},
};
use crate::drain::{
    blame::Blamed,
    fact::{Fact, Source, Timed, Way},
    verdict::Picture,
};

/// The height of a row.
const HEIGHT: f64 = 14.0;

/// Sentences in the tip of one mark, at most.
const MOST_TOLD: usize = 6;

/// One row.
#[derive(Debug)]
struct Kind {
    title: &'static str,
    shape: Shape,
    class: &'static str,
    /// A row of its own even when nothing is in it: that nothing was cut is told, too.
    always: bool,
    events: Vec<Event>,
}

/// Something at an instant (UTC microseconds), of so many connections or streams.
#[derive(Clone, Debug)]
struct Event {
    at: i64,
    count: u64,
    words: String,
}

/// Draws the rows.
pub fn rows(canvas: &mut Canvas, facts: &[Timed]) {
    for kind in kinds(facts) {
        if !kind.always && kind.events.is_empty() {
            continue;
        }
        let sum = kind.events.iter().fold(0_u64, |sum, event| sum.saturating_add(event.count));
        let shown = kind.events.iter().filter(|event| canvas.scale.has(event.at));
        let here = shown.fold(0_u64, |sum, event| sum.saturating_add(event.count));
        let here = if here == sum { String::new() } else { format!(", {here} of them in this picture") };
        canvas.heading(&format!("{}: {sum}{here}", kind.title), "row");
        row(canvas, &kind, facts);
    }
}

fn kinds(facts: &[Timed]) -> Vec<Kind> {
    let ends = Picture::of(facts).map(|picture| picture.ends).unwrap_or_default();
    let of = |is_it: fn(&Blamed<'_>) -> bool| -> Vec<Event> {
        let event = |blamed: &Blamed<'_>| Event {
            at: blamed.ts,
            count: blamed.end.count,
            words: words::blamed(blamed),
        };
        ends.iter().filter(|blamed| is_it(blamed)).map(event).collect()
    };
    let rsts = |way: Way| -> Vec<Event> {
        let of_way = |timed: &Timed| match &timed.fact {
            Fact::TcpRst { direction, .. } if *direction == way => {
                Some(Event { at: timed.ts, count: 1, words: words::fact(&timed.fact) })
            }
            _ => None,
        };
        facts.iter().filter_map(of_way).collect()
    };
    let kind = |title, shape, class, always, events| Kind { title, shape, class, always, events };
    vec![
        kind("cut", Shape::Cross, "mark cut", true, of(|blamed| blamed.breaks())),
        kind(
            "perhaps cut",
            Shape::Question,
            "mark perhaps",
            false,
            of(|blamed| blamed.end.may_be_cut() && !blamed.is_clients()),
        ),
        kind(
            "given up by their clients, or cut by the load balancer",
            Shape::Question,
            "mark perhaps",
            false,
            of(|blamed| blamed.end.is_cut() && blamed.in_doubt),
        ),
        kind(
            "given up by their clients",
            Shape::Triangle,
            "mark aborted",
            false,
            of(|blamed| blamed.is_clients() && (blamed.end.is_cut() || blamed.end.may_be_cut())),
        ),
        kind(
            "ended with nothing in flight",
            Shape::Ring,
            "mark ended",
            true,
            of(|blamed| !blamed.end.is_cut() && !blamed.end.may_be_cut()),
        ),
        kind("RST received", Shape::ArrowDown, "mark rst", false, rsts(Way::Received)),
        kind("RST sent", Shape::ArrowUp, "mark rst", false, rsts(Way::Sent)),
    ]
}

fn row(canvas: &mut Canvas, kind: &Kind, facts: &[Timed]) {
    let (top, left, right) = (canvas.y, canvas.scale.left, canvas.scale.right);
    canvas.rect((left, right), (top, HEIGHT), "field", None);
    for (from, to) in super::super::series::silences(facts, Source::Kernel) {
        if to >= canvas.scale.from && from <= canvas.scale.to {
            let span = (canvas.scale.x(from), canvas.scale.x(to));
            canvas.rect(span, (top, HEIGHT), "unknown", Some("not all was seen".to_owned()));
        }
    }
    let shown: Vec<&Event> = kind.events.iter().filter(|event| canvas.scale.has(event.at)).collect();
    let groups = groups(canvas, &shown);
    for (number, group) in groups.iter().enumerate() {
        let Some(first) = group.first() else { continue };
        let x = canvas.scale.x(first.at);
        let count = group.iter().fold(0_u64, |sum, event| sum.saturating_add(event.count));
        canvas.mark(x, top + HEIGHT / 2.0, kind.shape, kind.class, tip(group, count));
        let text = format!("×{count}");
        let next = groups.get(number + 1).and_then(|group| group.first());
        let room = next.map_or(canvas.width, |next| canvas.scale.x(next.at) - MARK) - x - MARK;
        if count > 1 && room > extent(&text) + 2.0 {
            canvas.text(x + MARK + 2.0, top + 0.5, Anchor::Start, "tick", &text);
        }
    }
    canvas.y += HEIGHT + 2.0;
}

/// Those whose marks would cover each other are one.
fn groups<'a>(canvas: &Canvas, events: &[&'a Event]) -> Vec<Vec<&'a Event>> {
    let mut groups: Vec<Vec<&Event>> = Vec::new();
    for event in events {
        let x = canvas.scale.x(event.at);
        match groups.last_mut() {
            Some(group) if group.first().is_some_and(|first| x - canvas.scale.x(first.at) < 2.0 * MARK) => {
                group.push(event);
            }
            _ => groups.push(vec![event]),
        }
    }
    groups
}

fn tip(group: &[&Event], count: u64) -> String {
    let told = group.iter().take(MOST_TOLD);
    let lines: Vec<String> =
        told.map(|event| format!("{} {}", super::super::text::clock(event.at), event.words)).collect();
    let more = group.len().saturating_sub(MOST_TOLD);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let sum = if count > 1 { format!("{count} in all: ") } else { String::new() };
    format!("{sum}{}{more}", lines.join("; "))
}
