//! Reads the kernel's BPF ring buffer without system calls.
//!
//! Records are released when none is left to read, or when a quarter of the ring has been read.
//! Releasing each record would take as long as reading it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};

use aya::maps::MapData;

use crate::map_memory::MapMemory;

/// The record is still being written (`BPF_RINGBUF_BUSY_BIT`).
const BUSY: u32 = 1 << 31;
/// The record was discarded (`BPF_RINGBUF_DISCARD_BIT`).
const DISCARDED: u32 = 1 << 30;
/// The bytes of the header of a record (`BPF_RINGBUF_HDR_SZ`).
const HEADER: usize = 8;

/// The reading end of a map of type `BPF_MAP_TYPE_RINGBUF`.
#[derive(Debug)]
pub(crate) struct Ring {
    map: MapData,
    /// The page with the consumer position, which this process writes.
    consumer: MapMemory,
    /// The page with the producer position, and the records. They are mapped twice in a row,
    /// so that each record is contiguous.
    producer: MapMemory,
    page: usize,
    size: usize,
    /// The position up to which records were read.
    read: usize,
    /// The position up to which records were released.
    released: usize,
    /// The last known producer position.
    written: usize,
}

impl Ring {
    /// Maps a ring of `size` bytes, a power of two. Nothing else may read it.
    pub fn map(map: MapData, size: usize) -> io::Result<Self> {
        // SAFETY: no pointers.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).map_err(io::Error::other)?;
        let read = libc::PROT_READ;
        let consumer = MapMemory::part(map.fd().as_fd(), 0, page, read | libc::PROT_WRITE)?;
        let producer = MapMemory::part(map.fd().as_fd(), page, page + 2 * size, read)?;
        Ok(Self {
            map,
            consumer,
            producer,
            page,
            size,
            read: 0,
            released: 0,
            written: 0,
        })
    }

    /// Returns the next record, if there is one.
    pub fn next(&mut self) -> Option<&[u8]> {
        loop {
            if self.read == self.written {
                // SAFETY: the producer position is at the start of this page.
                let written =
                    unsafe { AtomicUsize::from_ptr(self.producer.start().as_ptr().cast()) };
                self.written = written.load(Ordering::Acquire);
            }
            if self.read == self.written {
                self.release_all();
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
                self.release_all();
                return None;
            }
            let len = (head & !(BUSY | DISCARDED)) as usize;
            self.read = self.read.wrapping_add(length(len));
            if self.read.wrapping_sub(self.released) > self.size / 4 {
                // The caller still uses the last record.
                self.release(self.read.wrapping_sub(length(len)));
            }
            if head & DISCARDED == 0 && HEADER + len <= self.size {
                // SAFETY: a record is at most as long as the ring, which is mapped twice. The
                // kernel does not overwrite it before it is released, which needs `&mut self`.
                return Some(unsafe {
                    std::slice::from_raw_parts(record.as_ptr().add(HEADER), len)
                });
            }
        }
    }

    fn release_all(&mut self) {
        self.release(self.read);
    }

    fn release(&mut self, until: usize) {
        if until == self.released {
            return;
        }
        self.released = until;
        // SAFETY: the consumer position is at the start of this page.
        let position = unsafe { AtomicUsize::from_ptr(self.consumer.start().as_ptr().cast()) };
        position.store(until, Ordering::Release);
        // A producer that writes after this fence sees the position and wakes this thread. What
        // was written before is seen by the next read.
        fence(Ordering::SeqCst);
    }
}

/// The distance from one record to the next.
fn length(len: usize) -> usize {
    (HEADER + len).next_multiple_of(8)
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.fd().as_fd()
    }
}
