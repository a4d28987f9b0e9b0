//! `run.log`: what a harness did: `[<time>] [<scenario>] <words>`. Of its words two are read: that a pod of a name is deleted,
//! and that something was killed.

use std::io::{self, BufRead};

use super::{lines, note::Notes, stamped};

/// Words that are kept.
const MOST: usize = 1_024;

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// When which pod was deleted.
    pub deleted: Vec<(i64, String)>,
    /// When a process was killed.
    pub killed: Vec<i64>,
}

/// Reads the log. Lines without a time are a person's.
pub fn read(file: impl BufRead, notes: &mut Notes) -> io::Result<Done> {
    let mut done = Done::default();
    lines::each(file, notes, |_, text, _| {
        let Some((ts, words)) = stamped::first(text) else { return };
        if words.contains("SIGKILL") && done.killed.len() < MOST {
            done.killed.push(ts);
        }
        if let Some(pod) = deleted(words)
            && done.deleted.len() < MOST
        {
            done.deleted.push((ts, pod.to_owned()));
        }
    })?;
    Ok(done)
}

/// `pod NAME is deleted`, `pod NAME deleted`, `delete pod NAME`, `delete pod/NAME`.
fn deleted(words: &str) -> Option<&str> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let at = |index: usize| words.get(index).copied().unwrap_or_default();
    let name = (0..words.len()).find_map(|index| match (at(index), at(index + 1), at(index + 2)) {
        ("delete" | "deleting", "pod", name) => Some(name),
        ("delete" | "deleting", name, _) => name.strip_prefix("pod/"),
        ("pod", name, "is") if at(index + 3) == "deleted" => Some(name),
        // "the pod is deleted" has no name.
        ("pod", name, "deleted") if !["is", "was", "been", "got"].contains(&name) => Some(name),
        _ => None,
    })?;
    let name = name.trim_matches(['"', '\'', ',']);
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
    (!name.is_empty() && name.chars().all(is_plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises the words of the lab and of kubectl, so that pods are named, and nothing else is taken for one.
    #[test]
    fn words() {
        let log = "[2026-11-30T07:00:00Z] [S1] pod igw-6d8f-00011 is deleted with 1 long requests in flight\n\
                   [2026-11-30T07:00:01Z] [S1] kubectl delete pod igw-2 --grace-period=210\n\
                   [2026-11-30T07:00:02Z] [H1] SIGKILL envoy\n[2026-11-30T07:00:03Z] [S3] pod 1 of 3 is replaced\nno time\n\
                   [2026-11-30T07:00:04Z] the pod is deleted\n";
        let mut notes = Notes::on("run.log");
        let done = read(log.as_bytes(), &mut notes).unwrap();
        let names: Vec<_> = done.deleted.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!((names, done.killed.len(), notes.is_whole()), (vec!["igw-6d8f-00011", "igw-2"], 1, true));
    }
}
