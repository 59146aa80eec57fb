//! The ioctls on an interface that take a `struct ifreq` (netdevice(7)).

use std::ffi::CString;
use std::io;
use std::mem::zeroed;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

/// The flags of an interface, as SIOCGIFFLAGS returns them.
pub type Flags = libc::c_int;

/// Returns an `ifreq` that names an interface. A name that is too long is truncated, as by the
/// kernel.
pub fn named(name: &str) -> libc::ifreq {
    // SAFETY: plain data, for which zero is a value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    let short = name.bytes().take(libc::IF_NAMESIZE - 1);
    for (to, from) in request.ifr_name.iter_mut().zip(short) {
        *to = from as libc::c_char;
    }
    request
}

/// Returns the name that the kernel wrote into an `ifreq`.
pub fn name_of(request: &libc::ifreq) -> String {
    text_of(&request.ifr_name)
}

/// Returns a name up to its NUL. The kernel takes any bytes; invalid UTF-8 is replaced.
fn text_of(name: &[libc::c_char]) -> String {
    let bytes = name.iter().take_while(|c| **c != 0);
    let bytes: Vec<u8> = bytes.map(|c| c.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Calls an ioctl that reads an `ifreq`, and may fill it in.
///
/// # Errors
/// The error of the ioctl.
pub fn ioctl(
    fd: &impl AsRawFd,
    operation: libc::c_ulong,
    request: &mut libc::ifreq,
) -> io::Result<()> {
    // SAFETY: a live ifreq, which the kernel reads and fills in.
    if unsafe { libc::ioctl(fd.as_raw_fd(), operation as _, std::ptr::from_mut(request)) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

fn ethtool(name: &str, command: u32, data: u32) -> io::Result<u32> {
    let mut value = EthtoolValue { command, data };
    let mut request = named(name);
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    ioctl(&socket, libc::SIOCETHTOOL, &mut request)?;
    Ok(value.data)
}

/// Returns a value by `SIOCETHTOOL` that is a `struct ethtool_value`; `command` is an `ETHTOOL_G*`.
///
/// # Errors
/// If there is no such interface, or its driver does not know the command.
pub fn ethtool_value(name: &str, command: u32) -> io::Result<u32> {
    ethtool(name, command, 0)
}

/// Sets a value by `SIOCETHTOOL` that is a `struct ethtool_value`; `command` is an `ETHTOOL_S*`.
///
/// # Errors
/// If the driver does not know the command, or refuses.
pub fn set_ethtool_value(name: &str, command: u32, value: u32) -> io::Result<()> {
    ethtool(name, command, value).map(drop)
}

/// Returns the interface's flags.
///
/// # Errors
/// If there is no such interface.
pub fn flags(fd: &impl AsRawFd, name: &str) -> io::Result<Flags> {
    let mut request = named(name);
    ioctl(fd, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: SIOCGIFFLAGS filled this member.
    Ok(Flags::from(unsafe { request.ifr_ifru.ifru_flags }))
}

/// Sets flags of the interface, and leaves the others as they are.
///
/// # Errors
/// If there is no such interface, or a capability is missing.
pub fn add_flags(fd: &impl AsRawFd, name: &str, more: Flags) -> io::Result<()> {
    let mut request = named(name);
    request.ifr_ifru.ifru_flags = (flags(fd, name)? | more) as libc::c_short;
    ioctl(fd, libc::SIOCSIFFLAGS, &mut request)
}

/// Returns the interface's MTU in bytes.
///
/// # Errors
/// If there is no such interface.
pub fn mtu(fd: &impl AsRawFd, name: &str) -> io::Result<u32> {
    let mut request = named(name);
    ioctl(fd, libc::SIOCGIFMTU, &mut request)?;
    // SAFETY: SIOCGIFMTU filled this member.
    u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).map_err(io::Error::other)
}

/// Sets the interface's MTU in bytes.
///
/// # Errors
/// If there is no such interface, it does not support this MTU, or a capability is missing.
pub fn set_mtu(fd: &impl AsRawFd, name: &str, mtu: u32) -> io::Result<()> {
    let mut request = named(name);
    request.ifr_ifru.ifru_mtu = mtu as libc::c_int;
    ioctl(fd, libc::SIOCSIFMTU, &mut request)
}

/// Sets the length of the interface's transmit queue in packets.
///
/// # Errors
/// If there is no such interface, or a capability is missing.
pub fn set_tx_queue_len(fd: &impl AsRawFd, name: &str, packets: i32) -> io::Result<()> {
    let mut request = named(name);
    request.ifr_ifru.ifru_metric = packets;
    ioctl(fd, libc::SIOCSIFTXQLEN, &mut request)
}

/// Returns the interface's link type, an `ARPHRD_*` of the kernel.
///
/// # Errors
/// If there is no such interface.
pub fn link_type(fd: &impl AsRawFd, name: &str) -> io::Result<u16> {
    let mut request = named(name);
    ioctl(fd, libc::SIOCGIFHWADDR, &mut request)?;
    // SAFETY: SIOCGIFHWADDR filled this member.
    Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family })
}

/// Gives the interface an IPv4 address.
///
/// # Errors
/// If there is no such interface, or a capability is missing.
pub fn set_address(name: &str, address: Ipv4Addr) -> io::Result<()> {
    let mut request = named(name);
    let to: *mut libc::sockaddr_in = (&raw mut request.ifr_ifru).cast();
    // SAFETY: the union has room for this, as `SIOCSIFADDR` expects it.
    unsafe {
        (*to).sin_family = libc::AF_INET as u16;
        (*to).sin_addr.s_addr = u32::from_ne_bytes(address.octets());
    }
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    ioctl(&socket, libc::SIOCSIFADDR, &mut request)
}

/// Returns the index of an interface in this network namespace.
pub fn index_of(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: a terminated string.
    Some(unsafe { libc::if_nametoindex(name.as_ptr()) }).filter(|index| *index != 0)
}

/// Returns the name of the interface with this index in this network namespace.
#[must_use]
pub fn name_at(index: u32) -> Option<String> {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the size that the call asks for.
    if unsafe { libc::if_indextoname(index, name.as_mut_ptr()) }.is_null() {
        return None;
    }
    Some(text_of(&name))
}

/// Returns the name by which `/proc`, `/sys` and others know the interface with this index. `name`,
/// by which it was found, may be an alternative one (`ip link property`).
#[must_use]
pub fn own_name(index: u32, name: &str) -> String {
    // A name that is not valid UTF-8 finds nothing.
    let own = name_at(index).filter(|own| index_of(own) == Some(index));
    own.unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_need_not_be_ascii() {
        for name in ["eth0", "wlan-büro", "éééééé"] {
            assert_eq!(name_of(&named(name)), name);
        }
        let lo = index_of("lo").expect("every network namespace has it");
        assert_eq!(name_at(lo).as_deref(), Some("lo"));
    }
}
