//! A packet socket that sends and does not receive.

use std::io;
use std::mem::{MaybeUninit, size_of, zeroed};
use std::os::fd::{AsRawFd, OwnedFd};

use ackwise_headers::first_ether_type;
use ackwise_policy::LinkKind;

use crate::packet_socket::{Destination, Layer, Receives, address, bind, open};
use crate::sockopt::set_int;
use crate::{Error, Interface};

/// The number of packets that one system call sends.
pub const BATCH: usize = 64;
/// The size of the socket's send buffer in bytes: it holds what the driver has not sent yet.
const SEND_BUFFER: libc::c_int = 4 << 20;

/// Sends frames directly through an interface. They carry a mark by which a program at the
/// interface's egress recognises packets that it has already seen.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    interface: Interface,
}

/// What happened to the packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendStats {
    /// Packets that were handed to the interface.
    pub packets: u64,
    /// Their bytes, with link headers.
    pub bytes: u64,
    /// Packets that were lost because the interface or its queue had no room.
    pub no_room: u64,
    /// Packets that were lost because the interface was down.
    pub down: u64,
    /// Packets that were lost because they were too long or refused for another reason.
    pub refused: u64,
    /// Whether the interface is gone.
    pub interface_gone: bool,
}

impl PacketSocket {
    /// Opens a socket that sends through `interface`, with `cookie` as the mark (`SO_MARK`) of
    /// each packet.
    ///
    /// # Errors
    /// If a capability is missing.
    pub fn open(interface: Interface, cookie: u32) -> Result<Self, Error> {
        let layer = Layer::to_send(interface.kind);
        let socket = open(layer).map_err(Error::system("open a packet socket"))?;
        set_int(
            &socket,
            libc::SOL_SOCKET,
            libc::SO_MARK,
            cookie as libc::c_int,
        )
        .map_err(Error::system("mark the packets of a socket"))?;
        enlarge_send_buffer(&socket);
        let opened = Self { socket, interface };
        if opened.is_bound() {
            let index = Some(opened.interface.index);
            bind(&opened.socket, index, Receives::Nothing)
                .map_err(Error::system("bind a packet socket"))?;
        }
        Ok(opened)
    }

    /// Returns whether the socket is bound to the interface, so that frames need no address each.
    /// On Ethernet the kernel takes the protocol from the header; on other links it may not.
    fn is_bound(&self) -> bool {
        self.interface.kind == LinkKind::Ethernet
    }

    /// Sends up to [`BATCH`] frames in order. Frames that the kernel refuses are counted and lost,
    /// as on a wire.
    pub fn send(&self, frames: &[impl AsRef<[u8]>]) -> SendStats {
        let frames = &frames[..frames.len().min(BATCH)];
        // In each array, as many elements are written and read as there are frames.
        let mut to = [const { MaybeUninit::<libc::sockaddr_ll>::uninit() }; BATCH];
        let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; BATCH];
        let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
        let named = !self.is_bound();
        for (n, frame) in frames.iter().enumerate() {
            let bytes = frame.as_ref();
            let part = parts[n].write(libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            });
            // SAFETY: a plain C struct, for which zero is a value.
            let message = messages[n].write(unsafe { zeroed::<libc::mmsghdr>() });
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            if named {
                let address = address(Destination {
                    interface: self.interface.index,
                    protocol: protocol(bytes, self.interface.kind),
                });
                message.msg_hdr.msg_name = (&raw mut *to[n].write(address)).cast();
                message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
            }
        }
        let mut sent = SendStats::default();
        let mut next = 0;
        while next < frames.len() {
            let left = &mut messages[next..frames.len()];
            // The flags' type is signed in glibc and unsigned in musl.
            // SAFETY: each of these messages was written, and points to a part, a frame and, if
            // any, an address that outlive the call.
            let done = unsafe {
                libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    left.as_mut_ptr().cast(),
                    left.len() as u32,
                    libc::MSG_DONTWAIT as _,
                )
            };
            if let Ok(done @ 1..) = usize::try_from(done) {
                sent.packets += done as u64;
                let lengths = frames[next..next + done].iter().map(|f| f.as_ref().len());
                sent.bytes += lengths.sum::<usize>() as u64;
                next += done;
                continue;
            }
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => continue,
                Some(libc::ENOBUFS | libc::EAGAIN) => sent.no_room += 1,
                Some(libc::ENETDOWN) => sent.down += 1,
                Some(libc::ENXIO | libc::ENODEV) => {
                    sent.interface_gone = true;
                    sent.refused += 1;
                }
                _ => sent.refused += 1,
            }
            next += 1;
        }
        sent
    }
}

/// Sets a socket's send buffer to 4 MiB, or to the maximum that the system permits. The default of
/// `net.core.wmem_default`, 208 KiB, is full when some 250 ACKs wait in the interface's queue.
pub fn enlarge_send_buffer(socket: &OwnedFd) {
    // SO_SNDBUFFORCE needs CAP_NET_ADMIN.
    let set = |option| set_int(socket, libc::SOL_SOCKET, option, SEND_BUFFER);
    if set(libc::SO_SNDBUFFORCE).is_err() {
        let _ = set(libc::SO_SNDBUF);
    }
}

/// Returns the frame's EtherType in network byte order; 0 if the frame is too short.
fn protocol(frame: &[u8], kind: LinkKind) -> u16 {
    first_ether_type(frame, kind).unwrap_or_default().to_be()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols() {
        assert_eq!(protocol(&[0x45, 0], LinkKind::Ip), 0x0800_u16.to_be());
        assert_eq!(protocol(&[0x60, 0], LinkKind::Ip), 0x86dd_u16.to_be());
        let mut frame = vec![0; 12];
        frame.extend([0x88, 0x64, 1]);
        assert_eq!(protocol(&frame, LinkKind::Ethernet), 0x8864_u16.to_be());
        assert_eq!(protocol(&[1, 2], LinkKind::Ethernet), 0);
    }
}
