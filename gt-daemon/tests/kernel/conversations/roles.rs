//! Who dialled: only what the pod accepted from outside can be a user's request.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use xtask::sandbox::run;

use super::{
    ANY, Place, Talk,
    pair::{Pair, REQUEST},
    phases::gone,
    raw, talk,
};
use crate::{
    conversation::{abort, accept, is_reset},
    scene::{DEVICE, Family, Scene},
};

pub const TALKS: &[Talk] = &[
    talk("outbound_cut_while_waiting", "opened outbound, closed outbound", ANY, |scene| {
        let mut pair = Pair::outbound(scene)?;
        pair.tell(REQUEST)?;
        gone(pair.peer_close()?)
    }),
    talk(
        "outbound_reset_while_waiting",
        "opened outbound, closed outbound, rst outbound received reset",
        ANY,
        |scene| {
            let mut pair = Pair::outbound(scene)?;
            pair.tell(REQUEST)?;
            gone(pair.peer_rst()?)
        },
    )
    .by(&Family::ALL),
    // The upstream's request to the pod, as it would be on an inbound connection.
    // What is spoken is only looked at where requests come in.
    talk("outbound_read_and_not_answered", "opened outbound, closed outbound", "unknown", |scene| {
        let mut pair = Pair::outbound(scene)?;
        pair.request()?;
        gone(pair.peer_close()?)
    }),
    talk(
        "outbound_closed_with_the_answer_unread",
        "opened outbound, closed outbound, rst outbound sent active",
        "unread",
        |scene| {
            let mut pair = Pair::outbound(scene)?;
            pair.tell(REQUEST)?;
            pair.send(REQUEST)?;
            drop(pair.pod);
            gone(is_reset(&mut pair.peer)?)
        },
    ),
    talk("outbound_refused", "rst outbound received refused", "", |scene| {
        let port = scene.listen_at_peer()?.local_addr()?.port();
        ensure!(scene.dial_peer(port)?.is_err(), "nobody listens");
        gone(())
    })
    .by(&Family::ALL),
    // The neighbour does not answer: the attempt ends, and nothing was opened.
    talk("outbound_syn_unanswered", "", "", |scene| {
        let address = scene.peer_address()?;
        let plain = if scene.family == Family::V6 { "fd78::99" } else { "10.78.0.99" };
        let lost = ["lladdr", "02:00:00:00:00:99", "nud", "permanent", "dev", DEVICE];
        run(scene.pod.command("ip").args(["neigh", "replace", plain]).args(lost))?;
        let target = SocketAddr::new(plain.parse()?, 80);
        ensure!(address != target.ip(), "somebody is there");
        let dialled = scene.pod.enter(|| TcpStream::connect_timeout(&target, Duration::from_millis(300)))?;
        ensure!(dialled.is_err(), "nobody is there");
        gone(())
    }),
    talk("loopback", "opened loopback 2, closed loopback 2", ANY, |scene| {
        let (mut server, mut client) = loopback(scene)?;
        crate::conversation::exchange(&mut client, &mut server, REQUEST)?;
        drop(client);
        super::pair::ended(&server)?;
        gone(server)
    }),
    talk(
        "loopback_reset",
        "opened loopback 2, closed loopback 2, rst loopback sent active, rst loopback received reset",
        ANY,
        |scene| {
            let (mut server, mut client) = loopback(scene)?;
            crate::conversation::exchange(&mut client, &mut server, REQUEST)?;
            abort(client)?;
            is_reset(&mut server)?;
            gone(server)
        },
    ),
    // The pod dials its own address: both ends are its own, though no address is a loopback one.
    talk("own_address", "opened loopback 2, closed loopback 2", "idle idle", |scene| {
        let listener = scene.listen_in_pod()?;
        let target = SocketAddr::new(scene.pod_address()?, listener.local_addr()?.port());
        let client = scene.pod.enter(|| TcpStream::connect_timeout(&target, Duration::from_secs(5)))??;
        let server = accept(&listener)?;
        drop(client);
        super::pair::ended(&server)?;
        gone(server)
    }),
    talk(
        "socket_used_again_after_disconnect",
        "opened outbound 2, closed outbound 2, rst outbound sent active",
        ANY,
        |scene| {
            let listener = scene.listen_at_peer()?;
            let target = SocketAddr::new(scene.peer_address()?, listener.local_addr()?.port());
            let pod = scene.dial_peer(target.port())??;
            let mut first = accept(&listener)?;
            raw::disconnect(&pod)?;
            is_reset(&mut first)?;
            raw::connect_again(&pod, target)?;
            let mut second = Pair::of(scene, pod, accept(&listener)?)?;
            second.tell(REQUEST)?;
            gone(second.peer_close()?)
        },
    ),
    talk("ports_of_the_pods_own", "opened health, closed health", "awaiting", |scene| {
        let mut pair = Pair::inbound_on(scene, 8081)?;
        pair.request()?;
        gone(pair.peer_close()?)
    })
    .at(Place::Pod("health_ports = [8081]")),
    talk(
        "proxy_whose_upstream_resets",
        "opened data, closed data, opened outbound, closed outbound, rst outbound received reset, \
         cut fin_sent socket",
        ANY,
        |scene| {
            let mut downstream = Pair::inbound(scene)?;
            downstream.request()?;
            let mut upstream = Pair::outbound(scene)?;
            upstream.tell(REQUEST)?;
            drop(upstream.peer_rst()?);
            gone(downstream.pod_close()?)
        },
    ),
];

fn loopback(scene: &Scene) -> Result<(TcpStream, TcpStream)> {
    let local = if scene.family == Family::V6 { "[::1]:0" } else { "127.0.0.1:0" };
    let (listener, client) = scene.pod.enter(|| -> Result<_> {
        let listener = TcpListener::bind(local)?;
        let client = TcpStream::connect(listener.local_addr()?).context("dial on loopback")?;
        Ok((listener, client))
    })??;
    Ok((accept(&listener)?, client))
}
