//! Listening sockets that a service manager has made.

mod common;

use common::{Place, Ran};
use iopace_nbd::client::{Client, Wanted};
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};

/// A daemon that is given these sockets with these names, as systemd gives them.
fn serve(place: &Place, sockets: &[(&dyn AsFd, &str)], words: &str) -> Child {
    let mut given = String::new();
    for (at, (socket, _)) in sockets.iter().enumerate() {
        let socket = socket.as_fd();
        fcntl_setfd(socket, FdFlags::empty()).expect("inherited");
        // Out of the way of the places that they are to have.
        given += &format!("exec {}<&{}; ", 60 + at, socket.as_raw_fd());
    }
    for at in 0..sockets.len() {
        given += &format!("exec {}<&{}; ", 3 + at, 60 + at);
    }
    let names: Vec<&str> = sockets.iter().map(|(_, name)| *name).collect();
    let script = format!(
        "{given} export LISTEN_PID=$$ LISTEN_FDS={} LISTEN_FDNAMES={}; exec \"$0\" serve {words}",
        sockets.len(),
        names.join(":")
    );
    let iopace = place.command(&[]);
    let mut command = Command::new("bash");
    command.args(["-c", &script]).arg(iopace.get_program());
    command.current_dir(place.path(""));
    command.envs(iopace.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command.env_remove("IOPACE_CONTROL");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
}

fn ended(child: Child) -> Ran {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("signalled");
    Ran::from(child.wait_with_output().expect("waited"))
}

#[test]
fn sockets_that_are_given_are_served_and_stay() {
    let place = Place::new();
    let (path, control) = (place.path("nbd.sock"), place.path("given.ctl"));
    let unix = UnixListener::bind(&path).expect("bound");
    let controlled = UnixListener::bind(&control).expect("bound");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("bound");
    let sockets: [(&dyn AsFd, &str); 3] =
        [(&unix, "nbd"), (&controlled, "control"), (&tcp, "iopace.socket")];
    for turn in 1..=2_u8 {
        // A client that comes before the daemon waits for it.
        let early = UnixStream::connect(&path).expect("it listens");
        let child = serve(&place, &sockets, "disk.img");
        let mut client = Client::connect(early, "disk", Wanted::default()).expect("opened");
        client.write(0, &[turn; 512], true).expect("written");
        let ran = place.run(&["export", "list", "--control", "given.ctl"]);
        assert!(ran.status == Some(0) && ran.out.contains("disk"), "{ran:?}");
        let address = tcp.local_addr().expect("there");
        let stream = std::net::TcpStream::connect(address).expect("connected");
        Client::connect(stream, "disk", Wanted::default()).expect("opened");
        let ran = ended(child);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let uri = format!("nbd+unix:///disk?socket={}", path.display());
        assert!(ran.out.contains(&uri) && ran.out.contains(&format!("nbd://{address}/disk")));
        // Neither is removed, nor is a default one made.
        assert!(path.exists() && control.exists() && !place.sockets().exists());
        assert_eq!(fs::read(place.path("disk.img")).expect("read")[0], turn);
    }
}

/// A socket that other machines reach is served with TLS, or if the user has said that it may be
/// without, whoever has made it.
#[test]
fn a_socket_that_others_reach_needs_tls_or_a_word() {
    let place = Place::new();
    let tcp = TcpListener::bind("0.0.0.0:0").expect("bound");
    let child = serve(&place, &[(&tcp, "nbd")], "disk.img");
    let ran = Ran::from(child.wait_with_output().expect("waited"));
    let is_told = ["service manager", "--tls require", "--tcp-without-tls"];
    assert!(is_told.iter().all(|text| ran.error.contains(text)), "{ran:?}");
    assert_eq!(ran.status, Some(2));
    let child = serve(&place, &[(&tcp, "nbd")], "disk.img --tcp-without-tls");
    let port = tcp.local_addr().expect("there").port();
    let stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connected");
    Client::connect(stream, "disk", Wanted::default()).expect("opened");
    assert_eq!(ended(child).status, Some(0));
}

#[test]
fn what_cannot_be_listened_to_is_refused() {
    let place = Place::new();
    let unix = UnixListener::bind(place.path("s")).expect("bound");
    let file = fs::File::open(place.path("disk.img")).expect("opened");
    let cases: [(&dyn AsFd, &str, &str, &str); 2] = [
        (&file, "nbd", "disk.img", "LISTEN_FDS: descriptor 3: nbd is no socket"),
        (&unix, "control", "disk.img --no-control", "has made a control socket"),
    ];
    for (socket, name, words, text) in cases {
        let child = serve(&place, &[(socket, name)], words);
        let ran = Ran::from(child.wait_with_output().expect("waited"));
        assert!(ran.status == Some(2) && ran.error.contains(text), "{text}: {ran:?}");
    }
}
