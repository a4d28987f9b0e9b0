//! Offsets of kernel struct members from BTF (Documentation/bpf/btf.rst).

use std::path::{Path, PathBuf};

use btf::btf::{Btf, FlattenedType, Type};
use gt_common::layout::{ABSENT, KernelLayout};

/// Where a kernel built with CONFIG_DEBUG_INFO_BTF shows its types.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// Why the kernel's types cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    #[error(
        "this kernel does not describe its types: {path} is missing; gt needs a kernel built with \
         CONFIG_DEBUG_INFO_BTF=y (5.10 or newer of any large distribution)"
    )]
    Missing { path: PathBuf },
    #[error("cannot read the kernel's types from {path}: {cause}; check that /sys is mounted and readable")]
    Unreadable { path: PathBuf, cause: std::io::Error },
    #[error("cannot understand the kernel's types in {path}: {cause}; please report this kernel's version")]
    Malformed { path: PathBuf, cause: btf::error::Error },
    #[error(
        "this kernel's types lack {member}, which gt needs; please report this kernel's version: its layout \
         is not known to gt"
    )]
    Lacking { member: &'static str },
}

/// The parsed types of a kernel. Large: resolve what is needed, then drop it.
#[derive(Debug)]
pub struct KernelTypes {
    btf: Btf,
}

impl KernelTypes {
    /// Parses a BTF file, [`VMLINUX`] in production.
    pub fn read(path: &Path) -> Result<Self, BtfError> {
        match std::fs::metadata(path) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(BtfError::Missing { path: path.to_owned() });
            }
            Err(cause) => return Err(BtfError::Unreadable { path: path.to_owned(), cause }),
        }
        let btf = Btf::from_file(path).map_err(|cause| match cause {
            btf::error::Error::Io(cause) => BtfError::Unreadable { path: path.to_owned(), cause },
            cause => BtfError::Malformed { path: path.to_owned(), cause },
        })?;
        Ok(Self { btf })
    }

    /// Whether a BTF tracepoint of this name exists.
    #[must_use]
    pub fn has_tracepoint(&self, name: &str) -> bool {
        self.tracepoint_parameters(name).is_some()
    }

    /// How many parameters a tracepoint has, without the context that precedes them.
    #[must_use]
    pub fn tracepoint_parameters(&self, name: &str) -> Option<usize> {
        let typedef = format!("btf_trace_{name}");
        self.btf.get_types().iter().filter(|kind| kind.name.as_deref() == Some(&typedef)).find_map(|kind| {
            match &kind.base_type {
                Type::FunctionProto(prototype) => prototype.params.len().checked_sub(1),
                _ => None,
            }
        })
    }

    /// Byte offset of a member, by a path such as `["ns", "inum"]` that may lead through embedded structs;
    /// members of anonymous structs and unions are found as C finds them.
    #[must_use]
    pub fn offset(&self, structure: &str, path: &[&str]) -> Option<u32> {
        let mut members = self.btf.get_types().iter().find_map(|kind| match &kind.base_type {
            Type::Struct(body) if kind.name.as_deref() == Some(structure) && !body.members.is_empty() => {
                Some(body)
            }
            _ => None,
        })?;
        let mut bits = 0;
        for (depth, name) in path.iter().enumerate() {
            let (offset, kind) = self.member(&members.members, name)?;
            bits += offset;
            if depth + 1 < path.len() {
                members = composite(kind)?;
            }
        }
        // A bit field has no address of its own.
        (bits % 8 == 0).then_some(bits / 8)
    }

    /// How many parameters a kernel function has.
    #[must_use]
    pub fn function_parameters(&self, name: &str) -> Option<usize> {
        self.btf.get_types().iter().find_map(|kind| match &kind.base_type {
            Type::FunctionProto(prototype) if kind.is_function && kind.name.as_deref() == Some(name) => {
                Some(prototype.params.len())
            }
            _ => None,
        })
    }

    /// Whether an enum of the kernel has a member of this name.
    #[must_use]
    pub fn has_enumerator(&self, enumeration: &str, member: &str) -> bool {
        self.btf.get_types().iter().any(|kind| match &kind.base_type {
            Type::Enum32(body) | Type::Enum64(body) => {
                kind.name.as_deref() == Some(enumeration)
                    && body.entries.iter().any(|entry| entry.name.as_deref() == Some(member))
            }
            _ => false,
        })
    }

    fn member<'a>(
        &'a self,
        members: &'a [btf::btf::StructMember],
        name: &str,
    ) -> Option<(u32, &'a FlattenedType)> {
        for member in members {
            let kind = self.btf.get_type_by_id(member.type_id).ok()?;
            match member.name.as_deref() {
                Some(found) if found == name => return Some((member.offset, kind)),
                Some(found) if !found.is_empty() => {}
                _ => {
                    if let Some(body) = composite(kind)
                        && let Some((inner, kind)) = self.member(&body.members, name)
                    {
                        return Some((member.offset + inner, kind));
                    }
                }
            }
        }
        None
    }

    /// Resolves every offset the kernel programs use. Optional members become [`ABSENT`].
    pub fn layout(&self) -> Result<KernelLayout, BtfError> {
        let optional = |structure: &str, path: &[&str]| self.offset(structure, path).unwrap_or(ABSENT);
        let required = |structure: &str, path: &[&str], member: &'static str| {
            self.offset(structure, path).ok_or(BtfError::Lacking { member })
        };
        Ok(KernelLayout {
            sk_family: required("sock_common", &["skc_family"], "sock_common.skc_family")?,
            sk_state: required("sock_common", &["skc_state"], "sock_common.skc_state")?,
            sk_num: required("sock_common", &["skc_num"], "sock_common.skc_num")?,
            sk_dport: required("sock_common", &["skc_dport"], "sock_common.skc_dport")?,
            sk_rcv_saddr: required("sock_common", &["skc_rcv_saddr"], "sock_common.skc_rcv_saddr")?,
            sk_daddr: required("sock_common", &["skc_daddr"], "sock_common.skc_daddr")?,
            sk_v6_rcv_saddr: optional("sock_common", &["skc_v6_rcv_saddr"]),
            sk_v6_daddr: optional("sock_common", &["skc_v6_daddr"]),
            sk_net: optional("sock_common", &["skc_net", "net"]),
            sk_protocol: required("sock", &["sk_protocol"], "sock.sk_protocol")?,
            sk_shutdown: required("sock", &["sk_shutdown"], "sock.sk_shutdown")?,
            // `cgroup` since 5.15 (8520e224f547); before, a word that is a pointer or class ids.
            sk_cgroup: self
                .offset("sock", &["sk_cgrp_data", "cgroup"])
                .or_else(|| self.offset("sock", &["sk_cgrp_data", "val"]))
                .unwrap_or(ABSENT),
            inet_sport: required("inet_sock", &["inet_sport"], "inet_sock.inet_sport")?,
            tcp_copied_seq: required("tcp_sock", &["copied_seq"], "tcp_sock.copied_seq")?,
            tcp_rcv_nxt: required("tcp_sock", &["rcv_nxt"], "tcp_sock.rcv_nxt")?,
            tcp_write_seq: required("tcp_sock", &["write_seq"], "tcp_sock.write_seq")?,
            tcp_snd_una: required("tcp_sock", &["snd_una"], "tcp_sock.snd_una")?,
            tcp_snd_nxt: required("tcp_sock", &["snd_nxt"], "tcp_sock.snd_nxt")?,
            tcp_lsndtime: required("tcp_sock", &["lsndtime"], "tcp_sock.lsndtime")?,
            tcp_clock_cache: optional("tcp_sock", &["tcp_clock_cache"]),
            tcp_bytes_received: required("tcp_sock", &["bytes_received"], "tcp_sock.bytes_received")?,
            tcp_bytes_sent: required("tcp_sock", &["bytes_sent"], "tcp_sock.bytes_sent")?,
            net_inum: required("net", &["ns", "inum"], "net.ns.inum")?,
            cgroup_self: optional("cgroup", &["self"]),
            cgroup_parent: optional("cgroup", &["self", "parent"]),
            cgroup_kn: optional("cgroup", &["kn"]),
            kn_id: optional("kernfs_node", &["id"]),
            skb_head: required("sk_buff", &["head"], "sk_buff.head")?,
            skb_transport_header: required("sk_buff", &["transport_header"], "sk_buff.transport_header")?,
            skb_network_header: required("sk_buff", &["network_header"], "sk_buff.network_header")?,
            skb_dev: required("sk_buff", &["dev"], "sk_buff.dev")?,
            skb_refdst: required("sk_buff", &["_skb_refdst"], "sk_buff._skb_refdst")?,
            dev_net: optional("net_device", &["nd_net", "net"]),
            rt_type: required("rtable", &["rt_type"], "rtable.rt_type")?,
            rt6_flags: optional("rt6_info", &["rt6i_flags"]),
            task_flags: required("task_struct", &["flags"], "task_struct.flags")?,
        })
    }
}

fn composite(kind: &FlattenedType) -> Option<&btf::btf::Struct> {
    // A pointer to a struct flattens to the struct, but its members lie elsewhere.
    if kind.num_refs > 0 {
        return None;
    }
    match &kind.base_type {
        Type::Struct(body) | Type::Union(body) => Some(body),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A BTF blob built by hand (Documentation/bpf/btf.rst, "BTF Type and String Encoding").
    #[derive(Default)]
    struct Blob {
        types: Vec<u8>,
        strings: Vec<u8>,
    }

    impl Blob {
        fn name(&mut self, name: &str) -> u32 {
            if self.strings.is_empty() {
                self.strings.push(0);
            }
            if name.is_empty() {
                return 0;
            }
            let at = u32::try_from(self.strings.len()).unwrap();
            self.strings.extend_from_slice(name.as_bytes());
            self.strings.push(0);
            at
        }

        fn words(&mut self, words: &[u32]) {
            for word in words {
                self.types.extend_from_slice(&word.to_le_bytes());
            }
        }

        fn int(&mut self, name: &str, bytes: u32) {
            let name = self.name(name);
            self.words(&[name, 1 << 24, bytes, bytes * 8]);
        }

        fn pointer(&mut self, to: u32) {
            self.words(&[0, 2 << 24, to]);
        }

        /// kind 4 = struct, 5 = union; members are (name, type, bit offset).
        fn composite(&mut self, kind: u32, name: &str, bytes: u32, members: &[(&str, u32, u32)]) {
            let name = self.name(name);
            self.words(&[name, kind << 24 | u32::try_from(members.len()).unwrap(), bytes]);
            for (member, kind, offset) in members {
                let member = self.name(member);
                self.words(&[member, *kind, *offset]);
            }
        }

        fn file(self) -> tempfile::NamedTempFile {
            let mut bytes = vec![0x9f, 0xeb, 1, 0];
            let types = u32::try_from(self.types.len()).unwrap();
            let strings = u32::try_from(self.strings.len()).unwrap();
            for word in [24, 0, types, types, strings] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            bytes.extend_from_slice(&self.types);
            bytes.extend_from_slice(&self.strings);
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), bytes).unwrap();
            file
        }
    }

    /// Exercises anonymous members, embedded structs and pointers, so that an offset is C's offset.
    #[test]
    fn members_are_found_as_c_finds_them() {
        let mut blob = Blob::default();
        blob.int("u32", 4); // 1
        blob.composite(4, "", 8, &[("dport", 1, 0), ("num", 1, 32)]); // 2
        blob.composite(5, "", 8, &[("pair", 1, 0), ("", 2, 0)]); // 3
        blob.composite(4, "inner", 4, &[("inum", 1, 0)]); // 4
        blob.pointer(4); // 5
        blob.composite(4, "outer", 40, &[("first", 1, 0), ("", 3, 64), ("ns", 4, 128), ("far", 5, 192)]); // 6
        let file = blob.file();
        let types = KernelTypes::read(file.path()).unwrap();
        assert_eq!(types.offset("outer", &["first"]), Some(0));
        assert_eq!(types.offset("outer", &["num"]), Some(12));
        assert_eq!(types.offset("outer", &["ns", "inum"]), Some(16));
        assert_eq!(types.offset("outer", &["far"]), Some(24));
        assert_eq!(types.offset("outer", &["far", "inum"]), None);
        assert_eq!(types.offset("outer", &["absent"]), None);
        assert_eq!(types.offset("absent", &["first"]), None);
        let error = types.layout().unwrap_err();
        assert!(error.to_string().contains("sock_common.skc_family"), "{error}");
    }

    /// Exercises bad files, so that a damaged or missing one ends in a message and never in a panic.
    #[test]
    fn bad_files_are_named() {
        let missing = KernelTypes::read(Path::new("/nonexistent/vmlinux")).unwrap_err().to_string();
        assert!(missing.contains("/nonexistent/vmlinux") && missing.contains("CONFIG_DEBUG_INFO_BTF"));
        let file = tempfile::NamedTempFile::new().unwrap();
        for content in [&b""[..], b"\x9f\xeb", b"\x9f\xeb\x01\x00\x18\x00\x00\x00", b"not types at all"] {
            std::fs::write(file.path(), content).unwrap();
            let message = KernelTypes::read(file.path()).unwrap_err().to_string();
            assert!(message.contains(&file.path().display().to_string()), "{message}");
        }
    }

    /// Exercises this machine's own kernel where it can be read, so that the real thing resolves.
    #[test]
    fn this_kernel_resolves() {
        let Ok(types) = KernelTypes::read(Path::new(VMLINUX)) else {
            println!("skipped: this_kernel_resolves: {VMLINUX} is not there");
            return;
        };
        let layout = types.layout().unwrap();
        assert_eq!(layout.sk_daddr, 0);
        assert_eq!(layout.sk_rcv_saddr, 4);
        assert!(types.has_tracepoint("inet_sock_set_state"));
        assert!(!types.has_tracepoint("no_such_tracepoint"));
        assert!(types.function_parameters("tcp_reset").is_some_and(|count| (1..=2).contains(&count)));
        assert!(types.has_enumerator("bpf_func_id", "BPF_FUNC_probe_read_kernel"));
        assert!(!types.has_enumerator("bpf_func_id", "BPF_FUNC_none_such"));
    }
}
