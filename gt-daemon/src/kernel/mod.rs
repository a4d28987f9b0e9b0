//! What the running kernel can do: facts first ([`support`], [`btf`], [`cgroup`], [`capability`]), then the
//! decision which hook asks which question ([`plan`], pure). Nothing here loads or attaches anything.

pub mod btf;
pub mod capability;
pub mod cgroup;
pub mod loopback;
pub mod plan;
pub mod support;
