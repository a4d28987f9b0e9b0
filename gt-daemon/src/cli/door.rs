//! Where consoles reach the daemon, on its side.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::Args;

use crate::api::door::Local;

/// Where consoles reach the daemon: from this machine alone.
#[derive(Clone, Debug, Args)]
pub struct DoorOptions {
    /// The socket for consoles on this node; an empty path: none.
    #[arg(long, value_name = "PATH", default_value = crate::api::door::SOCKET, env = "GT_SOCKET")]
    pub socket: SocketChoice,
    /// Where consoles come in by kubectl port-forward: a port of the loopback device, or off.
    #[arg(long, value_name = "PORT", default_value = "127.0.0.1:9465", env = "GT_LOCAL")]
    pub local: Local,
    /// How many streams may be open at a time.
    #[arg(long, default_value_t = 16, env = "GT_STREAMS", value_parser = streams)]
    pub streams: usize,
}

/// A path, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketChoice(PathBuf);

impl SocketChoice {
    /// `None` when there is to be no socket.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        Some(self.0.as_path()).filter(|path| !path.as_os_str().is_empty())
    }
}

impl FromStr for SocketChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.into()))
    }
}

/// Each stream may hold some megabytes of messages that wait.
fn streams(text: &str) -> Result<usize, String> {
    let most = text.parse().ok().filter(|number| (1..=256).contains(number));
    most.ok_or_else(|| format!("{text:?} is no number from 1 to 256"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Whole {
        #[command(flatten)]
        door: DoorOptions,
    }

    /// Exercises doors that are shut, and wrong ones.
    #[test]
    fn options() {
        let door =
            |arguments: &[&str]| Whole::try_parse_from(["x"].iter().chain(arguments)).map(|whole| whole.door);
        let usual = door(&[]).unwrap();
        assert_eq!(usual.socket.path(), Some(Path::new("/run/gt/gt.sock")));
        assert_eq!((usual.local, usual.streams), (Local::At("127.0.0.1:9465".parse().unwrap()), 16));
        let shut = door(&["--socket", "", "--local", "off"]).unwrap();
        assert_eq!((shut.socket.path(), shut.local), (None, Local::Off));
        for wrong in [["--local", "0.0.0.0:1"], ["--streams", "0"]] {
            assert!(door(&wrong).is_err(), "{wrong:?}");
        }
    }
}
