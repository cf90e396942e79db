//! The functions of the C interface that an audit calls: those in this program, or those of a released library.

use dpb::ffi::*;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

macro_rules! functions {
    ($($name:ident($($type:ty),*) -> $returns:ty;)*) => {
        #[derive(Clone, Copy, Debug)]
        pub struct Library {
            $(pub $name: unsafe extern "C" fn($($type),*) -> $returns,)*
            /// Whether handles draw their noise from the operating system, as in production. In this program they have
            /// a test seed, so that a test's result is always the same.
            pub is_released: bool,
        }

        impl Library {
            /// The library in this program.
            pub const HERE: Library = Library { $($name: dpb::ffi::$name,)* is_released: false };

            /// The library in a file, which stays loaded.
            fn of(file: *mut c_void) -> Result<Library, String> {
                Ok(Library {
                    $($name: {
                        let name = CString::new(stringify!($name)).expect("a name without NUL");
                        // SAFETY: the file stays loaded, and dlsym may be given any name.
                        let function = unsafe { libc::dlsym(file, name.as_ptr()) };
                        if function.is_null() {
                            return Err(format!("it has no {}", stringify!($name)));
                        }
                        // SAFETY: the file has the version of this program, whose header declares this type.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> $returns>(function) }
                    },)*
                    is_released: true,
                })
            }
        }
    };
}

functions! {
    dpb_new_policy(*const c_char, *const dpb_config, *mut *mut dpb_bandit, *mut dpb_error) -> dpb_status;
    dpb_select(*mut dpb_bandit, *mut dpb_decision) -> dpb_status;
    dpb_select_for(*mut dpb_bandit, *const dpb_request, *mut dpb_decision) -> dpb_status;
    dpb_update(*mut dpb_bandit, u64, f64) -> dpb_status;
    dpb_cancel(*mut dpb_bandit, u64) -> dpb_status;
    dpb_retire_arm(*mut dpb_bandit, u32) -> dpb_status;
    dpb_arms_read(*const dpb_bandit, *mut dpb_arm, usize, *mut usize) -> dpb_status;
    dpb_predict(*const dpb_bandit, *const dpb_request, *mut f64, *mut f64, usize, *mut usize) -> dpb_status;
    dpb_report_read(*const dpb_bandit, *mut dpb_report) -> dpb_status;
    dpb_best_arm(*const dpb_bandit, *mut u32) -> dpb_status;
    dpb_epsilon_spent(*const dpb_bandit, f64, *mut f64) -> dpb_status;
    dpb_free(*mut dpb_bandit) -> ();
}

impl Library {
    /// Loads a file, which must have the version of this program.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn open(file: &Path) -> Result<Library, String> {
        let problem = |what: &str| format!("{}: {what}", file.display());
        let name = CString::new(file.as_os_str().as_encoded_bytes()).map_err(|_| problem("a path with a NUL"))?;
        // SAFETY: a C string. The library runs nothing when it is loaded.
        let opened = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if opened.is_null() {
            // SAFETY: dlopen has just failed, so there is a text.
            let said = unsafe { CStr::from_ptr(libc::dlerror()) };
            return Err(problem(&said.to_string_lossy()));
        }
        // SAFETY: a loaded file and a C string; dpb_version has this type in every version.
        let version = unsafe {
            let version = libc::dlsym(opened, c"dpb_version".as_ptr());
            if version.is_null() {
                return Err(problem("no libdpb"));
            }
            let version: unsafe extern "C" fn() -> *const c_char = std::mem::transmute(version);
            CStr::from_ptr(version())
        };
        let own = include_str!("../../Cargo.toml").split("version = \"").nth(1).and_then(|rest| rest.split('"').next());
        if version.to_str().ok() != own {
            return Err(problem(&format!("is libdpb {version:?}, and this program audits {own:?}")));
        }
        Library::of(opened).map_err(|what| problem(&what))
    }
}
