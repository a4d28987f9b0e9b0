//! Sockets in other namespaces, by root and without the capability.

use std::{
    env,
    fs::File,
    io::Write as _,
    net::{IpAddr, Ipv4Addr, TcpListener},
    path::Path,
    process::{Command, ExitCode},
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use gt_daemon::dial::{Dialler, Target};
use nix::unistd::geteuid;
use tokio::{io::AsyncReadExt as _, time::timeout};
use xtask::sandbox::{Netns, run};

use crate::{Case, on_runtime};

/// The same in every namespace.
const PORT: u16 = 18_180;

/// Makes this executable dial once, as the first argument.
const CHILD: &str = "--dial";

pub fn cases() -> Vec<Case> {
    let no_root = (!geteuid().is_root()).then(|| "not root: namespaces need it".to_owned());
    let no_setpriv = no_root.clone().or_else(|| {
        let found = Command::new("setpriv").arg("--version").output().is_ok();
        (!found).then(|| "setpriv is not installed (util-linux)".to_owned())
    });
    vec![
        Case::new("dial::reaches_the_right_pod", no_root.as_ref(), reaches_the_right_pod),
        Case::new("dial::ipv6_only", no_root.as_ref(), ipv6_only),
        Case::new("dial::without_the_capability", no_setpriv.as_ref(), without_the_capability),
    ]
}

/// Of this run: another may go on beside it.
pub fn namespace(name: &str) -> Result<Netns> {
    Netns::create(&format!("{name}-{}", std::process::id()))
}

/// A namespace in which every connection to [`PORT`] is answered with `word`.
fn pod(name: &str, address: &str, word: &'static str) -> Result<Netns> {
    let netns = namespace(name)?;
    let address = format!("{address}:{PORT}");
    let listener = netns.enter(|| TcpListener::bind(&address))??;
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // The dialler may have gone.
            let _gone = stream.write_all(word.as_bytes());
        }
    });
    Ok(netns)
}

fn target(netns: &Path, address: Option<IpAddr>) -> Result<Target> {
    Ok(Target { pod: "test/pod".into(), netns: Some(Arc::new(File::open(netns)?)), address: address.into() })
}

async fn word(dialler: &Dialler, target: &Target) -> Result<String> {
    let mut stream = timeout(Duration::from_secs(5), dialler.connect(target, PORT)).await??;
    let mut word = String::new();
    timeout(Duration::from_secs(5), stream.read_to_string(&mut word)).await??;
    Ok(word)
}

/// Exercises many connections at once to the same port of two pods, with the daemon's own namespace between, so
/// that each reaches its pod and none is made where the thread was before.
fn reaches_the_right_pod() -> Result<()> {
    let (one, two) = (pod("gt-dial-1", "127.0.0.1", "one")?, pod("gt-dial-2", "127.0.0.1", "two")?);
    on_runtime(async {
        let dialler = Dialler::new()?;
        let targets = [(target(&one.path(), None)?, "one"), (target(&two.path(), None)?, "two")];
        let mut tasks = Vec::new();
        for index in 0..200 {
            let dialler = dialler.clone();
            let (target, expected) = targets[index % 2].clone();
            tasks.push(tokio::spawn(async move {
                let said = word(&dialler, &target).await?;
                ensure!(said == expected, "{expected} said {said:?}");
                anyhow::Ok(())
            }));
        }
        for task in tasks {
            task.await??;
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let home = target(Path::new("/proc/self/ns/net"), None)?;
        dialler
            .connect(&home, listener.local_addr()?.port())
            .await
            .context("the thread did not come home")?;
        Ok(())
    })
}

/// Exercises a pod whose ports are on ::1 alone.
fn ipv6_only() -> Result<()> {
    let netns = pod("gt-dial-6", "[::1]", "six")?;
    on_runtime(async {
        let said = word(&Dialler::new()?, &target(&netns.path(), None)?).await?;
        ensure!(said == "six", "{said:?}");
        Ok(())
    })
}

/// Exercises a process without CAP_SYS_ADMIN, so that it takes the pod's address where that leads somewhere, and
/// else says what is missing.
fn without_the_capability() -> Result<()> {
    let netns = namespace("gt-dial-n")?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let dial = |port: u16, address: &str| -> Result<String> {
        let mut command = Command::new("setpriv");
        command
            .args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin", "--"])
            .arg(env::current_exe()?)
            .args([CHILD.as_ref(), netns.path().as_os_str()])
            .args([&port.to_string(), address]);
        run(&mut command)
    };
    let by_address = dial(port, "127.0.0.1")?;
    ensure!(by_address.trim() == "connected", "{by_address}");
    let unknown = dial(port, "")?;
    ensure!(unknown.contains("CAP_SYS_ADMIN") && unknown.contains("test/pod"), "{unknown}");
    // Nobody's: a port that was just let go may be another test's by now.
    let refused = dial(1, "127.0.0.1")?;
    ensure!(refused.contains("CAP_SYS_ADMIN") && refused.contains("loopback"), "{refused}");
    Ok(())
}

/// What this executable does when [`without_the_capability`] starts it; `None` when it is the test itself.
pub fn child() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next()? != CHILD {
        return None;
    }
    let mut next = || {
        arguments.next().and_then(|argument| argument.into_string().ok()).context("an argument is missing")
    };
    let outcome = (|| {
        let (netns, port, address) = (next()?, next()?.parse()?, next()?);
        let target = target(Path::new(&netns), address.parse().ok())?;
        on_runtime(async {
            match Dialler::new()?.connect(&target, port).await {
                Ok(_) => println!("connected"),
                Err(error) => println!("{error}"),
            }
            Ok(())
        })
    })();
    if let Err(error) = outcome {
        eprintln!("{error:#}");
        return Some(ExitCode::FAILURE);
    }
    Some(ExitCode::SUCCESS)
}
