//! An interface, and the ioctls that ask about one.

use std::ffi::CString;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use ackwise_policy::LinkKind;

use crate::Error;

const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;
/// PPP, RAWIP, NONE (tun, wg): packets begin with the IP header.
const ARPHRD_BARE: [u16; 3] = [512, 519, 65534];

/// An interface of this network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// What its packets begin with.
    pub kind: LinkKind,
    /// As it was when this was made.
    pub mtu: u32,
}

impl Interface {
    /// Looks it up.
    ///
    /// # Errors
    /// It is not there, or of a link type that is not known.
    pub fn find(name: &str) -> Result<Self, Error> {
        let missing = || Error::NoInterface(name.to_owned());
        let index = index_of(name).ok_or_else(missing)?;
        let socket = packet_socket()?;
        let mut request = request(name);
        let kind = match ask(&socket, libc::SIOCGIFHWADDR, &mut request) {
            // SAFETY: SIOCGIFHWADDR filled this member.
            Ok(()) => match unsafe { request.ifr_ifru.ifru_hwaddr.sa_family } {
                ARPHRD_ETHER | ARPHRD_LOOPBACK => LinkKind::Ethernet,
                bare if ARPHRD_BARE.contains(&bare) => LinkKind::Ip,
                arphrd => {
                    return Err(Error::LinkType {
                        interface: name.to_owned(),
                        arphrd,
                    });
                }
            },
            Err(error) => return Err(Error::system("reading the link type")(error)),
        };
        ask(&socket, libc::SIOCGIFMTU, &mut request).map_err(Error::system("reading the MTU"))?;
        // SAFETY: SIOCGIFMTU filled this member.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        Ok(Self {
            name: name.to_owned(),
            index,
            kind,
            mtu: u32::try_from(mtu).unwrap_or(1500),
        })
    }

    /// Whether it is still there.
    #[must_use]
    pub fn exists(&self) -> bool {
        let mut name = [0; libc::IF_NAMESIZE];
        // SAFETY: the buffer has the size that the call asks for.
        !unsafe { libc::if_indextoname(self.index, name.as_mut_ptr()) }.is_null()
    }
}

pub(crate) fn index_of(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: a terminated string.
    Some(unsafe { libc::if_nametoindex(name.as_ptr()) }).filter(|index| *index != 0)
}

pub(crate) fn request(name: &str) -> libc::ifreq {
    // SAFETY: plain data; zero is a value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    let short = name.bytes().take(libc::IF_NAMESIZE - 1);
    for (to, from) in request.ifr_name.iter_mut().zip(short) {
        *to = from as libc::c_char;
    }
    request
}

pub(crate) fn ask(
    fd: &impl AsRawFd,
    what: libc::c_ulong,
    request: &mut libc::ifreq,
) -> io::Result<()> {
    // SAFETY: a live ifreq, which the kernel reads and fills in.
    if unsafe { libc::ioctl(fd.as_raw_fd(), what as _, std::ptr::from_mut(request)) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A packet socket that receives nothing.
pub(crate) fn packet_socket() -> Result<OwnedFd, Error> {
    // SAFETY: no pointers; the result is checked.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(Error::system("open a packet socket")(
            io::Error::last_os_error(),
        ));
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
