//! TAP devices: where the emulator takes frames from a node and gives them back.

use std::fs::File;

use ackwise_netdev::create_tun;
use ackwise_policy::LinkKind;

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
    if name.is_empty() || name.len() >= libc::IF_NAMESIZE {
        return Err(LabError::Scenario(format!(
            "`{name}` is no name for an interface"
        )));
    }
    let (file, _) = create_tun(name, LinkKind::Ethernet).map_err(LabError::os(format!(
        "cannot make the TAP device {name} by {CONTROL}"
    )))?;
    Ok(file)
}
