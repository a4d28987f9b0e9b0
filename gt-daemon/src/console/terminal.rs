//! The terminal while a console has it: raw, on its alternate screen; and given back, however the console ends.

use std::io::{self, stdout};

use anyhow::Context as _;
use crossterm::{
    execute, queue,
    terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, enable_raw_mode},
};
use nix::sys::signal::{Signal, raise};
use ratatui::{DefaultTerminal, buffer::Buffer, layout::Rect};

/// A terminal that was taken. Dropped, it is as it was before; so it is after a panic, whose message is then seen.
pub struct Terminal {
    inner: DefaultTerminal,
    /// Whether others may have written on the screen, so that all of it is drawn.
    anew: bool,
}

impl Terminal {
    /// Takes the terminal of stdout.
    pub fn enter() -> anyhow::Result<Self> {
        let inner =
            ratatui::try_init().context("cannot take the terminal for the console; `-o lines` needs none")?;
        Ok(Self { inner, anew: false })
    }

    /// Draws a frame: what has changed since the last one, in one piece where the terminal can.
    pub fn draw(&mut self, draw: impl FnOnce(Rect, &mut Buffer)) -> io::Result<()> {
        queue!(stdout(), BeginSynchronizedUpdate)?;
        let drawn = self.frame(draw);
        execute!(stdout(), EndSynchronizedUpdate)?;
        drawn
    }

    fn frame(&mut self, draw: impl FnOnce(Rect, &mut Buffer)) -> io::Result<()> {
        if std::mem::take(&mut self.anew) {
            // Not by `clear`: that asks the terminal for its cursor, and the answer would be taken for keys.
            let size = self.inner.size()?;
            self.inner.resize(size.into())?;
        }
        self.inner.draw(|frame| draw(frame.area(), frame.buffer_mut())).map(drop)
    }

    /// Draws all of the next frame, whatever is on the screen.
    pub fn forget(&mut self) {
        self.anew = true;
    }

    /// Gives the terminal back, stops until somebody says to go on, and takes it again.
    pub fn suspend(&mut self) -> io::Result<()> {
        self.inner.show_cursor()?;
        ratatui::try_restore()?;
        raise(Signal::SIGSTOP)?;
        self.resume()
    }

    /// Takes it again after others had it.
    pub fn resume(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen)?;
        self.inner.hide_cursor()?;
        self.forget();
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that is gone cannot be given back.
        let _gone = self.inner.show_cursor();
        let _gone = ratatui::try_restore();
    }
}
