//! Messages: said, changed, taken back.

use crate::fixture::*;
use guildhall_guild::{Command, Refusal};
use guildhall_model::{EventName, Status};
use guildhall_relay::{Effect, Gate, Payload};

#[test]
fn a_thin_whole() {
    let mut world = World::new();
    let channel = world.text_channel();
    world.join(ANA);
    world.sent.clear();
    world.attach(session(0, 1), ANA, Status::Online);
    let views = world.views();
    assert_eq!(views.len(), 1);
    let view = views[0].1.as_ref().expect("ana is a member");
    assert_eq!((view.member.user.id, view.member_count), (ANA, 2));

    let record = world.try_say(ANA, channel, text("hello <@7>")).expect("she may");
    let published = world.only_event(EventName::MessageCreate);
    assert_eq!(gate(&published), Gate::Channel(channel));
    assert!(matches!(published.effect, Effect::None));
    assert_eq!(*message_of(&published), *record.message);
    let Payload::Message(event) = &published.event.payload else { panic!() };
    assert_eq!(event.author.as_ref().map(|member| member.user.id), Some(ANA));
    assert_eq!(event.mentioned.iter().map(|member| member.user.id).collect::<Vec<_>>(), [OWNER]);
    assert_eq!(world.store.messages[&(channel, record.message.id)], *record.message);

    assert_eq!(world.by(NOBODY, Command::ReadGuild).unwrap_err(), Refusal::UnknownGuild);
}
