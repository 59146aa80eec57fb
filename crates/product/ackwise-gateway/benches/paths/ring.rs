//! Packet sockets with rings in shared memory.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use super::socket::{bind, packet_socket, set};

const BLOCK: usize = 1 << 16;
const BLOCKS: usize = 64;
const FRAME: usize = 2048;
const ALL: u16 = 3_u16.to_be();

fn map(fd: &OwnedFd, len: usize, offset: i64) -> *mut u8 {
    // SAFETY: maps a descriptor at an address chosen by the kernel.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            fd.as_raw_fd(),
            offset,
        )
    };
    assert_ne!(at, libc::MAP_FAILED, "{}", io::Error::last_os_error());
    at.cast()
}

/// A receive ring, version 3: packets arrive in blocks, when a block is full or its time (at least
/// 1 ms) is over.
pub struct Ring {
    _fd: OwnedFd,
    at: *mut u8,
    block: usize,
    sum: u64,
}

impl Ring {
    pub fn open(interface: &str) -> Self {
        let fd = packet_socket(interface, 0);
        let version = libc::tpacket_versions::TPACKET_V3 as i32;
        set(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version);
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: (BLOCK / FRAME * BLOCKS) as u32,
            tp_retire_blk_tov: 1,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request);
        let at = map(&fd, BLOCK * BLOCKS, 0);
        bind(&fd, interface, ALL);
        Self {
            _fd: fd,
            at,
            block: 0,
            sum: 0,
        }
    }

    /// Reads all blocks that are ready; up to a block's worth may arrive later.
    pub fn take(&mut self, _most: usize) -> usize {
        let mut count = 0;
        loop {
            // SAFETY: a block of the mapping, whose header the kernel maintains; the packets of a
            // block that we own are ours.
            unsafe {
                let block = self.at.add(self.block * BLOCK);
                let header = &raw mut (*block.cast::<libc::tpacket_block_desc>()).hdr.bh1;
                let status = AtomicU32::from_ptr(&raw mut (*header).block_status);
                if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                    return count;
                }
                let mut packet = block.add((*header).offset_to_first_pkt as usize);
                for _ in 0..(*header).num_pkts {
                    let one = packet.cast::<libc::tpacket3_hdr>();
                    let bytes = packet.add(usize::from((*one).tp_mac));
                    self.sum += u64::from(*bytes.add((*one).tp_snaplen as usize - 1));
                    packet = packet.add((*one).tp_next_offset as usize);
                    count += 1;
                }
                status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            }
            self.block = (self.block + 1) % BLOCKS;
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        std::hint::black_box(self.sum);
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.at.cast(), BLOCK * BLOCKS) };
    }
}

/// A send ring, version 2.
pub struct TxRing {
    fd: OwnedFd,
    at: *mut u8,
    next: usize,
}

const SLOTS: usize = 256;
/// Length of a version 2 header in bytes, aligned to 16.
const HEADER: usize = 32;

impl TxRing {
    pub fn open(interface: &str) -> Self {
        let fd = packet_socket(interface, 0);
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        set(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version);
        let request = libc::tpacket_req {
            tp_block_size: (FRAME * SLOTS) as u32,
            tp_block_nr: 1,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: SLOTS as u32,
        };
        set(&fd, libc::SOL_PACKET, libc::PACKET_TX_RING, &request);
        let at = map(&fd, FRAME * SLOTS, 0);
        Self { fd, at, next: 0 }
    }

    pub fn send(&mut self, frames: &[Vec<u8>]) {
        for frame in frames {
            // SAFETY: a slot of the mapping that is free: fewer are outstanding than there are, and
            // send() below waits for them.
            unsafe {
                let slot = self.at.add(self.next * FRAME);
                let header = slot.cast::<libc::tpacket2_hdr>();
                let data = slot.add(HEADER);
                std::ptr::copy_nonoverlapping(frame.as_ptr(), data, frame.len());
                (*header).tp_len = frame.len() as u32;
                let status = AtomicU32::from_ptr(&raw mut (*header).tp_status);
                assert_eq!(status.load(Ordering::Acquire), libc::TP_STATUS_AVAILABLE);
                status.store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
            }
            self.next = (self.next + 1) % SLOTS;
        }
        // SAFETY: no data other than the ring's.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), std::ptr::null(), 0, 0) };
        assert!(sent > 0, "{}", io::Error::last_os_error());
    }
}

impl Drop for TxRing {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.at.cast(), FRAME * SLOTS) };
    }
}
