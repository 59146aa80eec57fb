//! Keeps interfaces from merging received packets (GRO, LRO), which would show the judge packets
//! that nobody sent.

use std::io;

use ackwise_netdev::ifreq::{ethtool_value, set_ethtool_value};

use crate::device::Error;

/// Values of linux/ethtool.h.
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_SGRO: u32 = 0x2c;
/// LRO's bit in the flags.
const ETH_FLAG_LRO: u32 = 1 << 15;

/// An interface that merges nothing until this is dropped.
#[derive(Debug)]
pub(crate) struct GroDisabled {
    interface: String,
    /// Previous state of GRO, and the flags with LRO's bit.
    was: [u32; 2],
}

impl GroDisabled {
    /// Switches off the merging of packets.
    ///
    /// # Errors
    /// The interface does not report its state, or continues to merge.
    pub(crate) fn new(interface: &str) -> Result<Self, Error> {
        let refused = |what: &str, error: io::Error| {
            Error::Missing(format!(
                "{interface} {what} ({error}), so packets may arrive merged as nobody sent them: \
                 switch GRO and LRO off with `ethtool -K {interface} gro off lro off`, or name \
                 another interface"
            ))
        };
        let get_value = |command| {
            ethtool_value(interface, command)
                .map_err(|error| refused("does not report whether it merges packets", error))
        };
        let apart = Self {
            interface: interface.to_owned(),
            was: [get_value(ETHTOOL_GGRO)?, get_value(ETHTOOL_GFLAGS)?],
        };
        apart
            .set([0, apart.was[1] & !ETH_FLAG_LRO])
            .map_err(|error| refused("does not stop merging packets", error))?;
        let on = get_value(ETHTOOL_GGRO)? != 0 || get_value(ETHTOOL_GFLAGS)? & ETH_FLAG_LRO != 0;
        if on {
            let error = io::Error::other("it accepted the setting, but GRO or LRO is still on");
            return Err(refused("does not stop merging packets", error));
        }
        Ok(apart)
    }

    /// Sets the values that differ.
    fn set(&self, [gro, flags]: [u32; 2]) -> io::Result<()> {
        for (asks, sets, value) in [
            (ETHTOOL_GGRO, ETHTOOL_SGRO, gro),
            (ETHTOOL_GFLAGS, ETHTOOL_SFLAGS, flags),
        ] {
            if ethtool_value(&self.interface, asks)? != value {
                set_ethtool_value(&self.interface, sets, value)?;
            }
        }
        Ok(())
    }
}

impl Drop for GroDisabled {
    fn drop(&mut self) {
        // The interface may be gone.
        let _ = self.set(self.was);
    }
}
