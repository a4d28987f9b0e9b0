//! The strip chart: requests in flight over what the LB is told, on one axis of time. Pure.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::{
    super::{
        model::{
            marks::Mark,
            pod::{Lb, Pod},
            words,
        },
        strip::{Quantity, Strip, border},
    },
    look::Look,
    rows::{Rows, put, put_both},
};
use crate::drain::fact::Serving;

/// Columns left of the chart, for names and numbers.
const GUTTER: u16 = 5;
/// Rows that are no bars: the title, hc, what is told, ends, RSTs, the axis.
const OTHERS: u16 = 6;
/// Rows of bars, and how many are worth having.
const FEWEST: u16 = 2;
const MOST: u16 = 12;

/// How many rows the chart takes of so many; none when there are too few.
#[must_use]
pub fn height(pod: &Pod, rows: u16) -> u16 {
    let others = OTHERS + u16::from(!pod.lb.is_empty());
    if rows < others + FEWEST {
        return 0;
    }
    others + (rows - others).min(MOST)
}

/// Draws a pod over a window of time.
pub fn draw(pod: &Pod, window: (i64, i64), now: i64, look: Look, area: Rect, buffer: &mut Buffer) {
    let columns = area.width.saturating_sub(GUTTER);
    if columns == 0 || area.height == 0 {
        return;
    }
    let strip = Strip::of(pod, window, now, columns);
    let mut rows = Rows::new(area);
    title(&strip, window, look, rows.top(1), buffer);
    put(buffer, rows.bottom(1), axis(window, columns, look));
    rsts(&strip, rows.bottom(1), buffer);
    ends(&strip, look, rows.bottom(1), buffer);
    if !pod.lb.is_empty() {
        let cells = strip.columns.iter().map(|column| column.lb);
        band("LB", cells, |lb| look.lb(lb), lb_word, rows.bottom(1), buffer);
    }
    let told = strip.columns.iter().map(|column| column.told);
    band("told", told, |code| look.told(code), code_word, rows.bottom(1), buffer);
    let hc = strip.columns.iter().map(|column| column.hc);
    band("hc", hc, |state| look.hc(state), |state| words::hc(state).to_owned(), rows.bottom(1), buffer);
    bars(&strip, look, rows.top(rows.height()), buffer);
}

fn title(strip: &Strip, (from, to): (i64, i64), look: Look, area: Rect, buffer: &mut Buffer) {
    let what = match strip.quantity {
        Quantity::Requests => "requests in flight",
        Quantity::Connections => "connections of users (no proxy is asked)",
    };
    let length = words::seconds(to.saturating_sub(from));
    let left = Line::from(Span::styled(format!("{what}, {length}"), look.strong()));
    let clean = look.pick('·', '.');
    put_both(buffer, area, left, format!("X cut  ? may be one  c by its client  {clean} none"));
}

/// Bars in eighths of a row, where the terminal has such.
fn bars(strip: &Strip, look: Look, area: Rect, buffer: &mut Buffer) {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let top = strip.most().unwrap_or(0).max(1);
    let parts: u64 = if look.unicode { 8 } else { 1 };
    let levels = u64::from(area.height) * parts;
    for row in 0..area.height {
        let below = u64::from(area.height - 1 - row) * parts;
        let cell = |count: Option<Option<u64>>| match count {
            Some(Some(0)) if below == 0 => '_',
            Some(None) if below == 0 => '?',
            Some(Some(count)) => {
                let filled = u128::from(count) * u128::from(levels);
                let filled = u64::try_from(filled.div_ceil(u128::from(top))).unwrap_or(levels);
                let part = filled.saturating_sub(below).min(parts);
                if parts == 1 {
                    if part > 0 { '#' } else { ' ' }
                } else {
                    usize::try_from(part).ok().and_then(|part| EIGHTHS.get(part)).copied().unwrap_or(' ')
                }
            }
            _ => ' ',
        };
        let name = match row {
            0 => top.to_string(),
            row if row + 1 == area.height => "0".to_owned(),
            _ => String::new(),
        };
        let cells: String = strip.columns.iter().map(|column| cell(column.count)).collect();
        let line = Line::from(vec![gutter(&short(&name)), Span::styled(cells, look.count())]);
        put(buffer, Rect { y: area.y + row, height: 1, ..area }, line);
    }
}

/// A number that fits the gutter.
fn short(number: &str) -> String {
    match number.len() {
        0..=4 => number.to_owned(),
        digits @ 5..=6 => format!("{}k", number.get(..digits - 3).unwrap_or_default()),
        digits @ 7..=9 => format!("{}M", number.get(..digits - 6).unwrap_or_default()),
        _ => "many".to_owned(),
    }
}

fn gutter(name: &str) -> Span<'static> {
    Span::raw(format!("{name:>4} "))
}

/// What held over time as a band, with its word where each begins.
fn band<T: Copy + PartialEq>(
    name: &str,
    cells: impl Iterator<Item = Option<Option<T>>>,
    look: impl Fn(Option<T>) -> (Style, char),
    word: impl Fn(Option<T>) -> String,
    area: Rect,
    buffer: &mut Buffer,
) {
    let mut runs: Vec<(Option<Option<T>>, usize)> = Vec::new();
    for cell in cells {
        match runs.last_mut() {
            Some((known, length)) if *known == cell => *length += 1,
            _ => runs.push((cell, 1)),
        }
    }
    let mut spans = vec![gutter(name)];
    for (cell, length) in runs {
        let Some(value) = cell else {
            spans.push(Span::raw(" ".repeat(length)));
            continue;
        };
        let (style, fill) = look(value);
        // Half a word is another one: what fills the band says it too.
        let word = Some(word(value)).filter(|word| word.chars().count() <= length).unwrap_or_default();
        let rest = length - word.chars().count();
        spans.push(Span::styled(word, style.add_modifier(ratatui::style::Modifier::BOLD)));
        spans.push(Span::styled(fill.to_string().repeat(rest), style));
    }
    put(buffer, area, Line::from(spans));
}

fn code_word(code: Option<u16>) -> String {
    words::number(code)
}

fn lb_word(lb: Option<Lb>) -> String {
    match lb {
        Some(Lb::Told(serving)) => words::serving(Some(serving)).to_owned(),
        Some(Lb::Predicted) => format!("{}?", words::serving(Some(Serving::Down))),
        None => words::UNKNOWN.to_owned(),
    }
}

/// Ends of connections: of each column the weightiest.
fn ends(strip: &Strip, look: Look, area: Rect, buffer: &mut Buffer) {
    let cell = |end: Option<Mark>| end.map_or((Style::new(), ' '), |mark| look.mark(mark));
    let cells = strip.columns.iter().map(|column| cell(column.end));
    let cells = cells.map(|(style, symbol)| Span::styled(symbol.to_string(), style));
    put(buffer, area, Line::from_iter([gutter("ends")].into_iter().chain(cells)));
}

fn rsts(strip: &Strip, area: Rect, buffer: &mut Buffer) {
    let cells = strip.columns.iter().map(|column| if column.rst { 'R' } else { ' ' });
    put(buffer, area, Line::from_iter([gutter("rst"), Span::raw(cells.collect::<String>())]));
}

/// Round times of day at their places, as far as they find room.
fn axis(window: (i64, i64), columns: u16, look: Look) -> Line<'static> {
    const STEPS: [i64; 13] =
        [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000, 14_400_000];
    const ROOM: i64 = 12;

    let length = window.1.saturating_sub(window.0);
    let enough = |step: &&i64| **step * 1_000 >= length / i64::from(columns) * ROOM;
    let step = STEPS.iter().find(enough).copied().unwrap_or(86_400_000) * 1_000;
    let digits = if step < 1_000_000 { 10 } else { 8 };
    let mut text = String::new();
    for place in 0..columns {
        let (start, end) = (border(window, columns, place), border(window, columns, place + 1));
        let round =
            start.div_euclid(step).saturating_add(i64::from(start.rem_euclid(step) > 0)).saturating_mul(step);
        let used = text.chars().count();
        if used == usize::from(place) {
            if (start..end).contains(&round) {
                text.push(look.pick('│', '|'));
                text.push_str(words::clock(round).get(..digits).unwrap_or_default());
            } else {
                text.push(' ');
            }
        }
    }
    Line::from(vec![gutter("UTC"), Span::raw(text.chars().take(usize::from(columns)).collect::<String>())])
}
