//! Ranges of IP addresses in CIDR notation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of IP addresses, such as `198.51.100.0/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The first address of the range; the bits after the prefix are zero.
    pub address: IpAddr,
    /// The length of the prefix in bits: at most 32 for IPv4 and 128 for IPv6.
    pub len: u8,
}

impl Prefix {
    /// Returns whether an address lies in the range. An address of the other family does
    /// not.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(first), IpAddr::V4(other)) => {
                let differing = u32::from(first) ^ u32::from(other);
                differing.leading_zeros() >= u32::from(self.len)
            }
            (IpAddr::V6(first), IpAddr::V6(other)) => {
                let differing = u128::from(first) ^ u128::from(other);
                differing.leading_zeros() >= u32::from(self.len)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl FromStr for Prefix {
    type Err = String;

    /// Reads CIDR notation. A single address stands for itself. The error is a message
    /// for the user.
    fn from_str(text: &str) -> Result<Prefix, String> {
        let wrong = || {
            format!(
                "'{text}' is not a range of addresses: write e.g. \"198.51.100.0/24\" or \
                 \"2001:db8::/32\""
            )
        };
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let len = len.unwrap_or(bits);
        if len > bits {
            return Err(format!(
                "'/{len}' is too long: an address of this family has {bits} bits"
            ));
        }
        let first = first_address(address, len);
        if first != address {
            return Err(format!(
                "'{text}' has bits after the first {len}: write {first}/{len}"
            ));
        }
        Ok(Prefix { address, len })
    }
}

/// Clears all bits of an address after the first `len`.
fn first_address(address: IpAddr, len: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(u32::from(32 - len)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(u32::from(128 - len)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
        }
    }
}
