//! Frames of all interfaces of a namespace, through memory shared with the kernel (`TPACKET_V3`):
//! one system call for thousands of frames.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use ackwise_netdev::packet_socket::{self, Layer, Receives};
use ackwise_netdev::sockopt::{self, attach_filter, instruction, set_int};

/// Bytes kept of a frame: enough for every header and option.
pub(super) const SNAP: usize = 256;
const BLOCK: usize = 256 * 1024;
const BLOCKS: usize = 64;
/// Timeout after which the kernel hands over a block that is not full, ms.
pub(super) const RETIRE_MS: u16 = 50;
const PACKET_OUTGOING: u8 = 4;
// Offsets in struct tpacket_block_desc and struct tpacket3_hdr.
const STATUS: usize = 8;
const HEADER: usize = 48;

/// A frame in the ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    /// The interface on which it was seen.
    pub interface: i32,
    /// Whether the frame left by the interface; otherwise it arrived.
    pub outgoing: bool,
    /// The first bytes of the frame.
    pub bytes: &'a [u8],
    /// The length of the whole frame.
    pub length: usize,
    /// Time of capture by the real-time clock.
    pub realtime_ns: u64,
}

#[derive(Debug)]
pub(super) struct Ring {
    socket: OwnedFd,
    memory: NonNull<u8>,
    next: usize,
}

// SAFETY: the mapping belongs to this value alone, on whatever thread it is.
unsafe impl Send for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped in `open` with this length; no slice of it is left.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), BLOCK * BLOCKS) };
    }
}

/// A filter that accepts everything except frames on these interfaces.
fn filter(skip: &[i32]) -> Vec<libc::sock_filter> {
    let interface = (libc::SKF_AD_OFF + libc::SKF_AD_IFINDEX) as u32;
    let mut program = vec![instruction(
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        0,
        0,
        interface,
    )];
    for (index, &skipped) in skip.iter().enumerate() {
        // Jumps to the last instruction, which drops.
        let over = (skip.len() - index) as u8;
        program.push(instruction(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            over,
            0,
            skipped as u32,
        ));
    }
    program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, 0, SNAP as u32));
    program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0));
    program
}

impl Ring {
    /// Opens a ring in the calling thread's namespace; frames on the interfaces in `skip` are left
    /// out.
    pub fn open(skip: &[i32]) -> io::Result<Self> {
        let socket = packet_socket::open(Layer::Link)?;
        attach_filter(&socket, &filter(skip))?;
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set_int(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, version)?;
        // struct tpacket_req3
        let request: [u32; 7] = [
            BLOCK as u32,
            BLOCKS as u32,
            BLOCK as u32,
            BLOCKS as u32,
            u32::from(RETIRE_MS),
            0,
            0,
        ];
        sockopt::set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping of a live descriptor, at an address that the kernel chooses.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                BLOCK * BLOCKS,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let ring = Self {
            socket,
            memory,
            next: 0,
        };
        packet_socket::bind(&ring.socket, None, Receives::All)?;
        Ok(ring)
    }

    /// The descriptor to poll for frames.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Hands out the available frames in order; returns `false` if there were none.
    pub fn drain(&mut self, mut each: impl FnMut(Frame<'_>)) -> bool {
        let mut any = false;
        loop {
            // SAFETY: within the mapping; aligned, as blocks and the mapping are.
            let status = unsafe {
                let at = self.memory.as_ptr().add(self.next * BLOCK + STATUS);
                AtomicU32::from_ptr(at.cast())
            };
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return any;
            }
            any = true;
            // SAFETY: the block is ours until its status is given back below.
            let block = unsafe {
                std::slice::from_raw_parts(self.memory.as_ptr().add(self.next * BLOCK), BLOCK)
            };
            frames(block, &mut each);
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % BLOCKS;
        }
    }

    /// Frames that were lost for lack of room.
    pub fn missed(&self) -> u32 {
        packet_socket::missed(&self.socket)
    }
}

fn frames(block: &[u8], each: &mut impl FnMut(Frame<'_>)) {
    let word = |at: usize| {
        block
            .get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u32::from_ne_bytes)
    };
    let mut at = word(16) as usize;
    for _ in 0..word(12) {
        let kept = word(at + 12) as usize;
        let mac = at + (word(at + 24) & 0xffff) as usize;
        if let (Some(bytes), Some(&kind)) =
            (block.get(mac..mac + kept), block.get(at + HEADER + 10))
        {
            each(Frame {
                interface: word(at + HEADER + 4) as i32,
                outgoing: kind == PACKET_OUTGOING,
                bytes,
                length: word(at + 16) as usize,
                realtime_ns: u64::from(word(at + 4)) * 1_000_000_000 + u64::from(word(at + 8)),
            });
        }
        at += word(at) as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_in_their_block() {
        let mut block = vec![0; 1024];
        let mut put = |at: usize, value: u32| {
            block[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        };
        put(12, 2);
        put(16, 48);
        for (at, next, index) in [(48, 200, 3), (248, 0, 4)] {
            put(at, next);
            put(at + 4, 1);
            put(at + 8, 5);
            put(at + 12, 10);
            put(at + 16, 1514);
            put(at + 24, 100);
            put(at + HEADER + 4, index);
        }
        block[248 + HEADER + 10] = PACKET_OUTGOING;
        block[148] = 0xaa;
        let mut seen = Vec::new();
        frames(&block, &mut |frame| {
            assert_eq!((frame.bytes.len(), frame.length), (10, 1514));
            seen.push((
                frame.interface,
                frame.outgoing,
                frame.realtime_ns,
                frame.bytes[0],
            ));
        });
        assert_eq!(
            seen,
            [(3, false, 1_000_000_005, 0xaa), (4, true, 1_000_000_005, 0)]
        );
    }

    #[test]
    fn a_filter_jumps_to_its_last_instruction() {
        let program = filter(&[7, 8]);
        let codes: Vec<(u8, u32)> = program.iter().map(|op| (op.jt, op.k)).collect();
        assert_eq!(codes[1..], [(2, 7), (1, 8), (0, SNAP as u32), (0, 0)]);
    }
}
