//! What is done to an interface of the emulated machine.

use std::time::Duration;

use crate::command;
use crate::error::LabError;

/// What the paper switches off on every interface, and what would do the same
/// in software.
const OFFLOADS: [&str; 5] = ["rx", "tx", "tso", "gso", "gro"];
/// A link that is set up comes to carry traffic within this.
const CARRIER_TRIES: u32 = 500;

/// Moves an interface into a namespace, under another name.
///
/// # Errors
/// There is none of that name.
pub fn take(interface: &str, namespace: &str, name: &str) -> Result<(), LabError> {
    let arguments = ["link", "set", interface, "netns", namespace, "name", name];
    command::run("ip", &arguments).map(drop)
}

/// Runs `tc` with the words of a line.
///
/// # Errors
/// It refuses.
pub fn tc(line: &str) -> Result<(), LabError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    command::run("tc", &words).map(drop)
}

/// Switches off what an interface does for the kernel.
///
/// # Errors
/// It refuses.
pub fn plain(interface: &str) -> Result<(), LabError> {
    let mut arguments = vec!["-K", interface];
    arguments.extend(OFFLOADS.iter().flat_map(|&offload| [offload, "off"]));
    command::run("ethtool", &arguments).map(drop)
}

/// An e1000 negotiates for a moment after it was set up.
///
/// # Errors
/// It does so for too long.
pub fn wait_for_carrier(interface: &str) -> Result<(), LabError> {
    for _ in 0..CARRIER_TRIES {
        let shown = command::run("ip", &["link", "show", interface])?;
        if shown.contains("LOWER_UP") {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(LabError::Scenario(format!(
        "{interface} has no carrier after ten seconds"
    )))
}
