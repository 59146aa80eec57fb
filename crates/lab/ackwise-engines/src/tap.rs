//! TAP devices: where the emulator takes frames from a node and gives them back.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::error::LabError;

/// The device that makes TAP devices.
pub const CONTROL: &str = "/dev/net/tun";

/// Makes a TAP device in the calling thread's namespace. It lives as long as
/// the file; frames are read from it and written to it one at a time, without
/// blocking, and from any thread.
///
/// # Errors
/// There is no `/dev/net/tun`, the caller may not, or the name is taken.
pub fn create(name: &str) -> Result<File, LabError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(CONTROL)
        .map_err(LabError::os(format!("cannot open {CONTROL}")))?;
    // SAFETY: `ifreq` is plain old data for which all zeroes is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(LabError::Scenario(format!(
            "`{name}` is no name for an interface"
        )));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open and the pointer is to a live `ifreq`.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw const request) } < 0 {
        return Err(LabError::Os {
            what: format!("cannot make the TAP device {name}"),
            source: io::Error::last_os_error(),
        });
    }
    Ok(file)
}
