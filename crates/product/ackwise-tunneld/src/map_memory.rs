//! Memory of a BPF map that is mapped into this process.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// Memory of a BPF map, shared with programs and the kernel. Access needs no system call and no
/// privilege. It is unmapped on drop.
#[derive(Debug)]
pub(crate) struct MapMemory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: this value owns the mapping, which moves to another thread with it.
unsafe impl Send for MapMemory {}

impl MapMemory {
    /// Maps a map that holds one `T`, for reading and writing.
    pub fn whole<T>(map: BorrowedFd<'_>) -> io::Result<Self> {
        let may = libc::PROT_READ | libc::PROT_WRITE;
        Self::part(map, 0, size_of::<T>(), may)
    }

    /// Maps `len` bytes at offset `at`, which is the start of a page.
    pub fn part(map: BorrowedFd<'_>, at: usize, len: usize, may: libc::c_int) -> io::Result<Self> {
        let (null, shared) = (std::ptr::null_mut(), libc::MAP_SHARED);
        let at = libc::off_t::try_from(at).map_err(io::Error::other)?;
        // SAFETY: a new mapping; the result is checked.
        let memory = unsafe { libc::mmap(null, len, may, shared, map.as_raw_fd(), at) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// Returns the start, which is page-aligned.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for MapMemory {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and nothing refers to it any longer.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
