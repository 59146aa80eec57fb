//! Socket options that `nix` lacks, and filters.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// Sets an option whose value is an integer.
///
/// # Errors
/// If the system refuses: the option is not one of this socket, or a capability is missing.
pub fn set_int(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    set(socket, level, option, &value)
}

/// Sets an option whose value is a plain C type, as the kernel's headers define it.
///
/// # Errors
/// If the system refuses: the option is not one of this socket, or a capability is missing.
pub fn set<T>(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the value outlives the call and has the given size.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns an instruction of classic BPF: `code` is a sum of `libc::BPF_*`, and `jt` and `jf` are
/// the numbers of instructions to skip if a jump's condition is true or false.
#[must_use]
pub const fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

/// Limits what a socket receives by a program of classic BPF, which returns how many bytes of each
/// packet to pass.
///
/// # Errors
/// If the program does not terminate, or is longer than the kernel permits.
pub fn attach_filter(socket: impl AsFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        // The kernel only reads it.
        filter: program.as_ptr().cast_mut(),
    };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_set_or_refused() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        set_int(&socket, libc::IPPROTO_IP, libc::IP_TTL, 7).unwrap();
        assert_eq!(socket.ttl().unwrap(), 7);
        let error = set_int(&socket, libc::IPPROTO_IP, libc::IP_TTL, 256).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
