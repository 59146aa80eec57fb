//! The BPF program at the egress of the interface; see `bpf/tunnel.bpf.c`.

use std::mem::offset_of;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ackwise_bpf::tunnel as sys;
use ackwise_config::tunnel::Prefix;
use ackwise_netdev::daemon::{Ended, Lifecycle};
use ackwise_netdev::{
    AttachMode, AttachOptions, Attachment, Direction, FilterWatch, Interface, Order,
};
use aya::maps::Map;
use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::programs::SchedClassifier;
use aya::{Ebpf, EbpfLoader};
use portable_atomic::AtomicU64;

use crate::Error;
use crate::map_memory::MapMemory;
use crate::ring::Ring;

const PROGRAM: &str = "ackwise_tunnel";

/// The bytes from one record of the ring to the next, with the header of the record and
/// alignment to 8 bytes.
#[cfg(target_arch = "x86_64")]
const RECORD: usize = (size_of::<sys::aw_tunnel_ack>() + 8).next_multiple_of(8);
/// How many records ahead the CPU prefetches.
#[cfg(target_arch = "x86_64")]
const PREFETCH_DISTANCE: usize = 3;

/// The bits of the address family in a key, before those of the address.
const FAMILY: u32 = 32;

/// The options of the program, which are fixed when it is loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// The time without a read after which the program lets packets pass.
    pub grace: Duration,
    /// The index of the device that packets are redirected to.
    pub device: u32,
    /// The index of the device through which restored packets arrive.
    pub link: u32,
    /// The mark of packets that the tunnel sends through this interface.
    pub cookie: u32,
    /// The mark of the tunnel's datagrams, and of routed packets that bypass the tunnel.
    pub mark: u32,
    /// The maximum length in bytes of carried packets that are not pure ACKs; 0 if none are
    /// carried.
    pub max_other: u32,
}

/// The attached program, and what is shared with it.
pub(crate) struct Installed {
    pub hook: Hook,
    pub state: ProgramState,
    pub acks: Acks,
}

/// The attached program, which the worker shares with the owner of the tunnel. It is detached on
/// drop.
pub(crate) struct Hook {
    /// Keeps the program loaded.
    _bpf: Ebpf,
    attachment: Mutex<Attachment>,
    filter: FilterWatch,
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hook")
            .field("attachment", &self.attachment)
            .finish_non_exhaustive()
    }
}

impl Hook {
    /// Loads and attaches the program. It takes no packets before a peer is
    /// [up](ProgramState::set_up).
    pub fn install<'a>(
        interface: &Interface,
        options: &Options,
        allowed_ips: impl Iterator<Item = (u32, &'a Prefix)> + Clone,
        how: AttachMode,
    ) -> Result<Installed, Error> {
        let fail =
            |why: &dyn std::error::Error| ackwise_netdev::Error::program(&interface.name, why);
        let bpf_options = sys::aw_tunnel_options {
            grace_ns: options.grace.as_nanos() as u64,
            tun_ifindex: options.device,
            restored_ifindex: options.link,
            cookie: options.cookie,
            mark: options.mark,
            max_other_len: options.max_other,
            ..Default::default()
        };
        let mut bpf = EbpfLoader::new()
            .override_global("tunnel_options", &bpf_options, true)
            .map_max_entries("allowed_ips", allowed_ips.clone().count().max(1) as u32)
            .load(sys::OBJECT)
            .map_err(|e| fail(&e))?;
        fill(&mut bpf, allowed_ips)?;
        let state = ProgramState::of(&mut bpf)?;
        let acks = Acks::of(&mut bpf)?;
        let program = bpf
            .program_mut(PROGRAM)
            .ok_or_else(|| ackwise_netdev::Error::no_program(PROGRAM))?;
        let program: &mut SchedClassifier = program.try_into().map_err(|e| fail(&e))?;
        program.load().map_err(|e| fail(&e))?;
        let options = AttachOptions {
            interface: &interface.name,
            direction: Direction::Egress,
            mode: how,
            order: Order::First,
        };
        let attachment = Attachment::attach(&mut bpf, PROGRAM, &options)?;
        let hook = Self {
            _bpf: bpf,
            attachment: Mutex::new(attachment),
            filter: FilterWatch::new(interface.index),
        };
        Ok(Installed { hook, state, acks })
    }

    fn attachment(&self) -> MutexGuard<'_, Attachment> {
        self.attachment
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub fn attach(&self) -> AttachMode {
        self.attachment().mode()
    }

    /// Returns the kernel's id of the program.
    pub fn program(&self) -> u32 {
        self.attachment().program()
    }

    /// Detaches the program. Packets pass from now on.
    pub fn remove(&self) {
        self.attachment().detach();
    }

    /// Returns why the tunnel with this lifecycle has ended, if it has. It may wait for the kernel:
    /// the worker must not call it.
    pub fn ended(&self, lifecycle: &Lifecycle) -> Option<Ended> {
        self.filter
            .ended(lifecycle, || self.attachment().is_attached())
    }
}

/// The copies of ACKs that the program took.
#[derive(Debug)]
pub(crate) struct Acks(Ring);

impl Acks {
    fn of(bpf: &mut Ebpf) -> Result<Self, Error> {
        let Some(Map::RingBuf(map)) = bpf.take_map("acks") else {
            return Err(no_map("acks"));
        };
        let ring = Ring::map(map, sys::AW_TUNNEL_RING as usize);
        ring.map(Self)
            .map_err(Error::system("map the program's memory"))
    }

    /// Copies the next frame into the buffer and returns its length.
    pub fn take(&mut self, room: &mut [u8]) -> Option<usize> {
        let record = self.0.next()?;
        fetch_ahead(record);
        let frame = frame_of(record).unwrap_or_default();
        let room = room.get_mut(..frame.len())?;
        room.copy_from_slice(frame);
        Some(frame.len())
    }
}

/// Prefetches a later record. Another CPU wrote it, and waiting for its cache lines would take
/// half as long as compressing the ACK.
fn fetch_ahead(record: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in [0, 64] {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let at = record
            .as_ptr()
            .wrapping_add(PREFETCH_DISTANCE * RECORD + line);
        // SAFETY: a prefetch reads nothing, and ignores an address that is not mapped.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = record;
}

fn frame_of(record: &[u8]) -> Option<&[u8]> {
    let at = offset_of!(sys::aw_tunnel_ack, len);
    let len = record.get(at..)?.first_chunk().copied()?;
    let bytes = record.get(offset_of!(sys::aw_tunnel_ack, bytes)..)?;
    bytes.get(..u16::from_ne_bytes(len).into())
}

impl AsFd for Acks {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Writes the allowed IPs of each peer into the program's map.
fn fill<'a>(
    bpf: &mut Ebpf,
    allowed_ips: impl Iterator<Item = (u32, &'a Prefix)>,
) -> Result<(), Error> {
    const MAP: &str = "allowed_ips";
    let failed = ackwise_netdev::Error::map(MAP);
    let map = bpf.map_mut(MAP).ok_or_else(|| no_map(MAP))?;
    let mut map: LpmTrie<_, [u8; 20], u32> = LpmTrie::try_from(map).map_err(&failed)?;
    for (peer, prefix) in allowed_ips {
        let mut data = [0; 20];
        let family: u32 = match prefix.address {
            IpAddr::V4(v4) => {
                data[4..8].copy_from_slice(&v4.octets());
                4
            }
            IpAddr::V6(v6) => {
                data[4..].copy_from_slice(&v6.octets());
                6
            }
        };
        data[..4].copy_from_slice(&family.to_ne_bytes());
        let key = Key::new(FAMILY + u32::from(prefix.len), data);
        map.insert(&key, peer, 0).map_err(&failed)?;
    }
    Ok(())
}

fn no_map(name: &str) -> Error {
    ackwise_netdev::Error::no_map(name).into()
}

/// The counters of the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub taken: u64,
    pub returned: u64,
    pub unattended: u64,
}

/// The state that the program and this process share in memory. Access takes no system call
/// and no privilege.
#[derive(Debug)]
pub(crate) struct ProgramState(MapMemory);

impl ProgramState {
    fn of(bpf: &mut Ebpf) -> Result<Self, Error> {
        let Some(Map::Array(map)) = bpf.map_mut("state") else {
            return Err(no_map("state"));
        };
        let memory = MapMemory::whole::<sys::aw_tunnel_state>(map.fd().as_fd());
        memory
            .map(Self)
            .map_err(Error::system("map the program's memory"))
    }

    fn state(&self) -> *mut sys::aw_tunnel_state {
        self.0.start().as_ptr().cast()
    }

    /// A counter or a time. A 32-bit processor without 64-bit atomics may see half of a new value and half
    /// of the old one, once: a counter that is off for one look, or an ACK that passes.
    fn word(&self, of: impl Fn(*mut sys::aw_tunnel_state) -> *mut u64) -> &AtomicU64 {
        // SAFETY: `of` picks a field of the mapped struct, aligned by the compiler of C.
        unsafe { AtomicU64::from_ptr(of(self.state())) }
    }

    /// Tells the program that all redirected packets were read.
    pub fn all_read(&self) {
        // SAFETY: a field of the mapped struct.
        let since = self.word(|state| unsafe { &raw mut (*state).waiting_since });
        // Do not take the cache line from the program's CPU without need.
        if since.load(Ordering::Relaxed) != 0 {
            since.store(0, Ordering::Relaxed);
        }
    }

    /// Sets whether the program takes ACKs for a peer.
    pub fn set_up(&self, peer: usize, up: bool) {
        debug_assert!(peer < sys::AW_TUNNEL_PEERS as usize);
        // SAFETY: the configuration has no more peers than the array has places.
        let word = unsafe {
            let first = (&raw mut (*self.state()).up).cast::<u32>();
            AtomicU32::from_ptr(first.add(peer))
        };
        word.store(u32::from(up), Ordering::Release);
    }

    pub fn counters(&self) -> Counters {
        // SAFETY: fields of the mapped struct.
        let read = |field: fn(*mut sys::aw_tunnel_state) -> *mut u64| {
            self.word(field).load(Ordering::Relaxed)
        };
        Counters {
            // SAFETY: a field of the mapped struct.
            taken: read(|state| unsafe { &raw mut (*state).taken }),
            // SAFETY: as above.
            returned: read(|state| unsafe { &raw mut (*state).returned }),
            // SAFETY: as above.
            unattended: read(|state| unsafe { &raw mut (*state).unattended }),
        }
    }
}
