//! Answers of real HAProxies, whole and damaged.

use proptest::prelude::*;

use super::*;
use crate::lb::word::Serving;

const BY_SOCKET: &str = include_str!("../../testdata/lb/stat-up-2-of-3.csv");
const DOWN: &str = include_str!("../../testdata/lb/stat-down.csv");
const BY_HTTP: &str = include_str!("../../testdata/lb/http-up-1-of-3.csv");
const EXPORTER: &str = include_str!("../../testdata/lb/exporter-down.txt");

fn told(rows: &[Row]) -> Vec<(String, &str, Option<Serving>)> {
    rows.iter().map(|row| (row.name(), row.status.as_str(), row.serving)).collect()
}

fn servers(node_1: (&'static str, Option<Serving>)) -> Vec<(String, &'static str, Option<Serving>)> {
    [
        ("node-1", node_1.0, node_1.1),
        ("node-2", "DOWN", Some(Serving::Down)),
        ("node-3", "no check", None),
        ("node-5", "DRAIN", Some(Serving::NoNew)),
        ("node-4", "MAINT", Some(Serving::Down)),
    ]
    .map(|(server, status, serving)| (format!("igw/{server}"), status, serving))
    .to_vec()
}

/// Exercises HAProxy's own answers, so that each state is what it means, and only servers count.
#[test]
fn real_answers() {
    let rows = read(BY_SOCKET.as_bytes(), true).unwrap();
    assert_eq!(told(&rows), servers(("UP 2/3", Some(Serving::Up))));
    assert_eq!((rows[0].address, rows[0].since_s), ("127.0.0.1".parse().ok(), Some(2)));
    let rows = read(DOWN.as_bytes(), true).unwrap();
    assert_eq!(told(&rows), servers(("DOWN", Some(Serving::Down))));
    assert_eq!(rows[0].since_s, Some(0));
    let rows = read(BY_HTTP.as_bytes(), false).unwrap();
    assert_eq!(told(&rows), servers(("UP 1/3", Some(Serving::Up))));
    assert_eq!(rows[0].address, None, "only a command socket with level operator tells addresses");
    let mut rows = read(EXPORTER.as_bytes(), false).unwrap();
    rows.sort_by_key(|row| (row.server == "node-4", row.server.clone()));
    assert_eq!(told(&rows), servers(("DOWN", Some(Serving::Down))));
}

/// Exercises other columns, in another order, so that they are found by name; and files that miss one, or have one twice.
#[test]
fn columns_by_name() {
    let rows = read(b"# pxname,x,status,svname,\nbe,1,UP 1/2,s1,\nbe,,OPEN,FRONTEND,\n", false).unwrap();
    assert_eq!(told(&rows), [("be/s1".to_owned(), "UP 1/2", Some(Serving::Up))]);
    for wrong in ["# pxname,svname,\nbe,s1,\n", "# pxname,svname,status,status,\nbe,s1,UP,DOWN,\n"] {
        assert!(matches!(read(wrong.as_bytes(), false), Err(Malformed::Csv(_))), "{wrong}");
    }
    let quoted = "# pxname,svname,status,last_chk,\nbe,s1,UP,\"a,b \"\"c\"\"\nd\",\n";
    assert_eq!(read(quoted.as_bytes(), false).unwrap().len(), 1);
}

/// Exercises both ways in which exporters have told the state, and answers that lost a line, so that 0 alone is never DOWN.
#[test]
fn exporters() {
    let of = |text: &str| {
        let rows = read(text.as_bytes(), false);
        rows.map(|rows| rows.into_iter().map(|row| (row.status, row.serving)).collect::<Vec<_>>())
    };
    let one = |status: &str, serving| Ok(vec![(status.to_owned(), serving)]);
    let before_2_4 =
        |number: &str| of(&format!("haproxy_server_status{{proxy=\"b\",server=\"s\"}} {number}\n"));
    assert_eq!(before_2_4("0"), one("DOWN", Some(Serving::Down)));
    assert_eq!(before_2_4("1"), one("UP", Some(Serving::Up)));
    assert_eq!(before_2_4("4"), one("NOLB", Some(Serving::NoNew)));
    assert_eq!(before_2_4("7"), Err(Malformed::NoServer));
    let old = |number: &str| of(&format!("haproxy_server_up{{backend=\"b\",server=\"s\"}} {number}\n"));
    assert_eq!(old("1"), one("1", Some(Serving::Up)));
    assert_eq!(old("0"), one("0", None));
    assert_eq!(old("NaN"), Err(Malformed::NoServer));
    let alone = "haproxy_server_status{proxy=\"b\",server=\"s\",state=\"DOWN\"} 1\n";
    assert_eq!(of(alone), Err(Malformed::NoServer));
    let both = format!("{alone}haproxy_server_status{{proxy=\"b\",server=\"s\",state=\"UP\"}} 1\n");
    assert_eq!(of(&both), Err(Malformed::NoServer));
}

/// Exercises what is no answer, so that each says what it seems to be.
#[test]
fn no_answers() {
    let of = |text: &str, by_socket| read(text.as_bytes(), by_socket).unwrap_err();
    assert_eq!(of("", false), Malformed::Cut);
    assert_eq!(of("<!DOCTYPE html>\n", false), Malformed::Page);
    assert_eq!(of("Permission denied\n", true), Malformed::Refused("Permission denied".to_owned()));
    assert!(matches!(of("-- nothing like it\n", false), Malformed::Metric(_)));
    assert_eq!(read(&[0xff, b'\n'], false), Err(Malformed::Encoding));
    assert_eq!(of("# pxname,svname,status,\nfe,FRONTEND,OPEN,\n", false), Malformed::NoServer);
    assert_eq!(of(BY_HTTP, true), Malformed::Cut, "a command socket's answer ends with an empty line");
}

proptest! {
    /// Exercises answers that are cut off anywhere, so that no server is told to be in a state that the whole answer does not
    /// tell of it.
    #[test]
    fn cut_off(keep in any::<prop::sample::Index>(), which in 0_usize..4) {
        let (text, by_socket) = [(BY_SOCKET, true), (DOWN, true), (BY_HTTP, false), (EXPORTER, false)][which];
        let cut = &text[..keep.index(text.len())];
        let whole = read(text.as_bytes(), by_socket).unwrap();
        if let Ok(rows) = read(cut.as_bytes(), by_socket) {
            prop_assert!(!by_socket, "the end was missing");
            for row in rows {
                let same = whole.iter().find(|other| other.name() == row.name()).unwrap();
                // Without the number of failed checks the exporter cannot tell that nobody checks.
                prop_assert!(row.serving == same.serving || row.serving == Some(Serving::Up));
            }
        }
    }

    /// Exercises any text, so that nothing panics, and any rows, so that each is read as it was written.
    #[test]
    fn any_text(text in "[ -~\n]{0,200}", statuses in prop::collection::vec("[ -~]{0,12}", 1..8)) {
        let _whatever = read(text.as_bytes(), false);
        let mut writer = ::csv::Writer::from_writer(b"# ".to_vec());
        writer.write_record(["pxname", "svname", "status"]).unwrap();
        for status in &statuses {
            writer.write_record(["b", "s", status]).unwrap();
        }
        let rows = read(&writer.into_inner().unwrap(), false).unwrap();
        prop_assert_eq!(rows.into_iter().map(|row| row.status).collect::<Vec<_>>(), statuses);
    }
}
