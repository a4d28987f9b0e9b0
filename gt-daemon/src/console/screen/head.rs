//! How a pod is, in up to three rows. Pure.

use ratatui::{
    buffer::Buffer,
    text::{Line, Span},
};

use super::{
    super::model::{
        pod::{Lb, Pod, micros},
        words,
    },
    look::Look,
    rows::{Rows, put_both},
};
use crate::api::message::{Open, PodStatus};

/// Draws as many rows as find room.
pub fn draw(pod: &Pod, now: i64, look: Look, rows: &mut Rows, buffer: &mut Buffer) {
    let most = match rows.height() {
        0..3 => 1,
        3..8 => 2,
        _ => 3,
    };
    let uid: String = pod.uid.chars().take(8).collect();
    let rights =
        [if pod.is_gone() { "GONE".to_owned() } else { String::new() }, String::new(), format!("uid {uid}")];
    let Some(status) = &pod.status else { return rows.line(buffer, "how it is was not told yet") };
    let lines = [sidecar(pod, status, now, look), requests(status, look), connections(pod, status)];
    for (line, right) in lines.into_iter().zip(rights).take(most) {
        let area = rows.top(1);
        put_both(buffer, area, line, Line::styled(right, look.strong()));
    }
}

fn sidecar(pod: &Pod, status: &PodStatus, now: i64, look: Look) -> Line<'static> {
    let mut spans = vec![Span::raw("hc ")];
    match &status.hc {
        None => spans.push(Span::raw("none is read")),
        Some(hc) => {
            let (style, _) = look.hc(hc.state);
            spans.push(Span::styled(words::hc(hc.state), style.patch(look.strong())));
            if let Some(since) = hc.since.as_deref().and_then(micros) {
                let length = words::seconds(now.saturating_sub(since));
                spans.push(Span::raw(format!(" since {} ({length})", words::clock(since))));
            }
            spans.push(Span::raw("  LB is told "));
            let (style, _) = look.told(hc.lb_told);
            spans.push(Span::styled(words::number(hc.lb_told), style.patch(look.strong())));
        }
    }
    if let Some((_, lb)) = pod.lb.last() {
        let word = match lb {
            Some(Lb::Told(serving)) => words::serving(Some(serving)),
            Some(Lb::Predicted) => "DOWN?",
            None => words::UNKNOWN,
        };
        spans.push(Span::raw("  LB "));
        spans.push(Span::styled(word, look.lb(lb).0.patch(look.strong())));
    }
    Line::from(spans)
}

fn requests(status: &PodStatus, look: Look) -> Line<'static> {
    let cuts = if status.cuts > 0 { look.bad() } else { look.strong() };
    Line::from(vec![
        Span::raw("in flight "),
        Span::styled(words::number(status.downstream), look.strong()),
        Span::raw(" down, "),
        Span::styled(words::number(status.upstream), look.strong()),
        Span::raw(" up   cuts "),
        Span::styled(status.cuts.to_string(), cuts),
        Span::raw(format!("   RSTs {} sent, {} received", status.rsts_sent, status.rsts_received)),
    ])
}

fn connections(pod: &Pod, status: &PodStatus) -> Line<'static> {
    let Some(connections) = &status.connections else {
        let known = pod.connections.last().and_then(|(_, active)| active);
        return Line::from(format!("open: data {}, of other kinds it is not told", words::number(known)));
    };
    let told = [
        ("data", connections.data),
        ("health", connections.health),
        ("admin", connections.admin),
        ("outbound", connections.outbound),
        ("loopback", connections.loopback),
    ];
    let some = |(name, Open { active, closing }): (&str, Open)| {
        let ending = if closing > 0 { format!("+{closing} closing") } else { String::new() };
        format!("{name} {active}{ending}")
    };
    Line::from(format!("open: {}", told.map(some).join(", ")))
}
