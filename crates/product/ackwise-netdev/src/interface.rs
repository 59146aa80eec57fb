//! An interface of the network namespace that the calling thread is in.

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
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Which header its packets begin with.
    pub kind: LinkKind,
    /// Its MTU in bytes when this was made.
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
    /// There is no such interface, ackwise does not know its link type, or nothing can be sent by it.
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
        // It takes only what the kernel has redirected to it.
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

    /// Returns the length in bytes of the link header of its packets, without VLAN tags.
    #[must_use]
    pub fn header_len(&self) -> u8 {
        match self.kind {
            LinkKind::Ethernet => ETHERNET_HEADER,
            LinkKind::Ip => 0,
        }
    }

    /// Says whether the interface is still in this network namespace.
    #[must_use]
    pub fn exists(&self) -> bool {
        exists(self.index)
    }
}

/// Says whether this network namespace has an interface with this index.
#[must_use]
pub fn exists(index: u32) -> bool {
    ifreq::name_at(index).is_some()
}
