//! Scheduled events: those that can take place, and their course.

use crate::fixture::*;
use guildhall_guild::{
    Command, Guild, GuildLimits, NewScheduledEvent, Refusal, Reply, ScheduledEventContent, StageContent,
};
use guildhall_guild_protocol::AudienceRule;
use guildhall_model::{ChannelId, ChannelType, EventName, Id, Permissions, ScheduledEvent, UserId};
use guildhall_stdx::Timestamp;
use serde_json::{Value, json};

const HOUR_MS: i64 = 3_600_000;

struct Scene {
    world: World,
    stage: ChannelId,
    voice: ChannelId,
    text: ChannelId,
}

fn refused<T>(field: &'static str) -> Result<T, Refusal> {
    Err(Refusal::InvalidForm(field))
}

impl Scene {
    fn new() -> Self {
        let mut world = World::populated();
        let stage = world.channel(new_channel("stage", ChannelType::Stage));
        let voice = world.channel(new_channel("voice", ChannelType::Voice));
        let text = world.text_channel();
        Self { world, stage, voice, text }
    }

    fn at(&self, hours: i64) -> Timestamp {
        Timestamp(self.world.now.unix.0 + hours * HOUR_MS)
    }

    /// An external event in an hour, for an hour.
    fn external(&self) -> ScheduledEventContent {
        ScheduledEventContent {
            channel_id: None,
            name: "party".to_owned(),
            description: None,
            scheduled_start_time: self.at(1),
            scheduled_end_time: Some(self.at(2)),
            privacy_level: 2,
            status: ScheduledEvent::SCHEDULED,
            entity_type: ScheduledEvent::EXTERNAL,
            entity_metadata: Some(json!({"location": "here"})),
            image: None,
        }
    }

    fn within(&self, entity_type: u8, channel_id: Option<ChannelId>) -> ScheduledEventContent {
        ScheduledEventContent {
            entity_type,
            channel_id,
            entity_metadata: None,
            scheduled_end_time: None,
            ..self.external()
        }
    }

    fn create(&mut self, by: UserId, content: ScheduledEventContent) -> Result<ScheduledEvent, Refusal> {
        let new = NewScheduledEvent { id: None, content };
        self.run(by, Command::CreateScheduledEvent(Box::new(new)))
    }

    fn run(&mut self, by: UserId, command: Command) -> Result<ScheduledEvent, Refusal> {
        match self.world.by(by, command)? {
            Reply::ScheduledEvent(event) => Ok(ScheduledEvent::clone(&event)),
            other => panic!("{other:?}"),
        }
    }

    fn change(
        &mut self,
        event: &ScheduledEvent,
        change: impl FnOnce(&mut ScheduledEventContent),
    ) -> Result<ScheduledEvent, Refusal> {
        let mut content = content_of(event);
        change(&mut content);
        self.run(OWNER, Command::UpdateScheduledEvent(event.id, Box::new(content)))
    }
}

fn content_of(event: &ScheduledEvent) -> ScheduledEventContent {
    ScheduledEventContent {
        channel_id: event.channel_id,
        name: event.name.clone(),
        description: event.description.clone(),
        scheduled_start_time: event.scheduled_start_time,
        scheduled_end_time: event.scheduled_end_time,
        privacy_level: event.privacy_level,
        status: event.status,
        entity_type: event.entity_type,
        entity_metadata: event.entity_metadata.clone(),
        image: event.image.clone(),
    }
}

#[test]
fn n2_a_new_event_has_a_time_and_a_place_of_its_type() {
    let mut scene = Scene::new();
    let (stage, voice, text) = (scene.stage, scene.voice, scene.text);
    let mut check = |content: ScheduledEventContent, expected: Result<(), Refusal>| {
        let got = scene.create(OWNER, content.clone());
        assert_eq!(got.map(drop), expected, "{content:?}");
    };
    let other = Scene::new();
    let (external, at) = (other.external(), |hours| other.at(hours));
    let within = |entity_type, channel_id| other.within(entity_type, channel_id);
    check(external.clone(), Ok(()));
    check(within(ScheduledEvent::STAGE, Some(stage)), Ok(()));
    check(within(ScheduledEvent::VOICE, Some(voice)), Ok(()));
    for location in
        [json!({}), json!({"location": ""}), json!({"location": " \u{200b}"}), json!({"location": 5}), Value::Null]
    {
        let entity_metadata = Some(location).filter(|location| !location.is_null());
        check(ScheduledEventContent { entity_metadata, ..external.clone() }, refused("entity_metadata"));
    }
    let long = Some(json!({"location": "x".repeat(101)}));
    check(ScheduledEventContent { entity_metadata: long, ..external.clone() }, refused("entity_metadata"));
    check(ScheduledEventContent { channel_id: Some(voice), ..external.clone() }, refused("channel_id"));
    for (start, end, expected) in [
        (1, None, refused("scheduled_end_time")),
        (1, Some(1), refused("scheduled_end_time")),
        (2, Some(1), refused("scheduled_end_time")),
        (-1, Some(1), refused("scheduled_start_time")),
        (-2, Some(-1), refused("scheduled_start_time")),
        (0, Some(1), Ok(())),
    ] {
        let content = ScheduledEventContent {
            scheduled_start_time: at(start),
            scheduled_end_time: end.map(at),
            ..external.clone()
        };
        check(content, expected);
    }
    for (entity_type, channel_id) in [
        (ScheduledEvent::STAGE, None),
        (ScheduledEvent::VOICE, None),
        (ScheduledEvent::STAGE, Some(voice)),
        (ScheduledEvent::VOICE, Some(stage)),
        (ScheduledEvent::VOICE, Some(text)),
        (ScheduledEvent::VOICE, Some(ChannelId::new(5))),
    ] {
        check(within(entity_type, channel_id), refused("channel_id"));
    }
    let early = within(ScheduledEvent::VOICE, Some(voice));
    check(ScheduledEventContent { scheduled_end_time: Some(at(0)), ..early }, refused("scheduled_end_time"));
    for status in [ScheduledEvent::ACTIVE, ScheduledEvent::COMPLETED, ScheduledEvent::CANCELLED] {
        check(ScheduledEventContent { status, ..external.clone() }, refused("status"));
    }
}

#[test]
fn n2_a_change_leaves_an_event_that_can_take_place() {
    let mut scene = Scene::new();
    let (stage, voice) = (scene.stage, scene.voice);
    let event = scene.create(OWNER, scene.external()).expect("it can take place");
    let (now, later) = (scene.at(0), scene.at(5));
    assert_eq!(scene.change(&event, |content| content.entity_metadata = None), refused("entity_metadata"));
    assert_eq!(scene.change(&event, |content| content.scheduled_end_time = None), refused("scheduled_end_time"));
    assert_eq!(scene.change(&event, |content| content.scheduled_end_time = Some(now)), refused("scheduled_end_time"));
    assert_eq!(scene.change(&event, |content| content.scheduled_start_time = later), refused("scheduled_end_time"));
    let past = Timestamp(now.0 - 1);
    assert_eq!(scene.change(&event, |content| content.scheduled_start_time = past), refused("scheduled_start_time"));
    // To another type: with a place of that type, and without the old one.
    assert_eq!(scene.change(&event, |content| content.entity_type = ScheduledEvent::VOICE), refused("channel_id"));
    let moved = scene.change(&event, |content| {
        (content.entity_type, content.channel_id) = (ScheduledEvent::VOICE, Some(voice));
    });
    let moved = moved.expect("it can take place");
    assert_eq!((moved.channel_id, &moved.entity_metadata), (Some(voice), &None));
    assert_eq!(scene.change(&moved, |content| content.channel_id = None), refused("channel_id"));
    assert_eq!(scene.change(&moved, |content| content.channel_id = Some(stage)), refused("channel_id"));
    let back = |content: &mut ScheduledEventContent| {
        (content.entity_type, content.entity_metadata) = (ScheduledEvent::EXTERNAL, Some(json!({"location": "x"})));
    };
    assert_eq!(scene.change(&moved, back), refused("channel_id"), "its channel is not given up");
    let open = scene.change(&moved, |content| content.scheduled_end_time = None).expect("voice needs no end");
    let back = |content: &mut ScheduledEventContent| {
        back(content);
        content.channel_id = None;
    };
    assert_eq!(scene.change(&open, back), refused("scheduled_end_time"));
    let back = scene.change(&moved, back).expect("it can take place");
    assert_eq!(back.entity_metadata, Some(json!({"location": "x"})));
    // An hour later the start has passed: it stays valid, and other fields can change.
    scene.world.pass_ms(90 * 60_000);
    let named = scene.change(&back, |content| content.name = "feast".to_owned()).expect("its start has passed");
    assert_eq!(named.name, "feast");
}

#[test]
fn n3_an_event_begins_and_ends_once() {
    const ALL: [u8; 4] =
        [ScheduledEvent::SCHEDULED, ScheduledEvent::ACTIVE, ScheduledEvent::COMPLETED, ScheduledEvent::CANCELLED];
    let ways: [(&[u8], &[u8]); 2] = [
        (&[], &[ScheduledEvent::SCHEDULED, ScheduledEvent::ACTIVE, ScheduledEvent::CANCELLED]),
        (&[ScheduledEvent::ACTIVE], &[ScheduledEvent::ACTIVE, ScheduledEvent::COMPLETED]),
    ];
    for (steps, next) in ways {
        for status in ALL {
            let mut scene = Scene::new();
            let mut event = scene.create(OWNER, scene.external()).expect("it can take place");
            for step in steps {
                event = scene.change(&event, |content| content.status = *step).expect("it follows");
            }
            let got = scene.change(&event, |content| content.status = status);
            match next.contains(&status) {
                true => assert_eq!(got.map(|event| event.status), Ok(status)),
                false => assert_eq!(got, refused("status"), "{} to {status}", event.status),
            }
        }
    }
    for end in [&[ScheduledEvent::ACTIVE, ScheduledEvent::COMPLETED][..], &[ScheduledEvent::CANCELLED]] {
        let mut scene = Scene::new();
        let mut event = scene.create(OWNER, scene.external()).expect("it can take place");
        for step in end {
            event = scene.change(&event, |content| content.status = *step).expect("it follows");
        }
        for status in ALL {
            assert_eq!(scene.change(&event, |content| content.status = status), Err(Refusal::FinishedEvent));
        }
        assert_eq!(scene.change(&event, |content| content.name = "x".to_owned()), Err(Refusal::FinishedEvent));
        scene.world.by(OWNER, Command::DeleteScheduledEvent(event.id)).expect("it may be deleted");
    }
}

#[test]
fn n1_an_event_in_a_hidden_channel_does_not_exist_for_others() {
    let mut scene = Scene::new();
    let voice = scene.voice;
    scene.world.grant(ANA, Permissions::MANAGE_EVENTS | Permissions::CREATE_EVENTS, 1);
    let event = scene.create(OWNER, scene.within(ScheduledEvent::VOICE, Some(voice))).expect("it can take place");
    let follow = |event: Id<()>| Command::FollowScheduledEvent(event);
    scene.world.by(ANA, follow(event.id)).expect("she sees it");
    scene.world.system(Command::PutOverwrite(voice, deny_everyone(Permissions::VIEW_CHANNEL)));
    let update = Command::UpdateScheduledEvent(event.id, Box::new(content_of(&event)));
    for command in
        [follow(event.id), Command::UnfollowScheduledEvent(event.id), update, Command::DeleteScheduledEvent(event.id)]
    {
        assert_eq!(scene.world.by(ANA, command).unwrap_err(), Refusal::UnknownScheduledEvent);
    }
    let hidden = scene.within(ScheduledEvent::VOICE, Some(voice));
    assert_eq!(scene.create(ANA, hidden), Err(Refusal::MissingAccess));
    scene.world.by(OWNER, Command::DeleteScheduledEvent(event.id)).expect("she sees it");
}

#[test]
fn n1_the_events_and_the_stage_of_a_channel_go_with_it() {
    let mut scene = Scene::new();
    let (stage, voice) = (scene.stage, scene.voice);
    let external = scene.create(OWNER, scene.external()).expect("it can take place");
    let mut of_channel = Vec::new();
    for (kind, channel_id) in
        [(ScheduledEvent::VOICE, voice), (ScheduledEvent::VOICE, voice), (ScheduledEvent::STAGE, stage)]
    {
        of_channel.push(scene.create(OWNER, scene.within(kind, Some(channel_id))).expect("it can take place"));
    }
    let content = StageContent { topic: "now".to_owned(), privacy_level: 2, guild_scheduled_event_id: None };
    scene.world.system(Command::CreateStage(stage, Box::new(content)));
    for channel_id in [stage, voice] {
        scene.world.system(Command::PutOverwrite(channel_id, deny_everyone(Permissions::VIEW_CHANNEL)));
    }
    scene.world.events();
    for (channel_id, gone) in [(voice, &of_channel[..2]), (stage, &of_channel[2..])] {
        scene.world.system(Command::DeleteChannel(channel_id));
        let events = scene.world.events();
        let (last, before) = events.split_last().expect("the channel is deleted");
        assert_eq!(last.event.name, EventName::ChannelDelete, "the guild itself has no news");
        let stages = usize::from(channel_id == stage);
        assert_eq!(before.len(), gone.len() + stages);
        for published in before {
            assert_eq!(rule(published), AudienceRule::Channel(channel_id), "only those that could view it");
        }
        let names = |name| before.iter().filter(|published| published.event.name == name).count();
        assert_eq!(names(EventName::GuildScheduledEventDelete), gone.len());
        assert_eq!(names(EventName::StageInstanceDelete), stages);
    }
    for event in of_channel {
        let follow = Command::FollowScheduledEvent(event.id);
        assert_eq!(scene.world.by(OWNER, follow).unwrap_err(), Refusal::UnknownScheduledEvent);
    }
    scene.world.by(OWNER, Command::FollowScheduledEvent(external.id)).expect("it is elsewhere");
}

/// As earlier versions left it.
#[test]
fn n1_a_stored_event_of_a_deleted_channel_is_gone() {
    let mut scene = Scene::new();
    let voice = scene.voice;
    let event = scene.create(OWNER, scene.within(ScheduledEvent::VOICE, Some(voice))).expect("it can take place");
    let external = scene.create(OWNER, scene.external()).expect("it can take place");
    let mut record = scene.world.store.record();
    record.channels.retain(|channel| channel.id != voice);
    scene.world.guild = Guild::load(record, GuildLimits::default(), 3);
    let follow = |event: &ScheduledEvent| Command::FollowScheduledEvent(event.id);
    assert_eq!(scene.world.by(OWNER, follow(&event)).unwrap_err(), Refusal::UnknownScheduledEvent);
    scene.world.by(OWNER, follow(&external)).expect("it is elsewhere");
}
