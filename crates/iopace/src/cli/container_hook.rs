//! `iopace container-hook` as it is asked for.

use super::group::files;
use clap::{Args, ValueHint};
use std::path::PathBuf;

const CONTAINER_HOOK_EXAMPLES: &str = "\
Examples:
  podman run --annotation iopace.io/io.max='wbps=20M' ...
  podman run --annotation iopace.io/io.weight=300 --annotation iopace.io/io.ioprio_class=idle ...

An annotation is iopace.io/FILE, and its value what 'iopace group set' writes to FILE, without a
device: it holds on all. The group is that of the container's cgroup, in a pod of Kubernetes that of
the pod, in every mount with the rule map=cgroup; it goes with the cgroup. What is wrong is said on
standard error, nothing is set then, and the container starts all the same.

On standard input comes the state of a container (a hook createRuntime or prestart of OCI: podman,
CRI-O, containerd) or a request of NRI 0.1 (containerd 1.6). docs/containers.md says how each calls
it.";

/// `iopace container-hook`
#[derive(Debug, Args)]
#[command(after_help = CONTAINER_HOOK_EXAMPLES)]
pub struct ContainerHookArgs {
    /// Keep a container from starting whose annotations do not hold: where they are wrong, no
    /// daemon runs, or no mount maps cgroups
    #[arg(long)]
    pub required: bool,
    /// The files that annotations may write
    #[arg(long, value_name = "FILE", value_delimiter = ',', value_parser = files(true))]
    #[arg(default_values = ["io.max", "io.weight", "io.ioprio_class"], hide_possible_values = true)]
    pub allow: Vec<String>,
    /// The only daemon that is told, by its control socket [default: all of the user]
    #[arg(long, value_name = "PATH", env = "IOPACE_CONTROL", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
}
