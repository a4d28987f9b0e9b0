//! Drains as pages: the picture of one with its two clocks, and the list of them.
//!
//! Facts become [`series`] over time, those a [`scene`] with places ([`layout`]), that an [`svg`], and that a part of a
//! [`page`]: each step is pure. [`input`] reads records from files, [`command`] is `gt-daemon report`.
//!
//! Owns: how a drain is shown. Refuses: to judge, to load anything over a network, to run scripts, and to show what is not
//! known as a number.

pub mod command;
pub mod html;
pub mod index;
pub mod input;
pub mod layout;
mod legend;
pub mod page;
pub mod scene;
pub mod series;
pub mod svg;
pub mod text;
pub mod time;
pub mod words;

#[cfg(test)]
mod tests;
