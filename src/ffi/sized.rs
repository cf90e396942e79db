//! Structs that begin with their own size, so that they can grow at their end. A caller that was compiled with an
//! older header has a shorter one: only its own bytes are read and written.

use crate::error::{Error, Result};

/// A struct of the interface that may grow.
///
/// # Safety
/// It is `repr(C)`, begins with a `u32` that is its size, and any bytes are a value of it. It does not end in padding,
/// because today's callers have arbitrary bytes there, and the next field would overlap them. (After an address, which
/// may have 32 bits, the next field has 64.)
pub unsafe trait Growing: Copy {
    /// Size in version 0.1, which is the minimum. A struct that has grown since states it here.
    const FIRST: usize = size_of::<Self>();
}

/// Returns the size of a caller's struct, if it is valid.
///
/// A longer struct is refused whatever it contains: if the size was never set, its further bytes need not exist.
///
/// # Errors
/// `InvalidConfig` and `NewerVersion`.
#[inline]
pub fn known<T: Growing>(given: u32) -> Result<usize> {
    let size = given as usize;
    let is_known = (T::FIRST..=size_of::<T>()).contains(&size) && size.is_multiple_of(align_of::<T>());
    if is_known { Ok(size) } else { Err(unknown::<T>(given)) }
}

#[cold]
fn unknown<T: Growing>(given: u32) -> Error {
    let (step, first, ours) = (align_of::<T>(), T::FIRST, size_of::<T>());
    if given as usize > ours {
        return Error::NewerVersion;
    }
    let rule = match first < ours {
        true => format!("must be a multiple of {step} in {first}..={ours}"),
        false => format!("must be {ours}"),
    };
    Error::config("struct_size", &rule, given)
}

/// Reads a caller's struct. Fields that it lacks keep their values in `ours`.
///
/// # Errors
/// As [`known`].
///
/// # Safety
/// `given` is valid for the size that it states.
pub unsafe fn read<T: Growing>(given: *const T, mut ours: T) -> Result<T> {
    // SAFETY: every version of the struct begins with its size.
    let size = known::<T>(unsafe { given.cast::<u32>().read() })?;
    // SAFETY: `given` has `size` bytes by contract, and `ours` has them because the size is known.
    unsafe { given.cast::<u8>().copy_to_nonoverlapping((&raw mut ours).cast(), size) };
    Ok(ours)
}

/// Returns a caller's struct in place if it has all fields. A copy would begin before the caller's last stores have left
/// the processor's queue, and wait for them.
///
/// # Safety
/// As [`read`], while the result is used.
#[inline]
pub unsafe fn whole<'a, T: Growing>(given: *const T) -> Option<&'a T> {
    // SAFETY: every version of the struct begins with its size, and one of this size has all fields.
    unsafe { (given.cast::<u32>().read() as usize == size_of::<T>()).then(|| &*given) }
}

/// Writes the part of `value` that fits into the caller's struct. The struct keeps its size field.
///
/// # Errors
/// As [`known`]: nothing is written.
///
/// # Safety
/// `out` is valid for the size that it states.
pub unsafe fn write<T: Growing>(out: *mut T, value: T) -> Result<()> {
    // SAFETY: as in read.
    let size = unsafe { out.cast::<u32>().read() };
    known::<T>(size)?;
    // SAFETY: valid for that many bytes, by contract.
    unsafe { init(out, size, || value) };
    Ok(())
}

/// Like [`write()`], for an uninitialised struct of any `size`. NULL is a no-op.
///
/// # Safety
/// `out` is NULL or valid for `size` bytes.
#[inline]
pub unsafe fn init<T: Growing>(out: *mut T, size: u32, value: impl Fn() -> T) {
    if out.is_null() {
        return;
    }
    if (size as usize) < size_of::<T>() {
        // SAFETY: passed on.
        return unsafe { init_part(out, size as usize, value()) };
    }
    // SAFETY: `out` has all fields, by contract.
    unsafe {
        out.write(value()); // made in place: a copy takes longer
        out.cast::<u32>().write(size);
    }
}

/// Writes the first `size` bytes, fewer than all, with that size in them; nothing if the size does not fit.
///
/// # Safety
/// `out` is valid for `size` bytes.
#[cold]
unsafe fn init_part<T: Growing>(out: *mut T, size: usize, mut value: T) {
    if size < size_of::<u32>() {
        return;
    }
    // SAFETY: `value` begins with its size, and has more than `size` bytes.
    unsafe {
        (&raw mut value).cast::<u32>().write(size as u32);
        out.cast::<u8>().copy_from_nonoverlapping((&raw const value).cast(), size);
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    /// A struct as the next version of the library may have it.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Grown<T> {
        today: T,
        added: u64,
    }

    // SAFETY: repr(C), begins as T does, and T ends in no padding.
    unsafe impl<T: Growing> Growing for Grown<T> {
        const FIRST: usize = T::FIRST;
    }

    /// The caller's struct, and what lies behind it.
    #[repr(C)]
    struct Caller<T> {
        given: T,
        behind: [u64; 2],
    }

    const BEHIND: [u64; 2] = [0xdead_beef; 2];
    const DEFAULT: u64 = 77;

    fn sized<T: Growing>(value: T, size: usize) -> T {
        let mut value = value;
        // SAFETY: a Growing struct begins with its size.
        unsafe { (&raw mut value).cast::<u32>().write(size as u32) };
        value
    }

    fn size<T: Growing>(value: &T) -> usize {
        // SAFETY: likewise.
        unsafe { std::ptr::from_ref(value).cast::<u32>().read() as usize }
    }

    /// `some` and `other`: values that differ in all that `fields` shows.
    fn grows<T: Growing>(some: T, other: T, fields: impl Fn(&T) -> Vec<f64>) {
        let (ours, grown) = (size_of::<T>(), size_of::<Grown<T>>());
        assert!(fields(&some).iter().zip(fields(&other)).all(|(a, b)| *a != b));

        // A program of today, a library of tomorrow.
        let mut caller = Caller { given: sized(some, ours), behind: BEHIND };
        let tomorrows = Grown { today: other, added: DEFAULT };
        let pointer = (&raw mut caller.given).cast::<Grown<T>>();
        // SAFETY: valid for the size of a T, which is what it says.
        unsafe {
            let given = read(pointer, tomorrows).unwrap();
            assert_eq!((fields(&given.today), given.added), (fields(&some), DEFAULT));
            write(pointer, tomorrows).unwrap();
        }
        assert_eq!((fields(&caller.given), size(&caller.given), caller.behind), (fields(&other), ours, BEHIND));
        let tomorrows = Grown { today: some, added: DEFAULT };
        // SAFETY: likewise.
        unsafe { init(pointer, ours as u32, || tomorrows) };
        assert_eq!((fields(&caller.given), size(&caller.given), caller.behind), (fields(&some), ours, BEHIND));

        // A program of tomorrow, a library of today.
        let mut caller = sized(Grown { today: some, added: DEFAULT }, grown);
        let pointer = (&raw mut caller).cast::<T>();
        // SAFETY: valid for more than a T.
        unsafe {
            assert_eq!(read(pointer, other).map(|given| fields(&given)), Err(Error::NewerVersion));
            assert_eq!(write(pointer, other), Err(Error::NewerVersion));
            assert_eq!((fields(&caller.today), size(&caller), caller.added), (fields(&some), grown, DEFAULT));
            init(pointer, grown as u32, || other);
            assert_eq!((fields(&caller.today), caller.added), (fields(&other), DEFAULT));
            assert_eq!(read(pointer, some).map(|given| fields(&given)), Err(Error::NewerVersion));
        }

        // Sizes that no version has.
        for wrong in (0..ours).filter(|size| *size < T::FIRST || size % align_of::<T>() != 0) {
            let mut caller = sized(some, wrong);
            // SAFETY: valid for a T, which is more.
            unsafe {
                let refusal = read(&raw const caller, other).err();
                assert_eq!(write(&raw mut caller, other).err(), refusal);
                let Some(Error::InvalidConfig { field: "struct_size", problem }) = refusal else {
                    panic!("{refusal:?}")
                };
                let numbers = problem.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok());
                // What it says must hold does not.
                let holds = match numbers.collect::<Vec<usize>>()[..] {
                    [step, least, most, got] => got % step == 0 && (least..=most).contains(&got),
                    [size, got] => got == size,
                    _ => panic!("{problem}"),
                };
                assert!(!holds && problem.ends_with(&format!("got {wrong}")), "{problem}");
            }
            assert_eq!((fields(&caller), size(&caller)), (fields(&some), wrong));
        }
        // Never more than there is space for, whatever the size.
        for size in 0..ours {
            let mut caller = vec![u64::MAX; ours / 8 + 1];
            // SAFETY: valid for all of a T, and aligned for one.
            unsafe { init(caller.as_mut_ptr().cast::<T>(), size as u32, || some) };
            let bytes: Vec<u8> = caller.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let written = if size < size_of::<u32>() { 0 } else { size };
            assert!(bytes[written..].iter().all(|byte| *byte == 0xff), "{size}");
        }
    }

    #[test]
    fn every_struct_can_grow() {
        let config = |x: u32| {
            let budget = std::ptr::without_provenance(x as usize);
            dpb_config { node: x.into(), budget, ..dpb_config::defaults(x, x.into()) }
        };
        grows(config(3), config(4), |c| vec![c.arms.into(), c.epsilon, c.node as f64, c.budget.addr() as f64]);
        let stopping = |x: f64| dpb_stopping_config { beta: x, ..dpb_stopping_config::defaults(x, x) };
        grows(stopping(3.0), stopping(4.0), |c| vec![c.range, c.epsilon, c.beta]);
        let counter = |x: u32| dpb_counter_config { horizon: x.into(), ..dpb_counter_config::defaults(x, x.into()) };
        grows(counter(3), counter(4), |c| vec![c.kind.into(), c.epsilon, c.horizon as f64]);
        // SAFETY: numbers all.
        let (report, diagnostics): (dpb_report, dpb_diagnostics) = unsafe { std::mem::zeroed() };
        let report = |x: u32| dpb_report { phase: x, delta_spent: x.into(), policy: x, ..report };
        grows(report(3), report(4), |r| vec![r.phase.into(), r.delta_spent, r.policy.into()]);
        let diagnostics = |x: u64| dpb_diagnostics { duplicates: x, unknown: x, ..diagnostics };
        grows(diagnostics(3), diagnostics(4), |d| vec![d.duplicates as f64, d.unknown as f64]);
        let request = |x: u32| dpb_request { slots: x, user: x.into(), ..dpb_request::defaults() };
        grows(request(3), request(4), |r| vec![r.slots.into(), r.user as f64]);
        let options = |x: u32| dpb_node_options {
            queue: x,
            ..dpb_node_options::defaults(std::ptr::without_provenance(x as usize))
        };
        grows(options(3), options(4), |o| vec![o.name.addr() as f64, o.queue.into()]);
        // SAFETY: numbers and addresses all.
        let (command, of, counts): (dpb_command, dpb_node_report, dpb_node_diagnostics) = unsafe { std::mem::zeroed() };
        let command = |x: u32| dpb_command { kind: x, args_len: x as usize, ..command };
        grows(command(3), command(4), |c| vec![c.kind.into(), c.args_len as f64]);
        let of = |x: u32| dpb_node_report { state: x, contributions: x.into(), ..of };
        grows(of(3), of(4), |r| vec![r.state.into(), r.contributions as f64]);
        let counts = |x: u32| dpb_node_diagnostics { waiting: x, failures: x.into(), ..counts };
        grows(counts(3), counts(4), |d| vec![d.waiting.into(), d.failures as f64]);
    }

    /// A struct that has grown accepts its first size, its own, and the multiples of its alignment between them; no
    /// others.
    #[test]
    fn a_struct_that_has_grown_accepts_what_came_before() {
        let ours = Grown { today: dpb_config { node: 5, ..dpb_config::defaults(2, 1.0) }, added: DEFAULT };
        let (first, whole) = (size_of::<dpb_config>(), size_of_val(&ours));
        for size in 0..=whole {
            let given = Grown { today: dpb_config { node: 9, ..dpb_config::defaults(7, 2.0) }, added: 3 };
            let given = sized(given, size);
            // SAFETY: valid for all fields.
            let read = unsafe { read(&raw const given, ours) }.ok();
            assert_eq!(read.is_some(), size >= first && size.is_multiple_of(align_of_val(&ours)), "{size}");
            if let Some(read) = read {
                assert_eq!((read.today.arms, read.today.node), (7, 9));
                assert!(size != first || read.added == DEFAULT);
                assert!(size != whole || read.added == 3);
            }
        }
    }
}
