//! How a connection ends: who begins, what follows, and what is never seen on the wire.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener},
    process::Stdio,
    thread::sleep,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::{
    signal::Signal,
    socket::{setsockopt, sockopt},
};
use xtask::sandbox::{Netns, Process, eventually, run};

use super::{
    ANY, Place, Talk,
    pair::{ANSWER, Pair, REQUEST, ended},
    phases::{gone, stream},
    raw, talk,
};
use crate::{
    child,
    conversation::abort,
    scene::{DEVICE, Family, PEER_V4, PEER_V6, POD_V4, POD_V6, Scene},
};

const NO_CUT: &str = "opened data, closed data";
const CUT_BY_FIN: &str = "opened data, closed data, cut fin_received socket";
const CUT_BY_OWN_FIN: &str = "opened data, closed data, cut fin_sent socket";
const KILLED_BY_FIN: &str = "opened data, closed data, cut fin_sent socket killed";
const KILLED_BY_RST: &str =
    "opened data, closed data, rst data sent active, cut rst_sent socket killed, cut_reset sent socket";
const CUT_BY_OWN_RST: &str =
    "opened data, closed data, cut rst_sent socket, rst data sent active, cut_reset sent socket";
const CUT_BY_RST: &str = "opened data, closed data, cut rst_received socket, rst data received reset, \
                          cut_reset received socket";
const POSSIBLE_BY_RST: &str = "opened data, closed data, cut rst_received possible, \
                               rst data received reset, cut_reset received possible";
const CUT_BY_FIN_THEN_RST: &str = "opened data, closed data, cut fin_received socket, \
                                   rst data received reset, cut_reset received socket";

pub const TALKS: &[Talk] = &[
    // HAProxy's kill.
    talk("fin_then_rst_is_one_cut", CUT_BY_FIN_THEN_RST, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.peer_fin()?;
        gone(pair.peer_rst()?)
    })
    .by(&Family::ALL),
    // A kill that the pod answers by closing first: LAST_ACK, and no RST.
    talk("fin_and_the_pod_closes_first", CUT_BY_FIN, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.peer_fin()?;
        gone(pair.pod_close()?)
    }),
    talk("answer_to_a_peer_that_has_closed", CUT_BY_FIN_THEN_RST, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        let ends = pair.ends;
        let mut pod = pair.peer_close()?;
        pod.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        scene.await_row(ends, |row| row.is_none())?;
        gone(pod)
    }),
    talk("fin_then_rst_while_idle", "opened data, closed data, rst data received reset", "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.answer()?;
        pair.peer_fin()?;
        gone(pair.peer_rst()?)
    }),
    talk(
        "fin_and_the_pod_closes_with_the_request_unread",
        "opened data, closed data, cut fin_received socket, rst data sent active, cut_reset sent socket",
        "unread",
        |scene| {
            let mut pair = Pair::inbound(scene)?;
            pair.send(REQUEST)?;
            pair.peer_fin()?;
            gone(pair)
        },
    ),
    talk("pod_closes_with_the_request_unread", CUT_BY_OWN_RST, "unread", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.send(REQUEST)?;
        drop(pair.pod);
        crate::conversation::is_reset(&mut pair.peer)?;
        gone(pair.peer)
    })
    .by(&Family::ALL),
    talk("pod_resets_while_awaiting", CUT_BY_OWN_RST, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        gone(pair.pod_rst()?)
    })
    .by(&Family::ALL),
    talk("pod_resets_after_its_answer", "opened data, closed data, rst data sent active", "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.answer()?;
        pair.settled()?;
        gone(pair.pod_rst()?)
    }),
    talk("pod_closes_while_awaiting", CUT_BY_OWN_FIN, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        gone(pair.pod_close()?)
    })
    .by(&Family::ALL),
    talk("connection_close", NO_CUT, "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.answer()?;
        pair.settled()?;
        gone(pair.pod_close()?)
    })
    .by(&Family::ALL),
    // The answer and the FIN leave together.
    talk("connection_close_in_one_segment", NO_CUT, "sending", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        raw::cork(&pair.pod)?;
        pair.pod.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")?;
        drop(pair.pod);
        pair.peer.read_to_end(&mut Vec::new())?;
        gone(pair.peer)
    }),
    // The kernel resets its own end, and only the answer is on the wire.
    talk(
        "data_after_the_pod_shut_down_both_sides",
        "opened data, closed data, rst data sent reply",
        "idle",
        |scene| {
            let mut pair = Pair::inbound(scene)?;
            pair.request()?;
            pair.answer()?;
            pair.settled()?;
            shut_down_and_hear(pair)
        },
    )
    .by(&Family::ALL),
    talk(
        "data_after_the_pod_shut_down_both_sides_while_awaiting",
        "opened data, closed data, cut fin_sent socket, rst data sent reply, cut_reset sent socket",
        "awaiting",
        |scene| {
            let mut pair = Pair::inbound(scene)?;
            pair.request()?;
            shut_down_and_hear(pair)
        },
    ),
    talk("simultaneous_close", NO_CUT, "idle", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.answer()?;
        pair.settled()?;
        let lost = Lost::both(scene)?;
        drop(pair.peer);
        drop(pair.pod);
        // Both FINs are lost; sent again, each meets a socket that has sent one.
        drop(lost);
        gone(())
    }),
    talk("simultaneous_close_while_awaiting", CUT_BY_OWN_FIN, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.settled()?;
        let lost = Lost::both(scene)?;
        drop(pair.peer);
        drop(pair.pod);
        drop(lost);
        gone(())
    }),
    talk(
        "answer_that_nobody_acknowledges",
        "opened data, closed data, cut timeout socket",
        "sending",
        |scene| {
            let mut pair = Pair::inbound(scene)?;
            pair.request()?;
            pair.settled()?;
            setsockopt(&pair.pod, sockopt::TcpUserTimeout, &300)?;
            let lost = Lost::both(scene)?;
            pair.pod.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
            scene.await_row(pair.ends, |row| row.is_none())?;
            abort(pair.peer)?;
            drop(lost);
            gone(pair.pod)
        },
    ),
    // The kernel sends an RST when keepalives go unanswered.
    talk("peer_that_vanished_while_awaiting", CUT_BY_OWN_RST, "awaiting", |scene| {
        let mut pair = Pair::inbound(scene)?;
        pair.request()?;
        pair.settled()?;
        gone(vanish(scene, pair)?)
    }),
    talk(
        "peer_that_vanished_while_idle",
        "opened data, closed data, rst data sent active",
        "idle",
        |scene| {
            let mut pair = Pair::inbound(scene)?;
            pair.request()?;
            pair.answer()?;
            pair.settled()?;
            gone(vanish(scene, pair)?)
        },
    ),
    // The answer to the first request, not yet acknowledged, does not excuse the second one.
    talk("pod_closes_with_an_answer_unacknowledged_and_a_request_unanswered", CUT_BY_OWN_FIN, ANY, |scene| {
        let mut pair = Pair::inbound(scene)?;
        second_awaits(&mut pair)?;
        let lost = Lost::to_peer(scene)?;
        pair.pod.write_all(ANSWER)?;
        pair.pod.read_exact(&mut [0; REQUEST.len()])?;
        drop(pair.pod);
        drop(lost);
        pair.peer.read_to_end(&mut Vec::new())?;
        gone(pair.peer)
    }),
    talk("peer_resets_with_an_answer_unacknowledged_and_a_request_unanswered", CUT_BY_RST, ANY, |scene| {
        let mut pair = Pair::inbound(scene)?;
        second_awaits(&mut pair)?;
        let lost = Lost::to_peer(scene)?;
        pair.pod.write_all(ANSWER)?;
        pair.pod.read_exact(&mut [0; REQUEST.len()])?;
        let pod = pair.peer_rst()?;
        drop(lost);
        gone(pod)
    }),
    // The peer resets before it acknowledges the last chunk.
    talk("peer_resets_a_stream_at_its_last_chunk", POSSIBLE_BY_RST, ANY, |scene| {
        let mut pair = Pair::inbound(scene)?;
        stream(&mut pair)?;
        pair.settled()?;
        let lost = Lost::to_peer(scene)?;
        pair.pod.write_all(b"5\r\nchunk\r\n")?;
        let pod = pair.peer_rst()?;
        drop(lost);
        gone(pod)
    }),
    talk("process_killed_while_awaiting", KILLED_BY_FIN, "awaiting", |scene| {
        let (mut process, peer) = served(scene, true)?;
        process.signal(Signal::SIGKILL)?;
        process.wait(Duration::from_secs(5))?;
        ended(&peer)?;
        gone(peer)
    }),
    talk("process_killed_with_the_request_unread", KILLED_BY_RST, "unread", |scene| {
        let (mut process, mut peer) = served(scene, false)?;
        process.signal(Signal::SIGKILL)?;
        process.wait(Duration::from_secs(5))?;
        crate::conversation::is_reset(&mut peer)?;
        gone(peer)
    }),
    // The orphan is left alone with its FIN.
    talk(
        "interface_gone_and_the_pod_closes",
        "opened data, closing data, cut fin_sent socket",
        "awaiting",
        |scene| {
            let mut pair = Pair::inbound(scene)?;
            pair.request()?;
            run(scene.pod.command("ip").args(["link", "set", DEVICE, "down"]))?;
            drop(pair.pod);
            sleep(Duration::from_millis(300));
            // Up again for the end: what is lost comes back.
            run(scene.pod.command("ip").args(["link", "set", DEVICE, "up"]))?;
            Ok(vec![pair.peer])
        },
    )
    .by(&[Family::V4])
    .at(Place::Pod("")),
    talk("fast_open", CUT_BY_FIN, "awaiting", |scene| {
        // Client and server, without cookies, every listener (ip-sysctl: tcp_fastopen).
        for netns in [&scene.pod, &scene.peer] {
            netns.enter(|| std::fs::write("/proc/sys/net/ipv4/tcp_fastopen", "1543"))??;
        }
        let listener = scene.listen_in_pod()?;
        let to = (scene.pod_address()?, listener.local_addr()?.port()).into();
        let peer = scene.peer.enter(|| raw::fast_open(to, REQUEST))??;
        let pod = crate::conversation::accept(&listener)?;
        let mut pair = Pair::of(scene, pod, peer)?;
        ensure!(raw::was_fast_open(&pair.peer)?, "the request came after the handshake");
        pair.pod.read_exact(&mut [0; REQUEST.len()])?;
        gone(pair.peer_close()?)
    })
    .at(Place::Pod("")),
    talk("multipath_falls_back", CUT_BY_FIN, "awaiting", |scene| {
        let any = if scene.family == Family::V6 { "[::]:0" } else { "0.0.0.0:0" }.parse()?;
        let Some(listener) = scene.pod.enter(|| raw::listen_multipath(any))?? else {
            // No such kernel: the same conversation without.
            let mut pair = Pair::inbound(scene)?;
            pair.request()?;
            return gone(pair.peer_close()?);
        };
        cut_on(scene, &listener)
    }),
];

fn cut_on(scene: &Scene, listener: &TcpListener) -> Result<super::Held> {
    let peer = scene.dial_pod(listener.local_addr()?.port())??;
    let pod = crate::conversation::accept(listener)?;
    let mut pair = Pair::of(scene, pod, peer)?;
    pair.request()?;
    gone(pair.peer_close()?)
}

fn shut_down_and_hear(mut pair: Pair<'_>) -> Result<super::Held> {
    pair.pod.shutdown(Shutdown::Both)?;
    ended(&pair.peer)?;
    pair.peer.write_all(b"more")?;
    // The end of the stream has been read: the reset shows as a broken pipe.
    eventually("the reset", Duration::from_secs(5), || pair.peer.take_error().ok().flatten())?;
    gone(pair)
}

/// The peer is not there any more, and the pod's kernel finds out by asking.
fn vanish(scene: &Scene, pair: Pair<'_>) -> Result<std::net::TcpStream> {
    setsockopt(&pair.pod, sockopt::TcpKeepIdle, &1)?;
    setsockopt(&pair.pod, sockopt::TcpKeepInterval, &1)?;
    setsockopt(&pair.pod, sockopt::TcpKeepCount, &1)?;
    setsockopt(&pair.pod, sockopt::KeepAlive, &true)?;
    let lost = Lost::both(scene)?;
    scene.await_row(pair.ends, |row| row.is_none())?;
    abort(pair.peer)?;
    drop(lost);
    Ok(pair.pod)
}

/// A process in the pod that has accepted a connection and read the request, or left it unread.
fn served(scene: &Scene, reads: bool) -> Result<(Process, std::net::TcpStream)> {
    let address = if scene.family == Family::V6 { "[::]:0" } else { "0.0.0.0:0" };
    let mut command = child::server(&scene.pod, address, reads)?;
    let mut process = Process::start("server", command.stdout(Stdio::piped()))?;
    let output = process.child().stdout.take().context("the server's output")?;
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(output));
    let mut line = || lines.next().context("the server ended")?.context("the server's output");
    let port = line()?.parse()?;
    let mut peer = scene.dial_pod(port)??;
    peer.write_all(REQUEST)?;
    ensure!(line()? == "served", "the server does not serve");
    Ok((process, peer))
}

/// Two requests are on their way, and the pod has read the first.
fn second_awaits(pair: &mut Pair<'_>) -> Result<()> {
    pair.send(&[REQUEST, REQUEST].concat())?;
    pair.pod.read_exact(&mut [0; REQUEST.len()]).map_err(Into::into)
}

/// Nothing arrives: the sender's packets go to a link address that nobody has.
struct Lost<'a> {
    scene: &'a Scene,
    both: bool,
}

impl<'a> Lost<'a> {
    /// In either direction.
    fn both(scene: &'a Scene) -> Result<Self> {
        Self::cut(Self { scene, both: true })
    }

    /// What the pod sends.
    fn to_peer(scene: &'a Scene) -> Result<Self> {
        Self::cut(Self { scene, both: false })
    }

    fn cut(lost: Self) -> Result<Self> {
        lost.neighbours("replace", &["lladdr", "02:00:00:00:00:99", "nud", "permanent"])?;
        Ok(lost)
    }

    fn neighbours(&self, verb: &str, more: &[&str]) -> Result<()> {
        let sides: [(&Netns, &str, [&str; 2]); 2] =
            [(&self.scene.pod, DEVICE, [PEER_V4, PEER_V6]), (&self.scene.peer, "peer0", [POD_V4, POD_V6])];
        for (netns, device, addresses) in sides.into_iter().take(if self.both { 2 } else { 1 }) {
            for address in addresses {
                run(netns.command("ip").args(["neigh", verb, address, "dev", device]).args(more))?;
            }
        }
        Ok(())
    }
}

impl Drop for Lost<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.neighbours("delete", &[]) {
            eprintln!("the wire stays cut: {error:#}");
        }
    }
}
