//! The address of a pod, which may become known after its network namespace.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

/// Where a pod is reached from outside; `None` while not known. Clones are one: what is set by one is seen by all.
#[derive(Clone, Debug, Default)]
pub struct Address(Arc<Mutex<Option<IpAddr>>>);

impl Address {
    /// The address now.
    #[must_use]
    pub fn get(&self) -> Option<IpAddr> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes it, for connections that are made from now on.
    pub fn set(&self, address: Option<IpAddr>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }
}

impl From<Option<IpAddr>> for Address {
    fn from(address: Option<IpAddr>) -> Self {
        Self(Arc::new(Mutex::new(address)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Exercises a clone, so that whoever has one is told of an address that becomes known later.
    #[test]
    fn clones_are_one() {
        let address = Address::default();
        let clone = address.clone();
        assert_eq!(clone.get(), None);
        address.set(Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(clone.get(), Some(Ipv4Addr::LOCALHOST.into()));
    }
}
