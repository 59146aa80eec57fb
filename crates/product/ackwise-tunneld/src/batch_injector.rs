//! Delivers many packets with one system call; see `bpf/inject.bpf.c`.

use std::cell::Cell;
use std::io;
use std::os::fd::AsFd;

use ackwise_bpf::inject as sys;
use ackwise_netdev::{Role, TunDevice, kernel};
use ackwise_policy::LinkKind;
use aya::maps::{Map, MapData};
use aya::programs::{ProgramError, TestRun, Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader, TestRunAttrs, TestRunOptions};

use crate::Error;
use crate::map_memory::MapMemory;

const PROGRAM: &str = "ackwise_inject";
const MAP: &str = "inject";

/// The largest batch.
pub(crate) const SLOTS: usize = sys::AW_INJECT_SLOTS as usize;
/// The longest packet in bytes.
pub(crate) const MAX_PACKET: usize = sys::AW_INJECT_MAX_LEN as usize;

/// The first kernel version whose frames lie in their pages as the stack expects, in all of
/// its stable releases.
const MIN_KERNEL: (u32, u32) = (6, 6);
/// The packets that the stack gets as one list. Each is in a page of its own, and the kernel
/// keeps this many pages for a second after each call.
const BATCH: u32 = 32;
/// The bytes of a frame with an Ethernet header, as the program expects it.
const FRAME: usize = 14 + MAX_PACKET;
/// The bytes of the kernel's `struct xdp_md`.
const CONTEXT: usize = 24;

/// The BPF program that delivers packets through a device, and the memory with the packets.
pub(crate) struct BatchInjector {
    bpf: Ebpf,
    /// The device that the program is attached to, so that the kernel keeps it in its table of XDP
    /// programs. Otherwise each run would add and remove it, and wait for all CPUs. No packet
    /// arrives through this device.
    anchor: TunDevice,
    shared: Memory,
    filled: Cell<usize>,
    frame: [u8; FRAME],
    context: [u8; CONTEXT],
}

impl std::fmt::Debug for BatchInjector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchInjector")
            .field("filled", &self.filled)
            .finish_non_exhaustive()
    }
}

impl BatchInjector {
    /// Loads the program. This needs privileges; [`BatchInjector::run`] does not.
    ///
    /// # Errors
    /// Fails if the kernel has no support for it, or refuses.
    pub fn load(device: &TunDevice) -> Result<Self, Error> {
        let fail = |why: &dyn std::error::Error| ackwise_netdev::Error::program(&device.name, why);
        if kernel::version().is_some_and(|version| version < MIN_KERNEL) {
            let (major, minor) = MIN_KERNEL;
            let why = format!("the kernel is older than {major}.{minor}");
            let interface = device.name.clone();
            return Err(ackwise_netdev::Error::Program { interface, why }.into());
        }
        let mut bpf = EbpfLoader::new()
            .override_global("inject_device", &device.index, true)
            .load(sys::OBJECT)
            .map_err(|e| fail(&e))?;
        let Some(Map::Array(map)) = bpf.map(MAP) else {
            return Err(ackwise_netdev::Error::no_map(MAP).into());
        };
        let shared = Memory::of(map).map_err(Error::system("map the program's memory"))?;
        let anchor = TunDevice::open("awtunput%d", LinkKind::Ethernet, 1500, Role::Anchor)?;
        let program = bpf.program_mut(PROGRAM);
        let program = program.ok_or_else(|| ackwise_netdev::Error::no_program(PROGRAM))?;
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

    /// Runs the program without a packet, to find out whether this thread is permitted to.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn probe(&self) -> io::Result<()> {
        self.shared.set(0, 0);
        self.call(2)
    }

    /// Checks that the program is still attached. Otherwise each call would take long.
    ///
    /// # Errors
    /// Fails if the device was deleted.
    pub fn check(&self) -> Result<(), Error> {
        if self.anchor.exists() {
            return Ok(());
        }
        Err(ackwise_netdev::Error::DeviceGone(self.anchor.name.clone()).into())
    }

    /// Returns the number of packets in the batch.
    pub fn len(&self) -> usize {
        self.filled.get()
    }

    /// Adds a packet to the batch. Returns whether it fits.
    pub fn push(&self, packet: &[u8]) -> bool {
        let at = self.filled.get();
        if at >= SLOTS || packet.is_empty() || packet.len() > MAX_PACKET {
            return false;
        }
        self.shared.fill(at, packet);
        self.filled.set(at + 1);
        true
    }

    /// Delivers the batch in order. Returns how many packets the kernel took, and an error if
    /// it stopped there. The caller must [take](BatchInjector::take) the others.
    pub fn run(&self) -> (usize, io::Result<()>) {
        let count = self.filled.get();
        self.shared.set(0, count as u32);
        // The kernel would not use the table of programs for a single packet.
        let done = self.call(count.max(2) as u32);
        (self.shared.next().min(count), done)
    }

    /// Empties the batch and shows the packets from index `from` on.
    pub fn take(&self, from: usize, mut visit: impl FnMut(&[u8])) {
        let mut room = [0; MAX_PACKET];
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

/// The memory that the program and this process share. The program runs only while this thread
/// waits for its call.
struct Memory(MapMemory);

impl Memory {
    fn of(map: &MapData) -> io::Result<Self> {
        MapMemory::whole::<sys::aw_inject>(map.fd().as_fd()).map(Self)
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

    /// Returns the locations of a packet's length and bytes.
    fn slot(&self, at: usize) -> (*mut u16, *mut u8) {
        assert!(at < SLOTS, "slot {at} of {SLOTS}");
        let shared = self.shared();
        // SAFETY: elements of arrays of the mapped struct, which have `SLOTS` of them.
        unsafe {
            let len = (&raw mut (*shared).len).cast::<u16>().add(at);
            let bytes = (&raw mut (*shared).packets).cast::<u8>();
            (len, bytes.add(at * MAX_PACKET))
        }
    }

    fn fill(&self, at: usize, packet: &[u8]) {
        assert!(packet.len() <= MAX_PACKET);
        let (len, bytes) = self.slot(at);
        // SAFETY: a slot of the mapping, with room for the packet, which is elsewhere.
        unsafe {
            len.write_volatile(packet.len() as u16);
            bytes.copy_from_nonoverlapping(packet.as_ptr(), packet.len());
        }
    }

    fn read<'a>(&self, at: usize, room: &'a mut [u8; MAX_PACKET]) -> &'a [u8] {
        let (len, bytes) = self.slot(at);
        // SAFETY: a slot of the mapping, as long as the room, which is elsewhere.
        let len = unsafe {
            bytes.copy_to_nonoverlapping(room.as_mut_ptr(), MAX_PACKET);
            len.read_volatile()
        };
        &room[..usize::from(len).min(MAX_PACKET)]
    }
}
