//! A text file line by line, in bounded memory, with what can be wrong with one as a whole.

use std::io::{self, BufRead, Read};

use super::note::Notes;

/// A longer line is none of any artifact: it is passed over.
const LONGEST: usize = 65_536;

/// How far into a file is looked for bytes that no text has.
const HEAD: usize = 4_096;

const AGAIN: &str = "copy it again from where it was written, as plain text";

/// Calls `take` with the number and the text of each whole line, without its end. Bytes that are no UTF-8 are replaced.
/// A last line without its end may be cut off, and is not given.
pub fn each(
    file: impl BufRead,
    notes: &mut Notes,
    take: impl FnMut(u64, &str, &mut Notes),
) -> io::Result<()> {
    let _cut_off = each_but_last(file, notes, take)?;
    Ok(())
}

/// As [`each`]; gives back a last line without its end, for whoever can take from it what is there.
pub fn each_but_last(
    mut file: impl BufRead,
    notes: &mut Notes,
    mut take: impl FnMut(u64, &str, &mut Notes),
) -> io::Result<Option<String>> {
    let head = file.fill_buf()?;
    if let Some(why) = no_text(head.get(..head.len().min(HEAD)).unwrap_or_default()) {
        notes.damaged(None, why, AGAIN);
        return Ok(None);
    }
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        let most = u64::try_from(LONGEST).unwrap_or(u64::MAX);
        let read = (&mut file).take(most).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        number += 1;
        if line.pop_if(|last| *last == b'\n').is_none() {
            if read == LONGEST {
                file.skip_until(b'\n')?;
                notes.damaged(
                    Some(number),
                    format!("is longer than {LONGEST} bytes, and is passed over"),
                    AGAIN,
                );
            } else {
                notes.damaged(
                    Some(number),
                    "has no end, and may be cut off: it is passed over",
                    "copy the file again; if the line is whole, end it with a newline",
                );
                return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
            }
            continue;
        }
        let _carriage_return = line.pop_if(|last| *last == b'\r');
        match std::str::from_utf8(&line) {
            Ok(text) => take(number, text, notes),
            Err(_) => {
                notes.damaged(Some(number), "is not UTF-8", AGAIN);
                take(number, &String::from_utf8_lossy(&line), notes);
            }
        }
    }
    Ok(None)
}

/// Why a file is no text, by its beginning.
fn no_text(head: &[u8]) -> Option<&'static str> {
    match head {
        [] => Some("is empty"),
        [0x1f, 0x8b, ..] => Some("is compressed by gzip"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("is UTF-16"),
        _ if head.contains(&0) => Some("is no text: it has zero bytes"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> (Vec<String>, Notes) {
        let mut notes = Notes::on("file");
        let mut lines = Vec::new();
        each(bytes, &mut notes, |number, text, _| lines.push(format!("{number}:{text}"))).unwrap();
        (lines, notes)
    }

    fn told(notes: &Notes) -> String {
        notes.list().iter().map(ToString::to_string).collect()
    }

    /// Exercises files that are no text, so that each is named for what it is.
    #[test]
    fn no_texts() {
        for (bytes, why) in [
            (&b""[..], "is empty"),
            (b"\x1f\x8b\x08rest", "gzip"),
            (b"\xff\xfea\0b\0", "UTF-16"),
            (b"ab\0c\n", "zero bytes"),
        ] {
            let (lines, notes) = read(bytes);
            assert!(lines.is_empty() && !notes.is_whole() && told(&notes).contains(why), "{why}");
        }
    }

    /// Exercises ends of lines, a line that is cut off and one that never ends, so that nothing but whole lines is given.
    #[test]
    fn whole_lines_only() {
        let (lines, notes) = read(b"a\r\n\nb\n");
        assert!(notes.is_whole());
        assert_eq!(lines, ["1:a", "2:", "3:b"]);
        let (lines, notes) = read(b"a\nb");
        assert!(lines == ["1:a"] && told(&notes).contains("line 2: has no end"));
        let long = [&vec![b'x'; LONGEST * 3][..], b"\nc\n"].concat();
        let (lines, notes) = read(&long);
        assert!(lines == ["2:c"] && told(&notes).contains("line 1: is longer"));
        let (lines, notes) = read(b"a\xffb\n");
        assert!(lines == ["1:a\u{fffd}b"] && told(&notes).contains("not UTF-8"));
    }

    proptest! {
        /// Exercises any bytes, so that none panics.
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _whatever = read(&bytes);
        }
    }
}
