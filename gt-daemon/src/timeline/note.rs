//! What was wrong with an artifact: each note names the file, the line, the cause and the remedy.

use std::fmt;

use super::inputs::{Artifact, Kind};

/// Notes on one file that are told; of the rest only the number is.
const MOST_OF_A_FILE: usize = 4;

/// One thing that was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub file: String,
    /// From 1 on; `None` for a file as a whole.
    pub line: Option<u64>,
    pub cause: String,
    pub remedy: String,
}

impl Note {
    /// On a file that is no run's.
    #[must_use]
    pub fn unread(artifact: &Artifact) -> Self {
        let (cause, remedy) = if Kind::of(&artifact.name).is_some() {
            (
                "is not read: which of the runs beside it is meant is not known",
                "put it into the directory of its run, beside the hc.log",
            )
        } else {
            (
                "is not read: it is rotated or compressed",
                "unpack it, and give it a name such as haproxy-1.log",
            )
        };
        let file = artifact.path.display().to_string();
        Self { file, line: None, cause: cause.to_owned(), remedy: remedy.to_owned() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, cause, remedy } = self;
        let told = match line {
            Some(line) => format!("{file}, line {line}: {cause}; {remedy}"),
            None => format!("{file}: {cause}; {remedy}"),
        };
        f.write_str(&plain(&told))
    }
}

/// In one line and without what a terminal would obey: names and texts come from files that anybody may have written.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(|letter| if is_command(letter) { char::REPLACEMENT_CHARACTER } else { letter }).collect()
}

/// Control characters, and those that turn the direction of writing.
fn is_command(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// All notes on one file, few of them told.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    file: String,
    told: Vec<Note>,
    untold: u64,
    damage: bool,
}

impl Notes {
    /// On a file of this name.
    #[must_use]
    pub fn on(file: &str) -> Self {
        Self { file: file.to_owned(), ..Self::default() }
    }

    /// Something of the file is lost: it can still prove a cut, but not that there was none.
    pub fn damaged(&mut self, line: Option<u64>, cause: impl Into<String>, remedy: impl Into<String>) {
        self.damage = true;
        self.tell(line, cause, remedy);
    }

    /// Something to know that takes nothing from the file's word.
    pub fn tell(&mut self, line: Option<u64>, cause: impl Into<String>, remedy: impl Into<String>) {
        if self.told.len() < MOST_OF_A_FILE {
            let (cause, remedy) = (cause.into(), remedy.into());
            self.told.push(Note { file: self.file.clone(), line, cause, remedy });
        } else {
            self.untold += 1;
        }
    }

    /// Whether nothing of the file is lost.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.damage
    }

    /// What is to be told, with the number of what is not.
    #[must_use]
    pub fn list(&self) -> Vec<Note> {
        let rest = (self.untold > 0).then(|| Note {
            file: self.file.clone(),
            line: None,
            cause: format!("{} more lines are like these", self.untold),
            remedy: "see the notes above".to_owned(),
        });
        self.told.iter().cloned().chain(rest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises names and texts with a terminal's commands, so that they stay one line of text.
    #[test]
    fn no_commands() {
        let mut notes = Notes::on("\u{1b}[2Jhc.log");
        notes.tell(None, "is a\nb\u{9b}c\u{202e}", "x\r");
        assert_eq!(
            notes.list()[0].to_string(),
            "\u{fffd}[2Jhc.log: is a\u{fffd}b\u{fffd}c\u{fffd}; x\u{fffd}"
        );
    }

    /// Exercises many bad lines, so that few are told, the rest by number, and the file is no proof of absence.
    #[test]
    fn few_are_told() {
        let mut notes = Notes::on("hc.log");
        assert!(notes.is_whole());
        notes.tell(None, "has no transition", "look at its name");
        assert!(notes.is_whole());
        for line in 0..10 {
            notes.damaged(Some(line), "is cut", "copy it again");
        }
        let list = notes.list();
        assert_eq!((list.len(), notes.is_whole()), (5, false));
        assert_eq!(list[1].to_string(), "hc.log, line 0: is cut; copy it again");
        assert_eq!(list[4].to_string(), "hc.log: 7 more lines are like these; see the notes above");
    }
}
