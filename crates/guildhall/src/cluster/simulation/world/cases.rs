//! Cases: runs of the world with a given order of events.

use super::*;

/// Runs a case in which node 0 has the session, with a mirror.
fn case(work: impl FnOnce(&mut World<'_>)) {
    let runtime = new_runtime();
    let _entered = runtime.enter();
    let mut world = World::new(&runtime, (1, PlantedFault::None), false);
    world.pass(4 * MIRROR_MS);
    assert!(world.has_session(0));
    work(&mut world);
}

/// The client resumes at a node, within this time.
#[track_caller]
fn resume_within(world: &mut World<'_>, node: usize, ms: u64) {
    world.resume_at(node);
    world.pass(ms);
    assert!(world.read().is_ok() && world.is_resumed, "op 9 at node {node}");
}

#[test]
fn w1_a_mirror_is_given_by_a_node_that_notices_last_that_the_other_one_is_gone() {
    case(|world| {
        let holder = (1..NODES).find(|node| world.cluster.partition_at(*node).mirrors_held().count > 0);
        let holder = holder.expect("it has one");
        world.site.lock().nodes[holder].view_late_ms = 1_000;
        world.end_process(0);
        let other = (1..NODES).find(|node| *node != holder).expect("there are four");
        resume_within(world, other, 10_000);
    });
}

#[test]
fn w2_a_session_that_came_back_to_its_node_survives_the_next_lapse_of_its_lease() {
    case(|world| {
        world.pause_for(0, LEASE_MS + 500);
        resume_within(world, 1, 10_000);
        assert!(world.is_serving(0) && !world.has_session(0));
        resume_within(world, 0, 4_000);
        world.pass(4 * MIRROR_MS);
        let lapses = world.site.lock().nodes[0].lapses;
        world.pause_for(0, LEASE_MS + 500);
        world.pass(10_000);
        assert!(world.site.lock().nodes[0].lapses > lapses);
        assert!(world.is_serving(0) && world.has_session(0), "a gift from before ends it");
    });
}
