//! Synthetic traffic as training and benches use it: its kinds on the command line, and the scope of an event.

use clap::ValueEnum;
use guildhall_guild_protocol::Clearance;
use guildhall_shared_match::{Domain, Scope};
use guildhall_traffic::{Event, Kind, To};

/// Traffic model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TrafficKind {
    /// Several guilds and channels, with everything that happens in them.
    Session,
    /// One channel of messages.
    Channel,
    /// A node: accounts in many guilds, most of them small, with private channels, direct messages and bots.
    Node,
}

impl TrafficKind {
    /// The generator's word for it.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Session => Kind::Session,
            Self::Channel => Kind::Channel,
            Self::Node => Kind::Node,
        }
    }
}

/// Scope of an event of the traffic, in the domain that the product would choose.
#[must_use]
pub fn scope_of(event: &Event) -> Scope {
    let channel = event.channel.unwrap_or(0);
    let (guild, view) = (event.guild, clearance_of(event) as u8);
    let domain = match (event.to, event.channel.filter(|_| event.is_hidden)) {
        (To::Direct(_), _) => Domain::Direct { channel },
        (_, Some(channel)) => Domain::Restricted { guild, channel, view },
        (_, None) => Domain::Public { guild, view },
    };
    Scope { domain, class: channel }
}

/// Clearance of an event, as `guildhall_relay` decides it.
fn clearance_of(event: &Event) -> Clearance {
    match event.name {
        "MESSAGE_CREATE" | "MESSAGE_UPDATE" if !event.is_redacted => Clearance::Content,
        "GUILD_MEMBER_ADD" | "GUILD_MEMBER_UPDATE" | "GUILD_MEMBER_REMOVE" => Clearance::Members,
        "PRESENCE_UPDATE" => Clearance::Presences,
        "GUILD_MEMBER_LIST_UPDATE" => Clearance::Lists,
        _ => Clearance::None,
    }
}
