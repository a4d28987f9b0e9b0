//! Requests and answers in pieces, so that each is counted once and only when it is whole.

use proptest::prelude::*;

use super::*;

fn piece(data: &[u8]) -> Piece {
    Piece { data: data.to_vec(), missing: 0 }
}

/// Takes turns: `>` the client, `<` the pod. Returns what is in flight after each.
fn played(turns: &[&str]) -> Vec<u64> {
    let mut http = Http1::default();
    turns
        .iter()
        .map(|turn| {
            let (who, bytes) = turn.split_at(1);
            if who == ">" {
                http.asked(&piece(bytes.as_bytes()));
            } else {
                http.answered(&piece(bytes.as_bytes()));
            }
            assert!(!http.lost, "{turn}");
            http.in_flight()
        })
        .collect()
}

/// Exercises bodies of each kind, so that a request is over with the last byte of its answer and not before.
#[test]
fn bodies() {
    let get = ">GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(played(&[get, "<HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", "<\n"]), [1, 1, 0]);
    assert_eq!(
        played(&[
            get,
            "<HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
            "<lo\r\n0\r\n",
            "<X: y\r\n\r\n"
        ]),
        [1, 1, 1, 0]
    );
    assert_eq!(
        played(&[">HEAD / HTTP/1.1\r\n\r\n", "<HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n"]),
        [1, 0]
    );
    assert_eq!(played(&[get, "<HTTP/1.1 204 No\r\n\r\n", get, "<HTTP/1.1 304 No\r\n\r\n"]), [1, 0, 1, 0]);
    assert_eq!(played(&[get, "<HTTP/1.0 200 OK\r\n\r\nbytes until the end"]), [1, 1]);
}

/// Exercises pipelined requests, 100-continue, a request in two pieces and an answer before the request's body is whole.
#[test]
fn order() {
    let two = ">GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n";
    let answer = "<HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(played(&[two, answer, answer]), [2, 1, 0]);
    assert_eq!(
        played(&[
            ">POST / HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
            "<HTTP/1.1 100 Continue\r\n\r\n",
            ">ab",
            answer
        ]),
        [1, 1, 1, 0]
    );
    assert_eq!(played(&[">GE", ">T / HTTP/1.1\r\n\r\n", answer]), [1, 1, 0]);
    // A time-out that answers nothing.
    assert_eq!(
        played(&[&two[..19], answer, "<HTTP/1.1 408 Timeout\r\nContent-Length: 0\r\n\r\n"]),
        [1, 0, 0]
    );
}

/// Exercises bytes the capture did not keep, so that a body of known length is followed, and nothing else is guessed.
#[test]
fn missing_bytes() {
    let mut http = Http1::default();
    http.asked(&piece(b"GET / HTTP/1.1\r\n\r\n"));
    http.answered(&Piece { data: b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".to_vec(), missing: 5 });
    assert!(http.in_flight() == 1 && !http.lost && http.is_answering());
    http.answered(&Piece { data: b"1234".to_vec(), missing: 0 });
    assert!(http.in_flight() == 0 && !http.lost);
    http.asked(&Piece { data: b"GET / HT".to_vec(), missing: 30 });
    assert!(http.lost);
}

/// Exercises what is no HTTP/1 any more, so that it is known not to be followed.
#[test]
fn lost() {
    for (asked, answered) in [
        ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 101 Switching\r\n\r\n"),
        ("CONNECT a:1 HTTP/1.1\r\n\r\n", ""),
        ("GET / HTTP/1.1\r\n\r\n", "nonsense\r\n\r\n"),
        ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
        ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
    ] {
        let mut http = Http1::default();
        http.asked(&piece(asked.as_bytes()));
        http.answered(&piece(answered.as_bytes()));
        assert!(http.lost, "{asked}{answered}");
    }
}

proptest! {
    /// Exercises a conversation cut into pieces anywhere, so that where they end changes nothing.
    #[test]
    fn any_pieces(cuts in prop::collection::vec(1_usize..40, 1..9)) {
        let asked = b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nabcdGET / HTTP/1.1\r\n\r\n";
        let answered = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let mut http = Http1::default();
        for (bytes, is_asked) in [(&asked[..], true), (&answered[..], false)] {
            let mut rest = bytes;
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                if is_asked { http.asked(&piece(now)); } else { http.answered(&piece(now)); }
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(http.in_flight(), if is_asked { 2 } else { 0 });
        }
        prop_assert!(!http.lost);
    }

    /// Exercises any bytes, so that none panics.
    #[test]
    fn any_bytes(asked in prop::collection::vec(any::<u8>(), 0..200), answered in prop::collection::vec(any::<u8>(), 0..200), missing in 0_usize..9) {
        let mut http = Http1::default();
        http.asked(&Piece { data: asked, missing });
        http.answered(&Piece { data: answered, missing });
    }
}
