//! An interface in the network namespace of the calling thread.

use ackwise_policy::LinkKind;

use crate::Error;
use crate::ifreq::{self, index_of};
use crate::netlink::Netlink;
use crate::packet_socket::{self, Layer};

/// The length of an Ethernet header in bytes.
const ETHERNET_HEADER: u8 = 14;
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;
/// PPP, RAWIP and NONE (tun, wg): packets begin with the IP header.
const ARPHRD_BARE: [u16; 3] = [512, 519, 65534];

/// An interface of this network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The name of the interface.
    pub name: String,
    /// The index of the interface.
    pub index: u32,
    /// The header with which its packets begin.
    pub kind: LinkKind,
    /// The MTU in bytes at the time of the lookup.
    pub mtu: u32,
}

/// Which packets of an interface a program sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Packets that the interface receives.
    Ingress,
    /// Packets that leave through the interface.
    Egress,
}

impl Interface {
    /// Looks an interface up by its name, or by an alternative one.
    ///
    /// # Errors
    /// If there is no such interface, its link type is not supported, or it cannot send packets.
    pub fn find(name: &str) -> Result<Self, Error> {
        let missing = || Error::NoInterface(name.to_owned());
        let index = index_of(name).ok_or_else(missing)?;
        let own_name = ifreq::own_name(index, name);
        let name = own_name.as_str();
        let socket =
            packet_socket::open(Layer::Link).map_err(Error::system("open a packet socket"))?;
        let link_type = ifreq::link_type(&socket, name);
        let kind = match link_type.map_err(Error::system("read the link type"))? {
            ARPHRD_ETHER | ARPHRD_LOOPBACK => LinkKind::Ethernet,
            bare if ARPHRD_BARE.contains(&bare) => LinkKind::Ip,
            arphrd => {
                return Err(Error::LinkType {
                    interface: name.to_owned(),
                    arphrd,
                });
            }
        };
        // An ifb device takes only what the kernel redirects to it.
        let link = Netlink::open().and_then(|mut netlink| netlink.link(index));
        let link = link.map_err(Error::system("read the link"))?;
        if link.is_ifb() {
            return Err(Error::Ifb(name.to_owned()));
        }
        let mtu = ifreq::mtu(&socket, name).map_err(Error::system("read the MTU"))?;
        Ok(Self {
            name: name.to_owned(),
            index,
            kind,
            mtu,
        })
    }

    /// Returns the length in bytes of its packets' link header, without VLAN tags.
    #[must_use]
    pub fn header_len(&self) -> u8 {
        match self.kind {
            LinkKind::Ethernet => ETHERNET_HEADER,
            LinkKind::Ip => 0,
        }
    }

    /// Returns whether the interface is still in this network namespace.
    #[must_use]
    pub fn exists(&self) -> bool {
        exists(self.index)
    }
}

/// Returns whether this network namespace has an interface with this index.
#[must_use]
pub fn exists(index: u32) -> bool {
    ifreq::name_at(index).is_some()
}
