//! Captures in the formats there are, whole, cut off, and none.

use proptest::prelude::*;

use super::*;

/// A pcap file with these packets, of a link type.
pub(in super::super) fn pcap(link: u32, packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, link] {
        file.extend(word.to_le_bytes());
    }
    for (second, data) in packets {
        let length = u32::try_from(data.len()).unwrap();
        for word in [*second, 500_000, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(data);
    }
    file
}

/// The same as pcapng, in nanoseconds.
fn pcapng(link: u16, packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let length = u32::try_from(body.len() + 12).unwrap().to_le_bytes();
        [&kind.to_le_bytes()[..], &length, body, &length].concat()
    };
    let mut file =
        block(0x0a0d_0d0a, &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat());
    let resolution = [9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    file.extend(block(1, &[&link.to_le_bytes()[..], &[0, 0, 0, 0, 4, 0], &resolution].concat()));
    for (second, data) in packets {
        let ns = u64::from(*second) * 1_000_000_000 + 500_000_000;
        let length = u32::try_from(data.len()).unwrap().to_le_bytes();
        let (high, low) = (u32::try_from(ns >> 32).unwrap(), u32::try_from(ns & 0xffff_ffff).unwrap());
        let mut body =
            [&0_u32.to_le_bytes()[..], &high.to_le_bytes(), &low.to_le_bytes(), &length, &length, data]
                .concat();
        body.resize(body.len().next_multiple_of(4), 0);
        file.extend(block(6, &body));
    }
    file
}

/// A packet with a segment, as an IPv4 packet alone.
pub(in super::super) fn ip(from: &str, to: &str, seq: u32, flags: &str, data: &[u8]) -> Vec<u8> {
    let (from, to): (std::net::SocketAddrV4, std::net::SocketAddrV4) =
        (from.parse().unwrap(), to.parse().unwrap());
    let mut builder = etherparse::PacketBuilder::ipv4(from.ip().octets(), to.ip().octets(), 64).tcp(
        from.port(),
        to.port(),
        seq,
        1024,
    );
    for flag in flags.chars() {
        builder = match flag {
            'S' => builder.syn(),
            'F' => builder.fin(),
            'R' => builder.rst(),
            _ => builder.ack(0),
        };
    }
    let mut packet = Vec::new();
    builder.write(&mut packet, data).unwrap();
    packet
}

fn read(file: &[u8]) -> (Vec<String>, String) {
    let mut notes = Notes::on("pod.pcap");
    let mut told = Vec::new();
    each(file, &mut notes, |segment| {
        let Segment { ts, from, to, seq, syn, fin, length, data, .. } = segment;
        told.push(format!("{ts} {from}>{to} {seq} {syn}{fin} {}/{length}", data.len()));
    });
    (told, notes.list().iter().map(ToString::to_string).collect())
}

fn packet() -> Vec<u8> {
    ip("10.0.0.1:40000", "10.0.0.2:8080", 7, "A", b"hello")
}

/// Exercises each link type and both formats, so that a segment is the same in all of them.
#[test]
fn formats() {
    let expected = ["7500000 10.0.0.1:40000>10.0.0.2:8080 7 falsefalse 5/5"];
    let ethernet = [&[2; 12][..], &[8, 0], &packet()].concat();
    let sll = [&[0; 14][..], &[8, 0], &packet()].concat();
    let sll2 = [&[8, 0][..], &[0; 18], &packet()].concat();
    for (link, data) in [(1, ethernet.clone()), (113, sll), (276, sll2), (101, packet())] {
        assert_eq!(
            read(&pcap(link, &[(7, data)])),
            (expected.map(str::to_owned).to_vec(), String::new()),
            "{link}"
        );
    }
    assert_eq!(read(&pcapng(1, &[(7, ethernet)])), (expected.map(str::to_owned).to_vec(), String::new()));
}

/// Exercises a packet that was kept in part, so that the rest of its bytes is known to be missing.
#[test]
fn snapped() {
    let data = packet();
    assert_eq!(
        read(&pcap(101, &[(7, data[..43].to_vec())])).0,
        ["7500000 10.0.0.1:40000>10.0.0.2:8080 7 falsefalse 3/5"]
    );
}

/// Exercises files that are cut off, empty, of another kind or of an unknown link, so that each is named.
#[test]
fn damage() {
    let whole = pcap(101, &[(7, packet()), (8, packet())]);
    let (told, notes) = read(&whole[..whole.len() - 3]);
    assert!(told.len() == 1 && notes.contains("pod.pcap: is cut off after packet 1"), "{notes}");
    for (file, why) in [
        (&b""[..], "is empty"),
        (b"tcpdump: listening on any\n and more and more and more", "is no pcap"),
        (&pcap(147, &[(7, packet())]), "link type 147"),
        (&whole[..10], "is cut off in its first bytes"),
    ] {
        let (told, notes) = read(file);
        assert!(told.is_empty() && notes.contains(why), "{notes}");
    }
    let mut huge = pcap(101, &[(7, packet())]);
    huge[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_ne!(read(&huge).1, "");
}

proptest! {
    /// Exercises files with any byte changed and cut off anywhere, so that none panics and none is read without end.
    #[test]
    fn any_damage(at in any::<prop::sample::Index>(), byte in any::<u8>(), end in any::<prop::sample::Index>(), ng in any::<bool>()) {
        let packets: Vec<_> = (0..4).map(|second| (second, packet())).collect();
        let mut file = if ng { pcapng(101, &packets) } else { pcap(101, &packets) };
        let at = at.index(file.len());
        file[at] = byte;
        file.truncate(end.index(file.len()) + 1);
        let _whatever = read(&file);
    }
}
