//! An AF_XDP socket in copy mode, and the program that feeds it.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use super::socket::{index_of, set};

const CHUNK: usize = 2048;
const SLOTS: u32 = 1024;
/// `BPF_XDP`, an attachment type.
const ATTACH_XDP: u32 = 37;

fn bpf(command: i32, words: &mut [u64]) -> i32 {
    // SAFETY: the attributes, and what they point to, are live.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            words.as_mut_ptr(),
            std::mem::size_of_val(words),
        )
    };
    assert!(answer >= 0, "bpf {command}: {}", io::Error::last_os_error());
    answer as i32
}

const fn pair(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

fn own(fd: i32) -> OwnedFd {
    // SAFETY: a fresh descriptor.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Attaches `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_ABORTED)` to an interface.
fn feed(interface: &str, socket: &OwnedFd) -> [OwnedFd; 3] {
    // An XSKMAP with one socket, indexed by queue.
    let map = own(bpf(0, &mut [pair(17, 4), pair(4, 1)]));
    let (key, value) = (0_u32, socket.as_raw_fd());
    let at = |one: *const u32| one as u64;
    let value_at = (&raw const value).cast::<u32>();
    bpf(
        2,
        &mut [map.as_raw_fd() as u64, at(&raw const key), at(value_at), 0],
    );
    let insn = |code: u8, registers: u8, offset: i16, imm: i32| -> u64 {
        u64::from(code)
            | u64::from(registers) << 8
            | u64::from(offset as u16) << 16
            | u64::from(imm as u32) << 32
    };
    let program = [
        insn(0x61, 0x12, 16, 0),
        insn(0x18, 0x11, 0, map.as_raw_fd()),
        0,
        insn(0xb7, 0x03, 0, 0),
        insn(0x85, 0, 0, 51),
        insn(0x95, 0, 0, 0),
    ];
    let license = c"GPL";
    let program = own(bpf(
        5,
        &mut [
            pair(6, program.len() as u32),
            program.as_ptr() as u64,
            license.as_ptr() as u64,
            0,
            0,
            0,
        ],
    ));
    let link = own(bpf(
        28,
        &mut [
            pair(program.as_raw_fd() as u32, index_of(interface)),
            pair(ATTACH_XDP, 0),
        ],
    ));
    [map, program, link]
}

/// One of the four rings.
struct Queue {
    producer: *mut AtomicU32,
    consumer: *mut AtomicU32,
    slots: *mut u8,
}

impl Queue {
    fn map(fd: &OwnedFd, offset: u64, layout: &libc::xdp_ring_offset, slot: usize) -> Self {
        // SAFETY: maps a descriptor at an address chosen by the kernel.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                layout.desc as usize + SLOTS as usize * slot,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd.as_raw_fd(),
                offset as i64,
            )
        };
        assert_ne!(base, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        let base = base.cast::<u8>();
        // SAFETY: within the mapping, at the offsets that the kernel reported.
        unsafe {
            Self {
                producer: base.add(layout.producer as usize).cast(),
                consumer: base.add(layout.consumer as usize).cast(),
                slots: base.add(layout.desc as usize),
            }
        }
    }

    fn filled(&self) -> (u32, u32) {
        // SAFETY: both are in the mapping, which is never unmapped.
        unsafe {
            let end = (*self.producer).load(Ordering::Acquire);
            ((*self.consumer).load(Ordering::Acquire), end)
        }
    }

    fn slot<T>(&self, n: u32) -> *mut T {
        // SAFETY: within the ring.
        unsafe { self.slots.cast::<T>().add((n % SLOTS) as usize) }
    }

    fn produce(&self, end: u32) {
        // SAFETY: in the mapping.
        unsafe { (*self.producer).store(end, Ordering::Release) };
    }

    fn consume(&self, end: u32) {
        // SAFETY: in the mapping.
        unsafe { (*self.consumer).store(end, Ordering::Release) };
    }
}

pub struct Xsk {
    fd: OwnedFd,
    _feed: Option<[OwnedFd; 3]>,
    memory: *mut u8,
    fill: Queue,
    completion: Queue,
    /// The queue of incoming packets, or of outgoing ones.
    packets: Queue,
    sum: u64,
}

impl Xsk {
    /// Opens a socket that receives, or one that sends.
    pub fn open(interface: &str, receives: bool) -> Self {
        // SAFETY: no pointers; the result is checked by what follows.
        let fd = own(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW, 0) });
        let len = CHUNK * SLOTS as usize;
        // SAFETY: fresh memory.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        assert_ne!(memory, libc::MAP_FAILED);
        let area = libc::xdp_umem_reg {
            addr: memory as u64,
            len: len as u64,
            chunk_size: CHUNK as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &area);
        set(&fd, libc::SOL_XDP, libc::XDP_UMEM_FILL_RING, &SLOTS);
        set(&fd, libc::SOL_XDP, libc::XDP_UMEM_COMPLETION_RING, &SLOTS);
        let ring = if receives {
            libc::XDP_RX_RING
        } else {
            libc::XDP_TX_RING
        };
        set(&fd, libc::SOL_XDP, ring, &SLOTS);
        // SAFETY: plain data, filled in.
        let offsets = unsafe {
            let mut offsets: libc::xdp_mmap_offsets = zeroed();
            let mut size = size_of::<libc::xdp_mmap_offsets>() as u32;
            let answer = libc::getsockopt(
                fd.as_raw_fd(),
                libc::SOL_XDP,
                libc::XDP_MMAP_OFFSETS,
                (&raw mut offsets).cast(),
                &raw mut size,
            );
            assert_eq!(answer, 0, "{}", io::Error::last_os_error());
            offsets
        };
        let descriptor = size_of::<libc::xdp_desc>();
        let packets = if receives {
            Queue::map(&fd, libc::XDP_PGOFF_RX_RING as u64, &offsets.rx, descriptor)
        } else {
            Queue::map(&fd, libc::XDP_PGOFF_TX_RING as u64, &offsets.tx, descriptor)
        };
        let socket = Self {
            fill: Queue::map(&fd, libc::XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, 8),
            completion: Queue::map(&fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, 8),
            packets,
            _feed: receives.then(|| feed(interface, &fd)),
            memory: memory.cast(),
            fd,
            sum: 0,
        };
        socket.start(interface, receives);
        socket
    }

    fn start(&self, interface: &str, receives: bool) {
        if receives {
            for n in 0..SLOTS {
                // SAFETY: a slot of the ring.
                unsafe { *self.fill.slot::<u64>(n) = u64::from(n) * CHUNK as u64 };
            }
            self.fill.produce(SLOTS);
        }
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_COPY,
            sxdp_ifindex: index_of(interface),
            sxdp_queue_id: 0,
            sxdp_shared_umem_fd: 0,
        };
        // SAFETY: a valid address of its size.
        let answer = unsafe {
            libc::bind(
                self.fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_xdp>() as u32,
            )
        };
        assert_eq!(answer, 0, "{}", io::Error::last_os_error());
    }

    pub fn take(&mut self, _most: usize) -> usize {
        let (from, to) = self.packets.filled();
        let (_, fill) = self.fill.filled();
        for n in 0..to.wrapping_sub(from) {
            // SAFETY: slots of the rings, and a chunk that is ours until it is back in the fill
            // ring.
            unsafe {
                let packet = *self.packets.slot::<libc::xdp_desc>(from.wrapping_add(n));
                let last = packet.addr as usize + packet.len as usize - 1;
                self.sum += u64::from(*self.memory.add(last));
                let chunk = packet.addr & !(CHUNK as u64 - 1);
                *self.fill.slot::<u64>(fill.wrapping_add(n)) = chunk;
            }
        }
        self.packets.consume(to);
        self.fill.produce(fill.wrapping_add(to.wrapping_sub(from)));
        to.wrapping_sub(from) as usize
    }

    pub fn give(&mut self, frames: &[Vec<u8>]) -> usize {
        let (_, end) = self.packets.filled();
        for (n, frame) in frames.iter().enumerate() {
            let slot = end.wrapping_add(n as u32);
            let chunk = (slot % SLOTS) as usize * CHUNK;
            // SAFETY: a chunk that completed long ago: at most 64 are outstanding.
            unsafe {
                std::ptr::copy_nonoverlapping(frame.as_ptr(), self.memory.add(chunk), frame.len());
                *self.packets.slot::<libc::xdp_desc>(slot) = libc::xdp_desc {
                    addr: chunk as u64,
                    len: frame.len() as u32,
                    options: 0,
                };
            }
        }
        self.packets.produce(end.wrapping_add(frames.len() as u32));
        let mut tries = 0;
        while self.packets.filled().0 != self.packets.filled().1 && tries < 100 {
            tries += 1;
            // SAFETY: no data other than the ring's.
            unsafe {
                libc::sendto(
                    self.fd.as_raw_fd(),
                    std::ptr::null(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null(),
                    0,
                )
            };
        }
        let (from, to) = self.completion.filled();
        self.completion.consume(to);
        to.wrapping_sub(from) as usize
    }
}

impl Drop for Xsk {
    fn drop(&mut self) {
        std::hint::black_box(self.sum);
    }
}
