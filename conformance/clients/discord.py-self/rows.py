"""Rows: the member list a client shows, kept from GUILD_MEMBER_LIST_UPDATE as an official client keeps it.

discord.py-self hands these events on whole and takes members, presences and counts out of their SYNCs; the order of
the rows is left to whoever listens, so it is kept here.
"""


class Fault(Exception):
    """An operation that cannot be carried out on the rows that are there."""


class MemberList:
    """One list. A row is None where nothing is known."""

    def __init__(self):
        self.groups = []
        self.rows = []

    def apply(self, data):
        """Carries out the operations in their order, then believes the groups."""
        for op in data["ops"]:
            match op["op"]:
                case "SYNC":
                    self._sync(*op["range"], [row_of(item) for item in op["items"]])
                case "INVALIDATE":
                    first, last = op["range"]
                    for index in range(first, min(last + 1, len(self.rows))):
                        self.rows[index] = None
                case "INSERT":
                    self._grow(op["index"])
                    self.rows.insert(op["index"], row_of(op["item"]))
                case "UPDATE":
                    self._held(op)
                    self.rows[op["index"]] = row_of(op["item"])
                case "DELETE":
                    self._held(op)
                    del self.rows[op["index"]]
                case other:
                    raise Fault(f"unknown operation {other}")
        self.groups = [(group["id"], group["count"]) for group in data["groups"]]
        del self.rows[sum(count + 1 for _, count in self.groups) :]

    def window(self, first, last):
        """The rows of a range; fewer at the end of the list."""
        return self.rows[first : last + 1]

    def _grow(self, length):
        self.rows.extend([None] * (length - len(self.rows)))

    def _sync(self, first, last, rows):
        if len(rows) > last - first + 1:
            raise Fault(f"{len(rows)} rows for the range {first} to {last}")
        self._grow(first)
        self.rows[first : first + len(rows)] = rows
        if first + len(rows) <= last:
            del self.rows[first + len(rows) :]

    def _held(self, op):
        if op["index"] >= len(self.rows):
            raise Fault(f"{op['op']} of row {op['index']}, and there are {len(self.rows)}")


def row_of(item):
    """A row in the form that the runner compares."""
    if "group" in item:
        return ["group", item["group"]["id"], item["group"]["count"]]
    member = item["member"]
    presence = member["presence"]
    if presence["user"]["id"] != member["user"]["id"]:
        raise Fault(f"member {member['user']['id']} has the presence of {presence['user']['id']}")
    return [
        "member",
        member["user"]["id"],
        member["user"]["username"],
        member.get("nick"),
        sorted(member["roles"]),
        presence["status"],
        sorted(activity["name"] for activity in presence["activities"]),
    ]
