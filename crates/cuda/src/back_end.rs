//! Kernels of recorded states on the device, for the table `measurements`.

use steplake::env::loops::cuda::{CudaSource, VERSION};
use steplake::env::loops::dag::Dag;
use steplake::env::loops::state::LoopsState;
use steplake::measure::{BackEnd, KernelError, MeasureError};

use crate::compiler::{OPTIONS, version};
use crate::device::{Device, Loaded};
use crate::run::{arrays, check};

/// The least seconds of a sample: shorter kernels are launched several times for one.
const SAMPLE_S_MIN: f64 = 0.002;

/// The most launches of a sample.
const LAUNCHES_MAX: u32 = 1 << 12;

/// The device as what measures a lake.
#[derive(Debug)]
pub(crate) struct Gpu(pub(crate) Device);

/// A kernel on the device, with its program.
#[derive(Debug)]
pub(crate) struct GpuKernel {
    loaded: Loaded,
    dag: Dag,
}

impl BackEnd for Gpu {
    type Kernel = GpuKernel;

    fn compilation(&self) -> Result<String, MeasureError> {
        let (major, minor) = version().map_err(MeasureError::Device)?;
        let arch = self.0.arch().map_err(MeasureError::Device)?;
        Ok(format!("CUDA C++ of loops-v0 {VERSION}; NVRTC {major}.{minor} {arch} {OPTIONS}"))
    }

    fn build(&self, state: &LoopsState) -> Result<GpuKernel, KernelError> {
        let loaded = self.0.load(&CudaSource::of(state)).map_err(KernelError::Refused)?;
        Ok(GpuKernel { loaded, dag: (*state.dag).clone() })
    }

    fn time(&self, kernel: &GpuKernel, seed: u64, warmups: u32) -> Result<f64, KernelError> {
        let (GpuKernel { loaded, dag }, Self(device)) = (kernel, self);
        // The device may have no room for the arrays.
        let arrays = arrays(device, dag, loaded.scratch_places, seed);
        let mut arrays = arrays.map_err(KernelError::Refused)?;
        // Later runs would hide what the first one leaves out.
        device.launch(loaded, &mut arrays).map_err(KernelError::Device)?;
        check(device, dag, &arrays, seed)?;
        let mut seconds = |times| {
            let seconds = device.seconds(times, &mut || device.launch(loaded, &mut arrays));
            seconds.map_err(KernelError::Device)
        };
        // Nothing comes between these launches, so that the device does not idle.
        let mut launches = 1;
        while launches < LAUNCHES_MAX && seconds(launches)? < SAMPLE_S_MIN {
            launches *= 2;
        }
        if warmups > 0 {
            seconds(warmups)?;
        }
        let sample = seconds(launches)? / f64::from(launches);
        check(device, dag, &arrays, seed)?;
        Ok(sample)
    }
}
