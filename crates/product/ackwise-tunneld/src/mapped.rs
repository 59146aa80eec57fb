//! A map's memory.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// Memory of a map, which programs and the kernel see, too: no system call, and no right,
/// is needed to look at it. Unmapped when this is dropped.
#[derive(Debug)]
pub(crate) struct Mapped {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is this value's own; it moves to another thread with it.
unsafe impl Send for Mapped {}

impl Mapped {
    /// All of a map that holds one `T`, to read and to write.
    pub fn whole<T>(map: BorrowedFd<'_>) -> io::Result<Self> {
        let may = libc::PROT_READ | libc::PROT_WRITE;
        Self::part(map, 0, size_of::<T>(), may)
    }

    /// `len` bytes from `at` on, a page's start.
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

    /// Where it begins: at a page.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
