//! How things look: words and symbols say everything, colours say it again. Pure.

use std::env;

use ratatui::style::{Color, Modifier, Style};

use super::super::model::{event::Kind, marks::Mark, pod::Lb};
use crate::drain::{
    fact::{Hc, Serving},
    verdict::Outcome,
};

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub colour: bool,
    /// Whether it shows more than ASCII.
    pub unicode: bool,
}

impl Look {
    /// As the environment has it: `NO_COLOR` (no-color.org) or a terminal without colours; a locale of UTF-8.
    #[must_use]
    pub fn of_environment(no_colour: bool) -> Self {
        let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let is_mono = set("TERM").is_some_and(|term| term == "dumb" || term.starts_with("vt"));
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| set(name)).unwrap_or_default();
        let locale = locale.to_ascii_lowercase().replace('-', "");
        Self { colour: !no_colour && set("NO_COLOR").is_none() && !is_mono, unicode: locale.contains("utf8") }
    }

    /// A colour of the terminal's own sixteen, which its owner chose for its background, light or dark.
    fn in_colour(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// What is good.
    #[must_use]
    pub fn good(self) -> Style {
        self.in_colour(Color::Green)
    }

    /// What is bad: also bold, for a terminal without colours.
    #[must_use]
    pub fn bad(self) -> Style {
        self.in_colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// What is not certain.
    #[must_use]
    pub fn doubt(self) -> Style {
        self.in_colour(Color::Magenta).add_modifier(Modifier::BOLD)
    }

    /// What stands out.
    #[must_use]
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// A bar over the whole width.
    #[must_use]
    pub fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The line under the cursor.
    #[must_use]
    pub fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Requests in flight.
    #[must_use]
    pub fn count(self) -> Style {
        self.in_colour(Color::Cyan)
    }

    /// One of two symbols.
    #[must_use]
    pub fn pick(self, unicode: char, ascii: char) -> char {
        if self.unicode { unicode } else { ascii }
    }

    /// A state of hc: the style, and what fills its band.
    #[must_use]
    pub fn hc(self, state: Option<Hc>) -> (Style, char) {
        match state {
            Some(Hc::Open) => (self.good(), self.pick('─', '-')),
            Some(Hc::Draining) => (self.in_colour(Color::Cyan), self.pick('═', '=')),
            Some(Hc::Closing) => (self.in_colour(Color::Magenta), self.pick('▒', '#')),
            Some(Hc::Closed) => (Style::new(), self.pick('█', '@')),
            Some(Hc::Fault) => (self.bad(), '!'),
            None => (Style::new(), '?'),
        }
    }

    /// What the LB is told.
    #[must_use]
    pub fn told(self, code: Option<u16>) -> (Style, char) {
        match code {
            Some(200) => (self.good(), self.pick('─', '-')),
            Some(_) => (self.in_colour(Color::Magenta), self.pick('▒', '#')),
            None => (Style::new(), '?'),
        }
    }

    /// Where the LB stands.
    #[must_use]
    pub fn lb(self, lb: Option<Lb>) -> (Style, char) {
        match lb {
            Some(Lb::Told(Serving::Up)) => (self.good(), self.pick('─', '-')),
            Some(Lb::Told(Serving::NoNew)) => (self.in_colour(Color::Cyan), self.pick('═', '=')),
            Some(Lb::Told(Serving::Down)) => (self.bad(), self.pick('▒', '#')),
            Some(Lb::Predicted) => (self.doubt(), ':'),
            None => (Style::new(), '?'),
        }
    }

    /// An end of a connection on the axis.
    #[must_use]
    pub fn mark(self, mark: Mark) -> (Style, char) {
        match mark {
            Mark::Clean => (Style::new(), self.pick('·', '.')),
            Mark::Client => (self.in_colour(Color::Cyan), 'c'),
            Mark::Uncertain => (self.doubt(), '?'),
            Mark::Cut => (self.bad(), 'X'),
        }
    }

    /// A line of what happened.
    #[must_use]
    pub fn kind(self, kind: Kind) -> Style {
        match kind {
            Kind::Cut => self.bad(),
            Kind::Gap => self.doubt(),
            Kind::Hc | Kind::Lb | Kind::Pod => self.strong(),
            Kind::Requests => self.count(),
            Kind::Connections | Kind::End | Kind::Rst => Style::new(),
        }
    }

    /// A verdict.
    #[must_use]
    pub fn verdict(self, outcome: Outcome) -> Style {
        match outcome {
            Outcome::Protected => self.good().add_modifier(Modifier::BOLD),
            Outcome::Broken => self.bad(),
            Outcome::Inconclusive => self.doubt(),
        }
    }
}
