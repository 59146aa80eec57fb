//! Packet sockets with system calls, written by hand because the bare kernel paths are measured.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const ALL: u16 = 3_u16.to_be();

pub fn index_of(name: &str) -> u32 {
    let name = CString::new(name).unwrap();
    // SAFETY: a terminated string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    assert!(index > 0, "no {name:?}");
    index
}

/// Sets an option with an integer or a struct.
pub fn set<T>(fd: &OwnedFd, level: i32, name: i32, value: &T) {
    // SAFETY: the value is readable and of the given size.
    let answer = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
        )
    };
    assert_eq!(answer, 0, "option {name}: {}", io::Error::last_os_error());
}

/// Opens a socket bound to an interface; without a protocol it receives nothing.
pub fn packet_socket(interface: &str, protocol: u16) -> OwnedFd {
    // SAFETY: no pointers; the result is checked.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: a fresh descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    bind(&fd, interface, protocol);
    fd
}

pub fn bind(fd: &OwnedFd, interface: &str, protocol: u16) {
    // SAFETY: plain data.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = index_of(interface) as i32;
    // SAFETY: a valid address of its size.
    let answer = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as u32,
        )
    };
    assert_eq!(answer, 0, "{}", io::Error::last_os_error());
}

pub struct Packets(OwnedFd);

impl Packets {
    pub fn to(interface: &str, bypass: bool) -> Self {
        let fd = packet_socket(interface, 0);
        set(
            &fd,
            libc::SOL_PACKET,
            libc::PACKET_QDISC_BYPASS,
            &i32::from(bypass),
        );
        Self(fd)
    }

    pub fn from(interface: &str) -> Self {
        let fd = packet_socket(interface, ALL);
        set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &(8 << 20));
        Self(fd)
    }

    fn messages(parts: &mut [libc::iovec]) -> Vec<libc::mmsghdr> {
        let message = |part: &mut libc::iovec| {
            // SAFETY: plain data.
            let mut message: libc::mmsghdr = unsafe { zeroed() };
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message
        };
        parts.iter_mut().map(message).collect()
    }

    pub fn send(&self, frames: &[Vec<u8>]) {
        let part = |frame: &Vec<u8>| libc::iovec {
            iov_base: frame.as_ptr().cast_mut().cast(),
            iov_len: frame.len(),
        };
        let mut parts: Vec<_> = frames.iter().map(part).collect();
        let mut messages = Self::messages(&mut parts);
        // SAFETY: the messages point to live parts and frames.
        let sent = unsafe {
            libc::sendmmsg(
                self.0.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as u32,
                0,
            )
        };
        assert_eq!(
            sent as usize,
            frames.len(),
            "{}",
            io::Error::last_os_error()
        );
    }

    pub fn receive(&self, most: usize) -> usize {
        let mut room = vec![[0_u8; 2048]; most];
        let part = |room: &mut [u8; 2048]| libc::iovec {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: room.len(),
        };
        let mut parts: Vec<_> = room.iter_mut().map(part).collect();
        let mut messages = Self::messages(&mut parts);
        // SAFETY: the messages point to live parts and buffers.
        let count = unsafe {
            libc::recvmmsg(
                self.0.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        usize::try_from(count).unwrap_or(0)
    }
}
