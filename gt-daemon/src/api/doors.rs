//! The open doors, and what is served at them.

use std::{future::pending, io};

use axum::Router;
use tokio::net::TcpListener;
use tracing::info;

use super::door::{self, DoorError, Local, Socket};
use crate::cli::door::DoorOptions;

/// Where clients may come in.
#[derive(Debug, Default)]
pub struct Doors {
    socket: Option<Socket>,
    local: Option<TcpListener>,
}

impl Doors {
    /// Opens those that are wanted. What is not served yet waits.
    pub async fn open(options: &DoorOptions) -> Result<Self, DoorError> {
        let local = match options.local {
            Local::At(address) => Some(door::local(address).await?),
            Local::Off => None,
        };
        let socket = options.socket.path().map(door::socket).transpose()?;
        Ok(Self { socket, local })
    }

    /// Serves until the future is dropped; the socket's file goes with it.
    pub async fn serve(self, router: Router) -> io::Result<()> {
        let Self { socket, local } = self;
        let at_socket = async {
            let Some(Socket { listener, file }) = socket else { return pending().await };
            info!(socket = %file.path().display(), "serving consoles");
            axum::serve(listener, router.clone()).await
        };
        let at_port = async {
            let Some(listener) = local else { return pending().await };
            info!(address = %listener.local_addr()?, "serving consoles");
            axum::serve(listener, router.clone()).await
        };
        tokio::select! {
            served = at_socket => served,
            served = at_port => served,
        }
    }
}
