//! Set-up, demo and test machinery of gt. The binary is `cargo xtask`; the kernel tests of gt-daemon
//! use [`sandbox`] too, so that namespaces and cgroups are made in one way everywhere.

pub mod artifacts;
pub mod bench;
pub mod cargo;
pub mod demo;
pub mod deploy;
pub mod dist;
pub mod lab;
pub mod libtest;
pub mod sandbox;
pub mod setup;
pub mod stage;
pub mod stream;
pub mod test;
pub mod vm;
