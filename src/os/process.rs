//! The number of this process: see [`Origin`](super::Origin).

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::Relaxed};

/// The memory that holds a process's number; 0 until the process has one.
#[derive(Clone, Copy, Debug)]
struct Word {
    word: &'static AtomicU32,
    /// Whether the kernel clears it in every child; if not, only the handler does.
    wiped: bool,
}

#[derive(Debug)]
pub struct Number {
    word: &'static AtomicU32,
    number: u32,
    /// Process id, for children where the handler does not run; 0 if the kernel clears the word.
    pid: libc::pid_t,
}

/// The last number given to this process or its ancestors.
static LAST: AtomicU32 = AtomicU32::new(0);
static UNWIPED: AtomicU32 = AtomicU32::new(0);

impl Word {
    /// The word of this process. There is no lock, because a child could inherit it locked.
    fn get() -> Word {
        static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
        let mut page = PAGE.load(Relaxed);
        if page.is_null() {
            let Some(fresh) = wiped_page() else { return Word::unwiped() };
            page = match PAGE.compare_exchange(std::ptr::null_mut(), fresh, Relaxed, Relaxed) {
                Ok(_) => fresh,
                Err(first) => first, // another thread was faster: this page is leaked, at most once for each thread
            };
        }
        // SAFETY: a page of our own, never unmapped, initially all zeros.
        Word { word: unsafe { &*page }, wiped: true }
    }

    fn unwiped() -> Word {
        static WATCHED: AtomicBool = AtomicBool::new(false);
        extern "C" fn in_child() {
            UNWIPED.store(0, Relaxed);
        }
        if !WATCHED.swap(true, Relaxed) {
            // SAFETY: the handler only stores to an atomic, which is safe after fork.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        }
        Word { word: &UNWIPED, wiped: false }
    }
}

#[cfg(target_os = "linux")]
fn wiped_page() -> Option<*mut AtomicU32> {
    // SAFETY: a fresh anonymous mapping, unmapped again if the kernel cannot wipe it on fork.
    unsafe {
        let length = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let page = libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0);
        if page == libc::MAP_FAILED {
            return None;
        }
        // Some emulators (qemu-user) accept any advice, even an invalid one, and follow none.
        if libc::madvise(page, length, -1) == 0 || libc::madvise(page, length, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, length);
            return None;
        }
        Some(page.cast())
    }
}

#[cfg(not(target_os = "linux"))]
fn wiped_page() -> Option<*mut AtomicU32> {
    None
}

fn pid() -> libc::pid_t {
    // SAFETY: always succeeds.
    unsafe { libc::getpid() }
}

impl Number {
    pub fn of_this_process() -> Number {
        Number::in_word(Word::get())
    }

    fn in_word(word: Word) -> Number {
        let mut number = word.word.load(Relaxed);
        if number == 0 {
            let next = LAST.fetch_add(1, Relaxed) + 1;
            number = word.word.compare_exchange(0, next, Relaxed, Relaxed).map_or_else(|other| other, |_| next);
        }
        Number { word: word.word, number, pid: if word.wiped { 0 } else { pid() } }
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    #[inline]
    pub fn is_of_this_process(&self) -> bool {
        self.word.load(Relaxed) == self.number && (self.pid == 0 || pid() == self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::in_child;

    #[test]
    fn children_are_other_processes() {
        for word in [Word::get(), Word::unwiped()] {
            let ours = Number::in_word(word);
            assert!(ours.is_of_this_process());
            for bare in [false, true] {
                let seen = in_child(bare, || {
                    let theirs = Number::in_word(word);
                    let grandchild = || !ours.is_of_this_process() && !theirs.is_of_this_process();
                    !ours.is_of_this_process() && theirs.is_of_this_process() && in_child(bare, grandchild)
                });
                assert!(seen, "{word:?} {bare}");
            }
            assert!(ours.is_of_this_process());
        }
        #[cfg(target_os = "linux")]
        assert!(Word::get().wiped, "Linux 4.14 has MADV_WIPEONFORK");
    }
}
