//! What a person looks at: which page, which lines, which window of time. Pure.

use std::collections::BTreeSet;

use super::model::{
    Key, Model,
    event::{Event, Kind},
};

/// Lengths of the chart's window that can be chosen, seconds.
const ZOOMS: [i64; 8] = [5, 10, 30, 60, 300, 900, 3_600, 14_400];
const SECOND: i64 = 1_000_000;

/// Which page is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// All pods.
    Table,
    Pod(Key),
}

/// How much time the chart shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zoom {
    /// The drain that goes on or is just over; else the last minute.
    #[default]
    Auto,
    /// So many of [`ZOOMS`], up to now.
    Fixed(usize),
}

/// The model as it was when a person said pause.
#[derive(Clone, Debug)]
pub struct Frozen {
    pub model: Box<Model>,
    pub at: i64,
}

/// The state of the view.
#[derive(Clone, Debug)]
pub struct View {
    pub page: Page,
    /// The pod of the table that enter opens.
    pub cursor: Option<Key>,
    pub frozen: Option<Frozen>,
    /// Kinds of lines that are left out.
    pub hidden: BTreeSet<Kind>,
    /// Only lines that contain it, whatever its case.
    pub text: String,
    /// The text while it is being written.
    pub editing: Option<String>,
    pub is_help: bool,
    /// The lowest line that is shown; `None` for the newest.
    pub anchor: Option<(i64, u64)>,
    pub zoom: Zoom,
    /// How many quarters of a window the chart lies before now.
    pub back: i64,
}

impl View {
    /// Of one pod, or of all.
    #[must_use]
    pub fn new(pod: Option<Key>) -> Self {
        Self {
            page: pod.map_or(Page::Table, Page::Pod),
            cursor: None,
            frozen: None,
            hidden: BTreeSet::new(),
            text: String::new(),
            editing: None,
            is_help: false,
            anchor: None,
            zoom: Zoom::Auto,
            back: 0,
        }
    }

    /// Whether a line is shown.
    #[must_use]
    pub fn shows(&self, event: &Event) -> bool {
        let contains = |text: &str| text.to_lowercase().contains(&self.text.to_lowercase());
        !self.hidden.contains(&event.kind)
            && (self.text.is_empty() || contains(&event.text) || contains(event.kind.word()))
    }

    /// Up to so many lines of a pod that are shown, the newest first. Where too few are above the anchor, others follow it.
    #[must_use]
    pub fn lines<'a>(&self, model: &'a Model, key: &Key, most: usize) -> Vec<&'a Event> {
        let shown: Vec<&Event> = model
            .lines(key)
            .skip_while(|event| self.anchor.is_some_and(|anchor| (event.ts, event.number) > anchor))
            .filter(|event| self.shows(event))
            .take(most)
            .collect();
        let mut lines = self.newer(model, key);
        let missing = most.saturating_sub(shown.len()).min(lines.len());
        lines.drain(..lines.len() - missing);
        lines.extend(shown);
        lines
    }

    /// Lines after the anchor that are shown, the newest first.
    fn newer<'a>(&self, model: &'a Model, key: &Key) -> Vec<&'a Event> {
        let Some(anchor) = self.anchor else { return Vec::new() };
        let is_newer = |event: &&Event| (event.ts, event.number) > anchor;
        model.lines(key).take_while(is_newer).filter(|event| self.shows(event)).collect()
    }

    /// Moves by so many lines: up is back in time.
    pub fn scroll(&mut self, model: &Model, by: i64) {
        let Page::Pod(key) = &self.page else { return self.move_cursor(model, -by) };
        let steps = usize::try_from(by.unsigned_abs()).unwrap_or(usize::MAX);
        if by > 0 {
            let is_above =
                |event: &&Event| self.anchor.is_none_or(|anchor| (event.ts, event.number) <= anchor);
            let above = model.lines(key).filter(is_above).filter(|event| self.shows(event));
            self.anchor = above.take(steps.saturating_add(1)).last().map(|event| (event.ts, event.number));
        } else {
            let newer = self.newer(model, key);
            // At the newest line new ones are followed again.
            let target = newer.len().checked_sub(steps).filter(|place| *place > 0);
            let target = target.and_then(|place| newer.get(place));
            self.anchor = target.map(|event| (event.ts, event.number));
        }
    }

    fn move_cursor(&mut self, model: &Model, by: i64) {
        let keys: Vec<&Key> = model.pods().map(|(key, _)| key).collect();
        let here = self.cursor.as_ref().and_then(|cursor| keys.iter().position(|key| *key == cursor));
        let last = keys.len().saturating_sub(1);
        let by_place = usize::try_from(by.unsigned_abs()).unwrap_or(usize::MAX);
        // Without a cursor the first row is marked.
        let here = here.unwrap_or(0);
        let place =
            if by < 0 { here.saturating_sub(by_place) } else { here.saturating_add(by_place).min(last) };
        self.cursor = keys.get(place).map(|key| (*key).clone());
    }

    /// Goes to the oldest line or the newest, or to the first pod or the last.
    pub fn scroll_to_end(&mut self, model: &Model, is_oldest: bool) {
        match &self.page {
            Page::Table => self.move_cursor(model, if is_oldest { i64::MIN } else { i64::MAX }),
            Page::Pod(_) if is_oldest => self.scroll(model, i64::MAX),
            Page::Pod(_) => self.anchor = None,
        }
    }

    /// Opens the pod under the cursor.
    pub fn open(&mut self, model: &Model) {
        if self.page == Page::Table
            && let Some(key) = self.cursor.clone().or_else(|| model.pods().next().map(|(key, _)| key.clone()))
        {
            self.cursor = Some(key.clone());
            self.turn(Page::Pod(key));
        }
    }

    /// Turns to a page, with its newest lines.
    pub fn turn(&mut self, page: Page) {
        self.page = page;
        self.anchor = None;
        self.back = 0;
    }

    /// Shows or leaves out lines of a kind.
    pub fn toggle(&mut self, kind: Kind) {
        if !self.hidden.remove(&kind) {
            self.hidden.insert(kind);
        }
    }

    /// A shorter window, or a longer one; from the automatic one to the nearest on that side.
    pub fn zoom(&mut self, is_in: bool, shown: (i64, i64)) {
        let length = shown.1.saturating_sub(shown.0) / SECOND;
        let shorter = ZOOMS.iter().rposition(|zoom| *zoom < length).unwrap_or(0);
        let longer = ZOOMS.iter().position(|zoom| *zoom > length).unwrap_or(ZOOMS.len() - 1);
        self.zoom = Zoom::Fixed(if is_in { shorter } else { longer });
    }

    /// The chart's window of time at an instant, UTC microseconds.
    #[must_use]
    pub fn window(&self, model: &Model, key: &Key, now: i64) -> (i64, i64) {
        let (from, to) = match self.zoom {
            Zoom::Auto => automatic(model, key, now),
            Zoom::Fixed(zoom) => {
                let length = ZOOMS.get(zoom).copied().unwrap_or(60) * SECOND;
                (now.saturating_sub(length), now)
            }
        };
        let by = (to.saturating_sub(from) / 4).saturating_mul(self.back);
        (from.saturating_sub(by), to.saturating_sub(by))
    }
}

/// The drain that goes on, with what led to it; or the one that is just over; else the last minute.
fn automatic(model: &Model, key: &Key, now: i64) -> (i64, i64) {
    let usual = (now.saturating_sub(60 * SECOND), now);
    let Some(pod) = model.pod_of(key) else { return usual };
    if let Some(began) = pod.draining_since() {
        let from = began.saturating_sub(2 * SECOND).min(now.saturating_sub(10 * SECOND));
        return (from, now);
    }
    let Some(verdict) = pod.last_verdict().filter(|verdict| verdict.uid == pod.uid) else { return usual };
    let at = |stamp: &Option<String>| stamp.as_deref().and_then(super::model::pod::micros);
    let (Some(began), Some(ended)) = (at(&verdict.began), at(&verdict.ended)) else { return usual };
    if ended >= began && (pod.is_gone() || now.saturating_sub(ended) < 60 * SECOND) {
        (began.saturating_sub(SECOND), ended.saturating_add(SECOND))
    } else {
        usual
    }
}
