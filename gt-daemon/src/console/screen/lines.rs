//! What happened, the newest at the bottom. Pure.

use ratatui::{
    buffer::Buffer,
    style::{Modifier, Style},
    text::{Line, Span},
};

use super::{
    super::{
        model::{Key, event::Kind, words},
        view::View,
    },
    Scene,
    look::Look,
    rows::{Rows, put, put_both},
};

/// Draws lines on all that is left, under a title where there is room for one.
pub fn draw(scene: Scene<'_>, key: &Key, mut rows: Rows, buffer: &mut Buffer) {
    let (view, look) = (scene.view, scene.look);
    if rows.height() >= 3 {
        title(view, look, &mut rows, buffer);
    }
    let most = rows.height();
    let shown = view.lines(scene.model(), key, usize::from(most));
    for event in shown {
        let kind = event.kind.word();
        let line = Line::from(vec![
            Span::raw(words::clock(event.ts)),
            Span::raw(" "),
            Span::styled(format!("{kind:<8} "), look.kind(event.kind)),
            Span::styled(event.text.clone(), if event.kind == Kind::Cut { look.bad() } else { Style::new() }),
        ]);
        put(buffer, rows.bottom(1), line);
    }
}

/// Which kinds are shown, each with its key; those that are not in brackets.
fn title(view: &View, look: Look, rows: &mut Rows, buffer: &mut Buffer) {
    let mut spans = vec![Span::styled("events ", look.strong())];
    for (place, kind) in Kind::ALL.into_iter().enumerate() {
        let word = kind.word().to_lowercase();
        let (text, style) = if view.hidden.contains(&kind) {
            (format!(" ({})", place + 1), Style::new())
        } else {
            (format!(" {} {word}", place + 1), Style::new())
        };
        spans.push(Span::styled(text, style.add_modifier(Modifier::UNDERLINED)));
    }
    let mut right = String::new();
    if !view.text.is_empty() {
        right.push_str(&format!("with {:?}", view.text));
    }
    if view.anchor.is_some() {
        right.push_str(" SCROLLED");
    }
    let area = rows.top(1);
    let right = Line::styled(right, look.strong());
    // What was chosen goes before the names of the keys.
    if Line::from(spans.clone()).width() + right.width() >= usize::from(area.width) && right.width() > 0 {
        spans.truncate(1);
    }
    put_both(buffer, area, Line::from(spans), right);
}
