//! `cargo xtask`: set-up, demo and tests of gt. Each subcommand lives in the module of its name.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{
    bench,
    demo::{self, health},
    deploy::{gateway, rules},
    dist, lab, setup,
    stage::app,
    test, vm,
};

/// Set-up, demo and tests of gt
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Xtask,
}

#[derive(Debug, Subcommand)]
enum Xtask {
    /// Find or install everything the other commands need
    Setup,
    /// Let a real load balancer cut a real request, and show what gt says about it
    Demo(demo::Options),
    /// Play drains of real pods, and compare what gt says of them with what HAProxy, Envoy, tcpdump and the clients saw
    Lab(lab::Options),
    /// Format, lints, unit tests, tests with real parts, kernel tests here and in a VM, licences
    Test,
    /// Measure what gt costs
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Say whether a gateway's manifest, or values of Istio's chart, keep the runbook's rules
    Gateway(gateway::Options),
    /// Print the Prometheus rules, for a Prometheus without the operator
    Rules,
    /// Make static binaries, images, lists of their crates and checksums
    Dist(dist::Options),
    /// Run the kernel tests on another kernel, in a VM
    VmTest(vm::Options),
    /// The service behind the demo's gateway
    #[command(hide = true)]
    DemoApp(app::Options),
    /// The health sidecar of the demo's pod
    #[command(hide = true)]
    DemoHealth(health::Options),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Xtask::Setup => setup::run(),
        Xtask::Demo(options) => demo::run(&options),
        Xtask::Lab(options) => lab::run(&options),
        Xtask::Test => return test::run(),
        Xtask::Bench(what) => bench::run(&what),
        Xtask::Gateway(options) => gateway::run(&options),
        Xtask::Rules => rules::print(),
        Xtask::Dist(options) => dist::run(&options),
        Xtask::VmTest(options) => vm::run(&options),
        Xtask::DemoApp(options) => app::run(&options),
        Xtask::DemoHealth(options) => health::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
