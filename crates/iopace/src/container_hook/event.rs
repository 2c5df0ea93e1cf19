//! What a runtime or containerd says of a container, on standard input.

use iopace_daemon::printable;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;

/// Longest text that is read. Annotations of a pod have 256 KiB at most; in JSON a character of
/// them has up to six bytes.
const EVENT_BYTES_MAX: u64 = 2 << 20;

/// What happened.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ContainerEvent {
    /// The container that is about to start; none if it does something else.
    pub(super) start: Option<StartingContainer>,
    /// The version of NRI, if an answer on standard output is wanted.
    pub(super) nri_version: Option<String>,
}

/// A container that is about to start.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StartingContainer {
    /// Its name at the runtime.
    pub(super) id: String,
    /// Its first process, which is in its cgroup already.
    pub(super) pid: u32,
    /// All of them.
    pub(super) annotations: BTreeMap<String, String>,
}

/// State of a container, as in the runtime specification of OCI.
#[derive(Deserialize)]
struct OciState {
    id: String,
    status: String,
    #[serde(default)]
    pid: i64,
    annotations: Option<BTreeMap<String, String>>,
}

/// A request of NRI 0.1.
#[derive(Deserialize)]
struct NriRequest {
    version: String,
    id: String,
    state: String,
    #[serde(default)]
    pid: i64,
    spec: Option<NriSpec>,
}

#[derive(Deserialize)]
struct NriSpec {
    annotations: Option<BTreeMap<String, String>>,
}

impl ContainerEvent {
    /// Reads all that comes.
    ///
    /// # Errors
    /// It is too long, or of no known form.
    pub(super) fn read(input: impl Read) -> Result<ContainerEvent, String> {
        let mut text = Vec::new();
        let read = input.take(EVENT_BYTES_MAX + 1).read_to_end(&mut text);
        read.map_err(|error| format!("standard input cannot be read: {error}"))?;
        if text.len() as u64 > EVENT_BYTES_MAX {
            return Err(format!("standard input has more than {EVENT_BYTES_MAX} bytes"));
        }
        let value: Value = serde_json::from_slice(&text)
            .map_err(|error| format!("standard input is not JSON ({error}): {RIGHT}"))?;
        if value.get("ociVersion").is_some() {
            ContainerEvent::of_oci(as_known("the state of a container", value)?)
        } else if value.get("state").is_some() && value.get("version").is_some() {
            ContainerEvent::of_nri(as_known("a request of NRI", value)?)
        } else {
            Err(format!(
                "standard input has neither 'ociVersion' nor 'version' and 'state': {RIGHT}"
            ))
        }
    }

    fn of_oci(state: OciState) -> Result<ContainerEvent, String> {
        let starts = matches!(&*state.status, "creating" | "created" | "running");
        let annotations = state.annotations;
        let start = starts.then(|| starting(state.id, state.pid, annotations)).transpose()?;
        Ok(ContainerEvent { start, nri_version: None })
    }

    fn of_nri(request: NriRequest) -> Result<ContainerEvent, String> {
        let annotations = request.spec.and_then(|spec| spec.annotations);
        let starts = request.state == "create";
        let start = starts.then(|| starting(request.id, request.pid, annotations)).transpose()?;
        Ok(ContainerEvent { start, nri_version: Some(request.version) })
    }
}

const RIGHT: &str = "the state of a container (OCI) or a request of NRI 0.1 is expected there, and \
                     a runtime calls this, see docs/containers.md";

fn as_known<T: DeserializeOwned>(what: &str, value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("standard input is not {what}: {error}"))
}

fn starting(
    id: String,
    pid: i64,
    annotations: Option<BTreeMap<String, String>>,
) -> Result<StartingContainer, String> {
    let pid = u32::try_from(pid).ok().filter(|pid| *pid > 0).ok_or_else(|| {
        let id = printable::name(&id);
        format!("container {id} has no process yet: call this as a hook createRuntime")
    })?;
    Ok(StartingContainer { id, pid, annotations: annotations.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ContainerEvent, String> {
        ContainerEvent::read(text.as_bytes())
    }

    fn start(id: &str, annotations: &[(&str, &str)]) -> Option<StartingContainer> {
        let annotations = annotations.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Some(StartingContainer { id: id.into(), pid: 4711, annotations: annotations.collect() })
    }

    #[test]
    fn the_state_of_runc_and_crun_is_read() {
        let text = r#"{"ociVersion":"1.0.2-dev","id":"web","status":"creating","pid":4711,
            "bundle":"/b","annotations":{"iopace.io/io.max":"wbps=1M"}}"#;
        let right = start("web", &[("iopace.io/io.max", "wbps=1M")]);
        assert_eq!(read(text), Ok(ContainerEvent { start: right, nri_version: None }));
        // crun before 1.9 has no list of annotations where there are none.
        let bare = r#"{"ociVersion":"1.0","id":"web","status":"created","pid":4711,"bundle":"/b"}"#;
        assert_eq!(read(bare).expect("right").start, start("web", &[]));
        let null = bare.replace("\"bundle\"", "\"annotations\":null,\"bundle\"");
        assert_eq!(read(&null).expect("right").start, start("web", &[]));
        let stopped = bare.replace("created", "stopped").replace("4711", "0");
        assert_eq!(read(&stopped).expect("right").start, None);
    }

    #[test]
    fn a_request_of_nri_is_read() {
        let text = r#"{"conf":{},"version":"0.1","state":"create","id":"c0ffee","pid":4711,
            "sandboxID":"beef","labels":{"app":"web"},"spec":{"resources":{"cpu":{}},
            "namespaces":{"pid":""},"cgroupsPath":"kubepods.slice:cri-containerd:c0ffee",
            "annotations":{"iopace.io/io.weight":"200"}}}"#;
        let nri_version = Some("0.1".to_owned());
        let right = start("c0ffee", &[("iopace.io/io.weight", "200")]);
        assert_eq!(
            read(text),
            Ok(ContainerEvent { start: right, nri_version: nri_version.clone() })
        );
        let delete = text.replace("create", "delete").replace("4711", "-1");
        assert_eq!(read(&delete), Ok(ContainerEvent { start: None, nri_version }));
    }

    #[test]
    fn all_else_is_refused_with_a_reason() {
        let cases = [
            ("", "not JSON"),
            ("[]", "neither"),
            ("{\"pid\":1}", "neither"),
            (r#"{"ociVersion":"1","id":7,"status":"created"}"#, "not the state of a container"),
            (r#"{"ociVersion":"1","id":"a\u001b","status":"created","pid":0}"#, "a\\x1b has no"),
            (r#"{"ociVersion":"1","id":"a","status":"created","pid":-4}"#, "no process"),
            (r#"{"ociVersion":"1","id":"a","status":"created","pid":4294967296}"#, "no process"),
            (
                r#"{"ociVersion":"1","id":"a","status":"created","pid":9,"annotations":["b"]}"#,
                "not the state of a container",
            ),
            (r#"{"version":"0.1","state":"create","id":"a","spec":4,"pid":9}"#, "request of NRI"),
            (&"[".repeat(10_000), "not JSON"),
            (&" ".repeat(EVENT_BYTES_MAX as usize + 1), "more than"),
        ];
        for (text, reason) in cases {
            let told = read(text).expect_err("refused");
            assert!(told.contains(reason), "{told}");
        }
    }
}
