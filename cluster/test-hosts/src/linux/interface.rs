//! The network devices of a host: `lo`, and `tun0`, whose other end is the switch.
#![allow(unsafe_code, reason = "configures network devices by ioctl")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::{HostsError, LeftOut};

/// The bytes of the longest packet.
pub(crate) const MTU: usize = 1500;
/// The packets that wait for the switch. The kernel loses one more without telling anybody, so the queue is long.
const QUEUE: i32 = 20_000;
/// The name of the interface to the other hosts.
pub(crate) const TUN: &str = "tun0";
/// The network of all hosts: a range that is reserved for tests of networks (RFC 2544).
const NETWORK: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const NETMASK: Ipv4Addr = Ipv4Addr::new(255, 254, 0, 0);

/// The address of the host with this number.
pub(crate) fn address(host: usize) -> Ipv4Addr {
    let number = u32::try_from(host).unwrap_or(u32::MAX).saturating_add(1);
    Ipv4Addr::from_bits(NETWORK.to_bits() | number)
}

/// The number of the host with this address; `None` if the address is no host's.
pub(crate) fn host_at(address: Ipv4Addr) -> Option<usize> {
    let number = address.to_bits() & !NETMASK.to_bits();
    let is_of_network = address.to_bits() & NETMASK.to_bits() == NETWORK.to_bits();
    is_of_network.then_some(number as usize)?.checked_sub(1)
}

/// Makes the devices in the namespace of this thread. Returns the end of `tun0` that the switch reads and writes.
pub(crate) fn plug_in(address: Ipv4Addr) -> Result<OwnedFd, HostsError> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun");
    let cable = opened.map_err(HostsError::or_left_out("/dev/net/tun", LeftOut::Tun))?;
    let kind = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    request(&cable, libc::TUNSETIFF, TUN, &kind.to_ne_bytes())
        .map_err(HostsError::or_left_out("a TUN device", LeftOut::Tun))?;
    configure(address).map_err(HostsError::of("the interface of a host"))?;
    Ok(cable.into())
}

fn configure(address: Ipv4Addr) -> io::Result<()> {
    // Otherwise the kernel looks for routers, and its packets would be among those that the test counts.
    let without_v6 = format!("/proc/sys/net/ipv6/conf/{TUN}/disable_ipv6");
    if fs::exists(&without_v6)? {
        fs::write(without_v6, "1")?;
    }
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let socket = File::from(socket);
    let up = (libc::IFF_UP as libc::c_short).to_ne_bytes();
    request(&socket, libc::SIOCSIFFLAGS, "lo", &up)?;
    request(&socket, libc::SIOCSIFADDR, TUN, &socket_address(address))?;
    request(&socket, libc::SIOCSIFNETMASK, TUN, &socket_address(NETMASK))?;
    request(&socket, libc::SIOCSIFMTU, TUN, &(MTU as i32).to_ne_bytes())?;
    request(&socket, libc::SIOCSIFTXQLEN, TUN, &QUEUE.to_ne_bytes())?;
    request(&socket, libc::SIOCSIFFLAGS, TUN, &up)
}

/// Has the kernel of this thread's namespace pass packets on, and tell nobody of shorter ways.
pub(crate) fn forward() -> io::Result<()> {
    for device in ["all", TUN] {
        fs::write(format!("/proc/sys/net/ipv4/conf/{device}/send_redirects"), "0")?;
    }
    fs::write("/proc/sys/net/ipv4/ip_forward", "1")
}

/// An address as a `sockaddr_in`: family, port, address.
fn socket_address(address: Ipv4Addr) -> [u8; 8] {
    let mut bytes = [0; 8];
    let (family, rest) = bytes.split_at_mut(2);
    family.copy_from_slice(&(libc::AF_INET as libc::sa_family_t).to_ne_bytes());
    rest.split_at_mut(2).1.copy_from_slice(&address.octets());
    bytes
}

/// A request about a network device, laid out as `struct ifreq`.
#[repr(C, align(8))]
struct Request {
    device: [u8; libc::IFNAMSIZ],
    value: [u8; 24],
}

const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());

/// Asks the kernel to set something of a device. The device's name is short, and so is the value.
fn request(descriptor: &File, what: libc::Ioctl, device: &str, value: &[u8]) -> io::Result<()> {
    let mut request = Request {
        device: [0; libc::IFNAMSIZ],
        value: [0; 24],
    };
    let name = request.device.iter_mut().zip(device.as_bytes());
    name.for_each(|(to, from)| *to = *from);
    let bytes = request.value.iter_mut().zip(value);
    bytes.for_each(|(to, from)| *to = *from);
    // SAFETY: every request of this file takes a pointer to a `struct ifreq`, whose size `Request` has; the kernel reads and
    // writes only within it, and keeps no pointer.
    match unsafe { libc::ioctl(descriptor.as_raw_fd(), what, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_its_host_belong_together() {
        for host in [0, 1, 2, 254, 255, 256, 70_000] {
            assert_eq!(host_at(address(host)), Some(host));
        }
        for foreign in [[198, 18, 0, 0], [198, 20, 0, 1], [127, 0, 0, 1], [255; 4]] {
            assert_eq!(host_at(foreign.into()), None);
        }
    }
}
