//! Connections in captures: how each ends and what was in flight, and that nothing is guessed.

use super::super::{
    super::note::Notes,
    packets::tests::{ip, pcap},
    table::{Ports, Table, read},
};
use super::*;

const CLIENT: &str = "10.0.0.1:40000";
const POD: &str = "10.0.0.2:8080";
const GET: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
const HALF: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234";

/// Turns: who (`>` the client), flags, bytes; sequence numbers follow from them.
fn table(turns: &[(char, &str, &[u8])]) -> Table {
    let (mut asked, mut answered) = (100_u32, 900_u32);
    let mut packets = Vec::new();
    for (second, (who, flags, data)) in (0..).zip(turns) {
        let (from, to, seq) =
            if *who == '>' { (CLIENT, POD, &mut asked) } else { (POD, CLIENT, &mut answered) };
        packets.push((second, ip(from, to, *seq, flags, data)));
        let control = u32::from(flags.contains(['S', 'F']));
        *seq += u32::try_from(data.len()).unwrap() + control;
    }
    read(&pcap(101, &packets)[..], &Ports::default(), &mut Notes::on("pod.pcap"))
}

fn end(turns: &[(char, &str, &[u8])]) -> (Ending, Phase, u64) {
    let begun: [(char, &str, &[u8]); 3] = [('>', "S", b""), ('<', "SA", b""), ('>', "A", b"")];
    let table = table(&[&begun[..], turns].concat());
    let end = table.conversations[0].end.unwrap();
    (end.ending, end.phase, end.in_flight)
}

/// Exercises ends in each phase, so that the first FIN or RST is judged by what was in flight just then.
#[test]
fn phases() {
    let fin: (char, &str, &[u8]) = ('>', "FA", b"");
    let rst: (char, &str, &[u8]) = ('>', "RA", b"");
    let own: (char, &str, &[u8]) = ('<', "FA", b"");
    assert_eq!(end(&[fin]), (Ending::FinReceived, Phase::Idle, 0));
    assert_eq!(end(&[('>', "A", GET), fin, rst]), (Ending::FinReceived, Phase::Awaiting, 1));
    assert_eq!(end(&[('>', "A", GET), ('<', "A", HALF), rst]), (Ending::RstReceived, Phase::Streaming, 1));
    assert_eq!(
        end(&[('>', "A", GET), ('<', "A", HALF), ('<', "A", b"56789"), rst]),
        (Ending::RstReceived, Phase::Idle, 0)
    );
    assert_eq!(end(&[('>', "A", GET), ('<', "A", HALF), own]), (Ending::FinSent, Phase::Streaming, 1));
    assert_eq!(
        end(&[('>', "A", GET), ('<', "FA", b"HTTP/1.0 200 OK\r\n\r\nx")]),
        (Ending::FinSent, Phase::Unknown, 0)
    );
    // The last bytes of the answer come with the pod's FIN.
    assert_eq!(
        end(&[('>', "A", GET), ('<', "A", HALF), ('<', "FA", b"56789")]),
        (Ending::FinSent, Phase::Idle, 0)
    );
    assert_eq!(end(&[('>', "A", b"\x16\x03\x01"), fin]).1, Phase::Unknown);
    assert_eq!(end(&[('>', "A", b"SSH-2.0"), fin]).1, Phase::Unknown);
}

/// Exercises captures that began late or hold heads of connections only, so that an end is told and nothing is guessed.
#[test]
fn in_part() {
    let late = table(&[('>', "A", GET), ('>', "FA", b"")]);
    assert_eq!(late.conversations[0].end.unwrap().phase, Phase::Unknown);
    let alone = table(&[('>', "RA", b"")]);
    assert!(alone.conversations[0].end.is_none(), "an RST to an attempt, as far as one can tell");
    let mut packets = vec![(0, ip(CLIENT, POD, 100, "S", b"")), (0, ip(POD, CLIENT, 900, "SA", b""))];
    packets.push((1, ip(CLIENT, POD, 140, "FA", b"")));
    let filtered = read(&pcap(101, &packets)[..], &Ports::default(), &mut Notes::on("pod.pcap"));
    assert_eq!(
        filtered.conversations[0].end.unwrap().phase,
        Phase::Unknown,
        "40 bytes are not in the capture"
    );
}

/// Exercises an attempt that is refused, a health check, the pod's own request and the same ports used twice, so that
/// each connection of users is one.
#[test]
fn whose() {
    let refused = table(&[('>', "S", b""), ('<', "RA", b"")]);
    assert!(refused.conversations[0].end.is_none() && refused.conversations[0].rst.is_none());
    let packets = [
        (0, ip("10.0.0.9:5000", "10.0.0.2:18180", 1, "S", b"")),
        (1, ip("10.0.0.2:5001", "10.0.0.7:8080", 1, "S", b"")),
        (2, ip(CLIENT, POD, 1, "S", b"")),
        (3, ip(POD, CLIENT, 1, "SA", b"")),
        (4, ip(CLIENT, POD, 2, "RA", b"")),
        (5, ip(CLIENT, POD, 9, "S", b"")),
        (6, ip("127.0.0.1:5", "127.0.0.1:9000", 9, "S", b"")),
    ];
    let ports = Ports { health: [18180].into(), admin: [15000].into() };
    let table = read(&pcap(101, &packets)[..], &ports, &mut Notes::on("pod.pcap"));
    assert_eq!(table.conversations.len(), 2);
    assert_eq!(table.checkers.len(), 1);
    assert!(table.conversations.iter().all(|one| one.server == POD.parse().unwrap()));
}
