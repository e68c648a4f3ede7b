//! Guilds: the busiest ones, and one by message type, relay and channel.

use super::Reports;
use guildhall_accounting::report::{Guild, GuildReport, GuildsReport};
use guildhall_model::GuildId;
use guildhall_node::{GuildAccount, GuildAccounts};

impl Reports {
    pub(super) async fn guilds_report(&self, limit: usize) -> GuildsReport {
        let GuildAccounts { loaded, guilds } = self.metrics.node.guild_accounts(limit).await;
        let id = |guild: &Guild| guild.id.parse().ok().map(GuildId::new);
        let relays = self.metrics.partitions.guild_relays(guilds.iter().filter_map(id).collect()).await;
        let relays = relays.into_iter().map(|(guild_id, relay)| (guild_id.to_string(), relay));
        GuildsReport::of_guilds(self.at_ms(), loaded, guilds, relays)
    }

    pub(super) async fn guild_report(&self, guild_id: GuildId) -> Option<GuildReport> {
        let GuildAccount { guild, types, channels } = self.metrics.node.guild_account(guild_id).await?;
        let relays = self.metrics.partitions.guild_relays([guild_id].into()).await;
        let relays = relays.into_iter().map(|(_, relay)| relay).collect();
        Some(GuildReport::of_guild(self.at_ms(), guild, types, relays, channels))
    }
}
