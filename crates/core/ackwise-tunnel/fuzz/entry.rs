//! The entry point of a fuzzer: libFuzzer's if built for it (`--cfg fuzzing`, see `run.sh`),
//! otherwise a program that replays the given files, to examine a finding.

#[cfg(fuzzing)]
use std::sync::atomic::{AtomicU64, Ordering};

/// Turns a function of bytes into a program.
macro_rules! entry {
    ($run:path) => {
        /// Called by libFuzzer.
        #[cfg(fuzzing)]
        #[unsafe(no_mangle)]
        extern "C" fn LLVMFuzzerTestOneInput(data: *const u8, len: usize) -> std::ffi::c_int {
            let input = match len {
                0 => &[],
                // SAFETY: libFuzzer passes that many bytes, which nobody writes meanwhile.
                _ => unsafe { std::slice::from_raw_parts(data, len) },
            };
            entry::reset_random();
            $run(input);
            0
        }

        #[cfg(not(fuzzing))]
        fn main() {
            for name in std::env::args_os().skip(1) {
                let input = std::fs::read(&name);
                let input = input.unwrap_or_else(|error| panic!("{}: {error}", name.display()));
                $run(&input);
            }
        }
    };
}

#[cfg(fuzzing)]
static RANDOM_CALLS: AtomicU64 = AtomicU64::new(0);

/// Restarts the random numbers, so that they are the same for each input.
#[cfg(fuzzing)]
pub fn reset_random() {
    RANDOM_CALLS.store(0, Ordering::Relaxed);
}

/// Called by getrandom with `--cfg getrandom_backend="custom"`: a finding must be reproducible.
///
/// # Safety
/// `len` bytes at `to` can be written.
#[cfg(fuzzing)]
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    to: *mut u8,
    len: usize,
) -> Result<(), getrandom::Error> {
    let mut rng = ackwise_rng::Rng::new(RANDOM_CALLS.fetch_add(1, Ordering::Relaxed));
    for i in 0..len {
        // SAFETY: the caller promises it.
        unsafe { to.add(i).write(rng.next_u64() as u8) };
    }
    Ok(())
}
