//! Rows of boxes: what was so from when to when. What is not known is hatched, and nothing else is.

use super::{
    super::{
        scene::Anchor,
        series::{Stretch, lb::Word, life::Life},
        text::{clock, length, plain, shortened},
    },
    canvas::{Canvas, extent},
};
use crate::drain::fact::{Hc, Serving};

/// The height of a row.
const HEIGHT: f64 = 18.0;

/// What a box says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Band {
    from: i64,
    to: i64,
    class: &'static str,
    label: String,
}

impl Band {
    fn of<T>(stretch: &Stretch<T>, class: &'static str, label: impl Into<String>) -> Self {
        Self { from: stretch.from, to: stretch.to, class, label: label.into() }
    }
}

/// A state of the health sidecar.
#[must_use]
pub fn state(stretch: &Stretch<Option<Hc>>) -> Band {
    let (class, label) = match stretch.what {
        Some(Hc::Open) => ("band hc-open", "OPEN"),
        Some(Hc::Draining) => ("band hc-draining", "DRAINING"),
        Some(Hc::Closing) => ("band hc-closing", "CLOSING"),
        Some(Hc::Closed) => ("band hc-closed", "CLOSED"),
        Some(Hc::Fault) => ("band hc-fault", "FAULT"),
        None => ("band unknown", "unknown"),
    };
    Band::of(stretch, class, label)
}

/// A health answer.
#[must_use]
pub fn told(stretch: &Stretch<Option<u16>>) -> Band {
    match stretch.what {
        Some(code @ 200..300) => Band::of(stretch, "band up", code.to_string()),
        Some(code) => Band::of(stretch, "band lb-down", code.to_string()),
        None => Band::of(stretch, "band unknown", "unknown"),
    }
}

/// The load balancer's word.
#[must_use]
pub fn word(stretch: &Stretch<Word>) -> Band {
    let said = |status: &Option<String>, word: &str| {
        status.as_deref().map_or(word.to_owned(), |status| shortened(status, 40))
    };
    match &stretch.what {
        Word::Seen(Serving::Up, status) => Band::of(stretch, "band up", said(status, "up")),
        Word::Seen(Serving::NoNew, status) => Band::of(stretch, "band no-new", said(status, "no new")),
        Word::Seen(Serving::Down, status) => Band::of(stretch, "band lb-down", said(status, "DOWN")),
        Word::Turning => Band::of(stretch, "band turning", "up or DOWN: between two looks"),
        Word::Predicted => Band::of(stretch, "band predicted", "DOWN, predicted: nobody saw it"),
        Word::Unclear(status) => {
            Band::of(stretch, "band unknown", format!("{}: cannot be told", shortened(status, 40)))
        }
        Word::Unknown => Band::of(stretch, "band unknown", "unknown"),
    }
}

/// The pod's life.
#[must_use]
pub fn life(stretch: &Stretch<Life>) -> Band {
    let (class, label) = match stretch.what {
        Life::There => ("band there", "there"),
        Life::Deleted => ("band deleted", "being deleted"),
        Life::Overdue => ("band overdue", "past its grace period"),
        Life::Gone => ("band gone", "gone"),
    };
    Band::of(stretch, class, label)
}

/// A load balancer that nobody reads.
pub fn unread(canvas: &mut Canvas) {
    let (from, to) = (canvas.scale.from, canvas.scale.to);
    let label = "unknown: no load balancer was read".to_owned();
    row(canvas, std::iter::once(Band { from, to, class: "band unknown", label }));
}

/// Draws a row. Those too narrow to be seen are drawn together, as a box that says how many there are.
pub fn row(canvas: &mut Canvas, bands: impl Iterator<Item = Band>) {
    let y = canvas.y;
    let mut crowd: Vec<Band> = Vec::new();
    for band in bands {
        let narrow = canvas.scale.x(band.to) - canvas.scale.x(band.from) < 1.0;
        let is_wide = |crowd: &[Band]| {
            crowd.first().is_some_and(|first| canvas.scale.x(band.from) - canvas.scale.x(first.from) >= 1.0)
        };
        if !narrow || is_wide(&crowd) {
            draw_crowd(canvas, y, &std::mem::take(&mut crowd));
        }
        if narrow {
            crowd.push(band);
        } else {
            draw(canvas, y, &band);
        }
    }
    draw_crowd(canvas, y, &crowd);
    canvas.y += HEIGHT + 2.0;
}

fn draw_crowd(canvas: &mut Canvas, y: f64, crowd: &[Band]) {
    match crowd {
        [] => {}
        [one] => draw(canvas, y, one),
        [first, .., last] => {
            let span = (canvas.scale.x(first.from), canvas.scale.x(last.to));
            let labels: Vec<&str> = crowd.iter().take(8).map(|band| &*band.label).collect();
            let more = if crowd.len() > labels.len() { ", .." } else { "" };
            let tip = format!(
                "{} from {} to {}: {}{more}",
                crowd.len(),
                clock(first.from),
                clock(last.to),
                labels.join(", ")
            );
            canvas.rect(span, (y, HEIGHT), "band crowd", Some(plain(&tip)));
        }
    }
}

fn draw(canvas: &mut Canvas, y: f64, band: &Band) {
    let span = (canvas.scale.x(band.from), canvas.scale.x(band.to));
    let took = length(band.to.saturating_sub(band.from));
    let label = plain(&band.label);
    let tip = format!("{label}: {} to {}, {took}", clock(band.from), clock(band.to));
    canvas.rect(span, (y, HEIGHT), band.class, Some(tip));
    if span.1 - span.0 >= extent(&label) + 6.0 {
        canvas.text(span.0 + 4.0, y + 2.5, Anchor::Start, "label", &label);
    }
}
