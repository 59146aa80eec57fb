//! System calls refused by the kernel, as an older kernel or a sandbox would.

use std::io;

/// From now on a system call fails with this error number in the calling thread, and in the
/// processes and threads that it starts. If `first` is given, only calls with that value in the low
/// half of the first argument fail. This does not allocate, so that it may be called between fork
/// and exec.
///
/// # Errors
/// If the kernel has no seccomp filters.
pub fn refuse(call: libc::c_long, first: Option<u32>, error: i32) -> io::Result<()> {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    // struct seccomp_data: the call's number, and the low half of its first argument.
    const ARGUMENT: u32 = if cfg!(target_endian = "big") { 20 } else { 16 };
    let insn = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let judge = match first {
        Some(value) => insn(EQUAL, 0, 1, value),
        None => insn(JUMP, 0, 0, 0),
    };
    let mut filter = [
        insn(LOAD, 0, 0, 0),
        insn(EQUAL, 0, 3, call as u32),
        insn(LOAD, 0, 0, ARGUMENT),
        judge,
        insn(
            RETURN,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | error.cast_unsigned(),
        ),
        insn(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program and its instructions are valid during the call.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    match refused {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
