//! What is spoken decides what the order of reads and writes can prove.

use std::{io::Write as _, thread::sleep, time::Duration};

use super::{
    Place, Talk,
    pair::{Pair, REQUEST},
    phases::{gone, read_all},
    talk,
};
use crate::scene::Family;

const NO_CUT: &str = "opened data, closed data";
const NO_CUT_BUT_RST: &str = "opened data, closed data, rst data received reset";
const CUT_BY_FIN: &str = "opened data, closed data, cut fin_received socket";
const CUT_BY_RST: &str = "opened data, closed data, cut rst_received socket, rst data received reset, \
                          cut_reset received socket";

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const FRAME: &[u8] = b"\0\0\x04\x01\x05\0\0\0\x01\x82\x86\x84\x81";
/// The head of a record that holds a ClientHello.
const HELLO: &[u8] = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03 and so on";
const SEALED: &[u8] = b"\x17\x03\x03\x01\0 sealed";
const ALERT: &[u8] = &[0x15; 31];

pub const TALKS: &[Talk] = &[
    talk("http2_while_awaiting", NO_CUT, "unknown", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.ask(PREFACE)?;
        gone(pair.peer_close()?)
    })
    .by(&Family::ALL),
    talk("http2_unread", NO_CUT_BUT_RST, "unread", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.ask(PREFACE)?;
        pair.tell(FRAME)?;
        pair.send(FRAME)?;
        gone(pair.peer_rst()?)
    }),
    talk("declared_http2_unread", NO_CUT_BUT_RST, "unread", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.send(PREFACE)?;
        gone(pair.peer_rst()?)
    })
    .at(Place::Pod("protocol = \"http2\"")),
    talk("declared_http2_while_awaiting", NO_CUT, "unknown", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        gone(pair.peer_close()?)
    })
    .at(Place::Pod("protocol = \"http2\"")),
    // Bytes that no recognition would take for a request.
    talk("declared_http1_while_awaiting", CUT_BY_FIN, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.ask(b"PROPFIND / HTTP/1.1\r\n\r\n")?;
        gone(pair.peer_close()?)
    })
    .at(Place::Pod("protocol = \"http1\"")),
    talk("tls_hello_awaits_its_answer", NO_CUT, "unknown", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.ask(HELLO)?;
        gone(pair.peer_close()?)
    }),
    talk("tls_while_awaiting", NO_CUT_BUT_RST, "unknown", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.ask(HELLO)?;
        pair.tell(HELLO)?;
        pair.ask(SEALED)?;
        gone(pair.peer_rst()?)
    }),
    talk("tls_unread", CUT_BY_FIN, "unread", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.ask(HELLO)?;
        pair.tell(HELLO)?;
        pair.send(&[0x17; 200])?;
        pair.peer_fin()?;
        read_all(&mut pair)
    }),
    talk("tls_goodbye_unread", NO_CUT, "unread", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.ask(HELLO)?;
        pair.tell(HELLO)?;
        pair.send(ALERT)?;
        pair.peer_fin()?;
        read_all(&mut pair)
    }),
    talk("tls_slow_reader", CUT_BY_RST, "sending", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.ask(HELLO)?;
        pair.fill()?;
        gone(pair.peer_rst()?)
    }),
    talk("unknown_protocol_while_awaiting", NO_CUT, "unknown", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.ask(b"\x01\x02\x03\x04\x05 what is it")?;
        gone(pair.peer_close()?)
    }),
    talk("unknown_protocol_unread", CUT_BY_FIN, "unread", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.ask(b"\x01\x02\x03\x04\x05 what is it")?;
        pair.send(b"more of it")?;
        pair.peer_fin()?;
        read_all(&mut pair)
    }),
    // The method arrives in two parts: what is not recognised proves nothing.
    talk("request_in_crumbs", NO_CUT, "unknown", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.ask(b"GE")?;
        pair.ask(b"T / HTTP/1.1\r\n\r\n")?;
        gone(pair.peer_close()?)
    }),
    talk("request_in_two_reads", CUT_BY_FIN, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        let (head, rest) = REQUEST.split_at(5);
        pair.ask(head)?;
        pair.ask(rest)?;
        gone(pair.peer_close()?)
    }),
    talk("large_request_in_pages", CUT_BY_FIN, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        let mut request = b"POST / HTTP/1.1\r\ncontent-length: 60000\r\n\r\n".to_vec();
        request.resize(60_000, b'p');
        pair.ask(&request)?;
        gone(pair.peer_close()?)
    }),
    talk("server_that_speaks_first", NO_CUT, "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.tell(b"220 ready\r\n")?;
        pair.settled()?;
        gone(pair.peer_close()?)
    }),
    talk("health_port_while_awaiting", "opened health, closed health", "awaiting", |scene| {
        let mut pair = Pair::inbound_on(scene, 18180)?;
        pair.request()?;
        gone(pair.peer_close()?)
    })
    .by(&Family::ALL),
    talk(
        "health_port_reset_while_awaiting",
        "opened health, closed health, rst health received reset",
        "awaiting",
        |scene| {
            let mut pair = Pair::inbound_on(scene, 15021)?;
            pair.request()?;
            gone(pair.peer_rst()?)
        },
    ),
    talk("admin_port_while_awaiting", "opened admin, closed admin", "awaiting", |scene| {
        let mut pair = Pair::inbound_on(scene, 15000)?;
        pair.request()?;
        gone(pair.peer_close()?)
    }),
    talk("admin_port_unread", "opened admin, closed admin, rst admin sent active", "unread", |scene| {
        let mut pair = Pair::inbound_on(scene, 15090)?;
        pair.peer.write_all(REQUEST)?;
        sleep(Duration::from_millis(20));
        scene.await_row(pair.ends, |row| row.is_some_and(|row| row.unread > 0))?;
        drop(pair.pod);
        gone(crate::conversation::is_reset(&mut pair.peer)?)
    }),
];
