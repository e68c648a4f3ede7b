"""Interactions: an account uses the commands of a bot that a library runs.

Owns        what every library has to register and to answer, and what the account and the channel must show of it.
Invariants  I1 each answer is the one of the library, made of the values that the account sent.
            I2 the account learns of each interaction that it was answered; no other account sees what is for it alone.
Not here    how a library registers and answers: its own client.
Spec        docs/protocol/choices.md "Interactions"; ../README.md "Commands and interactions".
"""
from .failure import Failure
from .peer import Peer

COMMAND, COMPONENT, AUTOCOMPLETE, MODAL = 2, 3, 4, 5
STRING, INTEGER, USER = 3, 4, 6
BUTTON, TEXT_INPUT = 2, 4
EPHEMERAL = 64

# Commands that a library registers.
NAMES = ["find", "form", "hidden", "later", "press", "say"]
# A text that an encoding may get wrong.
TEXT = "\N{MUSICAL SYMBOL G CLEF} \"quoted\" äöü"


class Invoker(Peer):
    """The connection of the account that uses the commands."""

    def __init__(self, port, token, patience):
        # Name and body of each event that is for this account alone.
        self.events = []
        super().__init__(port, token, patience)

    def _handle(self, payload):
        super()._handle(payload)
        name, body = payload["t"], payload["d"]
        is_own = name and (name.startswith(("INTERACTION_", "APPLICATION_COMMAND_AUTO")))
        if is_own or (name in ("MESSAGE_CREATE", "MESSAGE_UPDATE") and body.get("flags", 0) & EPHEMERAL):
            self.events.append((name, body))

    def event(self, name, matches):
        """The first event of this name that matches."""

        def found():
            return [body for other, body in self.events if other == name and matches(body)]

        self.wait(f"{name} ({len(self.events)} events of interactions came)", found)
        return found()[0]


class Interactions:
    """The part of a scenario in which an account uses the library's commands."""

    def __init__(self, client, invoker, rest, guild_id, channel_id, application_id):
        self._client, self._invoker, self._rest = client, invoker, rest
        self._place = {"guild_id": guild_id, "channel_id": channel_id, "application_id": application_id}
        self._channel_id = channel_id
        self._application_id = application_id
        self._user = rest.get("/users/@me")
        self._commands = {}
        self._number = 0

    def run(self):
        """Uses each command; raises a Failure at the first fault."""
        self._register()
        self._say()
        self._later()
        self._hidden()
        self._find()
        self._form()
        self._press()

    def _register(self):
        self._client.send("register")
        self._client.wait_for("the commands to be registered", "registered")
        self._learn()
        if sorted(self._commands) != NAMES:
            raise Failure(f"the channel offers the commands {sorted(self._commands)}, not {NAMES}")

    def _learn(self):
        """Reads the commands that the application offers in the channel."""
        index = self._rest.get(f"/channels/{self._channel_id}/application-command-index")
        self._commands = {
            command["name"]: command
            for command in index["application_commands"]
            if command["application_id"] == self._application_id
        }

    def _invoke(self, kind, data, **more):
        """Sends an interaction, and returns its id and nonce once it was accepted."""
        self._number += 1
        nonce = str(self._number)
        self._rest.post("/interactions", {"type": kind, "nonce": nonce, "session_id": "x", "data": data, **self._place, **more})
        made = self._invoker.event("INTERACTION_CREATE", lambda body: body["nonce"] == nonce)
        return made["id"], nonce

    def _command(self, name, *options, kind=COMMAND):
        command = self._commands[name]
        data = {key: command[key] for key in ("id", "version", "name", "type")}
        return self._invoke(kind, {**data, "options": list(options)})

    def _answered(self, interaction_id):
        failures = [body for name, body in self._invoker.events if name == "INTERACTION_FAILURE"]
        if failures:
            raise Failure(f"the library did not answer in time: {failures}")
        self._invoker.event("INTERACTION_SUCCESS", lambda body: body["id"] == interaction_id)

    def _message(self, content, interaction_id):
        """The message that the library saw, as the account reads it."""
        seen = self._client.wait_for(f"the answer {content!r}", "message", lambda event: event["content"] == content)
        message = self._rest.get(f"/channels/{self._channel_id}/messages/{seen['id']}")
        made = message.get("interaction_metadata") or {}
        if message["author"]["id"] != self._application_id or made.get("id") != interaction_id:
            raise Failure(f"the answer {content!r} is not of the interaction {interaction_id}: {message}")
        if made["user"]["id"] != self._user["id"]:
            raise Failure(f"the answer {content!r} names another account: {made}")
        return message

    def _edited(self, content):
        self._client.wait_for(f"the edit {content!r}", "edit", lambda event: event["content"] == content)

    def _say(self):
        """An answer at once, made of options of three types."""
        options = (
            {"type": STRING, "name": "text", "value": TEXT},
            {"type": USER, "name": "whom", "value": self._user["id"]},
            {"type": INTEGER, "name": "times", "value": 3},
        )
        interaction_id, _ = self._command("say", *options)
        self._answered(interaction_id)
        self._message(f"say: {TEXT} to {self._user['username']}, 3", interaction_id)

    def _later(self):
        """A deferred answer, and a further one."""
        interaction_id, _ = self._command("later", {"type": STRING, "name": "text", "value": "soon"})
        self._answered(interaction_id)
        self._edited("later: soon")
        further = self._message("and more: soon", interaction_id)
        original_id = further["interaction_metadata"].get("original_response_message_id")
        original = self._rest.get(f"/channels/{self._channel_id}/messages/{original_id}")
        if original["content"] != "later: soon":
            raise Failure(f"the further answer follows {original}")

    def _hidden(self):
        """An answer that only the account sees, and its edit."""
        interaction_id, _ = self._command("hidden")
        self._answered(interaction_id)
        made = self._invoker.event("MESSAGE_CREATE", lambda body: body["content"] == "hidden")
        self._invoker.event("MESSAGE_UPDATE", lambda body: (body["id"], body["content"]) == (made["id"], "hidden, edited"))
        if any(event["content"].startswith("hidden") for event in self._client.all("message")):
            raise Failure("the library received an ephemeral message as an event")

    def _find(self):
        """The choices of an option, and the use of one."""
        typed = {"type": STRING, "name": "word", "value": "wo", "focused": True}
        _, nonce = self._command("find", typed, kind=AUTOCOMPLETE)
        name = "APPLICATION_COMMAND_AUTOCOMPLETE_RESPONSE"
        choices = self._invoker.event(name, lambda body: body["nonce"] == nonce)["choices"]
        wanted = [("wo one", "wo-1"), ("wo two", "wo-2")]
        if [(choice["name"], choice["value"]) for choice in choices] != wanted:
            raise Failure(f"the choices are {choices}")
        interaction_id, _ = self._command("find", {"type": STRING, "name": "word", "value": "wo-2"})
        self._answered(interaction_id)
        self._message("found: wo-2", interaction_id)

    def _form(self):
        """A modal, and what the account enters."""
        opened_id, nonce = self._command("form")
        modal = self._invoker.event("INTERACTION_MODAL_CREATE", lambda body: body["nonce"] == nonce)
        if (modal["custom_id"], modal["title"]) != ("form", "A form"):
            raise Failure(f"the modal is {modal}")
        components = filled(modal["components"], "text", TEXT)
        data = {"id": modal["id"], "custom_id": modal["custom_id"], "components": components}
        interaction_id, _ = self._invoke(MODAL, data)
        self._answered(interaction_id)
        message = self._message(f"form: {TEXT}", interaction_id)
        triggering = message["interaction_metadata"].get("triggering_interaction_metadata") or {}
        if triggering.get("id") != opened_id:
            raise Failure(f"the modal's answer does not name the command: {message['interaction_metadata']}")

    def _press(self):
        """A button that changes its message."""
        interaction_id, _ = self._command("press")
        self._answered(interaction_id)
        message = self._message("press", interaction_id)
        data = {"component_type": BUTTON, "custom_id": "press"}
        more = {"message_id": message["id"], "message_flags": message["flags"]}
        interaction_id, _ = self._invoke(COMPONENT, data, **more)
        self._answered(interaction_id)
        content = f"pressed by {self._user['username']}"
        self._edited(content)
        after = self._rest.get(f"/channels/{self._channel_id}/messages/{message['id']}")
        if (after["content"], after["components"]) != (content, []):
            raise Failure(f"the pressed button's message is {after}")


def filled(components, custom_id, value):
    """The components of a modal with a value in its text input, as clients submit them."""
    out = []
    for component in components:
        submitted = {key: component[key] for key in ("type", "id", "custom_id") if key in component}
        if "components" in component:
            submitted["components"] = filled(component["components"], custom_id, value)
        if "component" in component:
            (submitted["component"],) = filled([component["component"]], custom_id, value)
        if component.get("custom_id") == custom_id and component["type"] == TEXT_INPUT:
            submitted["value"] = value
        out.append(submitted)
    return out
