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
use steplake::assembly::output::print;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::address::Address;
use crate::codec::{LogicalCodec, MESSAGE_BYTES_MAX, PhysicalCodec, registry};

/// Seconds from one look for lost executors to the next.
const LOOK_SECONDS: u64 = 2;

/// Plan queries, and hand the work out to executors. It needs no lake, and keeps nothing on disk.
#[derive(Debug, Args)]
pub(crate) struct SchedulerArgs {
    /// Where to listen; port 0 takes a free one. Whoever reaches it can read what executors can
    /// read: there is no password, so keep it on a network that you trust.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    listen: Address,

    /// Seconds after which an executor that says nothing is taken for lost, and its work is done
    /// anew.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    executor_timeout: u64,
}

/// Do the work that a scheduler hands out. It reads the files of the lake: have their folder
/// mounted.
#[derive(Debug, Args)]
pub(crate) struct ExecutorArgs {
    /// The scheduler.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    scheduler: Address,

    /// Where others fetch what this one worked out; port 0 takes a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: Address,

    /// The name by which others reach this machine: that of --listen by default.
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,

    /// Parts of queries that are worked on at once. As many as there are cores by default.
    #[arg(long, value_name = "N", default_value_t = 0)]
    cores: usize,

    /// Memory for all of them in MiB, past which they spill; 70% of the machine's by default.
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,

    /// Where results wait to be fetched, and what does not fit into memory. A temporary folder by
    /// default.
    #[arg(long, value_name = "FOLDER")]
    work_dir: Option<PathBuf>,
}

/// Runs until it is told to stop. Says where it listens on standard output.
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
        // Executors ask for work: they need not be reached by the scheduler.
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        task_distribution: TaskDistributionPolicy::RoundRobin,
        executor_timeout_seconds: executor_timeout,
        expire_dead_executor_interval_seconds: LOOK_SECONDS.min(executor_timeout.max(1)),
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
        stopped = tokio::signal::ctrl_c() => Ok(stopped?),
    }
}

/// Runs until it is told to stop. Says where it listens on standard output.
pub(crate) async fn executor(args: ExecutorArgs) -> anyhow::Result<()> {
    let ExecutorArgs { scheduler, listen, advertise, cores, memory, work_dir } = args;
    scheduler.demand_reachable().await?;
    let port = match listen.port {
        // Ballista takes a number alone, so the port is free again for a moment.
        0 => PortFinder::bind((listen.host.as_str(), 0))?.local_addr()?.port(),
        port => port,
    };
    // Lives as long as this process.
    let temporary = tempfile::tempdir()?;
    let work_dir = work_dir.unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&work_dir)
        .with_context(|| format!("{} cannot be made", work_dir.display()))?;
    let work_dir = work_dir
        .to_str()
        .with_context(|| format!("{} is no path in UTF-8", work_dir.display()))?
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
        // Results that nobody fetched in a day, looked for each hour.
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
