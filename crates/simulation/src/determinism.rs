//! Seeds the randomness and the clock of the process: what libraries request from the system (hash
//! maps, ids, jitter, the date) is then the same in each run. Functions of the C library are
//! replaced by those of the same name here. Virtual time itself is tokio's.
#![allow(unsafe_code, reason = "replaces functions of the C library")]

use std::cell::Cell;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tokio::time::Instant;

/// The start date of all simulations, in nanoseconds since 1970.
const FIRST_DAY: i64 = 1_790_000_000_000_000_000;

// Hash maps, ids and dates of the whole process depend on the seed, so each world is a process.
// Decision 0058.
static SEED: AtomicU64 = AtomicU64::new(0);
static SEEDED: AtomicBool = AtomicBool::new(false);
/// Last returned date and time, in nanoseconds since 1970.
static DATE: AtomicI64 = AtomicI64::new(0);
/// Sum of all clock jumps, in nanoseconds.
static JUMPED: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static DICE: Cell<Option<fastrand::Rng>> = const { Cell::new(None) };
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Makes all randomness of this process depend on the seed. Must be called first, while the process
/// has one thread.
pub(crate) fn seed(seed: u64) {
    DICE.set(None);
    SEED.store(seed, Ordering::SeqCst);
    DATE.store(FIRST_DAY, Ordering::SeqCst);
    SEEDED.store(true, Ordering::SeqCst);
}

/// Pins this process to one core: its threads constantly wait for each other, and use a fifth less
/// CPU time than on two cores; and libraries that divide their work by the number of cores behave
/// the same. Does nothing if the system does not permit it.
pub(crate) fn stay_on_a_core(job: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).cycle();
    let Some(core) = cores.nth(job) else { return };
    let mut one = CpuSet::new();
    one.set(core);
    sched_setaffinity(None, &one).ok();
}

/// Runs `work` in a copy of the process and waits for its end. Returns an error if the copy fails.
/// Must be called while the process has one thread.
pub(crate) fn in_a_copy(work: impl FnOnce()) -> Result<(), String> {
    // SAFETY: no other thread can hold a lock or resource that the copy needs.
    let child = unsafe { libc::fork() };
    match child {
        0 => {
            work();
            let told = std::io::stdout().flush().is_ok();
            // SAFETY: ends the copy, which nothing else uses.
            unsafe { libc::_exit(i32::from(!told)) }
        }
        1.. => {
            let mut status = 0;
            // SAFETY: `status` is valid for writes.
            let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
            let well = ended == child && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
            if well { Ok(()) } else { Err(format!("the world ended: status {status:#x}")) }
        }
        _ => Err(format!("cannot create a process: {}", std::io::Error::last_os_error())),
    }
}

/// Derives the date from the virtual time of this thread's runtime from now on.
pub(crate) fn follow_virtual_time() {
    BEGUN.set(Some(Instant::now()));
}

/// Runs `work` with a constant date: the virtual time of another runtime is not known.
pub(crate) fn at_this_date<T>(work: impl FnOnce() -> T) -> T {
    date();
    let begun = BEGUN.take();
    let done = work();
    BEGUN.set(begun);
    done
}

/// Makes the date jump by this many seconds.
pub(crate) fn jump(seconds: i64) {
    JUMPED.fetch_add(seconds * 1_000_000_000, Ordering::SeqCst);
}

/// Fills a buffer with the next random bytes of this thread. They depend on the seed and on the
/// thread's name, as the order of threads is not deterministic.
fn fill(bytes: &mut [u8]) {
    let mut dice = DICE.take().unwrap_or_else(|| {
        fastrand::Rng::with_seed(SEED.load(Ordering::SeqCst) ^ this_thread().rotate_right(8))
    });
    dice.fill(bytes);
    DICE.set(Some(dice));
}

/// A number that depends on the name of this thread. Requests the name from the system, as the
/// standard library may need randomness before it knows its thread.
fn this_thread() -> u64 {
    let mut name = [0_u8; 16];
    // SAFETY: the system writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name.iter()
        .fold(0, |number: u64, byte| number.wrapping_mul(0x0100_0000_01b3) ^ u64::from(*byte))
}

/// The date, in nanoseconds since 1970.
fn date() -> i64 {
    if let Some(begun) = BEGUN.get() {
        let passed = i64::try_from(begun.elapsed().as_nanos()).unwrap_or(i64::MAX / 4);
        DATE.store(FIRST_DAY + passed + JUMPED.load(Ordering::SeqCst), Ordering::SeqCst);
    }
    DATE.load(Ordering::SeqCst)
}

/// Replaces the C library's `getrandom`.
///
/// # Safety
/// As for the C library's: `buffer` has room for `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(
    buffer: *mut libc::c_void,
    length: libc::size_t,
    flags: libc::c_uint,
) -> libc::ssize_t {
    if !SEEDED.load(Ordering::SeqCst) {
        // SAFETY: the arguments are those of the caller.
        let got = unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) };
        return libc::ssize_t::try_from(got).unwrap_or(-1);
    }
    // SAFETY: the caller passes a buffer of this length.
    fill(unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) });
    libc::ssize_t::try_from(length).unwrap_or(libc::ssize_t::MAX)
}

/// Replaces the C library's `clock_gettime`: the date is simulated, all other clocks are the system's.
///
/// # Safety
/// As for the C library's: `time` is valid for writes.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(
    clock: libc::clockid_t,
    time: *mut libc::timespec,
) -> libc::c_int {
    if clock != libc::CLOCK_REALTIME || !SEEDED.load(Ordering::SeqCst) {
        // SAFETY: the arguments are those of the caller.
        let done = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
        return libc::c_int::try_from(done).unwrap_or(-1);
    }
    let date = date();
    // SAFETY: the caller passes a pointer that is valid for writes.
    unsafe {
        (*time).tv_sec = date / 1_000_000_000;
        (*time).tv_nsec = date % 1_000_000_000;
    }
    0
}
