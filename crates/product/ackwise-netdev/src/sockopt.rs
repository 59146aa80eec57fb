//! Socket options that `nix` does not have.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// Sets an option whose value is an integer.
///
/// # Errors
/// The system refuses: the option is not one of this socket, or takes a right.
pub fn set_int(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the value outlives the call and has the size that is said.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as u32,
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
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
