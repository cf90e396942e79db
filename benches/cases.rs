//! The benchmark cases, and the reference that each is compared with.

use dpb::ffi::{DPB_EXPIRED, DPB_OK, dpb_bandit, dpb_config, dpb_decision, dpb_free, dpb_new_policy};
use dpb::ffi::{dpb_merge, dpb_select, dpb_select_for, dpb_select_many, dpb_snapshot, dpb_update, dpb_update_many};
use dpb::ffi::{dpb_new, dpb_request};
use dpb::noise::{Gaussian, Laplace};
use dpb::{Random, Seed};
use std::ffi::CString;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The seed of every handle and stream here.
static SEED: [u8; 32] = [1; 32];

/// Runs a number of rounds. Returns their time.
pub type Run = Box<dyn FnMut(u64) -> Duration>;

pub fn timed(mut round: impl FnMut() + 'static) -> Run {
    Box::new(move |rounds| {
        let start = Instant::now();
        (0..rounds).for_each(|_| round());
        start.elapsed()
    })
}

pub struct Case {
    pub name: String,
    /// Makes a new instance, before its warm-up.
    pub make: Box<dyn Fn() -> Run>,
    /// Rounds of warm-up.
    pub warm_up: u64,
    pub reference: Reference,
}

pub struct Reference {
    pub name: &'static str,
    pub run: Run,
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for policy in ["dp-se", "dp-imed", "dp-med", "exp3-tau", "tsallis"] {
        for arms in [5, 1000] {
            cases.push(Case {
                name: format!("select + update, {policy}, {arms} arms"),
                make: Box::new(move || {
                    let mut handle = Handle::new(policy, arms);
                    timed(move || handle.round())
                }),
                warm_up: 1_000_000,
                reference: two_locks(),
            });
        }
    }
    cases.push(Case {
        name: "select_for + update, dp-imed, 5 arms, a million users".to_owned(),
        make: Box::new(|| {
            let mut handle = Handle::counting("dp-imed", 5, 1_000_000);
            timed(move || handle.round_with_user())
        }),
        warm_up: 1_000_000,
        reference: two_locks(),
    });
    cases.push(Case {
        name: "select_for + update, dp-imed, 25 eligible arms at random of 50".to_owned(),
        make: Box::new(|| {
            let mut handle = Handle::new("dp-imed", 50);
            timed(move || handle.round_with_eligible())
        }),
        warm_up: 1_000_000,
        reference: two_locks(),
    });
    for policy in ["dp-se", "dp-imed"] {
        cases.push(Case {
            name: format!("64 at once, {policy}, 10 arms"),
            make: Box::new(move || {
                let mut handle = Handle::new(policy, 10);
                timed(move || handle.round_of_64())
            }),
            warm_up: 10_000,
            reference: Reference { name: "64 times two mutex pairs", run: locks(64) },
        });
    }
    cases.extend(crate::linear::cases());
    for (segments, arms) in [(1, 20), (100, 20), (10_000, 20)] {
        cases.push(Case {
            name: format!("select + update, {segments} segments in random order, {arms} arms"),
            make: Box::new(move || {
                let mut segmented = Segmented::new(segments, arms);
                timed(move || segmented.round())
            }),
            warm_up: 30_000_000, // 3000 decisions in each of 10,000 segments, after which trials have ended
            reference: two_locks(),
        });
    }
    for bits in [10, 22, 34] {
        let laplace = Laplace::with_scale(1 << bits);
        cases.push(noise(format!("Laplace noise, scale 2^{bits}"), move |random| laplace.sample(random)));
    }
    let normal = Gaussian::with_sigma(1 << 24);
    // The sampler accepts three proposals in four, so three samples need 64 random bytes.
    cases.push(Case {
        reference: Reference { name: "64 random bytes", run: bytes(64) },
        ..noise("3 times Gaussian noise, sigma 2^24".into(), move |random| (0..3).map(|_| normal.sample(random)).sum())
    });
    cases.push(noise("16 random bytes".into(), |random| (random.next_u64() ^ random.next_u64()) as i64));
    cases
}

fn noise(name: String, sample: impl Fn(&mut Random) -> i64 + Copy + 'static) -> Case {
    let make = move || -> Run {
        let mut random = stream();
        timed(move || _ = black_box(sample(&mut random)))
    };
    Case { name, make: Box::new(make), warm_up: 1000, reference: Reference { name: "16 random bytes", run: bytes(16) } }
}

/// Two uncontended lock and unlock pairs, the minimum for select and update of a handle with one lock.
fn two_locks() -> Reference {
    Reference { name: "two mutex pairs", run: locks(1) }
}

fn locks(times: u64) -> Run {
    let mutex = Mutex::new(0u64);
    timed(move || {
        for _ in 0..2 * times {
            *black_box(&mutex).lock().expect("no panic") += 1;
        }
    })
}

/// Draws random bytes, the minimum work of a sampler.
fn bytes(count: u64) -> Run {
    let mut random = stream();
    timed(move || (0..count / 8).for_each(|_| _ = black_box(random.next_u64())))
}

fn stream() -> Random {
    Seed::new(Some(SEED)).expect("a test seed needs no entropy").stream()
}

/// 31 random bits.
#[inline]
fn bits(coins: &mut u64) -> u64 {
    *coins = coins.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *coins >> 33
}

/// A handle of the C interface, and an environment whose arms have means from 0.2 to 0.7.
pub struct Handle {
    bandit: *mut dpb_bandit,
    arms: u32,
    coins: u64,
}

// SAFETY: any thread may use a handle of the library.
unsafe impl Send for Handle {}
unsafe impl Sync for Handle {}

impl Handle {
    pub fn new(policy: &str, arms: u32) -> Handle {
        Handle::counting(policy, arms, 0)
    }

    fn counting(policy: &str, arms: u32, users: u64) -> Handle {
        let mut config = dpb_config::defaults(arms, 0.25);
        config.expected_users = users;
        config.horizon = 10_000_000; // more than the rounds of any case
        config.delta = if policy == "exp3-tau" { 1e-6 } else { 0.0 };
        config.test_seed = SEED.as_ptr(); // so that every run counts the same instructions
        let name = CString::new(policy).expect("no NUL");
        let mut bandit = std::ptr::null_mut();
        // SAFETY: the pointers are valid.
        let status = unsafe { dpb_new_policy(name.as_ptr(), &config, &mut bandit, std::ptr::null_mut()) };
        assert_eq!(status, 0, "{policy}");
        Handle { bandit, arms, coins: 1 }
    }

    /// The same handle with another environment, for another thread.
    pub fn alias(&self, coins: u64) -> std::mem::ManuallyDrop<Handle> {
        std::mem::ManuallyDrop::new(Handle { bandit: self.bandit, arms: self.arms, coins })
    }

    /// Merges the releases of another handle.
    pub fn merge(&self, other: &Handle) {
        let mut length = 0;
        let mut bytes = vec![0; 1 << 20];
        // SAFETY: the handles are live, and the buffer has the given length.
        unsafe {
            assert_eq!(
                dpb_snapshot(other.bandit, bytes.as_mut_ptr(), bytes.len(), &mut length, std::ptr::null_mut()),
                DPB_OK
            );
            assert_eq!(dpb_merge(self.bandit, bytes.as_ptr(), length, std::ptr::null_mut()), DPB_OK);
        }
    }

    #[inline]
    fn reward(&mut self, arm: u32) -> f64 {
        let bits = bits(&mut self.coins);
        let threshold = (1 << 30) / 5 * 2 + u64::from(arm) * ((1 << 30) / u64::from(self.arms));
        f64::from(u8::from(bits < threshold))
    }

    #[inline]
    pub fn round(&mut self) {
        let mut decision = MaybeUninit::<dpb_decision>::uninit();
        // SAFETY: the handle is live, and the pointer to the decision is valid.
        unsafe {
            assert_eq!(dpb_select(self.bandit, decision.as_mut_ptr()), 0);
            let decision = decision.assume_init();
            let reward = self.reward(decision.arm);
            // If the thread was suspended, the reward may be late.
            assert!(matches!(dpb_update(self.bandit, decision.ticket, reward), DPB_OK | DPB_EXPIRED));
        }
    }

    fn round_with_user(&mut self) {
        self.round_of(&dpb_request { user: self.coins >> 44, ..dpb_request::defaults() });
    }

    fn round_with_eligible(&mut self) {
        let mut eligible = [0; 25];
        for arm in &mut eligible {
            *arm = ((bits(&mut self.coins) * u64::from(self.arms)) >> 31) as u32;
        }
        self.round_of(&dpb_request {
            eligible: eligible.as_ptr(),
            eligible_len: eligible.len(),
            ..dpb_request::defaults()
        });
    }

    fn round_of(&mut self, request: &dpb_request) {
        let mut decision = MaybeUninit::<dpb_decision>::uninit();
        // SAFETY: the handle is live, and the pointers of the request and the decision are valid.
        unsafe {
            assert_eq!(dpb_select_for(self.bandit, request, decision.as_mut_ptr()), 0);
            let decision = decision.assume_init();
            let reward = self.reward(decision.arm);
            assert_eq!(dpb_update(self.bandit, decision.ticket, reward), DPB_OK);
        }
    }

    fn round_of_64(&mut self) {
        const MANY: usize = 64;
        let mut decisions = [MaybeUninit::<dpb_decision>::uninit(); MANY];
        let (mut tickets, mut rewards, mut done) = ([0; MANY], [0.0; MANY], 0);
        // SAFETY: the handle is live, and each array has `MANY` elements.
        unsafe {
            assert_eq!(
                dpb_select_many(self.bandit, std::ptr::null(), MANY, decisions.as_mut_ptr().cast(), &mut done),
                0
            );
            for (i, decision) in decisions.iter().enumerate() {
                let decision = decision.assume_init();
                (tickets[i], rewards[i]) = (decision.ticket, self.reward(decision.arm));
            }
            let (tickets, rewards) = (tickets.as_ptr(), rewards.as_ptr());
            let status = dpb_update_many(self.bandit, tickets, rewards, MANY, std::ptr::null_mut(), &mut done);
            assert_eq!((status, done), (0, MANY));
        }
    }
}

/// A handle with segments. Each request has a uniformly random segment.
struct Segmented {
    bandit: *mut dpb_bandit,
    segments: u32,
    arms: u32,
    coins: u64,
}

impl Segmented {
    fn new(segments: u32, arms: u32) -> Segmented {
        let mut config = dpb_config::defaults(arms, 0.25);
        config.test_seed = SEED.as_ptr();
        config.max_segments = segments;
        let mut bandit = std::ptr::null_mut();
        // SAFETY: the pointers are valid.
        unsafe { assert_eq!(dpb_new(&config, &mut bandit, std::ptr::null_mut()), DPB_OK) };
        for segment in 0..segments.into() {
            let request = dpb_request { segment, ..dpb_request::defaults() };
            let mut decision = MaybeUninit::<dpb_decision>::uninit();
            // SAFETY: the handle is live, and the pointer to the decision is valid.
            unsafe { assert_eq!(dpb_select_for(bandit, &request, decision.as_mut_ptr()), DPB_OK) };
        }
        Segmented { bandit, segments, arms, coins: 1 }
    }

    #[inline]
    fn round(&mut self) {
        let mut decision = MaybeUninit::<dpb_decision>::uninit();
        let segment = (bits(&mut self.coins) * u64::from(self.segments)) >> 31;
        // SAFETY: the handle is live, and the pointer to the decision is valid.
        unsafe {
            let request = dpb_request { segment, ..dpb_request::defaults() };
            assert_eq!(dpb_select_for(self.bandit, &request, decision.as_mut_ptr()), DPB_OK);
            let decision = decision.assume_init();
            let threshold = (1 << 31) / 5 + u64::from(decision.arm) * ((1 << 30) / u64::from(self.arms));
            let reward = f64::from(u8::from(bits(&mut self.coins) < threshold));
            assert_eq!(dpb_update(self.bandit, decision.ticket, reward), DPB_OK);
        }
    }
}

impl Drop for Segmented {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and is freed once.
        unsafe { dpb_free(self.bandit) };
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and is freed once.
        unsafe { dpb_free(self.bandit) };
    }
}
