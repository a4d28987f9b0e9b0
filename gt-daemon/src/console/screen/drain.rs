//! The drain that goes on or was last: its intervals, and the verdict with its reasons. Pure.

use ratatui::{
    buffer::Buffer,
    text::{Line, Span},
};

use super::{
    super::model::{
        pod::{Pod, micros},
        words,
    },
    look::Look,
    rows::{Rows, put, wrap},
};
use crate::drain::{intervals::Intervals, record::Summary};

/// Takes rows from the bottom, as many as are needed and find room.
pub fn draw(pod: &Pod, now: i64, look: Look, rows: &mut Rows, buffer: &mut Buffer) {
    let lines = match (pod.draining_since(), pod.last_verdict()) {
        (Some(began), _) => {
            let of = pod.status.as_ref().map(|status| status.intervals).unwrap_or_default();
            let length = words::seconds(now.saturating_sub(began));
            let told = format!("drain goes on for {length}, since {}", words::clock(began));
            vec![Line::styled(told, look.strong()), intervals(of)]
        }
        (None, Some(summary)) => verdict(summary, look, usize::from(rows.top(0).width)),
        (None, None) => return,
    };
    // Less than a third of a small screen.
    let most = usize::from(rows.height() / 3);
    let area = rows.bottom(u16::try_from(lines.len().min(most)).unwrap_or(0));
    let mut own = Rows::new(area);
    for line in lines.into_iter().take(most) {
        put(buffer, own.top(1), line);
    }
}

fn verdict(summary: &Summary, look: Look, width: usize) -> Vec<Line<'static>> {
    let at = |stamp: &Option<String>| stamp.as_deref().and_then(micros);
    let length = at(&summary.ended).zip(at(&summary.began)).map(|(ended, began)| ended.saturating_sub(began));
    let began = at(&summary.began).map_or(words::UNKNOWN.to_owned(), words::clock);
    let over = length.map_or(String::new(), |length| format!(", over after {}", words::seconds(length)));
    let mut lines = vec![Line::from(vec![
        Span::styled(
            format!("VERDICT {}", summary.verdict.word().to_uppercase()),
            look.verdict(summary.verdict),
        ),
        Span::raw(format!("  drain since {began}{over}")),
    ])];
    for reason in &summary.reasons {
        for (number, line) in wrap(reason, width.saturating_sub(2)).into_iter().enumerate() {
            lines.push(Line::from(format!("{} {line}", if number == 0 { '-' } else { ' ' })));
        }
    }
    lines.insert(1, intervals(summary.intervals));
    lines
}

/// The three, in the order of what should happen.
fn intervals(of: Intervals) -> Line<'static> {
    let seconds =
        |seconds: Option<f64>| seconds.map_or(words::UNKNOWN.to_owned(), |seconds| format!("{seconds:.3} s"));
    Line::from(format!(
        "drain to zero {}, zero to LB down {}, LB down to first RST {}",
        seconds(of.drain_to_active_zero),
        seconds(of.active_zero_to_lb_down),
        seconds(of.lb_down_to_first_rst),
    ))
}
