//! The processes of a cluster: one scheduler, and executors.

use std::net::TcpListener as PortFinder;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::{SchedulerConfig, TaskDistributionPolicy};
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use clap::Args;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use steplake_terminal::output::print;
use steplake_terminal::signals::ignores_interrupts;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::address::Address;
use crate::codec::{LogicalCodec, MESSAGE_BYTES_MAX, PhysicalCodec, registry};

/// Seconds between two checks for lost executors.
const CHECK_SECONDS: u64 = 2;

/// Plan queries and assign their tasks to executors. A scheduler needs no lake and keeps nothing on
/// disk.
#[derive(Debug, Args)]
pub(crate) struct SchedulerArgs {
    /// The address to listen on; port 0 takes a free port. There is no password: anyone who can
    /// reach this address can read and write every file that the executors can read and write. Keep
    /// it on a network that you trust.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    listen: Address,

    /// Seconds without a sign of life after which an executor counts as lost, and others redo its
    /// work.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    executor_timeout: u64,
}

/// Run the tasks that a scheduler assigns. The files of the lake must be mounted on this machine.
#[derive(Debug, Args)]
pub(crate) struct ExecutorArgs {
    /// The scheduler.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    scheduler: Address,

    /// The address from which others fetch results; port 0 takes a free port.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: Address,

    /// The host name by which others reach this machine; by default that of --listen.
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,

    /// The number of concurrent tasks; by default the number of cores.
    #[arg(long, value_name = "N", default_value_t = 0)]
    cores: usize,

    /// The memory for all tasks in MiB, beyond which they spill; by default 70% of the machine's.
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,

    /// The folder for results until they are fetched, and for what does not fit into memory; by
    /// default a temporary folder.
    #[arg(long, value_name = "FOLDER")]
    work_dir: Option<PathBuf>,
}

/// Runs a scheduler until a signal stops it. Prints its address.
pub(crate) async fn scheduler(args: SchedulerArgs) -> anyhow::Result<()> {
    let SchedulerArgs { listen, executor_timeout } = args;
    let listener = TcpListener::bind(listen.to_string())
        .await
        .with_context(|| format!("cannot listen on {listen}: name another port with --listen"))?;
    let port = listener.local_addr()?.port();
    let config = SchedulerConfig {
        external_host: listen.host.clone(),
        bind_host: listen.host.clone(),
        bind_port: port,
        // Executors ask for work, so the scheduler need not reach them.
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        task_distribution: TaskDistributionPolicy::RoundRobin,
        executor_timeout_seconds: executor_timeout,
        expire_dead_executor_interval_seconds: CHECK_SECONDS.min(executor_timeout.max(1)),
        no_executors_grace_period_seconds: 2 * executor_timeout,
        grpc_server_max_decoding_message_size: MESSAGE_BYTES_MAX,
        grpc_server_max_encoding_message_size: MESSAGE_BYTES_MAX,
        grpc_client_max_message_size: MESSAGE_BYTES_MAX,
        override_logical_codec: Some(Arc::new(LogicalCodec::default())),
        override_physical_codec: Some(Arc::new(PhysicalCodec::default())),
        ..SchedulerConfig::default()
    };
    let cluster = BallistaCluster::new_from_config(&config).await?;
    let scheduler =
        create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, Arc::new(config)).await?;
    announce(&format!("scheduler on {}:{port}", listen.host))?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        ended = start_grpc_service_with_listener(listener, scheduler) => Ok(ended?),
        _ = terminate.recv() => Ok(()),
        stopped = tokio::signal::ctrl_c(), if !ignores_interrupts() => Ok(stopped?),
    }
}

/// Runs an executor until a signal stops it. Prints its address.
pub(crate) async fn executor(args: ExecutorArgs) -> anyhow::Result<()> {
    let ExecutorArgs { scheduler, listen, advertise, cores, memory, work_dir } = args;
    scheduler.demand_reachable().await?;
    let port = match listen.port {
        // Ballista takes only a number, so the port is free again for a moment.
        0 => PortFinder::bind((listen.host.as_str(), 0))?.local_addr()?.port(),
        port => port,
    };
    // The folder lives as long as this process.
    let temporary = tempfile::tempdir()?;
    let work_dir = work_dir.unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&work_dir)
        .with_context(|| format!("{} cannot be created", work_dir.display()))?;
    let work_dir = work_dir
        .to_str()
        .with_context(|| format!("the path {} is not UTF-8", work_dir.display()))?
        .to_owned();
    let config = ExecutorProcessConfig {
        bind_host: listen.host.clone(),
        external_host: Some(advertise.unwrap_or_else(|| listen.host.clone())),
        port,
        scheduler_host: scheduler.host.clone(),
        scheduler_port: scheduler.port,
        task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
        vcores: match cores {
            0 => std::thread::available_parallelism()?.get(),
            cores => cores,
        },
        memory_pool_size: memory.map(|mib| mib << 20),
        work_dir: Some(work_dir),
        // Results that are not fetched within a day are deleted; a check runs every hour.
        job_data_ttl_seconds: 24 * 3600,
        job_data_clean_up_interval_seconds: 3600,
        grpc_max_decoding_message_size: MESSAGE_BYTES_MAX,
        grpc_max_encoding_message_size: MESSAGE_BYTES_MAX,
        override_function_registry: Some(Arc::new(registry()?)),
        override_logical_codec: Some(Arc::new(LogicalCodec::default())),
        override_physical_codec: Some(Arc::new(PhysicalCodec::default())),
        ..ExecutorProcessConfig::default()
    };
    announce(&format!("executor {} on {}:{port}", config.executor_id, listen.host))?;
    Ok(start_executor_process(Arc::new(config)).await?)
}

/// Prints the address of a process, now that others can reach it.
fn announce(address: &str) -> anyhow::Result<()> {
    print(&format!("{address}\n")).map_err(anyhow::Error::msg)
}
