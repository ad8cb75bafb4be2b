//! Counts the connections of each client address over all cores.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::net::cidr::Ipv6Prefix;

/// Many, so that cores that accept at the same time rarely need the same lock.
const SHARDS: usize = 64;

/// Counts the connections of each address. Addresses without a connection are not kept.
pub struct Occupancy {
    most: NonZeroU32,
    prefix: Ipv6Prefix,
    key: RandomState,
    shards: Vec<Mutex<HashMap<IpAddr, u32>>>,
}

/// The place of one connection among those of its address; freed on drop.
pub struct ConnectionPlace {
    occupancy: Arc<Occupancy>,
    address: IpAddr,
}

impl Occupancy {
    /// At most `most` connections per address; an IPv6 address stands for its network.
    pub fn new(most: NonZeroU32, prefix: Ipv6Prefix) -> Arc<Self> {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Arc::new(Occupancy { most, prefix, key: RandomState::new(), shards })
    }

    /// Takes a place for a connection of this address; `None` if all are taken.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPlace> {
        let address = self.prefix.client(address);
        let mut shard = self.shard(address);
        let open = shard.entry(address).or_default();
        if *open >= self.most.get() {
            return None;
        }
        *open += 1;
        drop(shard);
        Some(ConnectionPlace { occupancy: self.clone(), address })
    }

    fn shard(&self, address: IpAddr) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        let at = self.key.hash_one(address) as usize % SHARDS;
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut shard = self.occupancy.shard(self.address);
        match shard.get_mut(&self.address) {
            Some(open) if *open > 1 => *open -= 1,
            _ => drop(shard.remove(&self.address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_places_and_gets_them_back() {
        let occupancy = Occupancy::new(NonZeroU32::new(2).expect("two"), Ipv6Prefix::default());
        let admit = |address: &str| occupancy.admit(address.parse().expect("an address"));
        let first = admit("192.0.2.1").expect("a place");
        let _mapped = admit("::ffff:192.0.2.1").expect("a place");
        assert!(admit("192.0.2.1").is_none() && admit("192.0.2.2").is_some());
        drop(first);
        assert!(admit("192.0.2.1").is_some());
    }

    #[test]
    fn an_ipv6_client_is_its_network() {
        let occupancy = Occupancy::new(NonZeroU32::MIN, Ipv6Prefix::default());
        let admit = |address: &str| occupancy.admit(address.parse().expect("an address"));
        let _one = admit("2001:db8::1").expect("a place");
        assert!(admit("2001:db8::ffff:1").is_none() && admit("2001:db8:0:1::1").is_some());
    }

    #[test]
    fn addresses_that_left_are_forgotten() {
        let occupancy = Occupancy::new(NonZeroU32::MIN, Ipv6Prefix::default());
        let places: Vec<_> =
            (0..1000u32).map(|at| occupancy.admit(std::net::Ipv4Addr::from(at).into()).expect("a place")).collect();
        drop(places);
        assert!(occupancy.shards.iter().all(|shard| shard.lock().expect("whole").is_empty()));
    }
}
