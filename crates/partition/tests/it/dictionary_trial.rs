//! Experiments with dictionaries: the list of an account, the samples of its connections, and streams that a client
//! cannot read.

use crate::{compression::dictionaries, fixture::*};
use guildhall_codec::{Asker, DictionaryId, DictionaryTrials as _, Encoding, TriedOffer};
use guildhall_model::User;
use guildhall_partition::{
    ArmStream, Audience, Compression, DictionaryOffers, Experiment, ExperimentTable, Experiments, RunningExperiment,
    SampleOf, SampleQueue, StreamCodec, TriedDictionaries,
};
use guildhall_test_kit::{ClientId, ClientParams, TestCluster};
use std::sync::Arc;

const ID: u64 = 40;

fn dictionary(encoding: Encoding) -> DictionaryId {
    dictionaries().iter().find(|known| known.encoding == encoding).unwrap().dictionary.id()
}

fn with(id: DictionaryId) -> ClientParams {
    ClientParams::new(Encoding::Json, Compression::ZstdDict(id))
}

const WITHOUT: ClientParams = ClientParams::new(Encoding::Json, Compression::Zstd);

struct World {
    cluster: TestCluster,
    samples: SampleQueue,
    offers: DictionaryOffers,
}

/// An experiment in which nearly all accounts get the arm `arm`, one with the dictionary for JSON.
fn world(streams: StreamCodec, arm: usize) -> World {
    let mut cluster = world_with(|config| {
        config.stream_codec = streams;
        config.set_dictionaries(dictionaries().clone());
    });
    let (samples, offers) = (SampleQueue::default(), DictionaryOffers::default());
    let mut weights = [1, 1];
    weights[arm] = 10_000;
    let experiment = Experiment {
        name: "a".to_owned(),
        salt: "a".to_owned(),
        layer: "a".to_owned(),
        slots: 0..1_000,
        arms: vec![("control".to_owned(), weights[0]), ("tried".to_owned(), weights[1])],
        audience: Audience::default(),
    };
    let running = RunningExperiment {
        id: ID,
        arms: vec![ArmStream::Node, ArmStream::Node],
        dictionaries: Some(TriedDictionaries {
            encoding: Encoding::Json,
            by_arm: vec![None, Some(dictionary(Encoding::Json))],
        }),
    };
    let outputs = (samples.clone(), offers.requests().clone());
    let table = Arc::new(ExperimentTable::new(Experiments::new(vec![experiment]).unwrap(), vec![running], outputs));
    cluster.partition_mut().take_experiments(table.clone());
    offers.set(table);
    World { cluster, samples, offers }
}

impl World {
    /// The account requests its list.
    fn ask(&self, account: &Arc<User>) -> Vec<TriedOffer> {
        self.offers.offers(Asker { account_id: account.id.get(), is_bot: account.bot })
    }

    fn samples(&self) -> Vec<(u8, SampleOf)> {
        std::iter::from_fn(|| self.samples.next())
            .map(|sample| {
                assert_eq!(sample.experiment, ID);
                (sample.arm, sample.of)
            })
            .collect()
    }

    /// Arms of the connections that began.
    fn began(&self) -> Vec<u8> {
        let is_begun = |(arm, of)| matches!(of, SampleOf::Began { .. }).then_some(arm);
        self.samples().into_iter().filter_map(is_begun).collect()
    }

    fn live(&mut self, account: &Arc<User>, params: ClientParams) -> ClientId {
        live(&mut self.cluster, account, None, params)
    }

    /// A client that closes before it identifies.
    fn close_at_once(&mut self, params: ClientParams, code: u16) {
        let client = self.cluster.connect(params);
        self.cluster.run_until_idle();
        self.cluster.client(client).close(Some(code));
        self.cluster.run_until_idle();
    }
}

#[test]
fn y1_the_list_and_the_sample_name_the_same_arm() {
    let id = dictionary(Encoding::Json);
    let auto = StreamCodec::Auto { history_bytes_max: 1 << 20, check_one_in: None, cpu_percent: 25 };
    for streams in [StreamCodec::PerConnection, auto] {
        for (arm, only, params) in [(0, None, WITHOUT), (1, Some(id), with(id)), (1, Some(id), WITHOUT)] {
            let mut world = world(streams, arm);
            let offer = TriedOffer { encoding: Encoding::Json, only, withheld: vec![id] };
            assert_eq!(world.ask(&ana()), [offer]);
            let client = world.live(&ana(), params);
            assert_eq!(world.began(), [arm as u8], "{params:?}");
            say_all(&mut world.cluster, (0..100).map(|n| format!("message {n} of what is said")));
            assert_eq!(heard(&mut world.cluster, client).len(), 100);
            let sent = world.samples();
            assert!(matches!(sent[..], [(of, SampleOf::Sent { wire_bytes, .. })] if of == arm as u8 && wire_bytes > 0));
        }
    }
}

#[test]
fn y2_an_account_that_requested_no_list_takes_no_part() {
    let mut world = world(StreamCodec::PerConnection, 1);
    world.ask(&bob());
    world.live(&ana(), with(dictionary(Encoding::Json)));
    assert_eq!(world.began(), [] as [u8; 0]);
    world.live(&bob(), with(dictionary(Encoding::Json)));
    world.live(&bob(), WITHOUT);
    assert_eq!(world.began(), [1, 1], "an account stays in it");
    // An experiment that has ended is forgotten.
    world.offers.set(Arc::default());
    assert_eq!(world.ask(&bob()), []);
}

#[test]
fn y2_a_request_at_another_node_counts() {
    let (elsewhere, mut here) = (world(StreamCodec::PerConnection, 1), world(StreamCodec::PerConnection, 1));
    elsewhere.ask(&bob());
    assert_eq!(elsewhere.offers.take_news(), [], "it is alone");
    elsewhere.offers.collect_news();
    elsewhere.ask(&ana());
    let news = elsewhere.offers.take_news();
    assert_eq!((news.len(), elsewhere.offers.take_news().len()), (1, 0));
    here.offers.collect_news();
    here.offers.take_requests(news.clone());
    assert_eq!(here.offers.take_news(), [], "requests are not passed on");
    here.live(&ana(), with(dictionary(Encoding::Json)));
    assert_eq!(here.began(), [1]);
    here.offers.set(Arc::default());
    here.offers.take_requests(news);
    for n in 0..20_000 {
        elsewhere.offers.offers(Asker { account_id: n, is_bot: false });
    }
    assert_eq!(elsewhere.offers.take_news().len(), 10_000);
}

#[test]
fn y3_a_connection_with_a_dictionary_that_its_arm_does_not_offer_gives_no_sample() {
    let (json, etf) = (dictionary(Encoding::Json), dictionary(Encoding::Etf));
    for (arm, params, is_in) in [
        (0, with(json), false),
        (0, with(etf), true),
        (1, with(etf), false),
        (1, ClientParams::new(Encoding::Etf, Compression::ZstdDict(etf)), false),
        (1, ClientParams::new(Encoding::Etf, Compression::Zstd), false),
        (1, ClientParams::new(Encoding::Json, Compression::Zlib), true),
        (1, ClientParams::JSON, false),
    ] {
        let mut world = world(StreamCodec::PerConnection, arm);
        world.ask(&ana());
        world.live(&ana(), params);
        assert_eq!(world.began().len(), usize::from(is_in), "{arm} {params:?}");
    }
}

#[test]
fn y4_a_first_message_that_a_client_cannot_read_counts_once_per_request_of_the_arm() {
    let id = dictionary(Encoding::Json);
    let failed = (1, SampleOf::Ended { has_failed: true });
    let mut world = world(StreamCodec::PerConnection, 1);
    // Without an account that was offered it, no stranger can end an experiment.
    world.close_at_once(with(id), 4002);
    assert_eq!(world.samples(), []);
    world.ask(&ana());
    world.close_at_once(with(id), 1001);
    world.close_at_once(WITHOUT, 4002);
    assert_eq!(world.samples(), []);
    world.close_at_once(with(id), 1007);
    assert_eq!(world.samples(), [failed]);
    world.close_at_once(with(id), 4002);
    assert_eq!(world.samples(), []);
    // A client that identifies has read it.
    world.ask(&ana());
    world.live(&ana(), with(id));
    world.close_at_once(with(id), 4002);
    assert_eq!(world.began(), [1]);
    world.ask(&ana());
    world.ask(&bob());
    (0..3).for_each(|_| world.close_at_once(with(id), 4002));
    assert_eq!(world.samples(), [failed, failed]);
}

#[test]
fn op_7_goes_to_clients_of_the_arm_with_the_dictionary() {
    let id = dictionary(Encoding::Json);
    let mut tried = world(StreamCodec::PerConnection, 1);
    tried.ask(&ana());
    tried.live(&ana(), with(id));
    tried.live(&bob(), with(id));
    assert_eq!(tried.cluster.reconnect_trials(0, ID, 10), 1, "bob is in no experiment");
    let mut control = world(StreamCodec::PerConnection, 0);
    control.ask(&ana());
    control.live(&ana(), WITHOUT);
    assert_eq!(control.cluster.reconnect_trials(0, ID, 10), 0);
}
