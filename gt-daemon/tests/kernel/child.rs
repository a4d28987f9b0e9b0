//! This binary as another process: sockets belong to the cgroup of the process that makes them.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Command, ExitCode},
    time::Duration,
};

use xtask::sandbox::{Cgroup, Netns};

/// Tells the child its work.
pub const VARIABLE: &str = "GT_TEST_CHILD";

/// Whether this process was started as a child by [`command`].
pub fn is_one() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// A process that enters a cgroup, and a namespace if one is given, and there makes connections on loopback
/// and resets them. The cgroup comes first: `ip netns exec` hides the cgroup tree.
pub fn command(cgroup: &Cgroup, netns: Option<&Netns>, resets: u32) -> std::io::Result<Command> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""]).arg(cgroup.path());
    if let Some(netns) = netns {
        command.args(["ip", "netns", "exec", netns.name()]);
    }
    command.arg(std::env::current_exe()?).env(VARIABLE, resets.to_string());
    Ok(command)
}

/// A process in a namespace that accepts one connection, reads from it or does not, and then does nothing more.
/// It says its port, and `served`.
pub fn server(netns: &Netns, address: &str, reads: bool) -> std::io::Result<Command> {
    let mut command = netns.command("env");
    command.arg(format!("{VARIABLE}=serve {address} {reads}")).arg(std::env::current_exe()?);
    Ok(command)
}

/// A process in a namespace that says [`LISTENING`] and its address, holds every connection, answers what asks for `/answered`, and
/// to anything else says nothing.
pub fn hold(netns: &Netns, address: &str) -> std::io::Result<Command> {
    let mut command = netns.command("env");
    command.arg(format!("{VARIABLE}=hold {address}")).arg(std::env::current_exe()?);
    Ok(command)
}

/// The variable that makes a process of this binary do nothing, as an image's environment has it.
pub fn pause() -> String {
    format!("{VARIABLE}=pause")
}

/// The variable, and its value, that make a process of this binary listen and echo what each connection sends. It
/// says [`LISTENING`] and its address.
pub fn listen(address: &str) -> (&'static str, String) {
    (VARIABLE, format!("listen {address}"))
}

pub const LISTENING: &str = "listening on ";

/// A process that enters a cgroup and a network namespace of its own. For each line of its input, a number, it makes so
/// many connections on loopback and says `done`.
pub fn pod(cgroup: &Cgroup) -> std::io::Result<Command> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""]).arg(cgroup.path());
    command.arg(std::env::current_exe()?).env(VARIABLE, "pod");
    Ok(command)
}

/// The child's work.
pub fn run() -> ExitCode {
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("child: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn work() -> anyhow::Result<()> {
    let task = std::env::var(VARIABLE)?;
    if let Some((address, reads)) = task.strip_prefix("serve ").and_then(|task| task.split_once(' ')) {
        return serve(address, reads == "true");
    }
    if let Some(root) = task.strip_prefix("tree ") {
        return crate::cgroups::walk(Path::new(root));
    }
    if let Some(address) = task.strip_prefix("listen ") {
        return echo(address);
    }
    if let Some(address) = task.strip_prefix("hold ") {
        return answer_some(address);
    }
    if task == "pause" {
        loop {
            std::thread::park();
        }
    }
    if task == "pod" {
        return talk();
    }
    let resets: u32 = task.parse()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    for _ in 0..resets {
        let client = TcpStream::connect(listener.local_addr()?)?;
        let mut server = crate::conversation::accept(&listener)?;
        crate::conversation::abort(client)?;
        crate::conversation::is_reset(&mut server)?;
    }
    Ok(())
}

fn talk() -> anyhow::Result<()> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)?;
    xtask::sandbox::run(Command::new("ip").args(["link", "set", "lo", "up"]))?;
    for line in std::io::stdin().lines() {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        for _ in 0..line?.parse::<u32>()? {
            let client = TcpStream::connect(listener.local_addr()?)?;
            drop((crate::conversation::accept(&listener)?, client));
        }
        println!("done");
    }
    Ok(())
}

fn serve(address: &str, reads: bool) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("{}", listener.local_addr()?.port());
    let mut stream = crate::conversation::accept(&listener)?;
    if reads {
        stream.read_exact(&mut [0; 8])?;
        stream.set_nonblocking(true)?;
        while stream.read(&mut [0; 64]).is_ok_and(|length| length > 0) {}
    } else {
        crate::conversation::arrived(&stream)?;
    }
    println!("served");
    std::thread::sleep(Duration::from_secs(60));
    Ok(())
}

/// Until it is killed.
fn echo(address: &str) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("{LISTENING}{}", listener.local_addr()?);
    for stream in listener.incoming() {
        let mut stream = stream?;
        std::thread::spawn(move || {
            let mut bytes = [0; 64];
            while let Ok(length @ 1..) = stream.read(&mut bytes) {
                if stream.write_all(&bytes[..length]).is_err() {
                    break;
                }
            }
        });
    }
    Ok(())
}

/// Until it is killed.
fn answer_some(address: &str) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("{LISTENING}{}", listener.local_addr()?);
    for stream in listener.incoming() {
        let mut stream = stream?;
        std::thread::spawn(move || {
            let mut bytes = [0; 256];
            while let Ok(length @ 1..) = stream.read(&mut bytes) {
                let asks = bytes[..length].starts_with(b"GET /answered ");
                if asks && stream.write_all(crate::conversations::pair::ANSWER).is_err() {
                    break;
                }
            }
        });
    }
    Ok(())
}
