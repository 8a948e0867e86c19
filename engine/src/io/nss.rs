//! How a static binary looks host names up.

/// From now on `/etc/hosts`, then the name servers of `/etc/resolv.conf`: both are parts of glibc itself.
///
/// `/etc/nsswitch.conf` may name others, which glibc loads as shared libraries. Into a static binary it would load them
/// with a second glibc, the host's, which fails or crashes where the two are of different versions. Binaries that share
/// the host's glibc, or have another C library, look names up as they always do.
pub fn look_up_without_modules() {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    {
        use std::ffi::{c_char, c_int};
        // SAFETY: as glibc declares it in <nss.h>.
        unsafe extern "C" {
            fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
        }
        // SAFETY: both are texts that end with a zero byte, and glibc keeps a copy. There is no safe way to say it.
        let result = unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
        debug_assert_eq!(result, 0, "glibc knows both");
    }
}
