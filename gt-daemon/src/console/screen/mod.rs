//! A view of a model as a screen: a function of both, of the time and of what the terminal can show. Pure.
//!
//! [`head`] is what stands above: how the pod is; [`chart`] the strip; [`lines`] what happened; [`drain`] intervals and
//! verdict; [`table`] all pods; [`help`] the keys. All find room on any size, or give way.

pub mod chart;
pub mod drain;
pub mod head;
pub mod help;
pub mod lines;
pub mod look;
pub mod rows;
pub mod table;

use ratatui::{buffer::Buffer, layout::Rect, text::Line};

use super::{
    model::{Key, Line as Connection, Model, words},
    view::{Page, View},
};
use crate::drain::fact::stamp;
use look::Look;
use rows::{Rows, fit, put, put_both};

/// Everything that a screen shows.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    pub view: &'a View,
    /// As it is now; a view that is paused has its own.
    pub live: &'a Model,
    /// UTC microseconds, by the daemon's clock.
    pub now: i64,
    pub look: Look,
}

impl Scene<'_> {
    /// The model that is shown.
    #[must_use]
    pub fn model(&self) -> &Model {
        self.view.frozen.as_ref().map_or(self.live, |frozen| &frozen.model)
    }

    /// The instant that is shown: never before what was heard.
    #[must_use]
    pub fn at(&self) -> i64 {
        let now = self.view.frozen.as_ref().map_or(self.now, |frozen| frozen.at);
        let model = self.model();
        match (model.line(), model.newest) {
            (Connection::Over, Some(newest)) => newest,
            (_, newest) => newest.map_or(now, |newest| newest.max(now)),
        }
    }

    /// The chart's window; nothing on the page of all pods.
    #[must_use]
    pub fn window(&self) -> (i64, i64) {
        match &self.view.page {
            Page::Table => (self.at(), self.at()),
            Page::Pod(key) => self.view.window(self.model(), key, self.at()),
        }
    }
}

/// Draws all of it.
pub fn draw(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let area = area.intersection(buffer.area);
    let mut rows = Rows::new(area);
    bar(scene, rows.top(1), buffer);
    if rows.height() >= 3 {
        foot(scene, rows.bottom(1), buffer);
    }
    match &scene.view.page {
        _ if scene.view.is_help => help::draw(scene.look, rows, buffer),
        Page::Table => table::draw(scene, rows, buffer),
        Page::Pod(key) => pod(scene, key, rows, buffer),
    }
}

/// One pod: above all how it is, then the strip, then what happened; the verdict stands at the bottom.
fn pod(scene: Scene<'_>, key: &Key, mut rows: Rows, buffer: &mut Buffer) {
    let (model, now) = (scene.model(), scene.at());
    let Some(pod) = model.pod_of(key) else {
        rows.line(buffer, "nothing is told of this pod yet");
        return lines::draw(scene, key, rows, buffer);
    };
    head::draw(pod, now, scene.look, &mut rows, buffer);
    drain::draw(pod, now, scene.look, &mut rows, buffer);
    // Lines have the rest: at least a third.
    let chart = chart::height(pod, rows.height() - rows.height() / 3);
    let area = rows.top(chart);
    chart::draw(pod, scene.window(), now, scene.look, area, buffer);
    lines::draw(scene, key, rows, buffer);
}

/// The bar at the top: what is shown, and as of when.
fn bar(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    buffer.set_style(area.intersection(buffer.area), scene.look.bar());
    let model = scene.model();
    let what = match &scene.view.page {
        Page::Table => format!("gt  {} pods", model.pods().count()),
        Page::Pod(key) => format!("gt  {}/{}", key.namespace, key.name),
    };
    let state = match (&scene.view.frozen, model.line()) {
        (Some(_), _) => "PAUSED",
        (None, Connection::Waiting) => "WAITING",
        (None, Connection::On) => "LIVE",
        (None, Connection::Away(..)) => "AWAY",
        (None, Connection::Over) => "END",
    };
    let node = model.node().map_or(String::new(), |node| format!("{node}  "));
    // Microseconds belong to events; a clock that counts them cannot be read.
    let stamp = stamp(scene.at());
    let (date, clock) = stamp.split_once('T').unwrap_or(("", stamp.as_str()));
    let clock = clock.split_once('.').map_or(clock, |(clock, _)| clock);
    // The longest that leaves the name whole; the name gives way before the state does.
    let rights = [
        format!("{node}{state} {date} {clock} UTC "),
        format!("{state} {date} {clock} UTC "),
        format!("{state} {clock} UTC "),
        format!("{state} {clock} "),
        format!("{state} "),
    ];
    let room = usize::from(area.width);
    let fits = |right: &&String| what.chars().count() + 2 + right.chars().count() <= room;
    let right = rights.iter().find(fits).or(rights.last()).cloned().unwrap_or_default();
    let left = fit(&what, room.saturating_sub(right.chars().count() + 2));
    put_both(buffer, area, format!(" {left}"), right);
}

/// The bar at the bottom: what a person is doing, else the keys.
fn foot(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let view = scene.view;
    if let Some(text) = &view.editing {
        return put(buffer, area, format!("show only lines with: {text}_   (enter keeps it, esc does not)"));
    }
    if let Some(frozen) = &view.frozen {
        let missed = scene.live.heard.saturating_sub(frozen.model.heard);
        let over = if scene.live.line() == Connection::Over { ", and the stream is over" } else { "" };
        let line = format!("PAUSED: {missed} messages since then are kept{over}; space goes on");
        return put(buffer, area, Line::styled(line, scene.look.strong()));
    }
    if let Connection::Away(since, why) = scene.live.line() {
        let line = format!("a daemon is not heard since {}: {why}", words::clock(since));
        return put(buffer, area, Line::styled(line, scene.look.bad()));
    }
    let keys = match &view.page {
        Page::Table => "q quit  enter open  up/down move  space pause  ? help",
        Page::Pod(_) => "q quit  space pause  / filter  1-9 kinds  +/- window  up/down scroll  ? help",
    };
    put(buffer, area, keys);
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
