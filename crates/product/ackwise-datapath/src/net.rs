//! The little that is needed of netlink, packet sockets and TAP devices.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const TC_H_CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
const TCA_KIND: u16 = 1;
/// `TC_H_MIN_INGRESS` and `TC_H_MIN_EGRESS` of clsact.
const PARENTS: [u32; 2] = [0xffff_fff2, 0xffff_fff3];

#[repr(C)]
struct TcRequest {
    header: libc::nlmsghdr,
    family: u8,
    pad: [u8; 3],
    ifindex: i32,
    handle: u32,
    parent: u32,
    info: u32,
    kind_len: u16,
    kind_type: u16,
    kind: [u8; 8],
}

fn netlink() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked.
    let fd = unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::NETLINK_ROUTE,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn send(fd: &OwnedFd, request: &TcRequest, len: usize) -> io::Result<()> {
    // SAFETY: request outlives the call and is at least len bytes long.
    let n = unsafe { libc::send(fd.as_raw_fd(), std::ptr::from_ref(request).cast(), len, 0) };
    if n < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Calls `each` for every message until the kernel says that it is done.
fn receive(fd: &OwnedFd, mut each: impl FnMut(u16)) -> io::Result<()> {
    let mut buffer = vec![0_u8; 32 << 10];
    loop {
        // SAFETY: the buffer is valid for its length.
        let n = unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        let mut at = 0;
        while at + 16 <= n {
            let word = |o: usize| -> u32 {
                u32::from_ne_bytes([
                    buffer[at + o],
                    buffer[at + o + 1],
                    buffer[at + o + 2],
                    buffer[at + o + 3],
                ])
            };
            let len = word(0) as usize;
            let kind = u16::from_ne_bytes([buffer[at + 4], buffer[at + 5]]);
            if len < 16 || at + len > n {
                break;
            }
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(()),
                libc::NLMSG_ERROR if len >= 20 => {
                    #[allow(clippy::cast_possible_wrap)]
                    let errno = word(16) as i32;
                    return if errno == 0 {
                        Ok(())
                    } else {
                        Err(io::Error::from_raw_os_error(-errno))
                    };
                }
                _ => each(kind),
            }
            at += (len + 3) & !3;
        }
    }
}

fn request(kind: u16, flags: i32, ifindex: u32, handle: u32, parent: u32) -> TcRequest {
    // SAFETY: integers only; zero is a value of each.
    let mut r: TcRequest = unsafe { zeroed() };
    r.header.nlmsg_len = u32::try_from(size_of::<TcRequest>()).unwrap_or(0);
    r.header.nlmsg_type = kind;
    r.header.nlmsg_flags = u16::try_from(libc::NLM_F_REQUEST | flags).unwrap_or(0);
    r.header.nlmsg_seq = 1;
    r.ifindex = i32::try_from(ifindex).unwrap_or(0);
    r.handle = handle;
    r.parent = parent;
    r.kind_len = 11;
    r.kind_type = TCA_KIND;
    r.kind = *b"clsact\0\0";
    r
}

/// True if the qdisc was made, false if there was one already.
pub(crate) fn add_clsact(ifindex: u32) -> io::Result<bool> {
    let fd = netlink()?;
    let r = request(
        libc::RTM_NEWQDISC,
        libc::NLM_F_CREATE | libc::NLM_F_EXCL | libc::NLM_F_ACK,
        ifindex,
        CLSACT_HANDLE,
        TC_H_CLSACT,
    );
    send(&fd, &r, size_of::<TcRequest>())?;
    match receive(&fd, |_| ()) {
        Ok(()) => Ok(true),
        Err(e) if e.raw_os_error() == Some(libc::EEXIST) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Remove the clsact qdisc unless somebody's filters are still in it.
pub(crate) fn remove_clsact_if_empty(ifindex: u32) -> io::Result<()> {
    let fd = netlink()?;
    let mut filters = 0;
    for parent in PARENTS {
        let mut r = request(libc::RTM_GETTFILTER, libc::NLM_F_DUMP, ifindex, 0, parent);
        let len = size_of::<TcRequest>() - 12; // without the kind
        r.header.nlmsg_len = u32::try_from(len).unwrap_or(0);
        send(&fd, &r, len)?;
        receive(&fd, |kind| {
            filters += u32::from(kind == libc::RTM_NEWTFILTER)
        })?;
    }
    if filters > 0 {
        return Ok(());
    }
    let r = request(
        libc::RTM_DELQDISC,
        libc::NLM_F_ACK,
        ifindex,
        CLSACT_HANDLE,
        TC_H_CLSACT,
    );
    send(&fd, &r, size_of::<TcRequest>())?;
    receive(&fd, |_| ())
}

/// Index of an interface of this thread's network namespace.
pub(crate) fn ifindex(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: a terminated string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index != 0).then_some(index)
}

/// Is there still an interface with this index?
pub(crate) fn exists(index: u32) -> bool {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the size that the call asks for.
    !unsafe { libc::if_indextoname(index, name.as_mut_ptr()) }.is_null()
}

/// `ARPHRD_*` of an interface.
pub(crate) fn link_type(name: &str) -> io::Result<u16> {
    let fd = packet_socket()?;
    let mut r = ifreq(name);
    // SAFETY: r is a valid ifreq, which the kernel fills in.
    if unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut r) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: SIOCGIFHWADDR filled this member.
    Ok(unsafe { r.ifr_ifru.ifru_hwaddr.sa_family })
}

/// A packet socket that receives nothing.
pub(crate) fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn ifreq(name: &str) -> libc::ifreq {
    // SAFETY: plain data; zero is a value.
    let mut r: libc::ifreq = unsafe { zeroed() };
    for (to, from) in r
        .ifr_name
        .iter_mut()
        .zip(name.bytes().take(libc::IF_NAMESIZE - 1))
    {
        #[allow(clippy::cast_possible_wrap)]
        {
            *to = from as libc::c_char;
        }
    }
    r
}

/// A TAP device that is up and lives as long as its descriptor.
pub(crate) fn tap() -> io::Result<(File, String)> {
    let file = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")?;
    let mut r = ifreq("ackwise%d");
    r.ifr_ifru.ifru_flags =
        i16::try_from(libc::IFF_TAP | libc::IFF_NO_PI).unwrap_or(libc::IFF_TAP as i16);
    // SAFETY: r is a valid ifreq, which the kernel fills in.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut r) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let name: String = r
        .ifr_name
        .iter()
        .take_while(|c| **c != 0)
        .map(|c| char::from(c.to_ne_bytes()[0]))
        .collect();
    // It is a way in, not a link: no addresses, no router solicitations.
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    let socket = packet_socket()?;
    // SAFETY: as above.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut r) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: SIOCGIFFLAGS filled this member.
    let flags = unsafe { r.ifr_ifru.ifru_flags };
    r.ifr_ifru.ifru_flags = flags | i16::try_from(libc::IFF_UP | libc::IFF_NOARP).unwrap_or(1);
    // SAFETY: as above.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut r) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((file, name))
}

/// CLOCK_MONOTONIC, the clock of the BPF programs.
pub(crate) fn monotonic_ns() -> u64 {
    // SAFETY: ts is valid and filled in.
    let ts = unsafe {
        let mut ts: libc::timespec = zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut ts);
        ts
    };
    #[allow(clippy::cast_sign_loss)]
    {
        ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
    }
}
