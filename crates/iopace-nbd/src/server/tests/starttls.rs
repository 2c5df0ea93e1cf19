use super::*;
use crate::Exports;
use crate::testing::answer;

/// A connection past the client's flags.
fn haggling(tls: TlsMode) -> Talk {
    let mut talk = Talk::with(ServerConfig { tls, ..ServerConfig::default() });
    talk.seen.clear();
    assert_eq!(talk.say(&FLAGS), []);
    talk
}

/// The kind of the one answer to an option.
fn kind(seen: &[Seen]) -> u32 {
    let [Seen::Sent(bytes)] = seen else { panic!("not one reply: {seen:?}") };
    u32::from_be_bytes(bytes[12..16].try_into().expect("four bytes"))
}

fn encrypt(talk: &mut Talk) {
    let seen = talk.say(&option(wire::OPT_STARTTLS, &[]));
    let ack = answer(wire::OPT_STARTTLS, wire::REP_ACK, &[]);
    assert_eq!(seen, [Seen::Sent(ack), Seen::StartTls]);
    talk.server.tls_started();
    talk.poll();
    assert_eq!(talk.seen, []);
}

#[test]
fn where_it_is_required_nothing_else_is_answered_before_it() {
    let mut talk = haggling(TlsMode::Require);
    let options = [
        option(wire::OPT_LIST, &[]),
        option(wire::OPT_LIST, b"data"),
        option(wire::OPT_INFO, &info_data(b"disk", &[])),
        option(wire::OPT_GO, &info_data(b"disk", &[])),
        option(wire::OPT_GO, &vec![0; 20_000]),
        option(wire::OPT_STRUCTURED_REPLY, &[]),
        option(wire::OPT_SET_META_CONTEXT, &meta_data(b"disk", &["base:allocation"])),
        option(wire::OPT_LIST_META_CONTEXT, &meta_data(b"disk", &[])),
        option(99, b"data"),
    ];
    for option in &options {
        let seen = talk.say(option);
        assert_eq!(kind(&seen), wire::REP_ERR_TLS_REQD, "{option:?}: {seen:?}");
    }
    encrypt(&mut talk);
    let seen = talk.say(&option(wire::OPT_GO, &info_data(b"disk", &[])));
    assert!(matches!(seen[..], [Seen::Opened(..)]), "{seen:?}");
}

#[test]
fn where_it_is_required_the_old_way_to_open_ends_the_connection() {
    for name in [b"disk".to_vec(), vec![b'd'; 20_000]] {
        let mut talk = haggling(TlsMode::Require);
        let seen = talk.say(&option(wire::OPT_EXPORT_NAME, &name));
        assert_eq!(seen, [Seen::Close(CloseReason::TlsRequired, vec![])]);
    }
}

#[test]
fn abort_needs_no_encryption() {
    let mut talk = haggling(TlsMode::Require);
    let seen = talk.say(&option(wire::OPT_ABORT, &[]));
    let ack = answer(wire::OPT_ABORT, wire::REP_ACK, &[]);
    assert_eq!(seen, [Seen::Close(CloseReason::Aborted, ack)]);
}

#[test]
fn where_it_is_allowed_both_are_served() {
    let mut talk = haggling(TlsMode::Allow);
    let seen = talk.say(&option(wire::OPT_GO, &info_data(b"disk", &[])));
    assert!(matches!(seen[..], [Seen::Opened(..)]), "{seen:?}");
    let mut talk = haggling(TlsMode::Allow);
    encrypt(&mut talk);
    let seen = talk.say(&option(wire::OPT_GO, &info_data(b"disk", &[])));
    assert!(matches!(seen[..], [Seen::Opened(..)]), "{seen:?}");
}

#[test]
fn what_was_agreed_on_before_is_forgotten() {
    let mut talk = haggling(TlsMode::Allow);
    talk.say(&option(wire::OPT_STRUCTURED_REPLY, &[]));
    talk.say(&option(wire::OPT_SET_META_CONTEXT, &meta_data(b"disk", &["base:allocation"])));
    encrypt(&mut talk);
    let contexts = option(wire::OPT_SET_META_CONTEXT, &meta_data(b"disk", &["base:allocation"]));
    assert_eq!(kind(&talk.say(&contexts)), wire::REP_ERR_INVALID, "structured replies are gone");
    let seen = talk.say(&option(wire::OPT_GO, &info_data(b"disk", &[])));
    let [Seen::Opened(opened, _)] = seen[..] else { panic!("{seen:?}") };
    assert!(!opened.replies.structured && !opened.block_status);
}

#[test]
fn plain_bytes_behind_it_end_the_connection() {
    for behind in [option(wire::OPT_STRUCTURED_REPLY, &[]), vec![0x16]] {
        let mut talk = haggling(TlsMode::Allow);
        let seen = talk.say(&[option(wire::OPT_STARTTLS, &[]), behind].concat());
        assert_eq!(seen, [Seen::Close(CloseReason::BytesBehindStartTls, vec![])]);
    }
}

#[test]
fn a_second_one_is_refused() {
    let mut talk = haggling(TlsMode::Require);
    encrypt(&mut talk);
    let seen = talk.say(&option(wire::OPT_STARTTLS, &[]));
    assert_eq!(kind(&seen), wire::REP_ERR_INVALID);
}

/// `disk`, and `safe`, which is shown on encrypted connections only.
struct Selective;

impl Exports for Selective {
    fn list(&self) -> Vec<ExportInfo> {
        vec![disk(), ExportInfo { id: 9, name: "safe".into(), needs_tls: true, ..disk() }]
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        self.list().into_iter().find(|export| export.name == name)
    }
}

/// The answers to LIST, INFO and GO of `safe`.
fn asked(server: &mut Server) -> [Vec<u8>; 3] {
    let info = info_data(b"safe", &[]);
    let options = [(wire::OPT_LIST, &[] as &[u8]), (wire::OPT_INFO, &info), (wire::OPT_GO, &info)];
    options.map(|(number, data)| {
        let bytes = option(number, data);
        server.recv_space()[..bytes.len()].copy_from_slice(&bytes);
        server.received(bytes.len());
        server.poll(&Selective);
        server.take_output()
    })
}

#[test]
fn an_export_that_needs_it_is_not_shown_without() {
    let config = ServerConfig { tls: TlsMode::Allow, ..ServerConfig::default() };
    let mut server = Server::new(config);
    server.take_output();
    server.recv_space()[..4].copy_from_slice(&FLAGS);
    server.received(4);
    server.poll(&Selective);
    let has = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    let [listed, info, go] = asked(&mut server);
    assert!(has(&listed, b"disk") && !has(&listed, b"safe"), "{listed:?}");
    for answer in [info, go] {
        assert_eq!(answer[12..16], wire::REP_ERR_TLS_REQD.to_be_bytes());
    }
    let bytes = option(wire::OPT_STARTTLS, &[]);
    server.recv_space()[..bytes.len()].copy_from_slice(&bytes);
    server.received(bytes.len());
    server.poll(&Selective);
    server.take_output();
    assert_eq!(server.poll(&Selective), Event::StartTls);
    server.tls_started();
    let [listed, ..] = asked(&mut server);
    assert!(has(&listed, b"disk") && has(&listed, b"safe"), "{listed:?}");
    assert!(!server.in_handshake(), "opened");
}
