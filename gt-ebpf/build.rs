//! The object is linked by bpf-linker: a new linker means a new object.

fn main() {
    if let Some(path) = std::env::var_os("PATH") {
        for directory in std::env::split_paths(&path) {
            let linker = directory.join("bpf-linker");
            if linker.exists() {
                println!("cargo:rerun-if-changed={}", linker.display());
                break;
            }
        }
    }
}
