"""Guild state: what the server says of a guild over REST, and the member lists that follow from it.

Owns        one reading of members, roles and channels; the naive member list, sorted anew each time.
Doors       `read`, then `member_list` and the fields.
Invariants  nothing here is taken from what the library under test was told.
Not here    presences and voice: REST does not tell them, a `Peer` does.
Spec        docs/protocol/reference.md §5, §8.6.
"""
import dataclasses

MEMBERS_PAGE = 1000
# Above it, offline members are not listed.
OFFLINE_LISTED_MAX = 1000
ADMINISTRATOR, VIEW_CHANNEL = 1 << 3, 1 << 10
ROLE_OVERWRITE = 0
OFFLINE = ("offline", [])


@dataclasses.dataclass
class GuildState:
    """A guild as one account sees it."""

    guild: dict
    members: dict
    roles: dict
    channels: dict

    @classmethod
    def read(cls, rest, guild_id):
        """Reads all of it by REST."""
        path = f"/guilds/{guild_id}"
        members, after = {}, 0
        while page := rest.get(f"{path}/members?limit={MEMBERS_PAGE}&after={after}"):
            members |= {member["user"]["id"]: member for member in page}
            after = page[-1]["user"]["id"]
        roles = {role["id"]: role for role in rest.get(f"{path}/roles")}
        channels = {channel["id"]: channel for channel in rest.get(f"{path}/channels")}
        return cls(rest.get(path), members, roles, channels)

    def can_view(self, member, channel):
        """VIEW_CHANNEL, by the rules of permissions."""
        everyone = self.guild["id"]
        held = [everyone, *member["roles"]]
        base = 0
        for role in held:
            base |= int(self.roles[role]["permissions"])
        if member["user"]["id"] == self.guild["owner_id"] or base & ADMINISTRATOR:
            return True
        can = bool(base & VIEW_CHANNEL)
        overwrites = {each["id"]: each for each in channel["permission_overwrites"]}
        of_roles = [overwrites[role] for role in member["roles"] if role in overwrites]
        for step in ([overwrites.get(everyone)], of_roles, [overwrites.get(member["user"]["id"])]):
            step = [overwrite for overwrite in step if overwrite]
            if any(int(overwrite["deny"]) & VIEW_CHANNEL for overwrite in step):
                can = False
            if any(int(overwrite["allow"]) & VIEW_CHANNEL for overwrite in step):
                can = True
        return can

    def member_list(self, channel_id, presences):
        """The groups and rows of a channel's member list, in the form of the client's rows."""
        lists_offline = len(self.members) <= OFFLINE_LISTED_MAX
        hoisted = sorted(
            (role for role in self.roles.values() if role["hoist"]), key=lambda r: (-r["position"], int(r["id"]))
        )
        groups = {group: [] for group in [*(role["id"] for role in hoisted), "online", "offline"]}
        channel = self.channels[channel_id]
        for user_id, member in self.members.items():
            status, activities = presences.get(user_id, OFFLINE)
            if not self.can_view(member, channel) or (status == "offline" and not lists_offline):
                continue
            row = ["member", user_id, member["user"]["username"], member["nick"], sorted(member["roles"])]
            groups[self._group(member, status, hoisted)].append([*row, status, activities])
        counts, rows = [], []
        for group, members in groups.items():
            if members:
                counts.append([group, len(members)])
                rows.append(["group", group, len(members)])
                rows += sorted(members, key=lambda row: self._place(row[1]))
        return counts, rows

    def _group(self, member, status, hoisted):
        if status == "offline":
            return "offline"
        return next((role["id"] for role in hoisted if role["id"] in member["roles"]), "online")

    def _place(self, user_id):
        """Sort key within a group."""
        member = self.members[user_id]
        user = member["user"]
        return ((member["nick"] or user["global_name"] or user["username"]).lower(), int(user_id))
