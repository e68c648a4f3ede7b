//! Batches of sends over real sockets. Without io_uring the only test is that the probe reports it missing.
#![cfg(target_os = "linux")]

use guildhall_uring::{ARENA_BYTES, PartialSend, SENDS_MAX, SendBatch};
use std::{
    io::{ErrorKind, Read as _},
    net::{Shutdown, TcpListener, TcpStream},
    os::fd::AsFd as _,
    time::Duration,
};

fn batch() -> Option<SendBatch> {
    match SendBatch::new() {
        Ok(batch) => Some(batch),
        Err(error) => {
            let expected = [ErrorKind::PermissionDenied, ErrorKind::Unsupported, ErrorKind::InvalidInput];
            assert!(expected.contains(&error.kind()), "{error}");
            eprintln!("no io_uring here: {error}");
            None
        }
    }
}

/// Server and client end.
fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let theirs = listener.accept().unwrap().0;
    theirs.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    (ours, theirs)
}

fn text(n: usize) -> Vec<u8> {
    format!("to {n}: ").bytes().chain(std::iter::repeat_n(b'a' + (n % 26) as u8, n)).collect()
}

#[test]
fn each_socket_gets_its_own() {
    let Some(mut batch) = batch() else { return };
    let mut pairs: Vec<_> = (0..100).map(|_| connected()).collect();
    for round in 0..3 {
        for n in 0..pairs.len() {
            assert!(batch.push(n as u64, &text(n + round)));
        }
        batch.submit(|tag| Some(pairs[tag as usize].0.as_fd()), |tag, _| panic!("{tag} was full")).unwrap();
        assert!(batch.is_empty());
        for (n, (_, theirs)) in pairs.iter_mut().enumerate() {
            let mut got = vec![0; text(n + round).len()];
            theirs.read_exact(&mut got).unwrap();
            assert_eq!(got, text(n + round));
        }
    }
}

#[test]
fn a_partial_send_reports_the_exact_shortfall() {
    let Some(mut batch) = batch() else { return };
    let (ours, mut theirs) = connected();
    let (free, mut free_theirs) = connected();
    let sent: Vec<u8> = (0..ARENA_BYTES - 64).map(|n| (n / 7) as u8).collect();
    let (mut taken, mut rest, mut rounds) = (0, Vec::new(), 0);
    // The peer does not read, so the socket finally takes only a part, or nothing.
    while rest.is_empty() {
        assert!(batch.push(0, &sent));
        assert!(batch.push(1, b"!"));
        let fds = [ours.as_fd(), free.as_fd()];
        let short = |tag: u64, shortfall: PartialSend<'_>| match shortfall {
            PartialSend::Rest(bytes) if tag == 0 => rest = bytes.to_vec(),
            other => panic!("{tag}: {other:?}"),
        };
        batch.submit(|tag| Some(fds[tag as usize]), short).unwrap();
        taken += sent.len() - rest.len();
        rounds += 1;
    }
    assert!(sent.ends_with(&rest));
    let mut got = vec![0; taken];
    theirs.read_exact(&mut got).unwrap();
    assert!(got.iter().zip(sent.iter().cycle()).all(|(got, sent)| got == sent));
    let mut others = vec![0; rounds];
    free_theirs.read_exact(&mut others).unwrap();
    assert!(others.iter().all(|byte| *byte == b'!'), "a full socket delays no other");
}

#[test]
fn closed_sockets_are_reported_and_removed_ones_are_not() {
    let Some(mut batch) = batch() else { return };
    let (dead, _theirs) = connected();
    dead.shutdown(Shutdown::Write).unwrap();
    let (alive, mut theirs) = connected();
    assert!(batch.push(0, b"into the void") && batch.push(1, b"hello") && batch.push(2, b"whose socket is gone"));
    let mut completed = Vec::new();
    let fd_of = |tag| [Some(dead.as_fd()), Some(alive.as_fd()), None][tag as usize];
    batch.submit(fd_of, |tag, shortfall| completed.push((tag, shortfall == PartialSend::Closed))).unwrap();
    assert_eq!(completed, [(0, true)]);
    let mut got = [0; 5];
    theirs.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"hello");
}

#[test]
fn both_limits_hold() {
    let Some(mut batch) = batch() else { return };
    for n in 0..SENDS_MAX {
        assert!(batch.push(n as u64, b"x"));
    }
    assert!(!batch.push(0, b"x"));
    batch.submit(|_| None, |tag, _| panic!("{tag} was dropped")).unwrap();
    assert!(batch.push(0, &vec![0; ARENA_BYTES]));
    assert!(!batch.push(1, b"x"));
    batch.submit(|_| None, |tag, _| panic!("{tag} was dropped")).unwrap();
    assert!(batch.push(1, b"x"));
}

#[test]
fn a_batch_that_was_left_in_the_middle_takes_nothing_more() {
    let Some(mut batch) = batch() else { return };
    let (ours, mut theirs) = connected();
    assert!(batch.push(0, b"never entered") && batch.push(1, b"x"));
    let fd_of = |tag| if tag == 0 { Some(ours.as_fd()) } else { panic!("on purpose") };
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| batch.submit(fd_of, |_, _| {})));
    assert!(result.is_err());
    assert!(!batch.push(0, b"x"));
    assert!(batch.submit(|_| None, |_, _| {}).is_err());
    drop((batch, ours));
    let mut got = Vec::new();
    theirs.read_to_end(&mut got).unwrap();
    assert!(got.is_empty());
}
