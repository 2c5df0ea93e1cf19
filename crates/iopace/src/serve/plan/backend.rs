//! The disk behind a device of `iopace serve FILE...`.

use crate::cli::DeviceArgs;
use crate::output::Failure;
use iopace_daemon::config::Backend;
use iopace_daemon::nbd_uri::NbdUri;
use std::path::PathBuf;

/// The disk of that file, or of an export that is named in its place.
pub(super) fn backend(file: Option<&PathBuf>, args: &DeviceArgs) -> Result<Backend, Failure> {
    let text = file.and_then(|file| file.to_str()).filter(|text| NbdUri::is_meant(text));
    if let Some(uri) = text {
        return remote(uri, args);
    }
    if args.reconnect_patience.is_some() {
        return Err(Failure::usage(
            "--reconnect-patience is for exports of other servers (nbd://HOST/EXPORT): leave it \
             out",
        ));
    }
    Ok(match &args.emulate {
        Some(model) => Backend::Emulated {
            model: model.clone(),
            store: file.cloned(),
            size: args.size,
            cache: args.cache,
        },
        None => Backend::Path(file.cloned().unwrap_or_default()),
    })
}

fn remote(uri: &str, args: &DeviceArgs) -> Result<Backend, Failure> {
    if args.emulate.is_some() {
        return Err(Failure::usage(
            "--emulate keeps the data of a model in a file, not with another server: leave it out",
        ));
    }
    if args.raw {
        return Err(Failure::usage(format!(
            "{uri}: another server has the image and says what its bytes are: leave out --raw"
        )));
    }
    let dirty = args.dirty_limit.or(args.dirty_background);
    if args.pace.is_some() || args.pause_target.is_some() || dirty.is_some() {
        return Err(Failure::usage(format!(
            "{uri}: the disk of another server is in no page cache here, so no write is buffered \
             and there is nothing to pace: leave out --pace, --pause-target, --dirty-limit and \
             --dirty-background"
        )));
    }
    let uri = uri.parse().map_err(Failure::usage)?;
    Ok(Backend::Remote { uri, patience: args.reconnect_patience })
}
