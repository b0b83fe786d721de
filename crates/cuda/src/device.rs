//! The device: memory, modules, launches and clocks.

#![expect(unsafe_code, reason = "functions of the driver, and kernels")]

use std::sync::Arc;

use cudarc::cublas::{CudaBlas, Gemm as _, GemmConfig, result::CublasError, sys as blas_sys};
use cudarc::driver::sys::{
    self, CUdevice_attribute, CUevent_flags, CUgraphInstantiate_flags, CUstreamCaptureMode,
};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaGraph, CudaSlice, CudaStream, DriverError, LaunchConfig,
    PushKernelArg as _,
};
use cudarc::nvrtc::Ptx;
use serde_json::{Value, json};
use steplake::env::loops::cuda::{CudaSource, KernelLaunch};

use crate::compiler::compile;

/// An array in the memory of the device.
pub(crate) type Array = CudaSlice<f32>;

/// The first device of the machine.
#[derive(Debug)]
pub(crate) struct Device {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
}

/// The kernels of a state, ready to run.
#[derive(Debug)]
pub(crate) struct Loaded {
    kernels: Vec<(CudaFunction, KernelLaunch)>,
    /// The numbers of the scratch memory.
    pub(crate) scratch_places: u64,
}

/// The arrays of a program: inputs, outputs and scratch memory.
#[derive(Debug)]
pub(crate) struct Arrays {
    pub(crate) inputs: Vec<Array>,
    pub(crate) outputs: Vec<Array>,
    pub(crate) scratch: Array,
}

/// A way to copy an array.
#[derive(Debug)]
pub(crate) enum Copier {
    /// The driver's own copy.
    Driver,
    /// A kernel, each block of which copies so many groups of four numbers.
    Kernel(CudaFunction, u32),
}

/// Launches that the device is given together: the host says once for all of them that they begin.
pub(crate) struct LaunchGraph(CudaGraph);

impl std::fmt::Debug for LaunchGraph {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("LaunchGraph").finish_non_exhaustive()
    }
}

/// `cuBLAS` without TF32.
#[derive(Debug)]
pub(crate) struct Blas(CudaBlas);

/// The kernels that copy.
const COPIES: &str = include_str!("copy.cu");

/// The threads of a block that copies.
const COPY_THREADS: u32 = 256;

fn failed(error: DriverError) -> String {
    format!("the driver of CUDA refuses: {error}")
}

fn refused(error: CublasError) -> String {
    format!("cuBLAS refuses: {error:?}")
}

impl LaunchGraph {
    /// Launches all of it once.
    ///
    /// # Errors
    ///
    /// If the device refuses.
    pub(crate) fn launch(&self) -> Result<(), String> {
        self.0.launch().map_err(failed)
    }
}

impl Blas {
    /// The library's version.
    pub(crate) fn describe(&self) -> Result<String, String> {
        let mut version = 0;
        // SAFETY: the handle is alive, and the version has a place of its type.
        unsafe { blas_sys::cublasGetVersion_v2(*self.0.handle(), &raw mut version) }
            .result()
            .map_err(refused)?;
        Ok(format!("cuBLAS {version}, default mathematics, which is without TF32"))
    }

    /// Multiplies the two square matrices of a program into its output.
    pub(crate) fn multiply(&self, size: u32, arrays: &mut Arrays) -> Result<(), String> {
        let places = (size as usize).pow(2);
        let ([left, right], [product]) = (arrays.inputs.as_slice(), arrays.outputs.as_mut_slice())
        else {
            return Err("the program is no product of two matrices".to_owned());
        };
        assert!([left.len(), right.len(), product.len()] == [places; 3], "square matrices");
        let size = i32::try_from(size).map_err(|error| error.to_string())?;
        // Its matrices are column by column: there, the operands change places.
        let config = GemmConfig {
            transa: blas_sys::cublasOperation_t::CUBLAS_OP_N,
            transb: blas_sys::cublasOperation_t::CUBLAS_OP_N,
            m: size,
            n: size,
            k: size,
            alpha: 1.0,
            lda: size,
            ldb: size,
            beta: 0.0,
            ldc: size,
        };
        // SAFETY: the matrices have as many numbers as the sizes say.
        unsafe { self.0.gemm(config, right, left, product) }.map_err(refused)
    }
}

impl Device {
    /// Opens the first device.
    ///
    /// # Errors
    ///
    /// If there is no driver, or no device.
    pub(crate) fn open() -> Result<Self, String> {
        // SAFETY: it only tries to load the library.
        if !unsafe { sys::is_culib_present() } {
            return Err(
                "there is no CUDA device: the driver's library libcuda.so is not here".to_owned()
            );
        }
        match CudaContext::device_count() {
            Ok(1..) => {}
            Ok(_) => return Err("there is no CUDA device".to_owned()),
            Err(error) => return Err(format!("there is no CUDA device: {error}")),
        }
        let context = CudaContext::new(0).map_err(failed)?;
        // Unlike the default stream, this one can be captured.
        let stream = context.per_thread_stream();
        Ok(Self { context, stream })
    }

    /// The device, its driver and its clock, for measurements.
    pub(crate) fn describe(&self) -> Result<Value, String> {
        let mut driver = 0;
        // SAFETY: the version is written to a place of its type.
        unsafe { sys::cuDriverGetVersion(&raw mut driver) }.result().map_err(failed)?;
        let clock = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE;
        let clock_khz = self.context.attribute(clock).map_err(failed)?;
        let name = self.context.name().map_err(failed)?;
        Ok(json!({ "device": name, "driver": driver, "clock_khz": clock_khz }))
    }

    /// The device, the version of CUDA that its driver has and its highest clock, for the column
    /// `machine`. It names no host.
    pub(crate) fn machine(&self, name: Option<&str>) -> Result<String, String> {
        let about = self.describe()?;
        let number = |key: &str| about[key].as_i64().unwrap_or_default();
        let (driver, clock_mhz) = (number("driver"), number("clock_khz") / 1000);
        let device = about["device"].as_str().unwrap_or_default();
        let (major, minor) = (driver / 1000, driver % 1000 / 10);
        let named = name.map(|name| format!(", named {name}")).unwrap_or_default();
        Ok(format!("{device}, driver of CUDA {major}.{minor}, up to {clock_mhz} MHz{named}"))
    }

    /// The architecture for which code is compiled, such as `sm_90`.
    pub(crate) fn arch(&self) -> Result<String, String> {
        let (major, minor) = self.context.compute_capability().map_err(failed)?;
        Ok(format!("sm_{major}{minor}"))
    }

    /// Compiles the code of a state for this device.
    pub(crate) fn load(&self, source: &CudaSource) -> Result<Loaded, String> {
        let functions =
            self.functions(&source.text, source.kernels.iter().map(|k| k.name.as_str()))?;
        let kernels = functions.into_iter().zip(source.kernels.iter().cloned()).collect();
        Ok(Loaded { kernels, scratch_places: source.scratch_places })
    }

    fn functions<'a>(
        &self,
        text: &str,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<CudaFunction>, String> {
        let image = compile(text, &self.arch()?)?;
        let module = self.context.load_module(Ptx::from_binary(image)).map_err(failed)?;
        names.map(|name| module.load_function(name).map_err(failed)).collect()
    }

    /// Copies numbers to the device.
    pub(crate) fn array(&self, numbers: &[f32]) -> Result<Array, String> {
        self.stream.clone_htod(numbers).map_err(failed)
    }

    /// An array of zeros.
    pub(crate) fn zeros(&self, places: u64) -> Result<Array, String> {
        let places = usize::try_from(places).map_err(|error| error.to_string())?;
        self.stream.alloc_zeros(places.max(1)).map_err(failed)
    }

    /// Copies numbers from the device.
    pub(crate) fn numbers(&self, array: &Array) -> Result<Vec<f32>, String> {
        self.stream.clone_dtoh(array).map_err(failed)
    }

    /// Makes an array zero.
    pub(crate) fn clear(&self, array: &mut Array) -> Result<(), String> {
        self.stream.memset_zeros(array).map_err(failed)
    }

    /// The ways to copy, each with its name.
    pub(crate) fn copiers(&self) -> Result<Vec<(&'static str, Copier)>, String> {
        let kernels = self.functions(COPIES, ["copy1", "copy4"].into_iter())?.into_iter();
        let kernels = kernels
            .zip([1, 4])
            .map(|(function, groups)| Copier::Kernel(function, groups * COPY_THREADS));
        let names = ["driver", "one float4 a thread", "four float4 a thread"];
        Ok(names.into_iter().zip(std::iter::once(Copier::Driver).chain(kernels)).collect())
    }

    /// Copies an array, whose numbers are a multiple of four, to one that is as long.
    pub(crate) fn copy(&self, by: &Copier, from: &Array, to: &mut Array) -> Result<(), String> {
        assert!(from.len() == to.len() && from.len().is_multiple_of(4), "arrays of groups");
        let Copier::Kernel(function, of_block) = by else {
            return self.stream.memcpy_dtod(from, to).map_err(failed);
        };
        let groups = from.len() as u64 / 4;
        let blocks = u32::try_from(groups.div_ceil(u64::from(*of_block)));
        let config = LaunchConfig {
            grid_dim: (blocks.map_err(|error| error.to_string())?, 1, 1),
            block_dim: (COPY_THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut builder = self.stream.launch_builder(function);
        builder.arg(from).arg(to).arg(&groups);
        // SAFETY: the arguments are those of the kernels, which copy no more than the groups that
        // both arrays have.
        unsafe { builder.launch(config) }.map_err(failed)?;
        Ok(())
    }

    /// Opens `cuBLAS`.
    ///
    /// # Errors
    ///
    /// If it is not there, or refuses.
    pub(crate) fn blas(&self) -> Result<Blas, String> {
        // SAFETY: it only tries to load the library.
        if !unsafe { blas_sys::is_culib_present() } {
            return Err("there is no cuBLAS (libcublas.so.13) where the loader looks".to_owned());
        }
        let blas = CudaBlas::new(Arc::clone(&self.stream)).map_err(refused)?;
        let mode = blas_sys::cublasMath_t::CUBLAS_DEFAULT_MATH;
        // SAFETY: the handle is alive.
        unsafe { blas_sys::cublasSetMathMode(*blas.handle(), mode) }.result().map_err(refused)?;
        Ok(Blas(blas))
    }

    /// Launches the kernels of a state once.
    pub(crate) fn launch(&self, loaded: &Loaded, arrays: &mut Arrays) -> Result<(), String> {
        for (function, kernel) in &loaded.kernels {
            let mut builder = self.stream.launch_builder(function);
            arrays.inputs.iter().for_each(|array| {
                builder.arg(array);
            });
            arrays.outputs.iter_mut().for_each(|array| {
                builder.arg(array);
            });
            builder.arg(&mut arrays.scratch);
            let config = LaunchConfig {
                grid_dim: (kernel.blocks, 1, 1),
                block_dim: (kernel.threads, 1, 1),
                shared_mem_bytes: 0,
            };
            // SAFETY: the arguments are those that `CudaSource` states, with arrays of the sizes of
            // the program, and the schedule follows the rules, so the kernel stays within them.
            unsafe { builder.launch(config) }.map_err(failed)?;
        }
        Ok(())
    }

    /// Makes a graph of what `work` launches in so many calls.
    ///
    /// # Errors
    ///
    /// If the device refuses, or `work` launches nothing.
    pub(crate) fn graph(
        &self,
        times: u32,
        work: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<LaunchGraph, String> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.stream.begin_capture(mode).map_err(failed)?;
        let worked = (0..times).try_for_each(|_| work());
        // Also if something failed, since a stream that is captured runs nothing.
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let graph = self.stream.end_capture(flags).map_err(failed);
        worked?;
        graph?.map(LaunchGraph).ok_or_else(|| "nothing was launched for a CUDA graph".to_owned())
    }

    /// Runs `work` so many times and returns the seconds that the device needed for all of them.
    pub(crate) fn seconds(
        &self,
        times: u32,
        work: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<f64, String> {
        let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let begin = self.stream.record_event(flags).map_err(failed)?;
        for _ in 0..times {
            work()?;
        }
        let end = self.stream.record_event(flags).map_err(failed)?;
        let milliseconds = begin.elapsed_ms(&end).map_err(failed)?;
        Ok(f64::from(milliseconds) / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cubin::needs;

    #[test]
    fn kernels_that_copy_compile_to_machine_code() {
        let needs = needs(&compile(COPIES, "sm_90").unwrap()).unwrap();
        assert_eq!(needs.keys().collect::<Vec<_>>(), ["copy1", "copy4"]);
        // Four groups are held in registers at once, for many threads.
        assert!(needs.values().all(|needs| needs.local_bytes == 0 && needs.registers <= 40));
    }
}
