//! What only the operating system or the processor knows or does: whether this process still is the one that created a
//! handle, which memory core dumps contain, and how numbers are rounded. Only this module and [`ffi`](crate::ffi) have
//! unsafe code.

#![allow(unsafe_code)]

#[cfg(unix)]
mod process;

#[cfg(unix)]
use crate::error::Error;
use crate::error::Result;
use std::cell::UnsafeCell;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
#[cfg(all(test, unix))]
pub use tests::in_child;

/// The process in which a handle was created. A forked child must not use its copy: it would draw the same noise as its
/// parent, and would release its parent's open batches a second time. So every call there is refused.
///
/// Each process has its own number, in a page that the kernel clears in children, however they are created
/// (MADV_WIPEONFORK: fork, _Fork, clone). A child that creates a handle of its own takes the next number. If the system
/// has no such page, a handler of pthread_atfork clears the word instead, and the process id identifies the children
/// for which no handler ran. A check costs one load.
#[derive(Debug)]
pub struct Origin {
    #[cfg(unix)]
    process: process::Number,
}

impl Origin {
    /// This process.
    pub fn here() -> Origin {
        Origin {
            #[cfg(unix)]
            process: process::Number::of_this_process(),
        }
    }

    /// The number of the process, which is not 0. A child has another one than its ancestors.
    fn number(&self) -> u32 {
        #[cfg(unix)]
        return self.process.number();
        #[cfg(not(unix))]
        1
    }

    /// Checks that this still is the process that created the handle.
    ///
    /// # Errors
    /// `Poisoned` in a forked child.
    #[inline]
    pub fn check(&self) -> Result<()> {
        #[cfg(unix)]
        if !self.process.is_of_this_process() {
            return Err(Error::Poisoned);
        }
        Ok(())
    }
}

/// A value that the threads of a process share, one at a time. If a process forks while another thread has the value, that
/// thread does not exist in the child, and a mutex would stay locked there. So the lock names its process: in a child it
/// is free, and the child begins with a value of its own. (That of the parent is leaked there. It may be half changed.)
pub struct OfProcess<T> {
    /// The number of the process that has the value; 0 if none does.
    holder: AtomicU32,
    /// The number of the process that the value belongs to, and the value.
    value: UnsafeCell<(u32, T)>,
}

// SAFETY: `with` gives the value to one thread at a time.
unsafe impl<T: Send> Sync for OfProcess<T> {}

impl<T: Default> OfProcess<T> {
    /// `first` needs no destructor.
    pub const fn new(first: T) -> OfProcess<T> {
        OfProcess { holder: AtomicU32::new(0), value: UnsafeCell::new((0, first)) }
    }

    /// Calls this with the value. Waits for other threads; they must be quick.
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        struct Lease<'a>(&'a AtomicU32);
        impl Drop for Lease<'_> {
            fn drop(&mut self) {
                self.0.store(0, Release);
            }
        }
        let ours = Origin::here().number();
        let is_free = |holder| (holder != ours).then_some(ours);
        while self.holder.fetch_update(Acquire, Relaxed, is_free).is_err() {
            std::thread::yield_now();
        }
        let _lease = Lease(&self.holder);
        // SAFETY: the holder is this thread alone, and no thread of another process exists here. The reference ends before
        // `_lease`. A value of an ancestor is overwritten without a look at it.
        unsafe {
            let value = self.value.get();
            if (*value).0 != ours {
                value.write((ours, T::default()));
            }
            body(&mut (*value).1)
        }
    }
}

/// Smaller tables are not excluded from dumps, because each exclusion can cost the kernel a mapping of its own.
const LARGE: usize = 1 << 16;

/// Excludes the pages that lie wholly in a large table from core dumps, or includes them again.
pub fn in_dumps(table: *const u8, bytes: usize, shown: bool) {
    #[cfg(target_os = "linux")]
    if bytes >= LARGE {
        // SAFETY: advice about memory that belongs to the caller; its contents do not change, whatever the result.
        unsafe {
            let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let (from, to) = ((table as usize).next_multiple_of(page), (table as usize + bytes) / page * page);
            let advice = if shown { libc::MADV_DODUMP } else { libc::MADV_DONTDUMP };
            libc::madvise(from as *mut libc::c_void, to - from, advice);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (table, bytes, shown, LARGE);
}

/// Sets the thread's floating-point environment to the default until it is dropped. A program in C may have set another
/// rounding mode, or have made invalid operations signals. Rust code assumes the default: in another rounding mode
/// bounds would not be rounded as documented, and iterations might not end. (That tiny numbers are flushed to zero does
/// no harm.)
///
/// On other processors than x86-64 and AArch64 it does nothing.
pub struct DefaultRounding {
    before: rounding::Register,
}

impl DefaultRounding {
    #[inline]
    pub fn set() -> DefaultRounding {
        let before = rounding::control();
        rounding::change(before, rounding::DEFAULT);
        DefaultRounding { before }
    }
}

impl Drop for DefaultRounding {
    #[inline]
    fn drop(&mut self) {
        // Without the black box, the compiler makes two copies of the code that runs until here.
        rounding::change(rounding::DEFAULT, std::hint::black_box(self.before));
    }
}

/// Whether the thread's floating-point environment is the default, as far as [`DefaultRounding`] sets it.
#[inline]
pub fn is_default_rounding() -> bool {
    rounding::control() & rounding::BITS == rounding::DEFAULT
}

mod rounding {
    #[cfg(target_arch = "x86_64")]
    pub type Register = u32;
    #[cfg(not(target_arch = "x86_64"))]
    pub type Register = u64;

    /// The rounding mode, and which exceptions are signals.
    #[cfg(target_arch = "x86_64")]
    pub const BITS: Register = 0b11 << 13 | MASKED;
    #[cfg(target_arch = "aarch64")]
    pub const BITS: Register = 0b11 << 22 | 0b1001_1111 << 8;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub const BITS: Register = 0;

    /// Their default: to nearest, and no exception is a signal.
    #[cfg(target_arch = "x86_64")]
    pub const DEFAULT: Register = MASKED;
    #[cfg(not(target_arch = "x86_64"))]
    pub const DEFAULT: Register = 0;

    #[cfg(target_arch = "x86_64")]
    const MASKED: Register = 0b11_1111 << 7;

    /// Reads the control register of this thread.
    #[inline]
    #[allow(unused_mut, unused_unsafe)] // on the other processors
    pub fn control() -> Register {
        let mut control: Register = 0;
        // SAFETY: reads a register, into a variable.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut control, options(nostack, preserves_flags));
            #[cfg(target_arch = "aarch64")]
            std::arch::asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack, preserves_flags));
        }
        control
    }

    /// Sets the register to `later`, if that differs from `now` in [`BITS`].
    #[inline]
    pub fn change(now: Register, later: Register) {
        if (now ^ later) & BITS != 0 {
            set_control(later);
        }
    }

    /// This is out of line, so that no computation is moved across it.
    #[cold]
    #[inline(never)]
    #[allow(unused_unsafe)] // on the other processors
    fn set_control(control: Register) {
        // SAFETY: `control` read this value, or one that differs from it in `BITS` alone.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack, preserves_flags));
            #[cfg(target_arch = "aarch64")]
            std::arch::asm!("msr fpcr, {}", in(reg) control, options(nomem, nostack, preserves_flags));
        }
        let _ = control;
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    /// Runs the check in a child made by fork, or by the bare system call, which runs no handler. A child that hangs is killed.
    pub fn in_child(bare: bool, check: impl Fn() -> bool) -> bool {
        // SAFETY: after fork, glibc's allocator works in the child; after the bare call the check only compares numbers. The
        // child exits without unwinding.
        unsafe {
            let child = match bare {
                #[cfg(target_os = "linux")]
                true => libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t,
                _ => libc::fork(),
            };
            if child == 0 {
                libc::alarm(60);
                libc::_exit(i32::from(!check()));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            status == 0
        }
    }
}
