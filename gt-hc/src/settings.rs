//! What can be set, by flag or environment variable; where each value comes from; what is wrong with it.
//!
//! Owns: names, defaults and bounds. Refuses: a value that would make a drain something other than the
//! runbook's.

mod error;
mod names;
mod source;

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

pub use error::SettingError;
pub use names::Name;
pub use source::{Given, Source, from_process};

use crate::{envoy::Ignored, seconds};

/// Polling more often costs Envoy more than it tells anybody.
const MIN_POLL: Duration = Duration::from_millis(50);

/// Settings of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub listen: SocketAddr,
    /// How long requests may take to end before the drain is a fault.
    pub drain_timeout: Duration,
    /// How long the LB gets to notice the 503.
    pub lb_buffer: Duration,
    /// From the begin of one look at Envoy to the next.
    pub poll_interval: Duration,
    pub envoy_admin: SocketAddr,
    pub ignored: Ignored,
}

impl Settings {
    /// Reads all settings; the first that is wrong is the error.
    pub fn read(given: &Given) -> Result<Self, SettingError> {
        let settings = Self {
            listen: listen(given)?,
            drain_timeout: drain_timeout(given)?,
            lb_buffer: lb_buffer(given)?,
            poll_interval: time(given, Name::PollInterval)?,
            envoy_admin: address(given, Name::EnvoyAdmin)?,
            ignored: Ignored::with(&given.value(Name::IgnoreClusters)?.0),
        };
        let wrong = |cause: String, remedy: &str| given.wrong(Name::PollInterval, cause, remedy);
        if settings.poll_interval < MIN_POLL {
            return Err(wrong(
                format!("is below {} s", seconds::show(MIN_POLL)),
                "write 0.05 or more; the runbook uses 2",
            ));
        }
        if settings.poll_interval > settings.drain_timeout {
            return Err(wrong(
                format!("is more than DRAIN_TIMEOUT, {} s", seconds::show(settings.drain_timeout)),
                "make it a small part of DRAIN_TIMEOUT; the runbook uses 2 and 120",
            ));
        }
        Ok(settings)
    }
}

/// How long requests may take to end.
pub fn drain_timeout(given: &Given) -> Result<Duration, SettingError> {
    let timeout = time(given, Name::DrainTimeout)?;
    if timeout.is_zero() {
        return Err(given.wrong(
            Name::DrainTimeout,
            "leaves no time for a request to end".to_owned(),
            "use the runbook's ceil(p99 x 1.2), see `gt-hc check --p99`",
        ));
    }
    Ok(timeout)
}

/// How long the LB gets to notice.
pub fn lb_buffer(given: &Given) -> Result<Duration, SettingError> {
    time(given, Name::LbBuffer)
}

/// Where the commands of this pod reach the server: the port it listens on, on the loopback device.
pub fn server(given: &Given) -> Result<SocketAddr, SettingError> {
    let mut address = listen(given)?;
    if address.ip().is_unspecified() {
        // A socket on [::] may be for IPv6 only, one on 0.0.0.0 always is for IPv4 only.
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
            IpAddr::V6(_) => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        });
    }
    Ok(address)
}

fn listen(given: &Given) -> Result<SocketAddr, SettingError> {
    let address = address(given, Name::Listen)?;
    if !address.ip().is_unspecified() && !address.ip().to_canonical().is_loopback() {
        return Err(given.wrong(
            Name::Listen,
            "would shut out `gt-hc drain`, which comes by the loopback device".to_owned(),
            "listen on all addresses, 0.0.0.0:PORT or [::]:PORT: what changes the state is accepted from \
             inside the pod only",
        ));
    }
    Ok(address)
}

fn time(given: &Given, name: Name) -> Result<Duration, SettingError> {
    let (text, _) = given.value(name)?;
    seconds::parse(&text).map_err(|cause| {
        given.wrong(
            name,
            cause.to_owned(),
            "write seconds, such as 120 or 2.5, or a number with ms, s, m or h",
        )
    })
}

fn address(given: &Given, name: Name) -> Result<SocketAddr, SettingError> {
    let (text, _) = given.value(name)?;
    text.trim().parse().map_err(|_| {
        given.wrong(
            name,
            "is no IP address with a port".to_owned(),
            "write ADDRESS:PORT, such as 127.0.0.1:15000 or [::1]:15000; names are not looked up",
        )
    })
}

#[cfg(test)]
mod tests;
