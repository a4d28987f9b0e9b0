//! The types of the Prometheus operator's objects, as a Python package of its release has them.

use std::path::PathBuf;

use anyhow::Result;

use super::wheel::Wheel;

/// Made from the operator's own definitions of release 0.80.
const WHEEL: Wheel = Wheel {
    title: "the Prometheus operator's types",
    directory: "prometheus-operator",
    package: "cloudcoil-models-prometheus-operator==0.80.1.0",
    size: "5 MB",
    dependencies: true,
    file: "cloudcoil/models/prometheus_operator/v1.py",
};

/// The directory for `PYTHONPATH`; the package is installed when it is missing.
pub fn types() -> Result<PathBuf> {
    WHEEL.ensure()?;
    Ok(WHEEL.path())
}

/// The same, without installing anything: `None` when it is not there.
#[must_use]
pub fn found() -> Option<PathBuf> {
    WHEEL.found().map(|_| WHEEL.path())
}
