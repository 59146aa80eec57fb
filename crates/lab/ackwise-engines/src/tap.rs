//! TAP devices, through which the emulator exchanges frames with a node.

use std::fs::File;

use ackwise_netdev::create_tun;
use ackwise_policy::LinkKind;

use crate::error::LabError;

/// The control device that creates TAP devices.
pub const CONTROL: &str = "/dev/net/tun";

/// Creates a TAP device in the calling thread's namespace. It lives as long as the file. Frames are
/// read and written one at a time, without blocking, from any thread.
///
/// # Errors
/// There is no `/dev/net/tun`, the caller lacks the permission, or the name is taken.
pub fn create(name: &str) -> Result<File, LabError> {
    if name.is_empty() || name.len() >= libc::IF_NAMESIZE {
        return Err(LabError::Scenario(format!(
            "`{name}` is not a valid name for an interface"
        )));
    }
    let (file, _) = create_tun(name, LinkKind::Ethernet).map_err(LabError::os(format!(
        "cannot make the TAP device {name} by {CONTROL}"
    )))?;
    Ok(file)
}
