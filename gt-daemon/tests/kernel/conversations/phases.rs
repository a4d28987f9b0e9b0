//! What a connection was doing when it ended: every phase.

use std::{
    io::{Read as _, Write as _},
    net::Shutdown,
    thread::sleep,
    time::Duration,
};

use anyhow::{Result, ensure};

use super::{
    ANY, Held, Place, Talk,
    pair::{ANSWER, Pair, REQUEST, ended},
    raw, talk,
};
use crate::scene::Family;

const NO_CUT: &str = "opened data, closed data";
const NO_CUT_BUT_RST: &str = "opened data, closed data, rst data received reset";
const CUT_BY_FIN: &str = "opened data, closed data, cut fin_received socket";
const CUT_BY_FIN_THEN_RST: &str = "opened data, closed data, cut fin_received socket, \
                                   rst data received reset, cut_reset received socket";
const CUT_BY_RST: &str = "opened data, closed data, cut rst_received socket, rst data received reset, \
                          cut_reset received socket";
const POSSIBLE_BY_FIN: &str = "opened data, closed data, cut fin_received possible";
const POSSIBLE_BY_RST: &str = "opened data, closed data, cut rst_received possible, \
                               rst data received reset, cut_reset received possible";

const UPLOAD: &[u8] = b"POST / HTTP/1.1\r\nhost: gt\r\ncontent-length: 1000000\r\n\r\n";
const EXPECT: &[u8] = b"POST / HTTP/1.1\r\nhost: gt\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\n";
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

pub const TALKS: &[Talk] = &[
    talk("unused_connection_closed", NO_CUT, "idle", |scene| gone(Pair::inbound(scene)?.peer_close()?)),
    talk("unused_connection_reset", NO_CUT_BUT_RST, "idle", |scene| gone(Pair::inbound(scene)?.peer_rst()?)),
    talk("first_request_cut_by_fin", CUT_BY_FIN, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        gone(pair.peer_close()?)
    })
    .by(&Family::ALL),
    talk("first_request_cut_by_rst", CUT_BY_RST, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        gone(pair.peer_rst()?)
    })
    .by(&Family::ALL),
    talk("later_request_cut", CUT_BY_FIN, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.answer()?;
        pair.request()?;
        gone(pair.peer_close()?)
    }),
    talk("long_wait_cut", CUT_BY_FIN, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        sleep(Duration::from_millis(1200));
        gone(pair.peer_close()?)
    }),
    talk("unread_request_cut_by_fin", CUT_BY_FIN, "unread", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.send(REQUEST)?;
        pair.peer_fin()?;
        read_all(&mut pair)
    })
    .by(&Family::ALL),
    talk("unread_request_cut_by_rst", CUT_BY_RST, "unread", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.send(REQUEST)?;
        gone(pair.peer_rst()?)
    }),
    talk("fin_and_request_in_one_segment", CUT_BY_FIN, "unread", |scene| {
        let mut pair = Pair::inbound(scene)?;
        raw::cork(&pair.peer)?;
        pair.peer.write_all(REQUEST)?;
        pair.peer_fin()?;
        read_all(&mut pair)
    }),
    // The peer may well wait for the answer, and order cannot tell: a cut.
    talk("half_close_after_the_request", CUT_BY_FIN, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.peer_fin()?;
        pair.answer()?;
        gone(pair)
    }),
    talk("peek_is_no_read", CUT_BY_RST, "unread", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.send(REQUEST)?;
        ensure!(pair.pod.peek(&mut [0; 64])? == REQUEST.len(), "peeked at less than was sent");
        gone(pair.peer_rst()?)
    }),
    talk("reads_of_nothing_while_awaiting", CUT_BY_FIN, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        nothing(&mut pair)?;
        gone(pair.peer_close()?)
    }),
    talk("reads_of_nothing_while_idle", NO_CUT, "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.answer()?;
        nothing(&mut pair)?;
        gone(pair.peer_close()?)
    }),
    talk("peer_closes_after_the_answer", NO_CUT, "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.answer()?;
        gone(pair.peer_close()?)
    })
    .by(&Family::ALL),
    // The acknowledgement of the answer may still be on its way.
    talk("peer_resets_right_after_the_answer", NO_CUT_BUT_RST, ANY, |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.answer()?;
        gone(pair.peer_rst()?)
    })
    .by(&Family::ALL),
    talk("answer_still_unread_at_the_peer_that_resets", NO_CUT_BUT_RST, ANY, |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.pod.write_all(ANSWER)?;
        gone(pair.peer_rst()?)
    }),
    talk("idle_keepalive_reset", NO_CUT_BUT_RST, "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        for _ in 0..5 {
            pair.request()?;
            pair.answer()?;
        }
        pair.settled()?;
        gone(pair.peer_rst()?)
    })
    .by(&Family::ALL),
    talk("idle_keepalive_closed", NO_CUT, "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        for _ in 0..5 {
            pair.request()?;
            pair.answer()?;
        }
        pair.settled()?;
        gone(pair.peer_close()?)
    }),
    // Two requests in one read, one answered: the order cannot tell, so no cut.
    talk("pipelining_in_one_read", NO_CUT, "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.ask(&[REQUEST, REQUEST].concat())?;
        pair.answer()?;
        gone(pair.peer_close()?)
    }),
    talk("pipelined_request_left_unread", CUT_BY_FIN, "unread", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.send(&[REQUEST, REQUEST].concat())?;
        pair.pod.read_exact(&mut [0; REQUEST.len()])?;
        pair.answer()?;
        pair.peer_fin()?;
        read_all(&mut pair)
    }),
    talk("pipelined_request_read_before_the_answer", NO_CUT, "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.request()?;
        pair.answer()?;
        gone(pair.peer_close()?)
    }),
    // The pod waits for the peer's body: nothing is lost that the peer has sent.
    talk("continue_then_no_body", NO_CUT, "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.ask(EXPECT)?;
        pair.tell(CONTINUE)?;
        gone(pair.peer_close()?)
    }),
    talk("continue_then_body", CUT_BY_FIN, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.ask(EXPECT)?;
        pair.tell(CONTINUE)?;
        pair.ask(b"body")?;
        gone(pair.peer_close()?)
    }),
    talk("upload_in_progress", CUT_BY_FIN, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.ask(UPLOAD)?;
        for _ in 0..5 {
            pair.ask(&[b'u'; 10_000])?;
        }
        gone(pair.peer_close()?)
    }),
    talk("upload_in_progress_partly_unread", CUT_BY_RST, "unread", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.ask(UPLOAD)?;
        pair.ask(&[b'u'; 10_000])?;
        pair.send(&[b'u'; 10_000])?;
        gone(pair.peer_rst()?)
    }),
    talk("slow_reader_closes_its_side", CUT_BY_FIN_THEN_RST, "sending", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.fill()?;
        pair.peer_fin()?;
        // With the answer unread, closing resets.
        gone(pair.peer_rst()?)
    }),
    talk("slow_reader_resets", CUT_BY_RST, "sending", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.fill()?;
        gone(pair.peer_rst()?)
    })
    .by(&Family::ALL),
    // What was written before is still delivered.
    talk("slow_reader_and_the_pod_closes", NO_CUT, "sending", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.fill()?;
        drop(pair.pod);
        let mut rest = Vec::new();
        pair.peer.read_to_end(&mut rest)?;
        gone(pair.peer)
    }),
    talk("stream_cut_by_fin", POSSIBLE_BY_FIN, "streaming", |scene| {
        let mut pair = Pair::inbound(scene)?;
        stream(&mut pair)?;
        pair.settled()?;
        gone(pair.peer_close()?)
    })
    .by(&Family::ALL),
    talk("stream_cut_by_rst", POSSIBLE_BY_RST, "streaming", |scene| {
        let mut pair = Pair::inbound(scene)?;
        stream(&mut pair)?;
        pair.settled()?;
        gone(pair.peer_rst()?)
    }),
    talk("stream_ended_by_the_pod", NO_CUT, "streaming", |scene| {
        let mut pair = Pair::inbound(scene)?;
        stream(&mut pair)?;
        gone(pair.pod_close()?)
    }),
    talk("stream_that_fell_silent", NO_CUT, "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        stream(&mut pair)?;
        sleep(Duration::from_millis(1500));
        gone(pair.peer_close()?)
    })
    .at(Place::Daemon(&["--stream-window", "1s"])),
    // An answer that took long looks like a stream while it is fresh.
    talk("late_answer_then_closed", POSSIBLE_BY_FIN, "streaming", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        sleep(Duration::from_millis(400));
        pair.answer()?;
        gone(pair.peer_close()?)
    }),
    talk("answer_by_sendfile", NO_CUT, "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        raw::sendfile(&pair.pod, ANSWER)?;
        heard(&mut pair)?;
        gone(pair.peer_close()?)
    }),
    talk("answer_by_splice", NO_CUT, "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        raw::splice_out(&pair.pod, ANSWER)?;
        heard(&mut pair)?;
        gone(pair.peer_close()?)
    }),
    talk("request_read_by_splice", CUT_BY_FIN, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.answer()?;
        pair.send(REQUEST)?;
        raw::splice_in(&pair.pod, REQUEST.len())?;
        gone(pair.peer_close()?)
    }),
    // Splice has no buffer to look at: no order of reads and writes is taken for proof.
    talk("first_request_read_by_splice", NO_CUT, "unknown", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.send(REQUEST)?;
        raw::splice_in(&pair.pod, REQUEST.len())?;
        gone(pair.peer_close()?)
    }),
    // A write that fails is no answer.
    talk("writes_that_fail", CUT_BY_FIN, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        ensure!(raw::write_from_nowhere(&pair.pod).is_err(), "a bad address was written from");
        ensure!(pair.pod.write(&[])? == 0, "an empty write");
        gone(pair.peer_close()?)
    }),
    talk("open_connection_stays_active", "opened data, active data", "", |scene| {
        let pair = Pair::inbound(scene)?;
        Ok(vec![pair.pod, pair.peer])
    }),
    talk("half_closed_connection_stays_closing", "opened data, closing data", "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.answer()?;
        pair.peer_fin()?;
        Ok(vec![pair.pod, pair.peer])
    }),
    talk("pod_half_closes_and_waits", "opened data, closing data", "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.answer()?;
        pair.pod.shutdown(Shutdown::Write)?;
        ended(&pair.peer)?;
        Ok(vec![pair.pod, pair.peer])
    }),
];

/// The conversation is over: what is left of it is dropped.
#[expect(clippy::unnecessary_wraps, reason = "the last line of a conversation")]
pub fn gone<T>(rest: T) -> Result<Held> {
    drop(rest);
    Ok(Vec::new())
}

/// The pod reads what it had left unread, so that closing sends no RST.
pub fn read_all(pair: &mut Pair<'_>) -> Result<Held> {
    pair.pod.read_to_end(&mut Vec::new())?;
    Ok(Vec::new())
}

/// Chunks at intervals that no prompt answer has.
pub fn stream(pair: &mut Pair<'_>) -> Result<()> {
    pair.request()?;
    for _ in 0..4 {
        sleep(Duration::from_millis(300));
        pair.tell(b"5\r\nchunk\r\n")?;
    }
    Ok(())
}

fn heard(pair: &mut Pair<'_>) -> Result<()> {
    let mut answer = [0; ANSWER.len()];
    pair.peer.read_exact(&mut answer)?;
    ensure!(answer == ANSWER, "heard something else");
    Ok(())
}

/// Reads that read nothing: EAGAIN, a peek at an empty queue, no room.
fn nothing(pair: &mut Pair<'_>) -> Result<()> {
    pair.pod.set_nonblocking(true)?;
    for _ in 0..3 {
        ensure!(pair.pod.read(&mut [0; 64]).is_err(), "nothing is there");
        ensure!(pair.pod.peek(&mut [0; 64]).is_err(), "nothing is there");
        ensure!(pair.pod.read(&mut []).unwrap_or(0) == 0, "no room");
    }
    pair.pod.set_nonblocking(false)?;
    Ok(())
}
