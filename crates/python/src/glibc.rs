//! Functions that glibc changed after 2.34, the oldest that the package runs with.

#![expect(unsafe_code, reason = "defines symbols of the C library for this module alone")]

/// In place of the one of glibc 2.35; complex numbers in a dependency name it.
// SAFETY: the module is loaded with symbols of its own, so no other library calls this one, and it
// has the type and the meaning of C's function.
#[unsafe(no_mangle)]
extern "C" fn hypot(x: f64, y: f64) -> f64 {
    libm::hypot(x, y)
}

/// In place of the one of glibc 2.35.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn hypotf(x: f32, y: f32) -> f32 {
    libm::hypotf(x, y)
}
