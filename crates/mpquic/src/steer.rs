//! Sockets that share an address, one per shard, and the program with which the kernel chooses among them.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use proto::Steering;

/// Binds a socket per shard to the same address, of IPv6 only if told so. `None` if the system cannot share an address among
/// sockets.
#[cfg(target_os = "linux")]
pub(crate) fn bind(
    local: SocketAddr,
    only_v6: bool,
    steering: &Steering,
) -> io::Result<Option<Vec<UdpSocket>>> {
    use socket2::SockRef;

    use crate::binder;

    // Alone at first: with SO_REUSEPORT from the start, it would join whichever group has the address, and port 0 could
    // give the port of one.
    let first = binder::open(local, only_v6)?;
    SockRef::from(&first).set_reuse_port(true)?;
    let local = first.local_addr()?;
    let mut sockets = vec![first];
    // The kernel numbers the sockets of a group in the order in which they are bound.
    for _ in 1..steering.shards() {
        let socket = binder::unbound(local, only_v6)?;
        socket.set_reuse_port(true)?;
        socket.bind(&local.into())?;
        sockets.push(socket.into());
    }
    if let Err(error) = kernel::attach(&sockets[0], steering) {
        tracing::debug!(%local, %error, "the kernel does not steer: datagrams are forwarded");
    }
    Ok(Some(sockets))
}

/// Elsewhere, one socket serves all shards.
#[cfg(not(target_os = "linux"))]
pub(crate) fn bind(_: SocketAddr, _: bool, _: &Steering) -> io::Result<Option<Vec<UdpSocket>>> {
    Ok(None)
}

#[cfg(target_os = "linux")]
mod kernel {
    //! The program, in the instructions of the classic Berkeley Packet Filter, which needs no privilege.

    use std::io;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    use libc::{
        BPF_A, BPF_ABS, BPF_ADD, BPF_ALU, BPF_B, BPF_H, BPF_IMM, BPF_JMP, BPF_JSET, BPF_K, BPF_LD,
        BPF_MEM, BPF_MISC, BPF_MUL, BPF_RET, BPF_RSH, BPF_ST, BPF_TAX, BPF_W, BPF_X, sock_filter,
    };
    use proto::Steering;

    /// From the kernel's asm/socket.h; the libc crate has it for Android alone.
    const SO_ATTACH_REUSEPORT_CBPF: libc::c_int = if cfg!(target_arch = "sparc64") {
        0x35
    } else {
        51
    };

    fn instruction(code: u32, k: u32) -> sock_filter {
        sock_filter {
            code: code as u16,
            jt: 0,
            jf: 0,
            k,
        }
    }

    /// What [`Steering::shard_of`] does, for a datagram that begins at offset 0. A load beyond the end gives shard 0.
    pub(super) fn program(steering: &Steering) -> Vec<sock_filter> {
        let sum = |base: u32| {
            let mut part = vec![
                instruction(BPF_LD | BPF_IMM, steering.start()),
                instruction(BPF_ST, 0),
            ];
            for piece in steering.pieces() {
                let width = match piece.width {
                    4 => BPF_W,
                    2 => BPF_H,
                    _ => BPF_B,
                };
                let offset = base + u32::from(piece.offset);
                part.extend([
                    instruction(BPF_LD | width | BPF_ABS, offset),
                    instruction(BPF_ALU | BPF_MUL | BPF_K, piece.factor),
                    instruction(BPF_MISC | BPF_TAX, 0),
                    instruction(BPF_LD | BPF_MEM, 0),
                    instruction(BPF_ALU | BPF_ADD | BPF_X, 0),
                    instruction(BPF_ST, 0),
                ]);
            }
            part.extend([
                instruction(BPF_ALU | BPF_RSH | BPF_K, 16),
                instruction(BPF_ALU | BPF_MUL | BPF_K, steering.shards().into()),
                instruction(BPF_ALU | BPF_RSH | BPF_K, 16),
                instruction(BPF_RET | BPF_A, 0),
            ]);
            part
        };
        let (short, long) = (sum(1), sum(6));
        let mut branch = instruction(BPF_JMP | BPF_JSET | BPF_K, 0x80);
        // At most 7 pieces: this fits.
        branch.jt = short.len() as u8;
        let mut program = vec![instruction(BPF_LD | BPF_B | BPF_ABS, 0), branch];
        program.extend(short);
        program.extend(long);
        program
    }

    /// Has the kernel run the program for each datagram to the group of this socket: what it returns is the number of the
    /// socket.
    pub(super) fn attach(socket: &UdpSocket, steering: &Steering) -> io::Result<()> {
        let mut instructions = program(steering);
        let program = libc::sock_fprog {
            len: instructions.len() as u16,
            filter: instructions.as_mut_ptr(),
        };
        #[expect(
            unsafe_code,
            reason = "neither the standard library nor socket2 has this option"
        )]
        // SAFETY: `program` is what this option takes, with its size; it points to as many instructions as it says. The
        // kernel copies them and keeps no pointer.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_ATTACH_REUSEPORT_CBPF,
                (&raw const program).cast(),
                size_of::<libc::sock_fprog>() as libc::socklen_t,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::Ipv4Addr;

    use proto::EndpointConfig;

    use super::*;

    /// The kernel and [`Steering::shard_of`] agree, for headers of both forms and connection IDs of several lengths.
    #[test]
    fn the_kernel_gives_each_datagram_to_its_shard() {
        #[derive(Debug)]
        struct Ids(usize);

        impl proto::ConnectionIdGenerator for Ids {
            fn id_len(&self) -> usize {
                self.0
            }

            fn write_id(&self, _: &mut [u8]) {}
        }

        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for (len, count) in [(4, 2), (7, 3), (8, 4), (20, 16)] {
            let mut config = EndpointConfig::new([len as u8; 32]);
            config.connection_ids(std::sync::Arc::new(Ids(len)));
            let shards = config.into_shards(count).unwrap();
            let steering = shards[0].steering().unwrap();
            let local = (Ipv4Addr::LOCALHOST, 0).into();
            let sockets = bind(local, false, steering).unwrap().unwrap();
            kernel::attach(&sockets[0], steering).unwrap();
            let to = sockets[0].local_addr().unwrap();
            let mut reached = vec![0; sockets.len()];
            for number in 0..200_u64 {
                let mut datagram: Vec<u8> = (0..40)
                    .map(|at| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15 + at * 77) >> 40) as u8)
                    .collect();
                if number % 10 == 0 {
                    // Too short for one.
                    datagram.truncate(number as usize / 10 % (len + 6));
                }
                sender.send_to(&datagram, to).unwrap();
                let shard = usize::from(steering.shard_of(&datagram));
                // It is there already: on loopback, sending delivers. Another shard's would be missed here for ever.
                sockets[shard].set_nonblocking(true).unwrap();
                let mut buffer = [0; 64];
                let read = sockets[shard].recv(&mut buffer).unwrap();
                assert_eq!(buffer[..read], datagram);
                reached[shard] += 1;
            }
            assert!(reached.iter().all(|count| *count > 0), "{reached:?}");
        }
    }

    #[test]
    fn an_address_in_use_is_not_shared_with_strangers() {
        let shards = EndpointConfig::new([1; 32]).into_shards(2).unwrap();
        let steering = shards[0].steering().unwrap();
        let local = (Ipv4Addr::LOCALHOST, 0).into();
        let first = bind(local, false, steering).unwrap().unwrap();
        let taken = first[0].local_addr().unwrap();
        let error = bind(taken, false, steering).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
