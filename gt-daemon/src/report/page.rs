//! The page of one drain: verdict and reasons in words, the picture, all facts with their instants.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::{
    html::document,
    layout::{NARROW, WIDE, Window, layout, name, spans},
    legend,
    svg::svg,
    text::{plain, signed},
    words,
};
use crate::drain::{
    fact::{Fact, Timed, stamp},
    record::Record,
    verdict::Picture,
};

/// Seconds after which the page of a drain that goes on is asked for again.
const REFRESH: u16 = 2;

/// So many facts stand open; more are folded away until somebody wants them.
const MOST_OPEN: usize = 200;

/// Rows of the table at most: a record of gt's own has fewer facts.
const MOST_ROWS: usize = 20_000;

/// A drain as a page shows it.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    pub record: &'a Record,
    /// Whether it is not over: the page is then asked for again.
    pub goes_on: bool,
    /// What else is to be said, as of a file that is not whole.
    pub remarks: &'a [String],
    /// Where the list of drains is, if there is one.
    pub home: Option<&'a str>,
}

/// Writes the page.
#[must_use]
pub fn page(page: &Page<'_>) -> String {
    let record = page.record;
    let name = name(record);
    let so_far = if page.goes_on { ", so far" } else { "" };
    let title = format!("{name}: {}{so_far}", record.outcome().word());
    let body = html! {
        main {
            @if let Some(home) = page.home { p class="screen" { a href=(home) { "All drains" } } }
            (head(page, &name))
            (pictures(record))
            (intervals(record))
            (counts(record))
            (facts(record))
        }
        footer { p class="quiet" { "gt-daemon " (env!("CARGO_PKG_VERSION")) ". Times are UTC with microseconds." } }
    };
    document(&title, page.goes_on.then_some(REFRESH), &body)
}

fn head(page: &Page<'_>, name: &str) -> Markup {
    let record = page.record;
    let word = record.outcome().word();
    let summary = record.summary();
    let began = summary.began.as_deref().unwrap_or("not known");
    let ended = match (&summary.ended, page.goes_on) {
        (Some(ended), _) => ended.as_str(),
        (None, true) => "goes on",
        (None, false) => "not known",
    };
    html! {
        header {
            h1 { "Drain of " (name) }
            p {
                span id="verdict" class={ "verdict " (word) } { (word) }
                @if page.goes_on { " so far: the drain goes on" }
            }
            ul id="reasons" { @for reason in &record.verdict.reasons { li { (plain(reason)) } } }
            @for remark in page.remarks { p class="negative remark" { (plain(remark)) } }
            p class="quiet" {
                "Began " code id="began" { (began) } ", ended " code id="ended" { (ended) }
                @if !record.uid.is_empty() { ", pod UID " code { (plain(&record.uid)) } }
            }
        }
    }
}

fn pictures(record: &Record) -> Markup {
    let figure = |window: Window, caption: &str| {
        html! {
            figure {
                figcaption { (caption) }
                (svg(&layout(record, window, WIDE), "picture wide"))
                (svg(&layout(record, window, NARROW), "picture narrow"))
            }
        }
    };
    html! {
        section aria-labelledby="picture" {
            h2 id="picture" { "Two clocks on one time axis" }
            (figure(Window::whole(&record.facts), "The whole drain"))
            (legend::legend())
            @if let Some(window) = Window::decisive(&record.facts) {
                h2 { "The instants that decided" }
                (figure(window, "The same, closer"))
            }
        }
    }
}

fn intervals(record: &Record) -> Markup {
    html! {
        section aria-labelledby="intervals" {
            h2 id="intervals" { "Intervals" }
            table class="intervals" {
                thead { tr {
                    th scope="col" { "Interval" }
                    th scope="col" class="number" { "Length" }
                    th scope="col" { "From and to" }
                } }
                tbody {
                    @for interval in spans::intervals(&record.facts) {
                        @let is_negative = interval.ends.is_some_and(|(from, to)| to < from);
                        tr id=(interval.name) {
                            th scope="row" { code { (interval.name) } br; span class="quiet" { (interval.meaning) } }
                            td class=(if is_negative { "number negative" } else { "number" }) { (interval.value()) }
                            td {
                                @if let Some((from, to)) = interval.ends { code { (stamp(from)) } " to " code { (stamp(to)) } }
                                @if let Some(remark) = interval.remark { " " (remark) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn counts(record: &Record) -> Markup {
    let counts = &record.verdict.counts;
    let rows = [
        ("cuts", "Requests that were cut, for certain", counts.cuts),
        ("client_aborts", "Given up by their clients while the LB was told 200", counts.client_aborts),
        (
            "in_doubt",
            "Given up by their clients, or cut by the LB: nobody saw whether it was DOWN",
            counts.in_doubt,
        ),
        ("uncertain", "Ends of which it cannot be told whether they cut a request", counts.uncertain),
        ("ends", "Connections of users and streams that ended", counts.ends),
        ("gaps", "Times at which something was not seen", counts.gaps),
        ("left_out", "Details for which the record had no room", record.left_out),
    ];
    html! {
        section aria-labelledby="counts" {
            h2 id="counts" { "Numbers" }
            table class="numbers" {
                tbody {
                    @for (id, what, number) in rows {
                        tr id=(id) {
                            th scope="row" { (what) }
                            td class="number" { (number) }
                            td {
                                @if id == "cuts" {
                                    @for (cause, number) in counts.by_cause.iter().take(20) { (plain(cause)) ": " (number) " " }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn facts(record: &Record) -> Markup {
    let facts = &record.facts;
    let begun = record.begun().unwrap_or(0);
    let more = facts.len().saturating_sub(MOST_ROWS);
    let ends = Picture::of(facts).map(|picture| picture.ends).unwrap_or_default();
    let cuts = ends.iter().filter(|blamed| blamed.breaks()).map(|blamed| blamed.ts).collect();
    html! {
        section aria-labelledby="facts" {
            h2 id="facts" { "All facts" }
            details open=[(facts.len() <= MOST_OPEN).then_some("")] {
                summary { (facts.len()) " facts, in order of time" }
                table class="facts" {
                    thead { tr {
                        th scope="col" { "UTC" }
                        th scope="col" class="number since" { "Since the beginning" }
                        th scope="col" class="event" { "Event" }
                        th scope="col" { "What" }
                    } }
                    tbody { @for timed in facts.iter().take(MOST_ROWS) { (row(timed, begun, &cuts)) } }
                }
                @if more > 0 { p { "And " (more) " more, in " code { "timeline.jsonl" } "." } }
            }
        }
    }
}

fn row(Timed { ts, fact }: &Timed, begun: i64, cuts: &BTreeSet<i64>) -> Markup {
    let class = match fact {
        Fact::TcpTeardown(end) if end.is_cut() && cuts.contains(ts) => Some("cut"),
        Fact::Gap { .. } => Some("gap"),
        _ => None,
    };
    html! {
        tr class=[class] {
            td class="time" { (stamp(*ts)) }
            td class="number since" { (signed(ts.saturating_sub(begun))) }
            td class="event" { code { (words::name(fact)) } }
            td { (words::fact(fact)) }
        }
    }
}
