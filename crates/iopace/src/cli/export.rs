//! `iopace export` as it is asked for.

use super::{DaemonArgs, SaveArg};
use crate::units;
use clap::{Args, Subcommand, ValueHint};
use iopace_core::units::Bytes;
use std::path::PathBuf;

const EXPORT_EXAMPLES: &str = "\
Examples:
  iopace export list                              what clients can ask for, and who is connected
  iopace export add web --path /srv/web.img       one more disk, under load, without a restart
  iopace export add backup --device web --read-only
                                                  the same disk under another name
  iopace export remove web                        if nobody is connected to it
  iopace export remove web --disconnect           its clients are answered, and ended
  iopace export resize web 20GiB                  its file is made longer

What is added or removed holds until the daemon ends; with --save it is in its configuration file as
well. A changed file adds and removes exports too (systemctl reload iopace).";

const ADD_EXAMPLES: &str = "\
Examples:
  iopace export add web --path /srv/web.img --group /vms/web
  iopace export add web --path web.img --save     and after the next start
  iopace export add backup --device disk --read-only

A file is opened as 'iopace serve' does it: one that somebody else writes is refused, and so is an
image in another format (qcow2). Only root and the daemon's own user may have files opened.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  iopace export remove web
  iopace export remove web --disconnect

With --disconnect nobody comes any more, the requests that were sent are answered, and then the
clients are ended. A device that was opened by 'export add', or by a changed configuration file, is
closed with its last export: everything is durable then, and its file is free.";

const RESIZE_EXAMPLES: &str = "\
Examples:
  iopace export resize web 20GiB                  makes the image file longer, and says so
  iopace export resize web                        after 'lvextend', or 'truncate' by somebody else

Clients that connect from then on have the new size. NBD tells nobody who is connected: reconnect
('nbd-client -d /dev/nbd0' and again; QEMU and libnbd learn a size when they connect). An export is
made smaller only if its file is, and nobody is connected.";

/// `iopace export`
#[derive(Debug, Subcommand)]
#[command(after_help = EXPORT_EXAMPLES)]
pub enum ExportCommand {
    /// List the exports with their devices, sizes and clients
    List(DaemonArgs),
    /// Export a disk that is served already, or a file, under a new name
    Add(ExportAddArgs),
    /// Remove an export
    Remove(ExportRemoveArgs),
    /// Have an export be as large as its file or disk is, or make the file longer
    Resize(ExportResizeArgs),
}

/// `iopace export add`
#[derive(Debug, Args)]
#[command(after_help = ADD_EXAMPLES)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["device", "path"])))]
pub struct ExportAddArgs {
    /// The name that clients ask for
    pub name: String,
    /// A device that the daemon has
    #[arg(long)]
    pub device: Option<String>,
    /// An image file or block device to be opened; the device has the name of the export
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub path: Option<PathBuf>,
    /// The group that its clients pay as [default: /]
    #[arg(long)]
    pub group: Option<String>,
    /// Refuse writes; a file is opened to be read only
    #[arg(long)]
    pub read_only: bool,
    /// Show it on encrypted connections only, where clients need not encrypt ('serve --tls allow')
    #[arg(long)]
    pub require_tls: bool,
    /// Serve an image in another format (qcow2) as the bytes that it is
    #[arg(long, conflicts_with = "device")]
    pub raw: bool,
    /// Bypass the page cache
    #[arg(long, conflicts_with = "device")]
    pub direct: bool,
    /// Which daemon
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// Keep it
    #[command(flatten)]
    pub keep: SaveArg,
}

/// `iopace export remove`
#[derive(Debug, Args)]
#[command(after_help = REMOVE_EXAMPLES)]
pub struct ExportRemoveArgs {
    /// Which export
    pub name: String,
    /// Answer what its clients have asked for, and end them
    #[arg(long)]
    pub disconnect: bool,
    /// Which daemon
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// Keep it
    #[command(flatten)]
    pub keep: SaveArg,
}

/// `iopace export resize`
#[derive(Debug, Args)]
#[command(after_help = RESIZE_EXAMPLES)]
pub struct ExportResizeArgs {
    /// Which export
    pub name: String,
    /// The size that its image file gets, as 20GiB [default: the size that it has by now]
    #[arg(value_parser = units::parse_size)]
    pub size: Option<Bytes>,
    /// Which daemon
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use clap::Parser;

    #[test]
    fn what_is_exported_is_said_once() {
        for line in ["x", "x --device y --path z", "x --device y --raw", "x --device y --direct"] {
            let words = ["iopace", "export", "add"].into_iter().chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
        assert!(Cli::try_parse_from(["iopace", "export", "add", "x", "--path", "y"]).is_ok());
    }
}
