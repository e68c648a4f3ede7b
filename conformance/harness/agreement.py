"""Agreement: whether a library's caches hold what the server holds.

Doors       `differences` of the client's `state` line and the server's own words.
Invariants  a cache is compared only where the protocol keeps it up to date: what it does not know is no difference,
            what it knows wrongly is.
Spec        docs/protocol/reference.md §8.
"""


def differences(state, server, own_id, presences, voice, *, is_active, watched=(), followed=()):
    """What differs, each in a few words; nothing when all agrees.

    `watched` are the channels whose member lists are looked at, `followed` the members whose presence the library is kept
    informed of beside its member lists.
    """
    found = [*_channels(state, server, own_id), *_pairs("voice state of", state["voice"], voice)]
    roles = {role["id"]: [role["name"], role["position"], role["hoist"]] for role in server.roles.values()}
    found += _pairs("role", state["roles"], roles)
    if is_active:
        found += [*_counts(state, server, presences), *_members(state, server, presences, followed)]
        in_view = {each["channel_id"] for each in state["lists"]}
        found += [f"nothing of channel {channel_id}'s list is in view" for channel_id in sorted({*watched} - in_view)]
        for each in state["lists"]:
            found += _list(each, *server.member_list(each["channel_id"], presences))
    return found


def _pairs(what, held, wanted):
    for key in sorted(held.keys() | wanted.keys()):
        if held.get(key) != wanted.get(key):
            yield f"{what} {key} is {held.get(key)} instead of {wanted.get(key)}"


def _channels(state, server, own_id):
    """Channels that the account can view; the server may or may not send others."""
    own = server.members[own_id]
    for channel_id, channel in server.channels.items():
        wanted = [channel["name"], channel.get("last_message_id")]
        held = state["channels"].get(channel_id)
        if held != wanted and server.can_view(own, channel):
            yield f"channel {channel_id} is {held} instead of {wanted}"
    for channel_id in state["channels"].keys() - server.channels.keys():
        yield f"channel {channel_id} is still there"


def _counts(state, server, presences):
    online = len(server.members.keys() & presences.keys())
    if state["member_count"] != len(server.members):
        yield f"member_count is {state['member_count']} instead of {len(server.members)}"
    # Only member lists contain it, so it is unknown before a subscription to one.
    if state["lists"] and state["online_count"] != online:
        yield f"online_count is {state['online_count']} instead of {online}"


def _members(state, server, presences, followed):
    for user_id, (username, global_name, nick, roles, status) in state["members"].items():
        member = server.members.get(user_id)
        if member is None:
            yield f"member {user_id} is still there"
            continue
        user = member["user"]
        wanted = [user["username"], user["global_name"], member["nick"], sorted(member["roles"])]
        if [username, global_name, nick, roles] != wanted:
            yield f"member {user_id} is {[username, global_name, nick, roles]} instead of {wanted}"
        shown = presences[user_id][0] if user_id in presences else "offline"
        if user_id in followed and status != shown:
            yield f"member {user_id} is {status} instead of {shown}"


def _list(watched, groups, rows):
    name = f"list {watched['id']} (channel {watched['channel_id']})"
    for first, last, held_groups, held_rows in watched["windows"]:
        if held_rows is None:
            yield f"{name}: nothing has come"
            continue
        if held_groups != groups:
            yield f"{name}: groups are {held_groups} instead of {groups}"
        wanted = rows[first : last + 1]
        for index in range(max(len(held_rows), len(wanted))):
            held = held_rows[index] if index < len(held_rows) else "missing"
            right = wanted[index] if index < len(wanted) else "none"
            if held != right:
                yield f"{name}: row {first + index} is {held} instead of {right}"
