//! The parameters of sessions and of the service.

use tonic::Status;

use super::benchmarks::Benchmarks;
use super::recording::RecordedEnvironment;
use super::session::ClientSession;
use crate::proto::SessionParameter;

/// Sets a parameter or returns its value, as its key says.
///
/// # Errors
///
/// `INVALID_ARGUMENT` if there is no such parameter, or it cannot have the value; those of a
/// pipeline.
pub(super) fn answer(
    parameter: &SessionParameter,
    session: &mut ClientSession,
    environment: &RecordedEnvironment,
    benchmarks: &Benchmarks,
) -> Result<String, Status> {
    let SessionParameter { key, value } = parameter;
    let unknown = || Status::invalid_argument(format!("Unknown parameter: {key}"));
    if let Some(key) = key.strip_prefix("service.benchmark_cache.") {
        return match key {
            "get_size_in_bytes" => Ok(benchmarks.bytes().to_string()),
            "get_max_size_in_bytes" => Ok(benchmarks.bytes_max().to_string()),
            "set_max_size_in_bytes" => {
                let bytes = u64::try_from(number(value)?).map_err(|_negative| {
                    Status::invalid_argument(format!("{key} must be >= 0. Received: {value}"))
                })?;
                benchmarks.set_bytes_max(bytes);
                Ok(value.clone())
            }
            _ => Err(unknown()),
        };
    }
    if key == "llvm.apply_baseline_optimizations" {
        if !matches!(value.as_str(), "-O3" | "-Oz") {
            return Err(Status::invalid_argument(format!("Invalid value for {key}: {value}")));
        }
        let has_changed = session.run_pipeline(environment, value)?;
        return Ok(if has_changed { "1" } else { "0" }.to_owned());
    }
    let counts = &mut session.program.counts;
    let key = key.strip_prefix("llvm.").ok_or_else(unknown)?;
    let (verb, name) = key.split_once('_').ok_or_else(unknown)?;
    let (count, least) = match name {
        "runtimes_per_observation_count" => (&mut counts.runtimes, 1),
        "warmup_runs_count_per_runtime_observation" => (&mut counts.warmups, 0),
        "buildtimes_per_observation_count" => (&mut counts.buildtimes, 1),
        _ => return Err(unknown()),
    };
    match verb {
        "get" => Ok(count.to_string()),
        "set" => {
            let wanted = number(value)?;
            if wanted < least {
                let problem = format!("{name} must be >= {least}. Received: {wanted}");
                return Err(Status::invalid_argument(problem));
            }
            *count = u32::try_from(wanted).map_err(|_large| {
                Status::internal(format!("stoi: {name} is too large: {wanted}"))
            })?;
            Ok(value.clone())
        }
        _ => Err(unknown()),
    }
}

/// Parses the number with which a text begins, as `stoi` of C++ does. Clients know its name, and
/// that the error is one of the service.
fn number(text: &str) -> Result<i64, Status> {
    let begin = text.trim_start();
    let digits = begin.strip_prefix(['+', '-']).unwrap_or(begin);
    let digits = digits.len() - digits.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let sign = usize::from(begin.starts_with(['+', '-']));
    begin[..sign + digits].parse().map_err(|_no_number| {
        Status::internal(format!("stoi: `{text}` does not begin with a number: send one"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_clients_expect() {
        for (text, expected) in [("3", 3), (" 4z", 4), ("-1", -1), ("+7 8", 7)] {
            assert_eq!(number(text).unwrap(), expected, "{text}");
        }
        for wrong in ["", "x", "-", "z4"] {
            assert!(number(wrong).unwrap_err().message().starts_with("stoi"), "{wrong}");
        }
    }
}
