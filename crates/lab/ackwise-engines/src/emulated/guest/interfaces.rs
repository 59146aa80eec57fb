//! Configures an interface of the emulated machine.

use std::time::Duration;

use crate::command;
use crate::error::LabError;

/// The offloads that the paper switches off on every interface, and those that do the same in
/// software.
const OFFLOADS: [&str; 5] = ["rx", "tx", "tso", "gso", "gro"];
/// Number of attempts within which a link that was set up gets carrier.
const MAX_CARRIER_POLLS: u32 = 500;

/// Moves an interface into a namespace under a new name.
///
/// # Errors
/// There is no such interface.
pub fn take(interface: &str, namespace: &str, name: &str) -> Result<(), LabError> {
    let arguments = ["link", "set", interface, "netns", namespace, "name", name];
    command::run("ip", &arguments).map(drop)
}

/// Runs `tc` with the words of a line as arguments.
///
/// # Errors
/// `tc` fails.
pub fn tc(line: &str) -> Result<(), LabError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    command::run("tc", &words).map(drop)
}

/// Switches off the offloads of an interface.
///
/// # Errors
/// `ethtool` fails.
pub fn disable_offloads(interface: &str) -> Result<(), LabError> {
    let mut arguments = vec!["-K", interface];
    arguments.extend(OFFLOADS.iter().flat_map(|&offload| [offload, "off"]));
    command::run("ethtool", &arguments).map(drop)
}

/// Waits for carrier: an e1000 negotiates for a moment after it was set up.
///
/// # Errors
/// The interface gets no carrier in time.
pub fn wait_for_carrier(interface: &str) -> Result<(), LabError> {
    for _ in 0..MAX_CARRIER_POLLS {
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
