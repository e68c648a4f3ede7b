"""Verifies a voice token of a node offline, as a media server does: docs/voice.md has its claims.

    VOICE_KEY='the key that the node has as voice.token_key' python verify.py TOKEN

Prints the room, the account and its rights; or, with status 1, why the token is refused.
"""
import base64
import hashlib
import hmac
import json
import os
import sys
import time

ISSUER = os.environ.get("VOICE_KEY_ID", "guildhall")


class Refused(Exception):
    pass


def decoded(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def verify(token, key, now_s):
    """The claims of the token, if this key has signed it and it is valid now."""
    try:
        signed, signature = token.rsplit(".", 1)
        header, claims = (json.loads(decoded(part)) for part in signed.split("."))
        # The algorithm is ours to choose, not the token's.
        expected = hmac.new(key.encode(), signed.encode(), hashlib.sha256).digest()
        if header.get("alg") != "HS256" or not hmac.compare_digest(expected, decoded(signature)):
            raise Refused("the signature is not of this key")
    except ValueError:
        raise Refused("this is no JSON Web Token") from None
    if claims.get("iss") != ISSUER:
        raise Refused(f"its issuer is {claims.get('iss')!r} and not {ISSUER!r}")
    if not claims["nbf"] <= now_s < claims["exp"]:
        raise Refused("it has ended: the client repeats its op 4 to get another one")
    return claims


def main():
    try:
        claims = verify(sys.argv[1], os.environ["VOICE_KEY"], time.time())
    except Refused as fault:
        sys.exit(f"refused: {fault}")
    video = claims["video"]
    print(json.dumps({
        "room": video["room"],
        "user_id": claims["sub"],
        "session_id": claims["attributes"]["session_id"],
        "may_send": video["canPublishSources"] if video["canPublish"] else [],
        "may_receive": video["canSubscribe"],
    }))


if __name__ == "__main__":
    main()
