//! A connection with both its ends in hand.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpStream},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    conversation::{abort, accept, exchange},
    scene::{CLOSE_WAIT, Ends, Scene, await_row},
};

pub const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: gt\r\n\r\n";
pub const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// The pod's end goes first when dropped.
pub struct Pair<'a> {
    pub pod: TcpStream,
    pub peer: TcpStream,
    /// Of the pod's socket: a reset one tells no addresses.
    pub ends: Ends,
    scene: &'a Scene,
}

impl<'a> Pair<'a> {
    /// The peer dials the pod.
    pub fn inbound(scene: &'a Scene) -> Result<Self> {
        Self::inbound_on(scene, 0)
    }

    pub fn inbound_on(scene: &'a Scene, port: u16) -> Result<Self> {
        let listener = scene.listen_in_pod_on(port)?;
        let peer = scene.dial_pod(listener.local_addr()?.port())?.context("the peer cannot dial the pod")?;
        Self::of(scene, accept(&listener)?, peer)
    }

    /// The pod dials the peer.
    pub fn outbound(scene: &'a Scene) -> Result<Self> {
        let listener = scene.listen_at_peer()?;
        let pod = scene.dial_peer(listener.local_addr()?.port())?.context("the pod cannot dial the peer")?;
        Self::of(scene, pod, accept(&listener)?)
    }

    /// Both ends given.
    pub fn of(scene: &'a Scene, pod: TcpStream, peer: TcpStream) -> Result<Self> {
        Ok(Self { ends: Ends::of(&pod)?, pod, peer, scene })
    }

    /// The peer says something, and the pod reads all of it.
    pub fn ask(&mut self, what: &[u8]) -> Result<()> {
        exchange(&mut self.peer, &mut self.pod, what)
    }

    /// The peer sends a request, and the pod reads it.
    pub fn request(&mut self) -> Result<()> {
        self.ask(REQUEST)
    }

    /// The pod says something, and the peer reads all of it.
    pub fn tell(&mut self, what: &[u8]) -> Result<()> {
        exchange(&mut self.pod, &mut self.peer, what)
    }

    /// The pod answers, and the peer reads the answer.
    pub fn answer(&mut self) -> Result<()> {
        self.tell(ANSWER)
    }

    /// The peer says something, and the pod leaves it unread.
    pub fn send(&mut self, what: &[u8]) -> Result<()> {
        self.peer.write_all(what)?;
        self.scene.await_row(self.ends, |row| row.is_some_and(|row| row.unread as usize >= what.len()))
    }

    /// The pod writes until nothing more goes, and the peer reads nothing.
    pub fn fill(&mut self) -> Result<()> {
        self.pod.set_nonblocking(true)?;
        let chunk = [b'x'; 65536];
        let mut rests = 0;
        while rests < 3 {
            match self.pod.write(&chunk) {
                Ok(_) => rests = 0,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    rests += 1;
                    thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.pod.set_nonblocking(false)?;
        Ok(())
    }

    /// Waits until the peer has acknowledged all that the pod wrote.
    pub fn settled(&self) -> Result<()> {
        self.scene.await_row(self.ends, |row| row.is_some_and(|row| row.unacked == 0))?;
        let ends = Ends::of(&self.peer)?;
        await_row(&self.scene.peer, ends, |row| row.is_some_and(|row| row.unacked == 0))
    }

    /// The peer closes its writing side, and the pod's kernel hears it.
    pub fn peer_fin(&self) -> Result<()> {
        self.peer.shutdown(Shutdown::Write)?;
        self.scene.await_row(self.ends, |row| row.is_some_and(|row| row.state == CLOSE_WAIT))
    }

    /// The peer closes, and the pod's kernel hears it; the pod's end is left.
    pub fn peer_close(self) -> Result<TcpStream> {
        drop(self.peer);
        self.scene.await_row(self.ends, |row| row.is_some_and(|row| row.state == CLOSE_WAIT))?;
        Ok(self.pod)
    }

    /// The peer resets, and the pod's kernel hears it; the pod's end is left.
    pub fn peer_rst(self) -> Result<TcpStream> {
        abort(self.peer)?;
        self.scene.await_row(self.ends, |row| row.is_none())?;
        Ok(self.pod)
    }

    /// The pod closes, and the peer hears it; the peer's end is left.
    pub fn pod_close(self) -> Result<TcpStream> {
        drop(self.pod);
        ended(&self.peer)?;
        Ok(self.peer)
    }

    /// The pod resets, and the peer hears it.
    pub fn pod_rst(mut self) -> Result<()> {
        abort(self.pod)?;
        crate::conversation::is_reset(&mut self.peer)
    }
}

/// Waits for the end of the stream.
pub fn ended(mut stream: &TcpStream) -> Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    ensure!(stream.read(&mut [0])? == 0, "expected the end of the stream");
    Ok(())
}
