//! Takes the address, and connections.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{net::TcpListener, time::sleep};

use super::{
    connection::{self, Told},
    slots::{Pool, Slots},
};
use crate::{
    log::{Limit, Line},
    sidecar::Sidecar,
};

/// Places for peers by the loopback device: the drain command, `kubectl exec`, a reader on the node.
const INSIDE: usize = 64;

/// Places for the LBs' checks, the kubelet's probes and whoever else reaches the port.
const OUTSIDE: usize = 256;

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {cause}; {remedy}")]
pub struct ListenError {
    address: SocketAddr,
    cause: io::Error,
    remedy: &'static str,
}

/// Takes the address.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|cause| {
        let remedy = match cause.kind() {
            io::ErrorKind::AddrInUse => {
                "another process of the pod has it: stop that one, or set GT_HC_LISTEN to another port"
            }
            io::ErrorKind::PermissionDenied => "set GT_HC_LISTEN to a port above 1023",
            _ => "set GT_HC_LISTEN to 0.0.0.0:PORT or [::]:PORT",
        };
        ListenError { address, cause, remedy }
    })
}

/// Serves until the future is dropped.
pub async fn serve(listener: TcpListener, sidecar: Sidecar) {
    let slots = Slots::new(INSIDE, OUTSIDE);
    let told = Told::default();
    let mut failures = Limit::new(1);
    let mut pushed_out = Limit::new(1);
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tell(&sidecar, &mut failures, |line| line.with("cause", &error), "accept_error");
                // Out of file descriptors, most likely: the next try would fail as well.
                sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let pool = if peer.ip().to_canonical().is_loopback() { Pool::Inside } else { Pool::Outside };
        let place = slots.place(pool);
        let number = place.number();
        let served = connection::serve(stream, peer, sidecar.clone(), told.clone());
        let task = tokio::spawn(async move {
            let _place = place;
            served.await;
        });
        for loser in slots.take(pool, number, task.abort_handle()) {
            loser.abort();
            tell(&sidecar, &mut pushed_out, |line| line.with("peer", peer.ip()), "connection_pushed_out");
        }
    }
}

fn tell(sidecar: &Sidecar, limit: &mut Limit, fill: impl FnOnce(Line) -> Line, event: &str) {
    if let Some(untold) = limit.pass(std::time::Instant::now()) {
        let line = fill(Line::new(std::time::SystemTime::now(), event));
        sidecar.log().tell(line.with_some("untold", (untold > 0).then_some(untold)));
    }
}
