//! What samples have to share to be compared.

use std::path::Path;

/// Describes the machine, in one line, for the column `machine`: the processor's model and number
/// of cores, the core that runs are pinned to, how the frequency is governed, the system and its
/// kernel, and a name that the caller gives. Samples of equal texts can be compared. The text names
/// no host and no user.
///
/// Two machines of one kind have one text, unless the caller names them. Their samples may still
/// differ a little, so name them if that matters.
pub fn machine(cpu: Option<usize>, name: Option<&str>) -> String {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut parts = vec![
        processor(&read("/proc/cpuinfo")).unwrap_or_else(|| "an unknown processor".to_owned()),
        format!("{cores} cores"),
        cpu.map_or("not pinned".to_owned(), |cpu| format!("pinned to core {cpu}")),
    ];
    let governor =
        format!("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor", cpu.unwrap_or(0));
    let governor = read(&governor);
    if !governor.trim().is_empty() {
        parts.push(format!("governor {}", governor.trim()));
    }
    parts.extend(system(&read("/etc/os-release")));
    let kernel = read("/proc/sys/kernel/osrelease");
    parts.push(format!("Linux {}", kernel.trim()));
    parts.push(std::env::consts::ARCH.to_owned());
    parts.extend(name.map(|name| format!("named {name}")));
    parts.join(", ")
}

/// The model of the first processor.
fn processor(cpuinfo: &str) -> Option<String> {
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(model.split_once(':')?.1.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The name of the system.
fn system(os_release: &str) -> Option<String> {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_from_the_systems_files() {
        let cpuinfo = "processor\t: 0\nmodel name\t: A  CPU @ 2.00GHz\nmodel name\t: B\n";
        assert_eq!(processor(cpuinfo).as_deref(), Some("A CPU @ 2.00GHz"));
        assert_eq!(processor(""), None);
        let release = "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n";
        assert_eq!(system(release).as_deref(), Some("Debian GNU/Linux 12"));
    }

    #[test]
    fn a_pinned_measurement_is_of_another_machine_than_one_that_is_not() {
        assert_eq!(machine(Some(1), None), machine(Some(1), None));
        assert_ne!(machine(Some(1), None), machine(None, None));
        assert!(machine(None, Some("left")).ends_with("named left"));
    }
}
