//! All pods, one a row. Pure.

use ratatui::{
    buffer::Buffer,
    style::Style,
    text::{Line, Span},
};

use super::{
    super::model::{
        Key, Line as Connection,
        pod::{Pod, micros},
        words,
    },
    Scene,
    look::Look,
    rows::{Rows, fit, put},
};

/// Columns right of the name: what, and how wide.
const COLUMNS: [(&str, usize); 7] =
    [("HC", 9), ("SINCE", 9), ("OPEN", 6), ("FLIGHT", 7), ("CUTS", 5), ("RST S/R", 8), ("DRAIN", 13)];
/// Names are not made narrower than this: columns give way from the right.
const NARROWEST: usize = 20;

/// Draws the table, so that the row under the cursor is seen.
pub fn draw(scene: Scene<'_>, mut rows: Rows, buffer: &mut Buffer) {
    let (model, look) = (scene.model(), scene.look);
    let pods: Vec<_> = model.pods().collect();
    if pods.is_empty() {
        let why = match model.line() {
            Connection::Waiting => "waiting for the daemon",
            _ => "no pod is watched here",
        };
        return rows.line(buffer, why);
    }
    let width = usize::from(rows.top(0).width);
    let (name, columns) = widths(width);
    let titles = COLUMNS.iter().take(columns).map(|(title, width)| format!(" {title:<0$}", width - 1));
    rows.line(buffer, Line::styled(format!("{:<name$}{}", "POD", titles.collect::<String>()), look.strong()));
    let chosen =
        scene.view.cursor.as_ref().and_then(|cursor| pods.iter().position(|(key, _)| *key == cursor));
    let height = usize::from(rows.height());
    let first = chosen.unwrap_or(0).saturating_sub(height.saturating_sub(1));
    for (place, (key, pod)) in pods.into_iter().enumerate().skip(first).take(height) {
        let area = rows.top(1);
        put(buffer, area, row(key, pod, scene.at(), name, columns, look));
        if place == chosen.unwrap_or(0) {
            buffer.set_style(area.intersection(buffer.area), look.chosen());
        }
    }
}

/// How wide the name is, and how many columns find room beside it.
fn widths(width: usize) -> (usize, usize) {
    let of = |columns: usize| COLUMNS.iter().take(columns).map(|(_, width)| width).sum::<usize>();
    let columns = (0..=COLUMNS.len()).rev().find(|columns| of(*columns) + NARROWEST <= width).unwrap_or(0);
    (width - of(columns), columns)
}

fn row(key: &Key, pod: &Pod, now: i64, name: usize, columns: usize, look: Look) -> Line<'static> {
    let status = pod.status.as_ref();
    let hc = status.and_then(|status| status.hc.as_ref());
    let hc_style = hc.map_or(Style::new(), |hc| look.hc(hc.state).0);
    let since = hc.and_then(|hc| hc.since.as_deref()).and_then(micros);
    let since = since.map_or(String::new(), |since| words::clock(since).chars().take(8).collect());
    let data = status.and_then(|status| status.connections).map(|connections| connections.data.active);
    let in_flight = status.and_then(|status| status.downstream.max(status.upstream));
    let cuts = status.map(|status| status.cuts);
    let rsts = status.map(|status| format!("{}/{}", status.rsts_sent, status.rsts_received));
    let (drain, drain_style) = drain(pod, now, look);
    let cells = [
        (hc.map_or("none".to_owned(), |hc| words::hc(hc.state).to_owned()), hc_style),
        (since, Style::new()),
        (words::number(data), Style::new()),
        (words::number(in_flight), look.count()),
        (words::number(cuts), if cuts > Some(0) { look.bad() } else { Style::new() }),
        (words::number(rsts), Style::new()),
        (drain, drain_style),
    ];
    let mut spans = vec![Span::raw(fit(&format!("{}/{}", key.namespace, key.name), name))];
    for ((text, style), (_, width)) in cells.into_iter().zip(COLUMNS).take(columns) {
        spans.push(Span::styled(format!(" {}", fit(&text, width - 1)), style));
    }
    Line::from(spans)
}

fn drain(pod: &Pod, now: i64, look: Look) -> (String, Style) {
    match (pod.draining_since(), pod.last_verdict()) {
        (Some(began), _) => (format!("now {}", words::seconds(now.saturating_sub(began))), look.strong()),
        (None, Some(summary)) => (summary.verdict.word().to_uppercase(), look.verdict(summary.verdict)),
        (None, None) if pod.is_gone() => ("gone".to_owned(), Style::new()),
        (None, None) => (String::new(), Style::new()),
    }
}
