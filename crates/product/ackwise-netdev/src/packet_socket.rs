//! Packet sockets (packet(7)).
//!
//! [`open`] returns a socket that receives nothing, so that options, filters and programs are in
//! place before its first packet; [`bind`] chooses what it receives.
//! [`PacketSocket`](crate::PacketSocket) only sends, many packets at a time.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use ackwise_policy::LinkKind;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, socket};

/// The header with which the packets of a packet socket begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// The link header (`SOCK_RAW`).
    Link,
    /// The IP header (`SOCK_DGRAM`).
    Network,
}

impl Layer {
    /// The layer at which packets are sent through an interface of this kind. Packets of a PPP
    /// device have no link header, but room is reserved for one (`hard_header_len`): with
    /// `SOCK_RAW` the kernel would take the first four bytes of a packet for it, and every later
    /// queue would look for the IP header in the wrong place.
    #[must_use]
    pub fn to_send(kind: LinkKind) -> Layer {
        match kind {
            LinkKind::Ethernet => Layer::Link,
            LinkKind::Ip => Layer::Network,
        }
    }
}

/// What a packet socket receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receives {
    /// Nothing: the socket only sends.
    Nothing,
    /// Every packet that arrives or leaves (`ETH_P_ALL`).
    All,
}

/// The destination of a packet that is sent by [`send`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination {
    /// The index of the interface.
    pub interface: u32,
    /// The packet's EtherType in network byte order.
    pub protocol: u16,
}

/// Opens an unbound packet socket that receives nothing.
///
/// # Errors
/// If a capability is missing.
pub fn open(layer: Layer) -> io::Result<OwnedFd> {
    let kind = match layer {
        Layer::Link => SockType::Raw,
        Layer::Network => SockType::Datagram,
    };
    // Without a protocol it receives nothing until it is bound.
    let flags = SockFlag::SOCK_CLOEXEC;
    Ok(socket(AddressFamily::Packet, kind, flags, None)?)
}

/// Binds a packet socket to the interface with this index; `None` means all of the network
/// namespace.
///
/// # Errors
/// If there is no such interface.
pub fn bind(socket: impl AsFd, interface: Option<u32>, receives: Receives) -> io::Result<()> {
    let address = address(Destination {
        interface: interface.unwrap_or(0),
        protocol: match receives {
            Receives::Nothing => 0,
            Receives::All => (libc::ETH_P_ALL as u16).to_be(),
        },
    });
    // SAFETY: the address outlives the call and has the given size.
    let answer = unsafe {
        libc::bind(
            socket.as_fd().as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as u32,
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sends a packet through an interface, whatever the socket is bound to. `mark` is for this packet
/// alone (`SO_MARK`).
///
/// # Errors
/// If the interface or its queue has no room, is down or gone, the packet is too long, or setting
/// the mark needs a capability that is missing.
pub fn send(
    socket: impl AsFd,
    to: Destination,
    packet: &[u8],
    mark: Option<u32>,
    flags: MsgFlags,
) -> io::Result<()> {
    #[repr(C, align(8))]
    struct Control([u8; 32]);

    let mut to = address(to);
    let mut part = libc::iovec {
        iov_base: packet.as_ptr().cast_mut().cast(),
        iov_len: packet.len(),
    };
    let mut control = Control([0; 32]);
    // SAFETY: a plain C struct, for which zero is a value.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_name = (&raw mut to).cast();
    message.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if let Some(mark) = mark {
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: the control buffer is aligned and larger than CMSG_SPACE of one u32.
        // musl's types of the lengths differ from glibc's.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(size_of::<u32>() as u32) as _;
            let c = libc::CMSG_FIRSTHDR(&raw const message);
            (*c).cmsg_level = libc::SOL_SOCKET;
            (*c).cmsg_type = libc::SO_MARK;
            (*c).cmsg_len = libc::CMSG_LEN(size_of::<u32>() as u32) as _;
            libc::CMSG_DATA(c).cast::<u32>().write_unaligned(mark);
        }
    }
    // SAFETY: every pointer of the message is valid until sendmsg returns.
    let sent =
        unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, flags.bits()) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns the number of packets that the socket has dropped for lack of room since the last call,
/// or 0 if the kernel does not say.
pub fn missed(socket: impl AsFd) -> u32 {
    // struct tpacket_stats_v3: packets, drops, freezes. Without TPACKET_V3 the kernel writes the
    // first two.
    let mut counts = [0_u32; 3];
    let mut length = size_of::<[u32; 3]>() as u32;
    // SAFETY: both pointers are live, and the length is that of the buffer.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            counts.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if answer == 0 { counts[1] } else { 0 }
}

/// Returns the address of a destination.
pub(crate) fn address(to: Destination) -> libc::sockaddr_ll {
    // SAFETY: a plain C struct, for which zero is a value.
    let mut address = unsafe { zeroed::<libc::sockaddr_ll>() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = to.interface as i32;
    address.sll_protocol = to.protocol;
    address
}
