//! NVRTC: CUDA C++ to machine code of a device, without one.

#![expect(unsafe_code, reason = "functions of NVRTC")]

use std::ffi::{CStr, CString};

use cudarc::nvrtc::result::{compile_program, create_program, destroy_program, get_program_log};
use cudarc::nvrtc::sys;

/// The options of the compiler besides the architecture.
pub(crate) const OPTIONS: &str = "--std=c++17";

/// The major and the minor version of NVRTC.
///
/// # Errors
///
/// If it is not there.
pub(crate) fn version() -> Result<(i32, i32), String> {
    demand()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both numbers have a place of their type.
    let found = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    found.result().map_err(|error| format!("NVRTC failed: {error:?}"))?;
    Ok((major, minor))
}

/// Refuses to go on without NVRTC.
fn demand() -> Result<(), String> {
    // SAFETY: it only tries to load the library.
    if unsafe { sys::is_culib_present() } {
        return Ok(());
    }
    Err("there is no NVRTC (libnvrtc.so.13) where the loader looks".to_owned())
}

/// Compiles a text for an architecture, such as `sm_90`. Returns the ELF file.
///
/// # Errors
///
/// If NVRTC is not there, or refuses the text.
pub(crate) fn compile(text: &str, arch: &str) -> Result<Vec<u8>, String> {
    demand()?;
    let text = CString::new(text).map_err(|_nul| "the text holds a NUL byte".to_owned())?;
    let failed = |error| format!("NVRTC failed: {error:?}");
    let program = create_program(&text, None).map_err(failed)?;
    let options = [format!("--gpu-architecture={arch}"), OPTIONS.to_owned()];
    // SAFETY: the program was made above and is destroyed below.
    let compiled = unsafe { compile_program(program, &options) };
    let image = match compiled {
        Ok(()) => image(program).map_err(failed),
        Err(error) => Err(format!("NVRTC refuses the text ({error:?}): {}", log(program))),
    };
    // SAFETY: the program is not used after this.
    unsafe { destroy_program(program) }.map_err(failed)?;
    image
}

fn log(program: sys::nvrtcProgram) -> String {
    // SAFETY: the program is alive.
    let Ok(log) = (unsafe { get_program_log(program) }) else { return String::new() };
    let bytes = log.into_iter().map(i8::cast_unsigned).collect::<Vec<u8>>();
    CStr::from_bytes_until_nul(&bytes).unwrap_or_default().to_string_lossy().into_owned()
}

fn image(program: sys::nvrtcProgram) -> Result<Vec<u8>, cudarc::nvrtc::result::NvrtcError> {
    let mut bytes = 0;
    // SAFETY: the program is alive and was compiled, and the size has a place of its type.
    unsafe { sys::nvrtcGetCUBINSize(program, &raw mut bytes) }.result()?;
    let mut image = vec![0_u8; bytes];
    // SAFETY: the array has as many bytes as were asked for.
    unsafe { sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast()) }.result()?;
    Ok(image)
}
