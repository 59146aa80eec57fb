//! The way into a fuzzer: from libFuzzer if built for it (`--cfg fuzzing`, see `run.sh`),
//! otherwise a program that plays the files it is given, to look into a finding.

#[cfg(fuzzing)]
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes a program of a function of bytes.
macro_rules! entry {
    ($run:path) => {
        /// Called by libFuzzer.
        #[cfg(fuzzing)]
        #[unsafe(no_mangle)]
        extern "C" fn LLVMFuzzerTestOneInput(data: *const u8, len: usize) -> std::ffi::c_int {
            let input = match len {
                0 => &[],
                // SAFETY: libFuzzer hands over that many bytes, which nobody writes meanwhile.
                _ => unsafe { std::slice::from_raw_parts(data, len) },
            };
            entry::forget();
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
static DRAWN: AtomicU64 = AtomicU64::new(0);

/// Makes the random numbers begin anew, so that they are the same for each input.
#[cfg(fuzzing)]
pub fn forget() {
    DRAWN.store(0, Ordering::Relaxed);
}

/// What getrandom calls with `--cfg getrandom_backend="custom"`: a finding must come again.
///
/// # Safety
/// `len` bytes at `to` can be written.
#[cfg(fuzzing)]
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    to: *mut u8,
    len: usize,
) -> Result<(), getrandom::Error> {
    let mut rng = ackwise_rng::Rng::new(DRAWN.fetch_add(1, Ordering::Relaxed));
    for i in 0..len {
        // SAFETY: the caller promises it.
        unsafe { to.add(i).write(rng.next_u64() as u8) };
    }
    Ok(())
}
