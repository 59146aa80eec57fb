//! Checks that this kernel does not report a withheld ACK to its socket.
//!
//! The datapath withholds by a redirect to an interface that does not exist ([decision
//! 6](https://github.com/ackwise/ackwise/blob/main/docs/decisions/0006-silent-drop.md)). No
//! document promises that the sender of such a packet is not told. If it were told, TCP would count
//! the ACK as dropped by its own host. So this creates a device for a moment, attaches a program
//! that drops in the same way, and sends a packet: the sender must not get an error.

use ackwise_bpf::silence as sys;
use ackwise_netdev::kernel::release;
use ackwise_netdev::{
    AttachMode, AttachOptions, Attachment, Direction, Interface, Order, PacketSocket, Role,
    TunDevice,
};
use ackwise_policy::LinkKind;
use aya::EbpfLoader;
use aya::programs::SchedClassifier;

use crate::Error;
use crate::error::{load_error, program_error};

const PROGRAM: &str = "ackwise_silence";
/// The mark of the packet. No program reads it.
const MARK: u32 = 1;
/// An IPv4 header of protocol 253, which is for experiments (RFC 3692).
const PACKET: [u8; 20] = [
    0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0, 192, 0, 0, 8, 192, 0, 0, 8,
];

/// Checks that the sender of a packet gets no error if it is dropped like a withheld ACK.
/// This touches no interface other than a device of its own.
///
/// # Errors
/// [`Error::NotSilent`] if the sender is told, or an error if the kernel refuses something.
pub fn check_silent_drop(mode: AttachMode) -> Result<(), Error> {
    check(mode, sys::aw_silence_options::default())
}

fn check(mode: AttachMode, options: sys::aw_silence_options) -> Result<(), Error> {
    let device = match TunDevice::open("awsilent%d", LinkKind::Ip, 1500, Role::Redirect) {
        Ok(device) => device,
        // The datapath at a receiver does not need such a device.
        Err(error) => {
            tracing::warn!("cannot test whether dropped ACKs are reported to the socket: {error}");
            return Ok(());
        }
    };
    let mut bpf = EbpfLoader::new()
        .override_global("silence_options", &options, true)
        .load(sys::OBJECT)
        .map_err(|error| load_error(error, 0))?;
    let program: &mut SchedClassifier = bpf
        .program_mut(PROGRAM)
        .and_then(|program| program.try_into().ok())
        .ok_or_else(|| Error::Object(format!("program {PROGRAM}")))?;
    program.load().map_err(|e| program_error(PROGRAM, e))?;
    let _attached = Attachment::attach(
        &mut bpf,
        PROGRAM,
        &AttachOptions {
            interface: &device.name,
            direction: Direction::Egress,
            mode,
            order: Order::First,
        },
    )?;
    let socket = PacketSocket::open(Interface::find(&device.name)?, MARK)?;
    let sent = socket.send(&[PACKET]);
    let was_sent = was_sent(&device);
    if sent.packets == 1 && !was_sent {
        return Ok(());
    }
    Err(Error::NotSilent {
        release: release(),
        what: if was_sent {
            "it sends such a packet all the same"
        } else {
            "it reports such a packet to the socket as lost"
        },
    })
}

/// Whether the packet was sent to the device. Others may arrive: where `/proc/sys` is read-only, as
/// in a container, the device has IPv6, and the kernel announces itself on it.
fn was_sent(device: &TunDevice) -> bool {
    let mut buffer = [0; 1500];
    while let Ok(Some(len)) = device.recv(&mut buffer) {
        if buffer[..len] == PACKET {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use ackwise_testbed::Netns;

    #[test]
    fn what_the_kernel_itself_sends_to_the_device_is_not_the_packet() {
        use nix::mount::{MsFlags, mount};
        use nix::sched::{CloneFlags, unshare};

        let verdict = |verdict| {
            Netns::new().run(|| {
                // A mount namespace for this thread, in which /proc/sys cannot be written.
                unshare(CloneFlags::CLONE_NEWNS).unwrap();
                let change = |source, target, flags| {
                    mount::<_, _, str, str>(source, target, None, flags, None).unwrap();
                };
                change(None, "/", MsFlags::MS_REC | MsFlags::MS_PRIVATE);
                change(Some("/proc/sys"), "/proc/sys", MsFlags::MS_BIND);
                let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
                change(None, "/proc/sys", read_only);
                check(AttachMode::Clsact, sys::aw_silence_options { verdict })
            })
        };
        verdict(0).unwrap();
        const TC_ACT_PIPE: u32 = 3; // TC_ACT_PIPE: the packet goes on
        let error = verdict(TC_ACT_PIPE).unwrap_err().to_string();
        assert!(error.contains("all the same"), "{error}");
    }

    #[test]
    fn s2_a_silent_drop_is_told_from_one_that_the_sender_hears_of() {
        const TC_ACT_SHOT: u32 = 2; // TC_ACT_SHOT
        const TC_ACT_PIPE: u32 = 3; // TC_ACT_PIPE: the packet goes on
        for mode in [AttachMode::Tcx, AttachMode::Clsact] {
            let of = |verdict| {
                let options = sys::aw_silence_options { verdict };
                Netns::new().run(|| check(mode, options))
            };
            of(0).unwrap();
            let error = of(TC_ACT_SHOT).unwrap_err().to_string();
            assert!(error.contains("as lost"), "{error}");
            let error = of(TC_ACT_PIPE).unwrap_err().to_string();
            assert!(error.contains("all the same"), "{error}");
        }
    }
}
