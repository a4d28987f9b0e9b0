//! The keys, and what the symbols are. Pure.

use ratatui::{
    buffer::Buffer,
    style::Style,
    text::{Line, Span},
};

use super::{
    super::{keys::HELP, model::marks::Mark},
    look::Look,
    rows::Rows,
};
use crate::drain::fact::Hc;

/// What the screen's words and symbols are.
const LEGEND: [&str; 8] = [
    "in flight  requests at the proxy, by clients (down), to the app (up); the chart",
    "           has the larger",
    "hc         the health sidecar's state; told: the code that it answers the LB",
    "LB         the load balancer's own word, where it is read; DOWN? is computed",
    "ends       X a request was cut, ? may be, c its client gave it up, {clean} none was",
    "bands      {open} OPEN, 200, UP  {draining} DRAINING, NO NEW  {closing} CLOSING, 503, DOWN  {closed} CLOSED",
    "           _ is zero, ? is not known; an empty place was not heard of",
    "times      UTC, by the daemon's clock               any key goes back",
];

/// Draws as much as finds room.
pub fn draw(look: Look, mut rows: Rows, buffer: &mut Buffer) {
    for (keys, what) in HELP {
        rows.line(
            buffer,
            Line::from(vec![Span::styled(format!("{keys:<16}"), look.strong()), Span::raw(what)]),
        );
    }
    rows.line(buffer, "");
    let symbol = |(_, symbol): (Style, char)| symbol.to_string();
    for line in LEGEND {
        let line = line
            .replace("{clean}", &symbol(look.mark(Mark::Clean)))
            .replace("{open}", &symbol(look.hc(Some(Hc::Open))))
            .replace("{draining}", &symbol(look.hc(Some(Hc::Draining))))
            .replace("{closing}", &symbol(look.hc(Some(Hc::Closing))))
            .replace("{closed}", &symbol(look.hc(Some(Hc::Closed))));
        rows.line(buffer, line);
    }
}
