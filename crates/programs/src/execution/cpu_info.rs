//! The processor of this machine: the observation `CpuInfo`.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use serde::Serialize;

/// The processor as CompilerGym describes it. Sizes are in bytes, -1 for a cache that is not there.
#[derive(Debug, Default, PartialEq, Serialize)]
struct CpuInfo {
    cores_count: usize,
    l1d_cache_count: usize,
    l1d_cache_size: i64,
    l1i_cache_count: usize,
    l1i_cache_size: i64,
    l2_cache_count: usize,
    l2_cache_size: i64,
    l3_cache_count: usize,
    l3_cache_size: i64,
    l4_cache_count: usize,
    l4_cache_size: i64,
    name: String,
}

/// The caches of one kind: how many there are, and the size of one.
#[derive(Debug, Default)]
struct Caches {
    /// The processors that share each of them.
    shared_by: HashSet<String>,
    bytes: Option<i64>,
}

impl Caches {
    fn parts(&self) -> (usize, i64) {
        (self.shared_by.len(), self.bytes.unwrap_or(-1))
    }
}

/// Returns the processor as a JSON object: its name, its number of cores, and the number and size
/// of its caches. What the system does not tell is 0, -1 or empty.
pub fn cpu_info() -> String {
    let info = read(Path::new("/proc/cpuinfo"), Path::new("/sys/devices/system/cpu"));
    serde_json::to_string(&info).unwrap_or_else(|_never| "{}".to_owned())
}

fn read(cpuinfo: &Path, cpus: &Path) -> CpuInfo {
    let text = fs::read_to_string(cpuinfo).unwrap_or_default();
    let values = |key: &'static str| {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        fields.filter(move |(known, _)| known.trim() == key).map(|(_, value)| value.trim())
    };
    let caches = |level: &str, kind: &str| caches(cpus, level, kind).parts();
    let (l1d_cache_count, l1d_cache_size) = caches("1", "Data");
    let (l1i_cache_count, l1i_cache_size) = caches("1", "Instruction");
    let (l2_cache_count, l2_cache_size) = caches("2", "Unified");
    let (l3_cache_count, l3_cache_size) = caches("3", "Unified");
    let (l4_cache_count, l4_cache_size) = caches("4", "Unified");
    CpuInfo {
        cores_count: values("processor").count(),
        name: values("model name").next().unwrap_or_default().to_owned(),
        l1d_cache_count,
        l1d_cache_size,
        l1i_cache_count,
        l1i_cache_size,
        l2_cache_count,
        l2_cache_size,
        l3_cache_count,
        l3_cache_size,
        l4_cache_count,
        l4_cache_size,
    }
}

fn caches(cpus: &Path, level: &str, kind: &str) -> Caches {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = Caches::default();
    let cpus = entries(cpus).filter(|cpu| cpu.file_name().to_string_lossy().starts_with("cpu"));
    for cache in cpus.flat_map(|cpu| entries(&cpu.path().join("cache"))) {
        let value = |name: &str| {
            fs::read_to_string(cache.path().join(name)).unwrap_or_default().trim().to_owned()
        };
        if value("level") == level && value("type") == kind {
            found.shared_by.insert(value("shared_cpu_list"));
            found.bytes = found.bytes.or_else(|| bytes(&value("size")));
        }
    }
    found
}

/// Parses a size of the kernel: `32K`.
fn bytes(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    digits.parse::<i64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_that_are_shared_count_once() {
        let folder = tempfile::tempdir().unwrap();
        let cpuinfo = folder.path().join("cpuinfo");
        let processor = "processor\t: 0\nmodel name\t: A Core\n\n";
        fs::write(&cpuinfo, processor.repeat(2)).unwrap();
        for cpu in ["cpu0", "cpu1"] {
            let caches = [
                ("index0", "1", "Data", "32K", if cpu == "cpu0" { "0" } else { "1" }),
                ("index1", "3", "Unified", "8M", "0-1"),
            ];
            for (index, level, kind, size, shared) in caches {
                let cache = folder.path().join(cpu).join("cache").join(index);
                fs::create_dir_all(&cache).unwrap();
                for (name, value) in
                    [("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)]
                {
                    fs::write(cache.join(name), value).unwrap();
                }
            }
        }
        let info = read(&cpuinfo, folder.path());
        assert_eq!((info.cores_count, info.name.as_str()), (2, "A Core"));
        assert_eq!((info.l1d_cache_count, info.l1d_cache_size), (2, 32 << 10));
        assert_eq!((info.l3_cache_count, info.l3_cache_size), (1, 8 << 20));
        assert_eq!((info.l2_cache_count, info.l2_cache_size), (0, -1));
    }
}
