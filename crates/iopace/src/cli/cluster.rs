//! `iopace cluster` as it is asked for.

use super::DaemonArgs;
use clap::{Args, Subcommand};

const CLUSTER_EXAMPLES: &str = "\
Examples:
  iopace cluster status                           limits of all hosts together, and this host's part
  iopace cluster hosts                            who is there, and who has how much
  iopace cluster events                           hosts and settings that came and went
  iopace group set --cluster /vms io.max 'pool wbps=100M'
                                                  100 MiB/s for all hosts of the volume together

A host joins by its configuration: a [cluster] table with the members of etcd, and a device with the
name of its `volume`. Limits hold also when etcd cannot be reached: see docs/cluster.md.";

/// `iopace cluster`
#[derive(Debug, Subcommand)]
#[command(after_help = CLUSTER_EXAMPLES)]
pub enum ClusterCommand {
    /// Show the volumes that are shared, their limits and this host's part
    Status(DaemonArgs),
    /// List the hosts of each volume, and what each has of each limit
    Hosts(DaemonArgs),
    /// Show what happened: hosts that came and went, settings, the store lost and back
    Events(DaemonArgs),
    /// Free the place of a host that does not come back
    ///
    /// One that runs and is only cut off keeps its static part, beside the host that gets its
    /// place.
    Forget(ForgetArgs),
}

/// `iopace cluster forget`
#[derive(Debug, Args)]
pub struct ForgetArgs {
    /// Which host; its daemon has to be ended
    pub host: String,
    /// Of which volume, if there are several
    #[arg(long)]
    pub volume: Option<String>,
    /// Which daemon
    #[command(flatten)]
    pub daemon: DaemonArgs,
}
