"""Signs tokens that say who a user is (JWT, RFC 7519), for what stands before a Spark and logs users in.

Keys are read anew now and then, so that they are changed without a restart: a new one is published first,
then signs, and the old one goes when no token by it counts any more.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jwt
import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gateway.errors import AuthenticationFailed, Faults
from gateway.model.bounded import BoundedDict
from gateway.model.principal import GATEWAY_ATTRIBUTE, Principal

_log = structlog.get_logger(__name__)

READ_AGAIN_S = 30.0
"""How old the keys may be when they are used."""
MAX_TOKEN_CHARS = 7000
"""A token with more is refused: what takes gRPC's metadata or HTTP's headers has room for 8 KiB."""
MAX_KEPT = 10_000
"""Tokens that are used again until half of their time is over."""
MIN_RSA_BITS = 2048
_THUMBPRINT = {"EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x"), "RSA": ("e", "kty", "n")}
"""Members of a key that its id is made of (RFC 7638)."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key, and its public half as it is published."""

    private: Any
    algorithm: str
    public: dict[str, str]

    @property
    def id(self) -> str:
        """Its `kid`."""
        return self.public["kid"]


class TokenSigner:
    """Signs by the first of its keys, and publishes all."""

    def __init__(
        self,
        issuer: str,
        read_keys: Callable[[], Sequence[str]],
        *,
        lifetime_s: float = 300.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`read_keys` returns keys in PEM, and may raise Faults; they are read at once, too."""
        self.issuer = issuer
        self._read_keys = read_keys
        self._lifetime_s = lifetime_s
        self._clock = clock
        self._texts: Sequence[str] = read_keys()
        self._keys = [parse_signing_key(text) for text in self._texts]
        self._read_at = clock()
        self._gone: list[tuple[SigningKey, float]] = []
        """Keys that are no longer there, and until when tokens by them count."""
        self._kept: BoundedDict[tuple[str, tuple[str, ...], str, str], tuple[str, float]] = BoundedDict(
            MAX_KEPT
        )
        """Tokens, and since when they count."""

    def sign(self, principal: Principal, audience: str, groups: Iterable[str], gateway: str = "") -> str:
        """Return a token that says who a user is, and, where it is for another Sluice, through which gateway
        he comes. Raises AuthenticationFailed for one that nobody would take.

        It may be one that was returned before, of which half of its time is left.
        """
        told = tuple(sorted(groups))
        key = self._refresh()[0]
        kept_as = (principal.identity, told, f"{audience}\0{gateway}", key.id)
        now = self._clock()
        token, since = self._kept.get(kept_as, ("", 0.0))
        # One of the future is none that others take: this clock was put back.
        if token and 0 <= now - since < self._lifetime_s / 2:  # RULE (no-token-of-the-future)
            return token
        claims = {
            "iss": self.issuer,
            "aud": audience,
            "sub": principal.user,
            "preferred_username": principal.user,
            "groups": list(told),
            "iat": int(now),
            "exp": int(now + self._lifetime_s),
            "jti": uuid.uuid4().hex,
        }
        if gateway:
            claims[GATEWAY_ATTRIBUTE] = gateway
        token = jwt.encode(claims, key.private, algorithm=key.algorithm, headers={"kid": key.id})
        if len(token) > MAX_TOKEN_CHARS:
            _log.error("token_too_long", user=principal.user, chars=len(token), groups=len(told))
            raise AuthenticationFailed(
                "you are in too many groups for a token that tells them all to the Spark behind this gateway"
            )
        self._kept[kept_as] = token, now
        return token

    def list_public_keys(self) -> dict[str, list[dict[str, str]]]:
        """Return the public keys by which tokens are checked, as a JWKS (RFC 7517)."""
        keys = [*self._refresh(), *(key for key, until in self._gone if self._clock() < until)]
        return {"keys": list({key.id: key.public for key in keys}.values())}

    def _refresh(self) -> Sequence[SigningKey]:
        now = self._clock()
        if abs(now - self._read_at) < READ_AGAIN_S:
            return self._keys
        self._read_at = now
        try:
            texts = self._read_keys()
            if texts != self._texts:
                keys = [parse_signing_key(text) for text in texts]
                left = {key.id for key in keys}
                # Also those that a gateway with the same keys signed by a moment ago.
                until = now + READ_AGAIN_S + self._lifetime_s
                self._gone = [(key, end) for key, end in self._gone if now < end]
                self._gone += [(key, until) for key in self._keys if key.id not in left]
                self._texts, self._keys = texts, keys
                _log.info("signing_keys_read", signs=keys[0].id, keys=len(keys))
        except Faults as fault:
            # The last ones go on: nobody is locked out by a file that is being written.
            _log.warning("signing_keys_not_read", reason="; ".join(fault.faults))
        return self._keys


def parse_signing_key(text: str) -> SigningKey:
    """Return a private key that is written in PEM. Raises Faults, with nothing of the text."""
    try:
        key = load_pem_private_key(text.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise Faults(
            ["a key of `token_signing.keys` is not a private key in PEM without a password"]
        ) from None
    match key:
        case EllipticCurvePrivateKey() if isinstance(key.curve, SECP256R1):
            algorithm = "ES256"
        case Ed25519PrivateKey():
            algorithm = "EdDSA"
        case RSAPrivateKey() if key.key_size >= MIN_RSA_BITS:
            algorithm = "RS256"
        case _:
            raise Faults(
                [f"a key of `token_signing.keys` is neither EC P-256, Ed25519 nor RSA of {MIN_RSA_BITS} bits"]
            )
    written = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    public = {name: str(value) for name, value in written.items() if name != "key_ops"}
    named = {name: public[name] for name in _THUMBPRINT[public["kty"]]}
    digest = hashlib.sha256(json.dumps(named, separators=(",", ":"), sort_keys=True).encode()).digest()
    kid = urlsafe_b64encode(digest).decode().rstrip("=")
    return SigningKey(key, algorithm, {**public, "kid": kid, "use": "sig", "alg": algorithm})
