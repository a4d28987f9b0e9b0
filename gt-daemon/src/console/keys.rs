//! What keys do. Pure.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{
    model::{Model, event::Kind},
    view::{Frozen, Page, View, Zoom},
};

/// What is asked of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Nothing,
    Quit,
    /// Give the terminal back to the shell until it says to go on.
    Suspend,
    /// Draw everything anew.
    Redraw,
}

/// The page that page up and page down turn, in lines.
const PAGE: i64 = 10;

/// Every key, with what it does: the help page, and docs/console.md.
pub const HELP: [(&str, &str); 12] = [
    ("q, Ctrl-C", "quit"),
    ("space", "pause: the screen stands still, nothing is lost; again to go on"),
    ("enter", "open the pod under the cursor"),
    ("esc", "back: end the filter, then the scrolling, then to all pods"),
    ("up, down, k, j", "scroll by a line, or move the cursor; PgUp, PgDn: by ten"),
    ("Home, End", "the oldest line, the newest"),
    ("/", "show only lines with a text; enter keeps it"),
    ("1 .. 9", "leave out or show lines of a kind; a: all kinds"),
    ("+, -", "a shorter or a longer window of time; 0: as the drain asks"),
    ("left, right", "back and forth in time"),
    ("?, F1", "this help"),
    ("Ctrl-L, Ctrl-Z", "draw anew; back to the shell until `fg`"),
];

/// Takes a key in. `shown` is the chart's window, `now` its right edge at most.
pub fn press(view: &mut View, live: &Model, key: KeyEvent, now: i64, shown: (i64, i64)) -> Wish {
    if key.kind == KeyEventKind::Release {
        return Wish::Nothing;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Wish::Quit,
            KeyCode::Char('z') => Wish::Suspend,
            KeyCode::Char('l') => Wish::Redraw,
            _ => Wish::Nothing,
        };
    }
    if view.editing.is_some() {
        edit(view, key.code);
        return Wish::Nothing;
    }
    if view.is_help {
        view.is_help = false;
        return if key.code == KeyCode::Char('q') { Wish::Quit } else { Wish::Nothing };
    }
    if key.code == KeyCode::Char('q') {
        return Wish::Quit;
    }
    if key.code == KeyCode::Char(' ') {
        let frozen = || Frozen { model: Box::new(live.clone()), at: now };
        view.frozen = if view.frozen.is_some() { None } else { Some(frozen()) };
        return Wish::Nothing;
    }
    // A view that stands still is moved over what it shows.
    let frozen = view.frozen.take();
    move_view(view, frozen.as_ref().map_or(live, |frozen| &frozen.model), key.code, shown);
    view.frozen = frozen;
    Wish::Nothing
}

fn move_view(view: &mut View, model: &Model, code: KeyCode, shown: (i64, i64)) {
    match code {
        KeyCode::Char('?') | KeyCode::F(1) => view.is_help = true,
        KeyCode::Enter => view.open(model),
        KeyCode::Esc => back(view),
        KeyCode::Up | KeyCode::Char('k') => view.scroll(model, 1),
        KeyCode::Down | KeyCode::Char('j') => view.scroll(model, -1),
        KeyCode::PageUp => view.scroll(model, PAGE),
        KeyCode::PageDown => view.scroll(model, -PAGE),
        KeyCode::Home | KeyCode::Char('g') => view.scroll_to_end(model, true),
        KeyCode::End | KeyCode::Char('G') => view.scroll_to_end(model, false),
        KeyCode::Char('/') => view.editing = Some(view.text.clone()),
        KeyCode::Char('a') => view.hidden.clear(),
        KeyCode::Char('+' | '=') => view.zoom(true, shown),
        KeyCode::Char('-') => view.zoom(false, shown),
        KeyCode::Char('0') => (view.zoom, view.back) = (Zoom::Auto, 0),
        KeyCode::Left => view.back = view.back.saturating_add(1).min(400),
        KeyCode::Right => view.back = view.back.saturating_sub(1).max(0),
        KeyCode::Char(digit @ '1'..='9') => {
            let place = digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok());
            let kind = place.and_then(|place| place.checked_sub(1)).and_then(|place| Kind::ALL.get(place));
            if let Some(kind) = kind {
                view.toggle(*kind);
            }
        }
        _ => {}
    }
}

/// One step back.
fn back(view: &mut View) {
    if !view.text.is_empty() {
        view.text.clear();
    } else if view.anchor.is_some() || view.back > 0 {
        (view.anchor, view.back) = (None, 0);
    } else if let Page::Pod(key) = &view.page {
        view.cursor = Some(key.clone());
        view.turn(Page::Table);
    }
}

/// A key while the filter is being written.
fn edit(view: &mut View, code: KeyCode) {
    let Some(text) = &mut view.editing else { return };
    match code {
        KeyCode::Char(letter) if text.len() < 200 => text.push(letter),
        KeyCode::Backspace => {
            text.pop();
        }
        KeyCode::Enter => {
            view.text = std::mem::take(text);
            view.editing = None;
            view.anchor = None;
        }
        KeyCode::Esc => view.editing = None,
        _ => {}
    }
}
