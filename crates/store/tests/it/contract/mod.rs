//! Contract: what every store does. A driver instantiates it with `suite!`.

pub mod accounts;
pub mod batches;
pub mod content;
pub mod directs;
pub mod events;
pub mod external;
pub mod guilds;
pub mod messages;
pub mod node;
pub mod pages;
pub mod random;
pub mod read_states;
pub mod search;

/// `suite!(name, open)`: a module of tests, each with a fresh store from
/// `open() -> Option<(Box<dyn Store>, guard)>`; none where a database is not installed.
macro_rules! suite {
    ($name:ident, $open:path) => {
        $crate::contract::suite! { @ $name, $open,
            guilds: [
                nothing_in_an_empty_store,
                round_trip_of_a_guild,
                replace_and_delete,
                deleting_a_channel_takes_its_messages,
                deleting_a_guild_takes_everything_in_it,
                one_account_in_several_guilds,
                many_members,
                resources,
                messages_of_an_author_since_an_id,
                pictures_are_in_use_while_their_owner_has_them,
                extreme_ids,
            ],
            messages: [
                round_trip_of_a_message,
                nonces_of_recent_messages_are_loaded_with_the_guild,
                large_and_odd_content,
                newest_message_of_a_channel,
                reactions_keep_their_order,
                reactions_are_idempotent,
                reactions_go_with_their_message,
                emoji_are_distinct_by_id_and_name,
                users_of_a_reaction,
                attachments_are_in_use_while_a_message_has_them,
                expired_messages_go_in_slices,
                retention_of_guilds_channels_and_threads,
            ],
            accounts: [
                a_change_of_an_earlier_version_is_refused,
                every_write_of_an_account_raises_its_version,
                of_changes_at_once_one_counts,
                a_channel_belongs_to_one_guild,
                accounts_are_found_by_name,
            ],
            batches: [
                a_faulty_batch_leaves_nothing,
                references_to_missing_objects_are_refused,
                order_within_a_batch,
                concurrent_batches,
                only_the_faulty_batch_fails,
                owners_commit_with_their_epoch,
            ],
            directs: [
                listed_apart_from_guilds,
                one_for_each_pair,
                s11_the_open_and_the_newest_are_listed_first,
                s11_common_guilds_are_found,
            ],
            pages: [edges_of_a_channel, around_a_message, against_a_naive_model],
            external: [
                one_object_for_each_text,
                deleting_releases_it,
            ],
            events: [
                events_are_read_from_a_position,
                e1_an_event_is_committed_with_its_change,
                e2_a_reader_misses_no_event_of_concurrent_commits,
                e3_positions_continue_after_removed_events,
            ],
            read_states: [
                acknowledgements_only_go_forward,
                the_newest_states_are_kept,
                mentions_count_until_they_are_read,
                a_new_member_has_no_old_mentions,
                messages_of_others_count_in_direct_messages,
                unread_mentions_are_those_of_a_naive_model,
            ],
            search: [
                messages_are_found_by_their_words,
                messages_are_found_by_their_properties,
                a_search_has_pages,
                results_are_counted_up_to_a_limit,
                the_index_follows_every_change,
                messages_with_one_id_are_told_apart,
                f1_searches_find_what_a_naive_model_finds,
                f2_no_text_is_syntax,
            ],
            content: [an_account_s_content_is_found_in_steps],
            node: [tokens, sign_ins, tokens_of_an_account, records, swapped_records, records_swapped_together, settings, lists_in_pages],
            random: [same_as_memory],
        }
    };
    (@ $name:ident, $open:path, $($module:ident: [$($test:ident),* $(,)?]),* $(,)?) => {
        mod $name {
            $(mod $module {
                $(#[tokio::test]
                async fn $test() {
                    let Some((store, _guard)) = $open().await else { return };
                    $crate::contract::$module::$test(&*store).await;
                })*
            })*
        }
    };
}
pub(crate) use suite;
