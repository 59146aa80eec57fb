//! For tests: somebody else has the flows' locks, again and again.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::sys;

/// Longer than a program waits (some 50 us): what a CPU does to the others that its
/// hypervisor takes off for a while, in the middle of a program.
const TAKEN: Duration = Duration::from_micros(150);
const LET_GO: Duration = Duration::from_micros(250);

/// A lock of the programs': `struct aw_lock` of bpf/maps.h.
#[repr(C)]
struct Lock {
    busy: AtomicU32,
    reserved: [u32; 15],
}

/// Takes all locks that are free, keeps them, drops them, until this is dropped.
#[derive(Debug)]
pub struct Jam {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Locks {
    start: NonNull<Lock>,
}

// SAFETY: a mapping of its own, in which everything is atomic.
unsafe impl Send for Locks {}

const COUNT: usize = sys::AW_LOCKS as usize;
const BYTES: usize = COUNT * size_of::<Lock>();

impl Locks {
    fn map(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let may = libc::PROT_READ | libc::PROT_WRITE;
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping; the result is checked.
        let memory = unsafe { libc::mmap(null, BYTES, may, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start })
    }

    fn all(&self) -> &[Lock] {
        // SAFETY: so many are mapped, and any bytes are a value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), COUNT) }
    }

    fn jam(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let mine: Vec<&Lock> = self
                .all()
                .iter()
                .filter(|lock| lock.busy.swap(1, Ordering::AcqRel) == 0)
                .collect();
            spin(TAKEN);
            for lock in mine {
                lock.busy.store(0, Ordering::Release);
            }
            spin(LET_GO);
        }
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), BYTES) };
    }
}

fn spin(how_long: Duration) {
    let since = Instant::now();
    while since.elapsed() < how_long {
        std::hint::spin_loop();
    }
}

impl Jam {
    pub(crate) fn start(locks: BorrowedFd<'_>) -> io::Result<Self> {
        let locks = Locks::map(locks)?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || locks.jam(&stop))
        };
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Jam {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
