//! Copies of the ACKs that were taken: the kernel's ring buffer, read without system calls.
//!
//! What was read is given back to the kernel once nothing is left, or a quarter of the ring
//! was read: to do so for each record costs as much as to look at it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};

use aya::maps::MapData;

use crate::mapped::Mapped;

/// `linux/bpf.h`: it is being written; it is of no use; the header's bytes.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: usize = 8;

/// The reading end of a map of type `BPF_MAP_TYPE_RINGBUF`.
#[derive(Debug)]
pub(crate) struct Ring {
    map: MapData,
    /// A page that this side writes.
    consumer: Mapped,
    /// A page that the kernel writes, and its records, mapped twice, so that each is in one
    /// piece.
    producer: Mapped,
    page: usize,
    size: usize,
    /// Bytes read so far, given back, and written.
    read: usize,
    given: usize,
    written: usize,
}

impl Ring {
    /// Maps a ring of `size` bytes, a power of two; nobody else reads it.
    pub fn map(map: MapData, size: usize) -> io::Result<Self> {
        // SAFETY: no pointers.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).map_err(io::Error::other)?;
        let read = libc::PROT_READ;
        let consumer = Mapped::part(map.fd().as_fd(), 0, page, read | libc::PROT_WRITE)?;
        let producer = Mapped::part(map.fd().as_fd(), page, page + 2 * size, read)?;
        Ok(Self {
            map,
            consumer,
            producer,
            page,
            size,
            read: 0,
            given: 0,
            written: 0,
        })
    }

    /// The next record, if one is there.
    pub fn next(&mut self) -> Option<&[u8]> {
        loop {
            if self.read == self.written {
                // SAFETY: the kernel keeps a counter at the start of this page.
                let written =
                    unsafe { AtomicUsize::from_ptr(self.producer.start().as_ptr().cast()) };
                self.written = written.load(Ordering::Acquire);
            }
            if self.read == self.written {
                self.give_back();
                return None;
            }
            let at = self.page + (self.read & (self.size - 1));
            // SAFETY: within the mapping, as the counter is taken modulo the ring's size; the
            // header is aligned to 8 bytes.
            let record = unsafe { self.producer.start().add(at) };
            // SAFETY: as above; the kernel changes it with one store.
            let head = unsafe { AtomicU32::from_ptr(record.as_ptr().cast()) };
            let head = head.load(Ordering::Acquire);
            if head & BUSY != 0 {
                self.give_back();
                return None;
            }
            let len = (head & !(BUSY | DISCARDED)) as usize;
            self.read = self.read.wrapping_add(length(len));
            if self.read.wrapping_sub(self.given) > self.size / 4 {
                // The last is still looked at.
                self.give(self.read.wrapping_sub(length(len)));
            }
            if head & DISCARDED == 0 && HEADER + len <= self.size {
                // SAFETY: a record is at most as long as the ring, which is mapped twice. The
                // kernel does not write it again before it was given back, and that needs
                // `&mut self`.
                return Some(unsafe {
                    std::slice::from_raw_parts(record.as_ptr().add(HEADER), len)
                });
            }
        }
    }

    fn give_back(&mut self) {
        self.give(self.read);
    }

    fn give(&mut self, until: usize) {
        if until == self.given {
            return;
        }
        self.given = until;
        // SAFETY: the kernel expects a counter at the start of this page.
        let given = unsafe { AtomicUsize::from_ptr(self.consumer.start().as_ptr().cast()) };
        given.store(until, Ordering::Release);
        // Whoever writes after this looks at the counter, and wakes; what was written before
        // is seen by who sleeps.
        fence(Ordering::SeqCst);
    }
}

/// Of a record, to the next.
fn length(len: usize) -> usize {
    (HEADER + len).next_multiple_of(8)
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.fd().as_fd()
    }
}
