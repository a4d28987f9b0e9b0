//! The list of drains that a daemon knows of.

use maud::html;

use super::{html::document, text::plain};
use crate::drain::record::Summary;

/// Seconds after which the list is asked for again.
const REFRESH: u16 = 5;

/// One drain in the list.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where its page is.
    pub href: String,
    pub summary: Summary,
    pub goes_on: bool,
}

/// Writes the page; the first entries stand on top. `node`: whose drains they are; `remark`: what
/// else is to be said.
#[must_use]
pub fn index(node: Option<&str>, remark: Option<&str>, entries: &[Entry]) -> String {
    let title = match node {
        Some(node) => format!("Drains on {}", plain(node)),
        None => "Drains".to_owned(),
    };
    let body = html! {
        main {
            h1 { (title) }
            @if let Some(remark) = remark { p class="negative remark" { (plain(remark)) } }
            @if entries.is_empty() {
                p { "No pod has drained since the daemon was started." }
            } @else {
                table class="drains" {
                    thead { tr {
                        th scope="col" { "Began (UTC)" }
                        th scope="col" { "Pod" }
                        th scope="col" { "Verdict" }
                        th scope="col" class="number minor" { "Cuts" }
                        th scope="col" class="minor" { "Why" }
                    } }
                    tbody { @for entry in entries { (row(entry)) } }
                }
            }
        }
        footer { p class="quiet" { "gt-daemon " (env!("CARGO_PKG_VERSION")) } }
    };
    document(&title, Some(REFRESH), &body)
}

fn row(Entry { href, summary, goes_on }: &Entry) -> maud::Markup {
    let word = summary.verdict.word();
    html! {
        tr {
            td class="time" { (summary.began.as_deref().unwrap_or("not known")) }
            td { a href=(href) { (plain(&summary.namespace)) "/" (plain(&summary.pod)) } }
            td { span class={ "verdict " (word) } { (word) } @if *goes_on { " so far" } }
            td class="number minor" { (summary.evidence.cuts) }
            td class="minor" { @if let Some(reason) = summary.reasons.first() { (plain(reason)) } }
        }
    }
}
