//! IP addresses and ranges of them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::EvalError;
use crate::eval::Outcome;
use crate::value::Value;

/// A range of addresses: one of them, and how many leading bits they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Cidr {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address = address_of(address)?;
        let is_number = bits.chars().all(|c| c.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
        let bits: u8 = is_number.then(|| bits.parse().ok()).flatten()?;
        (bits <= width(address)).then_some(Self { address, bits })
    }

    fn masked(self) -> Self {
        let shift = width(self.address) - self.bits;
        let address = match self.address {
            IpAddr::V4(v4) => {
                let kept = u32::MAX.checked_shl(u32::from(shift)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(v4) & kept))
            }
            IpAddr::V6(v6) => {
                let kept = u128::MAX.checked_shl(u32::from(shift)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(v6) & kept))
            }
        };
        Self {
            address,
            bits: self.bits,
        }
    }

    fn contains(self, address: IpAddr) -> bool {
        width(address) == width(self.address)
            && Self {
                address,
                bits: self.bits,
            }
            .masked()
                == self.masked()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// An address; those of the one kind written as the other are none here.
fn address_of(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => None,
        address => Some(address),
    }
}

fn to_ip(text: &str) -> Result<IpAddr, EvalError> {
    address_of(text).ok_or_else(|| {
        let why =
            format!("IP Address \"{text}\" parse error during conversion from string: ParseAddr(\"{text}\"): unable to parse IP");
        EvalError::value(why)
    })
}

fn to_cidr(text: &str) -> Result<Cidr, EvalError> {
    Cidr::parse(text).ok_or_else(|| {
        let why = format!("network address parse error during conversion from string: netip.ParsePrefix(\"{text}\"): no '/'");
        EvalError::value(if text.contains('/') {
            why.replace("no '/'", "unable to parse IP")
        } else {
            why
        })
    })
}

/// What texts become here.
pub fn of_text(name: &str, args: &[Value]) -> Option<Outcome> {
    let text = args.first()?.as_str()?;
    Some(match name {
        "ip" => to_ip(text).map(Value::Ip),
        "isIP" => Ok(Value::Bool(address_of(text).is_some())),
        "ip.isCanonical" => to_ip(text).map(|address| Value::Bool(address.to_string() == text)),
        "cidr" => to_cidr(text).map(Value::Cidr),
        "isCIDR" => Ok(Value::Bool(Cidr::parse(text).is_some())),
        _ => return None,
    })
}

/// The value of a function of an address or a range, if it is one of these.
pub fn call(name: &str, args: &[Value]) -> Option<Outcome> {
    match args {
        [Value::Ip(address)] => of_address(name, *address),
        [Value::Cidr(range), rest @ ..] => of_range(name, *range, rest.first()),
        _ => None,
    }
}

fn of_address(name: &str, address: IpAddr) -> Option<Outcome> {
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let link_local_multicast = match address {
        IpAddr::V4(v4) => matches!(v4.octets(), [224, 0, 0, _]),
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    };
    let broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    let special = address.is_unspecified() || address.is_loopback() || address.is_multicast() || link_local || broadcast;
    let holds = match name {
        "family" => return Some(Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 }))),
        "isUnspecified" => address.is_unspecified(),
        "isLoopback" => address.is_loopback(),
        "isLinkLocalMulticast" => link_local_multicast,
        "isLinkLocalUnicast" => link_local,
        "isGlobalUnicast" => !special,
        _ => return None,
    };
    Some(Ok(Value::Bool(holds)))
}

fn of_range(name: &str, range: Cidr, other: Option<&Value>) -> Option<Outcome> {
    Some(match (name, other) {
        ("ip", None) => Ok(Value::Ip(range.address)),
        ("prefixLength", None) => Ok(Value::Int(i64::from(range.bits))),
        ("masked", None) => Ok(Value::Cidr(range.masked())),
        ("containsIP", Some(Value::Ip(address))) => Ok(Value::Bool(range.contains(*address))),
        ("containsIP", Some(other)) => to_ip(other.as_str()?).map(|address| Value::Bool(range.contains(address))),
        ("containsCIDR", Some(other)) => {
            let other = match other {
                Value::Cidr(other) => Ok(*other),
                other => to_cidr(other.as_str()?),
            };
            other.map(|other| Value::Bool(other.bits >= range.bits && range.contains(other.address)))
        }
        _ => return None,
    })
}
