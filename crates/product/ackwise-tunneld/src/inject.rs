//! Restored packets, received many at a time: see `bpf/inject.bpf.c`.

use std::cell::Cell;
use std::io;
use std::os::fd::AsFd;

use ackwise_bpf::inject as sys;
use ackwise_netdev::{Role, TunDevice};
use ackwise_policy::LinkKind;
use aya::maps::{Map, MapData};
use aya::programs::{ProgramError, TestRun, Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader, TestRunAttrs, TestRunOptions};

use crate::Error;
use crate::mapped::Mapped;

const PROGRAM: &str = "ackwise_inject";
const MAP: &str = "inject";

/// Packets that fit at a time.
pub(crate) const SLOTS: usize = sys::AW_INJECT_SLOTS as usize;
/// Bytes of the longest that fits.
pub(crate) const LONGEST: usize = sys::AW_INJECT_LONGEST as usize;

/// The first whose frames lie in their pages as the stack expects, in each of its stable
/// series.
const OLDEST: (u32, u32) = (6, 6);
/// Packets that the stack gets as one list. Each is in a page of its own; as many of those
/// are kept for a second after each call as this says.
const BATCH: u32 = 32;
/// A frame as the program wants it, with an Ethernet header.
const FRAME: usize = 14 + LONGEST;
/// Bytes of the kernel's `struct xdp_md`.
const CONTEXT: usize = 24;

/// A program that receives packets by a device, and the memory where it finds them.
pub(crate) struct Injector {
    bpf: Ebpf,
    /// What the program hangs on, so that the kernel keeps it in its table of XDP programs:
    /// else each run entered and removed it, and waited for all CPUs. Nothing comes in here.
    anchor: TunDevice,
    shared: Memory,
    filled: Cell<usize>,
    frame: [u8; FRAME],
    context: [u8; CONTEXT],
}

impl std::fmt::Debug for Injector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Injector")
            .field("filled", &self.filled)
            .finish_non_exhaustive()
    }
}

impl Injector {
    /// Loads the program; needs rights, which [`Injector::run`] does not.
    ///
    /// # Errors
    /// The kernel has not what it needs, or refuses.
    pub fn load(device: &TunDevice) -> Result<Self, Error> {
        let fail = |why: &dyn std::error::Error| ackwise_netdev::Error::program(&device.name, why);
        if release().is_some_and(|release| release < OLDEST) {
            let (major, minor) = OLDEST;
            let why = format!("the kernel is older than {major}.{minor}");
            let interface = device.name.clone();
            return Err(ackwise_netdev::Error::Program { interface, why }.into());
        }
        let mut bpf = EbpfLoader::new()
            .override_global("inject_device", &device.index, true)
            .load(sys::OBJECT)
            .map_err(|e| fail(&e))?;
        let Some(Map::Array(map)) = bpf.map(MAP) else {
            return Err(ackwise_netdev::Error::unusable(MAP).into());
        };
        let shared = Memory::of(map).map_err(Error::system("mapping the program's memory"))?;
        let anchor = TunDevice::open("awtunput%d", LinkKind::Ethernet, 1500, Role::Anchor)?;
        let program = bpf.program_mut(PROGRAM);
        let program = program.ok_or_else(|| ackwise_netdev::Error::unusable(PROGRAM))?;
        let program: &mut Xdp = program.try_into().map_err(|e| fail(&e))?;
        program.load().map_err(|e| fail(&e))?;
        program
            .attach_to_if_index(anchor.index, XdpMode::Driver)
            .map_err(|e| fail(&e))?;
        let mut context = [0; CONTEXT];
        // `data_end` and `ingress_ifindex`.
        context[4..8].copy_from_slice(&(FRAME as u32).to_ne_bytes());
        context[12..16].copy_from_slice(&device.index.to_ne_bytes());
        Ok(Self {
            bpf,
            anchor,
            shared,
            filled: Cell::new(0),
            frame: [0; FRAME],
            context,
        })
    }

    /// Whether this thread may: runs the program, without a packet.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn probe(&self) -> io::Result<()> {
        self.shared.set(0, 0);
        self.call(2)
    }

    /// Whether the program still hangs where it was put; else each call takes long.
    ///
    /// # Errors
    /// Somebody deleted that device.
    pub fn look_around(&self) -> Result<(), Error> {
        if self.anchor.exists() {
            return Ok(());
        }
        Err(ackwise_netdev::Error::DeviceGone(self.anchor.name.clone()).into())
    }

    /// How many packets wait.
    pub fn len(&self) -> usize {
        self.filled.get()
    }

    /// Keeps a packet for [`Injector::run`]; whether it fits.
    pub fn push(&self, packet: &[u8]) -> bool {
        let at = self.filled.get();
        if at >= SLOTS || packet.is_empty() || packet.len() > LONGEST {
            return false;
        }
        self.shared.fill(at, packet);
        self.filled.set(at + 1);
        true
    }

    /// Receives the packets that wait, in their order. How many of them the kernel took;
    /// the others, from there on, are to be [visited](Injector::take).
    ///
    /// # Errors
    /// The kernel stopped there.
    pub fn run(&self) -> (usize, io::Result<()>) {
        let count = self.filled.get();
        self.shared.set(0, count as u32);
        // Of one packet the kernel would not ask for the table, but then this is not for one.
        let done = self.call(count.max(2) as u32);
        (self.shared.next().min(count), done)
    }

    /// Forgets the packets that wait, and shows those from `from` on.
    pub fn take(&self, from: usize, mut visit: impl FnMut(&[u8])) {
        let mut room = [0; LONGEST];
        for at in from..self.filled.replace(0) {
            visit(self.shared.read(at, &mut room));
        }
    }

    fn call(&self, times: u32) -> io::Result<()> {
        let program: &Xdp = self
            .bpf
            .program(PROGRAM)
            .and_then(|program| program.try_into().ok())
            .ok_or(io::ErrorKind::NotFound)?;
        let options = TestRunOptions {
            data_in: Some(&self.frame),
            ctx_in: Some(&self.context),
            repeat: times,
            attrs: TestRunAttrs::new().xdp_live_frames(BATCH),
            ..TestRunOptions::new()
        };
        program
            .test_run(options)
            .map(drop)
            .map_err(|error| match error {
                ProgramError::SyscallError(error) => error.io_error,
                error => io::Error::other(error),
            })
    }
}

/// The kernel's version, if it can be understood.
fn release() -> Option<(u32, u32)> {
    version(&std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?)
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Memory that the program and this process both see, in turns: it only runs while this
/// thread waits for its call.
struct Memory(Mapped);

impl Memory {
    fn of(map: &MapData) -> io::Result<Self> {
        Mapped::whole::<sys::aw_inject>(map.fd().as_fd()).map(Self)
    }

    fn shared(&self) -> *mut sys::aw_inject {
        self.0.start().as_ptr().cast()
    }

    fn set(&self, next: u32, count: u32) {
        let shared = self.shared();
        // SAFETY: fields of the mapped struct.
        unsafe {
            (&raw mut (*shared).next).write_volatile(next);
            (&raw mut (*shared).count).write_volatile(count);
        }
    }

    fn next(&self) -> usize {
        // SAFETY: a field of the mapped struct.
        unsafe { (&raw const (*self.shared()).next).read_volatile() as usize }
    }

    /// Where a packet's length is, and its bytes.
    fn slot(&self, at: usize) -> (*mut u16, *mut u8) {
        assert!(at < SLOTS, "slot {at} of {SLOTS}");
        let shared = self.shared();
        // SAFETY: elements of arrays of the mapped struct, which are so many.
        unsafe {
            let len = (&raw mut (*shared).len).cast::<u16>().add(at);
            let bytes = (&raw mut (*shared).packets).cast::<u8>();
            (len, bytes.add(at * LONGEST))
        }
    }

    fn fill(&self, at: usize, packet: &[u8]) {
        assert!(packet.len() <= LONGEST);
        let (len, bytes) = self.slot(at);
        // SAFETY: a slot of the mapping, with room for the packet, which is elsewhere.
        unsafe {
            len.write_volatile(packet.len() as u16);
            bytes.copy_from_nonoverlapping(packet.as_ptr(), packet.len());
        }
    }

    fn read<'a>(&self, at: usize, room: &'a mut [u8; LONGEST]) -> &'a [u8] {
        let (len, bytes) = self.slot(at);
        // SAFETY: a slot of the mapping, as long as the room, which is elsewhere.
        let len = unsafe {
            bytes.copy_to_nonoverlapping(room.as_mut_ptr(), LONGEST);
            len.read_volatile()
        };
        &room[..usize::from(len).min(LONGEST)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version("6.12.43-uml+\n"), Some((6, 12)));
        assert_eq!(version("6.6\n"), Some((6, 6)));
        assert_eq!(version("5.15.0-1+deb"), Some((5, 15)));
        assert_eq!(version("next"), None);
        assert!((6, 10) > OLDEST && (6, 5) < OLDEST && (5, 19) < OLDEST);
    }
}
