//! The device: memory, modules, launches and clocks.

#![expect(unsafe_code, reason = "functions of the driver, and kernels")]

use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute, CUevent_flags};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DriverError, LaunchConfig, PushKernelArg as _,
};
use cudarc::nvrtc::Ptx;
use serde_json::{Value, json};
use steplake::env::loops::cuda::{CudaSource, Kernel};

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
    kernels: Vec<(CudaFunction, Kernel)>,
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

fn failed(error: DriverError) -> String {
    format!("the driver of CUDA refuses: {error}")
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
        let stream = context.default_stream();
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
        let (major, minor) = self.context.compute_capability().map_err(failed)?;
        let image = compile(text, &format!("sm_{major}{minor}"))?;
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
