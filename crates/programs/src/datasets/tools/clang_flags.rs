//! The flags with which clang makes programs; the build script uses them too.

/// Optimisation is on, so that no function is marked `noinline` or `optnone`; the passes are off,
/// since they are what is studied. All other flags keep out what differs between machines or days:
/// configuration files, the identification of the build, working folders. `SOURCE_DATE_EPOCH` fixes
/// dates.
///
/// Without `-funroll-loops`, `-O1` marks every loop with `llvm.loop.unroll.disable`, and no
/// unrolling pass would ever do anything.
pub(crate) const FLAGS: &str = "--no-default-config --target=x86_64-pc-linux-gnu -O1 \
    -funroll-loops -Xclang -disable-llvm-passes -g0 -w -fno-ident -fno-color-diagnostics \
    -ffile-compilation-dir=. -emit-llvm -c";
