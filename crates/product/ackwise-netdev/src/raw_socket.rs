//! Raw sockets (raw(7)): IP packets that the kernel routes.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

pub use nix::sys::socket::SockProtocol;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, sendto, socket,
};

/// Opens a raw socket for IPv6 or IPv4. With [`SockProtocol::Raw`] it sends whole packets and
/// receives nothing; with another protocol it receives packets of this protocol.
///
/// # Errors
/// If a capability is missing, or the kernel lacks the address family.
pub fn open(v6: bool, protocol: SockProtocol) -> io::Result<OwnedFd> {
    let family = if v6 {
        AddressFamily::Inet6
    } else {
        AddressFamily::Inet
    };
    let flags = SockFlag::SOCK_CLOEXEC;
    Ok(socket(family, SockType::Raw, flags, protocol)?)
}

/// Sends a whole packet along the route to this address.
///
/// # Errors
/// If there is no route, there is no room, or a rule of the host drops the packet.
pub fn send(socket: impl AsFd, packet: &[u8], to: IpAddr, flags: MsgFlags) -> io::Result<()> {
    let to = SockaddrStorage::from(SocketAddr::new(to, 0));
    sendto(socket.as_fd().as_raw_fd(), packet, &to, flags)?;
    Ok(())
}
