//! The guest's root file system: a tree below `target/vm/<kernel>/`, packed as an initramfs.

use std::{
    fs::{self, File},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use super::{
    kernels::Kernel,
    modules,
    package::{Image, directory},
};
use crate::sandbox;

/// What a guest is to run.
#[derive(Debug)]
pub struct Guest<'a> {
    pub daemon: &'a Path,
    pub kernel_tests: &'a Path,
    /// Runs only the tests whose name contains this.
    pub filter: Option<&'a str>,
    /// Leave out the tests whose name contains one of these.
    pub skip: &'a [&'a str],
}

/// Tools of this machine that the tests call, with the shared libraries they need.
const TOOLS: [&str; 10] = [
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "dash",
    "ip",
    "runc",
    "ss",
    "tc",
    "tcpdump",
    // busybox's own knows no cgroup namespaces.
    "unshare",
];

/// Programs that keep their place, with their libraries.
const IN_PLACE: [&str; 1] = ["/lib/systemd/systemd"];

/// Mount points and the directories tools expect.
const DIRECTORIES: [&str; 13] = [
    "bin",
    "dev",
    "etc",
    "lib/modules",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "usr/bin",
    "usr/sbin",
    "var/lib",
    "var/log",
];

/// The smallest user database: tcpdump gives up root for the user of its name. A runtime copies the files of
/// names into each pod.
const FILES: [(&str, &str); 5] = [
    ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\ntcpdump:x:100:100::/:/bin/false\n"),
    ("etc/group", "root:x:0:\ntcpdump:x:100:\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ("etc/hosts", "127.0.0.1 localhost\n"),
    ("etc/resolv.conf", ""),
];

/// Makes the tree anew and packs it; gives the archive's path.
pub(super) fn build(kernel: &Kernel, image: &Image, guest: &Guest<'_>) -> Result<PathBuf> {
    let dir = directory(kernel);
    let tree = dir.join("initramfs");
    if tree.exists() {
        fs::remove_dir_all(&tree).with_context(|| format!("cannot remove {}", tree.display()))?;
    }
    for directory in DIRECTORIES {
        fs::create_dir_all(tree.join(directory))
            .with_context(|| format!("cannot make {}", tree.display()))?;
    }
    for (file, text) in FILES {
        write(&tree.join(file), text)?;
    }
    copy(Path::new("/bin/busybox"), &tree.join("bin/busybox"))?;
    for tool in TOOLS {
        add_tool(&tree, tool)?;
    }
    for program in IN_PLACE {
        let program = Path::new(program);
        if !program.is_file() {
            bail!("no {} for the guest: `cargo xtask setup` installs it", program.display());
        }
        add_program(&tree, program, program)?;
    }
    // busybox's own shell runs its built-in `ip`, which lacks netns, whatever PATH says.
    symlink("/usr/sbin/dash", tree.join("bin/sh")).context("cannot link /bin/sh of the guest")?;
    add_modules(&tree, image)?;
    add_stripped(guest.daemon, &tree.join("bin/gt-daemon"))?;
    add_stripped(guest.kernel_tests, &tree.join("bin/kernel-tests"))?;
    write(&tree.join("etc/gt-vm"), &script(kernel, guest))?;
    let init = tree.join("init");
    write(&init, include_str!("init.sh"))?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).context("cannot make /init executable")?;
    let archive = dir.join("initramfs.gz");
    pack(&tree, &archive)?;
    Ok(archive)
}

/// Sourced by /init.
fn script(kernel: &Kernel, guest: &Guest<'_>) -> String {
    let mut text =
        format!("export GT_DAEMON=/bin/gt-daemon GT_ENVIRONMENT=vm-{} RUST_BACKTRACE=1\n", kernel.name);
    text.push_str(kernel.boot.environment());
    text.push_str("set -- --test-threads=1");
    for skip in guest.skip {
        text.push_str(" --skip ");
        text.push_str(&quoted(skip));
    }
    if let Some(filter) = guest.filter.or(kernel.boot.tests()) {
        text.push(' ');
        text.push_str(&quoted(filter));
    }
    text.push('\n');
    text
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    }
    fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
        .map(drop)
}

/// Copies a tool to /usr/sbin.
fn add_tool(tree: &Path, tool: &str) -> Result<()> {
    let path = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .map(|dir| Path::new(dir).join(tool))
        .find(|path| path.is_file())
        .with_context(|| format!("no program {tool} for the guest: `cargo xtask setup` installs it"))?;
    add_program(tree, &path, &Path::new("/usr/sbin").join(tool))
}

/// Copies a program to where the guest has it, and its libraries to where its loader looks for them.
fn add_program(tree: &Path, program: &Path, place: &Path) -> Result<()> {
    let in_tree = |path: &Path| tree.join(path.strip_prefix("/").unwrap_or(path));
    copy(program, &in_tree(place))?;
    for library in libraries(&sandbox::run(Command::new("ldd").arg(program))?) {
        let library = Path::new(&library);
        copy(library, &in_tree(library))?;
    }
    Ok(())
}

/// The files that ldd names: `libz.so.1 => /lib/.../libz.so.1 (0x..)` and the loader's own line.
fn libraries(ldd: &str) -> Vec<String> {
    ldd.lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(str::to_owned)
        .collect()
}

fn add_modules(tree: &Path, image: &Image) -> Result<()> {
    let read = |name: &str| {
        let path = image.modules.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let order = modules::load_order(modules::WANTED, &read("modules.dep")?, &read("modules.builtin")?)?;
    let mut list = String::new();
    for module in order {
        let plain = module.strip_suffix(".xz");
        let place = Path::new("lib/modules").join(&image.release).join(plain.unwrap_or(&module));
        copy(&image.modules.join(&module), &tree.join(&place))?;
        if plain.is_some() {
            // The guest's insmod unpacks nothing.
            let file = tree.join(&place);
            let packed = file.with_extension("ko.xz");
            fs::rename(&file, &packed).with_context(|| format!("cannot rename {}", file.display()))?;
            sandbox::run(Command::new("xz").arg("--decompress").arg(&packed))?;
        }
        list.push_str(&format!("/{}\n", place.display()));
    }
    write(&tree.join("etc/gt-modules"), &list)
}

/// Symbols stay, for backtraces; debug information is several times the program.
fn add_stripped(program: &Path, to: &Path) -> Result<()> {
    let file = fs::read(program)
        .with_context(|| format!("cannot read {}: has it been built?", program.display()))?;
    // A dynamic program ends as "not found" in a guest, which nobody understands.
    if let Some(interpreter) = interpreter(&file) {
        bail!(
            "{} is not static (it wants {interpreter}): build it with -C target-feature=+crt-static",
            program.display()
        );
    }
    sandbox::run(Command::new("strip").arg("--strip-debug").arg("-o").arg(to).arg(program)).map(drop)
}

/// The loader that a dynamic program names; in a static one the word does not occur near the start.
fn interpreter(program: &[u8]) -> Option<&'static str> {
    let head = &program[..program.len().min(4096)];
    let name = "/lib64/ld-linux-x86-64.so.2";
    head.windows(name.len()).any(|window| window == name.as_bytes()).then_some(name)
}

/// cpio wants the names on its stdin. Level 1: on a software-emulated guest the time is lost elsewhere.
fn pack(tree: &Path, archive: &Path) -> Result<()> {
    let file = File::create(archive).with_context(|| format!("cannot write {}", archive.display()))?;
    let script =
        "set -o pipefail; find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet | gzip -1";
    let status = Command::new("bash")
        .args(["-c", script])
        .current_dir(tree)
        .stdin(Stdio::null())
        .stdout(file)
        .status()
        .context("cannot start bash to pack the initramfs")?;
    if !status.success() {
        bail!("packing {} ended with {status}: is there space left?", archive.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::kernels::Boot;

    /// Exercises ldd's three kinds of lines so that the loader is copied and the vdso is not.
    #[test]
    fn libraries_are_read_from_ldd() {
        let ldd = "\tlinux-vdso.so.1 (0x00007f)\n\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f)\n\
                   \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(libraries(ldd), ["/lib/x86_64-linux-gnu/libz.so.1", "/lib64/ld-linux-x86-64.so.2"]);
    }

    /// Exercises a filter with a quote so that it cannot become a command of the guest's shell.
    #[test]
    fn a_filter_stays_one_word() {
        let kernel = Kernel { name: "6.1", suite: "bookworm", package: "linux-image", boot: Boot::Usual };
        let nothing = Path::new("/dev/null");
        let guest = Guest {
            daemon: nothing,
            kernel_tests: nothing,
            filter: Some("rst'; reboot"),
            skip: &["btf::rst"],
        };
        let text = script(&kernel, &guest);
        assert!(text.ends_with("--test-threads=1 --skip 'btf::rst' 'rst'\\''; reboot'\n"), "{text}");
    }
}
