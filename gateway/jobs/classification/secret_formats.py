"""What secrets look like: keys by known beginnings or by how random they are, and hashes of passwords."""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from gateway.jobs.classification.value_format import Find, Whole, of_pattern

_KEYS = re.compile(
    r"(?<![A-Za-z0-9_/+=-])(?:"
    r"(?:AKIA|ASIA|AROA|AIDA)[A-Z2-7]{16}"
    r"|gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{60,255}"
    r"|glpat-[A-Za-z0-9_-]{20,}"
    r"|xox[abeprs]-[A-Za-z0-9-]{20,250}"
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,250}"
    r"|sk-(?:proj-|ant-)?[A-Za-z0-9_-]{32,250}"
    r"|AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{30,}"
    r"|SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{30,64}"
    r"|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,250}|hf_[A-Za-z0-9]{30,50}|dapi[0-9a-f]{32}"
    r"|sluice_[A-Za-z0-9_-]{20,}|whsec_[A-Za-z0-9+/=]{24,100}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"
    r"|dop_v1_[0-9a-f]{64}|sq0(?:atp|csp)-[A-Za-z0-9_-]{22,43}|[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"
    # Whoever has the address of a hook may post to it.
    r"|https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}"
    r"|https://(?:discord|discordapp)\.com/api/webhooks/[0-9]+/[A-Za-z0-9_-]{40,}"
    r")(?![A-Za-z0-9_])"
)
_JWT = re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{0,2048}")
_PEM = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_WITH_PASSWORD = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{0,100}:[^\s/@]{3,100}@[\w.-]+")


_ASSIGNED = re.compile(
    r"(?:secret|token|api_?key|access_?key|private_?key|account_?key|passw(?:or)?d)\w{0,20}[\"']?\s?[=:]\s?[\"']?([A-Za-z0-9_.~+/=-]{16,512})",
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"passw(?:or)?d[\"']?=[\"']?([^\s\"'&;,<>{}$%*]{8,100})", re.IGNORECASE)
_BASIC = re.compile(r"\bBasic ([A-Za-z0-9+/]{12,512}={0,2})")


def _find_assigned_secrets(text: str) -> Iterator[str]:
    """`API_TOKEN=...` of settings and commands."""
    if "=" in text or ":" in text:
        yield from (found.group() for found in _ASSIGNED.finditer(text) if _random(found[1]))
    if "=" in text:
        # Shorter than a key; what is no word has digits.
        yield from (
            found.group()
            for found in _PASSWORD.finditer(text)
            if any(map(str.isdigit, found[1])) and any(map(str.isalpha, found[1]))
        )


def _basic_credentials(text: str) -> Iterator[str]:
    """A user with a password, as HTTP has them."""
    for found in _BASIC.finditer(text):
        try:
            if b":" in base64.b64decode(found[1], validate=True):
                yield found.group()
        except ValueError:
            continue


def _build_prefix_check(find: Find) -> tuple[Whole, Find]:
    """A value is of it that begins with one."""
    return lambda value: any(value.startswith(one) for one in find(value)), find


def _build_search(pattern: re.Pattern[str]) -> tuple[Whole, Find]:
    def whole(value: str) -> bool:
        found = pattern.match(value.removeprefix("Bearer "))
        return found is not None

    def find(text: str) -> Iterator[str]:
        yield from (found.group() for found in pattern.finditer(text))

    return whole, find


_PASSWORD_HASH = re.compile(
    r"(?=[$a{bmps])(?:(?:\{bcrypt\}|argon2|bcrypt(?:_sha256)?\$)?"
    r"\$(?:2[abxy]|argon2(?:id?|d)|[156HPS]|7|y|gy|sha1|scrypt|apr1|bcrypt-sha256|pbkdf2[\w-]*)\$\S{8,}"
    r"|pbkdf2_sha\d+\$\d+\$\S+|\{(?:S?SHA(?:256|512)?|S?MD5|CRYPT|PBKDF2[\w-]*)\}[A-Za-z0-9+/=$.]{16,}"
    r"|scrypt:\d+:\d+:\d+\$\S+|(?:md5|sha1)\$\w+\$[0-9a-f]{32,40}|pbkdf2:sha\d+(?::\d+)?\$\S+"
    r"|SCRAM-SHA-\d+\$\d+:\S+|AQAAAA[EI]AA[A-Za-z0-9+/]{40,120}={0,2})",
    re.IGNORECASE,
)
_UUID = re.compile(r"\{?[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\}?")
_TOKEN = re.compile(r"[A-Za-z0-9_.~+/=:-]+")
_DIGEST_LENGTHS = frozenset({24, 28, 44, 64, 88})
"""Lengths of MD5, SHA-1, SHA-256, SHA-384 and SHA-512 digests in base64."""


def entropy(text: str) -> float:
    """Return the bits of a character of the text, by how often each is in it."""
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())


def _random(value: str) -> bool:
    """Match text that looks like a random key: no space, no word, no UUID."""
    if not 12 <= len(value) <= 512 or _TOKEN.fullmatch(value) is None or _UUID.fullmatch(value) is not None:
        return False
    if not any(c.isdigit() for c in value) or not any(c.isalpha() for c in value):
        return False
    return entropy(value) >= 3.0


def _random_key(value: str) -> bool:
    """Long, of capitals, small letters and digits, evenly mixed, and no digest or coded file."""
    if not 32 <= len(value) <= 256 or _TOKEN.fullmatch(value) is None or _UUID.fullmatch(value) is not None:
        return False
    if value.startswith(("http", "/", ".")) or value.count("/") > 3 or ":" in value or value.count(".") > 2:
        return False
    if value.endswith("=") and len(value) in _DIGEST_LENGTHS:
        return False
    turns = sum(a.isdigit() != b.isdigit() or a.isupper() != b.isupper() for a, b in pairwise(value))
    kinds = (
        any(c.isdigit() for c in value)
        and any(c.isupper() for c in value)
        and any(c.islower() for c in value)
    )
    return kinds and turns >= len(value) / 4 and entropy(value) >= 4.2


def _any_text(value: str) -> bool:
    """But for the path of a file: `pwd` is a directory as well."""
    return len(value) >= 3 and not value.startswith(("/", "./", "~/"))


SECRETS: Mapping[str, tuple[Whole, Find | None]] = {
    "known_key": _build_search(_KEYS),
    "jwt": _build_search(_JWT),
    "private_key": _build_search(_PEM),
    "url_with_password": _build_search(_WITH_PASSWORD),
    "assigned_secret": _build_prefix_check(_find_assigned_secrets),
    "basic_credentials": _build_prefix_check(_basic_credentials),
    "password_hash": of_pattern(_PASSWORD_HASH),
    "random": (_random, None),
    "random_key": (_random_key, None),
    "base32": of_pattern(re.compile(r"[A-Z2-7]{16,128}={0,6}")),
    "uuid": of_pattern(_UUID),
    "any_text": (_any_text, None),
}
