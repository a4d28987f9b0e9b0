//! Where a picture grows, row by row, from the top.

use super::super::{
    scene::{Anchor, Item, MARK, Point, Shape},
    text::shortened,
    time::Scale,
};

/// Space left and right of the time axis: marks at its ends stay inside.
pub const MARGIN: f64 = 10.0;

/// The height of a line of text.
pub const LINE: f64 = 15.0;

/// How far a text's baseline is below its top.
const BASELINE: f64 = 11.0;

/// A picture that is being laid out.
#[derive(Debug)]
pub struct Canvas {
    pub width: f64,
    pub scale: Scale,
    /// Where the next row begins.
    pub y: f64,
    pub items: Vec<Item>,
}

/// A text at an instant's place.
#[derive(Clone, Debug)]
pub struct Label {
    pub x: f64,
    pub text: String,
    pub class: &'static str,
}

/// A label with the place that was found for it.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Where it was wanted.
    pub wanted: f64,
    pub x: f64,
    pub text: String,
    pub class: &'static str,
    pub lane: u8,
    pub anchor: Anchor,
}

impl Canvas {
    /// An empty one for a stretch of time.
    #[must_use]
    pub fn new(width: f64, from: i64, to: i64) -> Self {
        let scale = Scale::new(from, to, MARGIN, width - MARGIN);
        Self { width, scale, y: 4.0, items: Vec::new() }
    }

    /// A row with a title.
    pub fn heading(&mut self, text: &str, class: &'static str) {
        self.y += 5.0;
        let y = self.y;
        self.text(MARGIN, y, Anchor::Start, class, text);
        self.y += LINE;
    }

    /// A text whose top is at `y`, cut to what fits.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &'static str, text: &str) {
        let room = match anchor {
            Anchor::Start => self.width - x,
            Anchor::End => x,
        };
        let text = fitted(text, room);
        if !text.is_empty() {
            self.items.push(Item::Text { at: Point { x, y: y + BASELINE }, anchor, class, text });
        }
    }

    /// A box from one place to another, at least a unit wide.
    pub fn rect(
        &mut self,
        (from, to): (f64, f64),
        (y, height): (f64, f64),
        class: &'static str,
        tip: Option<String>,
    ) {
        let width = (to - from).max(1.0);
        let x = from.min(self.scale.right - width).max(self.scale.left);
        self.items.push(Item::Rect { x, y, width, height, class, tip });
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &'static str) {
        let point = |(x, y)| Point { x, y };
        self.items.push(Item::Line { from: point(from), to: point(to), class });
    }

    pub fn mark(&mut self, x: f64, y: f64, shape: Shape, class: &'static str, tip: String) {
        let x = x.clamp(MARK, self.width - MARK);
        self.items.push(Item::Mark { at: Point { x, y }, shape, class, tip });
    }

    /// Finds room for labels in lanes, the first ones first, so that none covers another. Returns those that found room
    /// in at most `most` lanes.
    #[must_use]
    pub fn place(&self, labels: Vec<Label>, most: u8) -> Vec<Placed> {
        let mut taken: Vec<(u8, f64, f64)> = Vec::new();
        let mut placed = Vec::new();
        for Label { x, text, class } in labels {
            let text = fitted(&text, self.width - 2.0 * MARGIN);
            let width = extent(&text) + 6.0;
            let (anchor, from) =
                if x + width <= self.width - 2.0 { (Anchor::Start, x) } else { (Anchor::End, x - width) };
            // Too long for either side: at the left edge, above its instant.
            let (anchor, place, from) =
                if from < 0.0 { (Anchor::Start, 2.0, 2.0) } else { (anchor, x, from) };
            let to = from + width;
            let is_free = |lane: &u8| !taken.iter().any(|(of, a, b)| of == lane && *a < to && from < *b);
            if let Some(lane) = (0..most).find(is_free) {
                taken.push((lane, from, to));
                placed.push(Placed { wanted: x, x: place, text, class, lane, anchor });
            }
        }
        placed
    }
}

/// About how wide a text is.
#[must_use]
pub fn extent(text: &str) -> f64 {
    text.chars().map(|letter| if letter.is_ascii() { 6.3 } else { 11.5 }).sum()
}

/// As much of a text as fits; nothing where not even three letters do.
#[must_use]
pub fn fitted(text: &str, room: f64) -> String {
    if extent(text) <= room {
        return text.to_owned();
    }
    let mut left = room - extent("…");
    let fits = |letter: &char| {
        left -= if letter.is_ascii() { 6.3 } else { 11.5 };
        left >= 0.0
    };
    let kept = text.chars().take_while(fits).count();
    if kept < 3 { String::new() } else { shortened(text, kept + 1) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Exercises any labels, so that those that are placed lie in the picture and none covers another.
        #[test]
        fn labels(labels in prop::collection::vec((10.0_f64..410.0, "\\PC{0,80}"), 0..20)) {
            let canvas = Canvas::new(420.0, 0, 1000);
            let labels = labels.into_iter().map(|(x, text)| Label { x, text, class: "" }).collect();
            let placed = canvas.place(labels, 6);
            let span = |one: &Placed| match one.anchor {
                Anchor::Start => (one.x, one.x + extent(&one.text)),
                Anchor::End => (one.x - extent(&one.text), one.x),
            };
            for (number, one) in placed.iter().enumerate() {
                let (from, to) = span(one);
                prop_assert!(from >= 0.0 && to <= 420.0, "{one:?}");
                for other in placed.iter().skip(number + 1).filter(|other| other.lane == one.lane) {
                    let (start, end) = span(other);
                    prop_assert!(to <= start || end <= from, "{one:?} {other:?}");
                }
            }
        }

        /// Exercises any text and room, so that what is left fits.
        #[test]
        fn cut(text in "\\PC{0,60}", room in -5.0_f64..500.0) {
            let fitted = fitted(&text, room);
            prop_assert!(fitted.is_empty() || extent(&fitted) <= room);
        }
    }
}
