//! etcd as the store, by its JSON gateway (`/v3/...`, etcd 3.4 and later).
//!
//! Keys and values are base64 there, and 64-bit numbers are strings. Reads are linearizable, which
//! is etcd's default: they are never older than the question. A member that does not answer is left
//! for the next one of the list.
//!
//! A lease lasts at least its TTL from when a member has heard of its renewal, also when the leader
//! changes meanwhile: a new one begins every lease anew (`lessor.Promote` of etcd).

mod flaws;
#[cfg(test)]
mod tests;

use super::store::{
    Condition, Store, StoreChange, StoreEntry, StoreError, StoreOutcome, StorePut, StoreView,
};
use crate::config::{ClusterConfig, EtcdUser};
use crate::printable::name;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flaws::flaw_of;
use iopace_core::cluster::{Revision, SessionId};
use iopace_core::time::Nanos;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig, TlsProvider};

/// One question takes no longer. A member that has just lost its leader answers after an election,
/// a second or two; one that is cut off does not.
const PATIENCE: Duration = Duration::from_millis(1_000);

/// Longest answer: what 256 hosts publish and have set is some megabytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Of an answer that is no JSON so many characters are told.
const SHOWN_CHARS_MAX: usize = 100;

/// etcd's members, and the one that answered last.
pub(super) struct Etcd {
    agent: ureq::Agent,
    endpoints: Vec<String>,
    at: usize,
    /// Members whose version is known.
    versions_known: Vec<bool>,
    /// Set when the daemon ends: no member is asked then after another one.
    is_ending: Arc<AtomicBool>,
    user: Option<EtcdUser>,
    token: Option<String>,
}

impl Etcd {
    /// Nobody is asked yet.
    pub(super) fn new(config: &ClusterConfig, is_ending: Arc<AtomicBool>) -> Etcd {
        let mut tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
        if let Some(files) = &config.tls {
            let certificate = |der: &rustls::pki_types::CertificateDer<'static>| {
                Certificate::from_der(der.as_ref()).to_owned()
            };
            let roots: Vec<_> = files.authorities.iter().map(certificate).collect();
            tls = tls.root_certs(RootCerts::new_with_certs(&roots));
            if let Some((chain, key)) = &files.own {
                let chain: Vec<_> = chain.iter().map(certificate).collect();
                let key = PrivateKey::from_pem(key).expect("it was read before");
                tls = tls.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
            }
        }
        let agent = ureq::Agent::config_builder()
            .tls_config(tls.build())
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build()
            .new_agent();
        let endpoints = config.etcd.iter().map(|url| url.trim_end_matches('/').to_owned());
        let endpoints: Vec<String> = endpoints.collect();
        Etcd {
            agent,
            versions_known: vec![false; endpoints.len()],
            endpoints,
            at: 0,
            is_ending,
            user: config.user.clone(),
            token: None,
        }
    }

    /// Asks one member, and the others, each once more, if it does not answer.
    ///
    /// So a change may come to the store twice. Its conditions, which are on revisions, hold once:
    /// whatever the second one is answered is true for the first one as well.
    fn ask(&mut self, path: &str, question: &Value) -> Result<Value, StoreError> {
        let mut why = String::new();
        for _ in 0..=self.endpoints.len() {
            match self.ask_one(path, question) {
                Err(StoreError::Unreachable(error)) => {
                    why = format!("{}: {error}", self.endpoints[self.at]);
                    self.at = (self.at + 1) % self.endpoints.len();
                    if self.is_ending.load(Ordering::Relaxed) {
                        break;
                    }
                }
                Err(StoreError::Refused(error)) => {
                    return Err(StoreError::Refused(format!(
                        "{}: {error}",
                        self.endpoints[self.at]
                    )));
                }
                answer => return answer,
            }
        }
        Err(StoreError::Unreachable(why))
    }

    fn ask_one(&mut self, path: &str, question: &Value) -> Result<Value, StoreError> {
        if self.user.is_some() && self.token.is_none() {
            self.log_in()?;
        }
        let (status, answer) = self.post(path, question)?;
        // A token has its time, and ends with a change of users.
        let text = answer["message"].as_str().unwrap_or_default();
        let is_old = status == 401
            || text.contains("revision of auth store is old")
            || text.contains("user name is empty");
        let (status, answer) = match status {
            _ if is_old && self.user.is_some() => {
                self.log_in()?;
                self.post(path, question)?
            }
            _ => (status, answer),
        };
        taken(status, answer)
    }

    fn log_in(&mut self) -> Result<(), StoreError> {
        let Some(user) = self.user.clone() else { return Ok(()) };
        self.token = None;
        let question = json!({"name": user.name, "password": user.password});
        let (status, answer) = self.post("auth/authenticate", &question)?;
        let answer = taken(status, answer)?;
        self.token = answer["token"].as_str().map(str::to_owned);
        Ok(())
    }

    fn post(&self, path: &str, question: &Value) -> Result<(u16, Value), StoreError> {
        let url = format!("{}/v3/{path}", self.endpoints[self.at]);
        let is_encrypted = url.starts_with("https://");
        let unreachable = |error| StoreError::Unreachable(words(&error, is_encrypted));
        let mut request = self.agent.post(&url).header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", token);
        }
        let mut answer = request.send(question.to_string()).map_err(unreachable)?;
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = body.map_err(unreachable)?;
        let status = answer.status().as_u16();
        let value = serde_json::from_slice(&body).map_err(|_| not_of_a_gateway(status, &body))?;
        Ok((status, value))
    }

    /// The version of the member that answered last; `None` if it does not say.
    fn version(&self) -> Option<String> {
        let mut answer =
            self.agent.get(format!("{}/version", self.endpoints[self.at])).call().ok()?;
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec().ok()?;
        let told: Value = serde_json::from_slice(&body).ok()?;
        told["etcdserver"].as_str().map(str::to_owned)
    }
}

/// Why a member was not reached.
fn words(error: &ureq::Error, is_encrypted: bool) -> String {
    match error {
        ureq::Error::Timeout(_) => format!("no answer within {} ms", PATIENCE.as_millis()),
        ureq::Error::Io(error) if is_encrypted && error.kind() == io::ErrorKind::UnexpectedEof => {
            "it speaks no TLS, as an etcd that is http://".into()
        }
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::HostNotFound => "there is no host of that name".into(),
        other => other.to_string(),
    }
}

/// An answer, or the error that it tells.
fn taken(status: u16, answer: Value) -> Result<Value, StoreError> {
    if status == 200 && answer["error"].is_null() {
        return Ok(answer);
    }
    let told = answer["message"].as_str().or(answer["error"].as_str());
    let told = told.or(answer["error"]["message"].as_str());
    let told = told.unwrap_or("it gives no reason").to_owned();
    match answer["code"].as_u64() {
        // NotFound and Unavailable of gRPC.
        Some(5) if told.contains("lease not found") => Err(StoreError::NoSession),
        Some(14) => Err(StoreError::Unreachable(told)),
        // DeadlineExceeded, and whatever a gateway says that has lost its member.
        Some(4) => Err(StoreError::Unreachable(told)),
        _ if status == 503 || told.contains("etcdserver: no leader") => {
            Err(StoreError::Unreachable(told))
        }
        _ if told.contains("timed out") => Err(StoreError::Unreachable(told)),
        // Each error of etcd's gateway has a code of gRPC.
        None => Err(StoreError::Refused(format!(
            "this is no etcd: it answers {status}, {}",
            name(&told)
        ))),
        _ => Err(StoreError::Refused(told)),
    }
}

impl Store for Etcd {
    fn open(&mut self, length: Nanos) -> Result<SessionId, StoreError> {
        let seconds = length.0.div_ceil(1_000_000_000);
        let answer = self.ask("lease/grant", &json!({"TTL": seconds.to_string(), "ID": "0"}))?;
        let id = number(&answer["ID"]).filter(|id| *id != 0);
        id.map(SessionId).ok_or_else(broken)
    }

    fn renew(&mut self, id: SessionId) -> Result<(), StoreError> {
        let answer = self.ask("lease/keepalive", &json!({"ID": id.0.to_string()}))?;
        if answer["result"]["header"].is_null() {
            return Err(broken());
        }
        let left = number(&answer["result"]["TTL"]).unwrap_or(0);
        if left > 0 { Ok(()) } else { Err(StoreError::NoSession) }
    }

    fn end(&mut self, id: SessionId) -> Result<(), StoreError> {
        self.ask("lease/revoke", &json!({"ID": id.0.to_string()})).map(drop)
    }

    fn read(&mut self, prefix: &str) -> Result<StoreView, StoreError> {
        let question = json!({"key": coded(prefix.as_bytes()), "range_end": coded(&end(prefix))});
        let answer = self.ask("kv/range", &question)?;
        let at = revision(&answer["header"])?;
        let entries = answer["kvs"].as_array().map_or(&[][..], Vec::as_slice);
        let entries = entries.iter().map(entry).collect::<Result<_, _>>()?;
        Ok(StoreView { at, entries })
    }

    fn change(&mut self, change: &StoreChange) -> Result<StoreOutcome, StoreError> {
        let StoreChange { conditions, puts, removes, look } = change;
        let look =
            look.as_ref().map(|key| json!({"request_range": {"key": coded(key.as_bytes())}}));
        let mut done: Vec<Value> = puts.iter().map(put).collect();
        done.extend(
            removes
                .iter()
                .map(|key| json!({"request_delete_range": {"key": coded(key.as_bytes())}})),
        );
        let question = json!({
            "compare": conditions.iter().map(compare).collect::<Vec<_>>(),
            "success": done,
            "failure": look.into_iter().collect::<Vec<_>>(),
        });
        let answer = self.ask("kv/txn", &question)?;
        if answer["succeeded"].as_bool() == Some(true) {
            return Ok(StoreOutcome::Done(revision(&answer["header"])?));
        }
        let found = &answer["responses"][0]["response_range"]["kvs"][0];
        let found = if found.is_null() { None } else { Some(entry(found)?) };
        Ok(StoreOutcome::Refused(found))
    }

    fn flaw(&mut self) -> Option<String> {
        if self.versions_known[self.at] {
            return None;
        }
        let version = self.version()?;
        self.versions_known[self.at] = true;
        flaw_of(&version)
    }
}

fn broken() -> StoreError {
    StoreError::Refused(
        "this is no etcd, or none of 3.4 or later: its answer lacks something".into(),
    )
}

/// An answer that is no JSON: of a proxy, of something else than etcd, or of etcd in plain text.
fn not_of_a_gateway(status: u16, body: &[u8]) -> StoreError {
    // A proxy has not reached its member: another one may.
    if status >= 500 {
        return StoreError::Unreachable(format!("its proxy answers {status}"));
    }
    let text = String::from_utf8_lossy(body);
    let text: String = text.trim().chars().take(SHOWN_CHARS_MAX).collect();
    // etcd does so where it knows users, since its gateway has only a certificate of its own.
    StoreError::Refused(match text.starts_with("CommonName of client") {
        true => "etcd knows users, and takes over its gateway no client certificate with a \
                 CommonName: give this host one without"
            .into(),
        false => format!(
            "this is no etcd, or its JSON gateway (/v3/) is off: it answers {status}, {}",
            name(&text)
        ),
    })
}

fn coded(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The first key behind all that begin with `prefix`: its last byte is ASCII, so one more is one.
fn end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// A number, which is a string in JSON if it has 64 bits, and is left out if it is zero.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Null => Some(0),
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    }
}

fn revision(value: &Value) -> Result<Revision, StoreError> {
    number(&value["revision"]).map(Revision).ok_or_else(broken)
}

fn entry(value: &Value) -> Result<StoreEntry, StoreError> {
    let bytes =
        |name: &str| STANDARD.decode(value[name].as_str().unwrap_or("")).map_err(|_| broken());
    let key = String::from_utf8(bytes("key")?).map_err(|_| broken())?;
    let changed = number(&value["mod_revision"]).map(Revision).ok_or_else(broken)?;
    let session = number(&value["lease"]).ok_or_else(broken)?;
    let session = (session != 0).then_some(SessionId(session));
    Ok(StoreEntry { key, value: bytes("value")?, changed, session })
}

fn put(put: &StorePut) -> Value {
    let session = put.session.map_or(0, |id| id.0).to_string();
    json!({"request_put": {
        "key": coded(put.key.as_bytes()), "value": coded(&put.value), "lease": session,
    }})
}

fn compare(condition: &Condition) -> Value {
    match condition {
        Condition::Absent(key) => json!({
            "key": coded(key.as_bytes()), "target": "CREATE", "result": "EQUAL",
            "create_revision": "0",
        }),
        Condition::Unchanged(key, at) => json!({
            "key": coded(key.as_bytes()), "target": "MOD", "result": "EQUAL",
            "mod_revision": at.0.to_string(),
        }),
        Condition::NoneAfter(prefix, at) => json!({
            "key": coded(prefix.as_bytes()), "range_end": coded(&end(prefix)),
            "target": "MOD", "result": "LESS", "mod_revision": (at.0 + 1).to_string(),
        }),
    }
}
