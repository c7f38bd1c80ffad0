"""Keys, tokens and passwords in a text, by their known forms: nothing is guessed from randomness.

Libraries that look for secrets find the lines that have one, for a person to look at; what is to
be masked has to be found from its first character to its last, and nothing beside it.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

MASK = "[masked]"
# The prefixes that services give their keys, and what follows them.
FORMS = r"""
sk-ant-[\w-]{20,} | sk-(?=[\w-]*\d)(?:proj|svcacct|admin|or-v1|lf)-[\w-]{20,} | sk-[A-Za-z0-9]{32,}
| gh[oprsu]_[A-Za-z0-9]{36,} | github_pat_\w{22,} | gl(?:pat|ptt|dt|rt|cbt|ft|soat|agent)-[\w-]{20,}
| xox[abeoprs]-[\w-]{10,} | xapp-\d-[\w-]{20,} | T[A-Z0-9]{8,}/B[A-Z0-9]{8,}/[A-Za-z0-9]{24}
| [rs]k_(?:live|test)_[A-Za-z0-9]{16,} | whsec_[A-Za-z0-9+/]{24,} | GOCSPX-[\w-]{28} | AIza[\w-]{35}
| (?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[A-Z0-9]{16} | ya29\.[\w-]{30,} | hf_[A-Za-z]{30,}
| gsk_[A-Za-z0-9]{40,} | xai-[A-Za-z0-9]{60,} | pplx-[A-Za-z0-9]{40,} | r8_[A-Za-z0-9]{37}
| npm_[A-Za-z0-9]{36} | pypi-Ag[\w-]{50,} | SG\.[\w-]{16,32}\.[\w-]{16,64} | SK[0-9a-f]{32}
| \d{8,10}:AA[\w-]{33} | [MNO](?=\w*\d)[A-Za-z\d]{23,25}\.[\w-]{6}\.[\w-]{27,38} | dapi[0-9a-f]{32}
| do[opr]_v1_[0-9a-f]{64} | shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32} | hv[bs]\.[\w-]{24,}
| dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9]{40,44} | gl(?:c|sa)_[\w+/=]{32,} | figd_[\w-]{40,}
| lin_api_[A-Za-z0-9]{40} | ntn_[A-Za-z0-9]{40,} | secret_[A-Za-z0-9]{43} | sbp_[0-9a-f]{40}
| PMAK-[0-9a-f]{24}-[0-9a-f]{34} | NRAK-[A-Z0-9]{27} | ATATT3[\w=-]{60,} | sntry[su]_[\w+/=-]{40,}
| tskey-[a-z]+-[\w-]{20,} | key-[0-9a-f]{32} | [0-9a-f]{32}-us\d{1,2} | AGE-SECRET-KEY-1[A-Z0-9]{58}
| eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}
"""
# What is named so is a secret, if it looks like one.
NAME = r"""
(?: passwor[dt] | passwd | passphrase | pwd | kennwort | contraseña | senha | пароль | 密码 | secret
  | token | (?:api|auth|access|account|client|encryption|private|secret|service|signing)[_-]?key
)(?:_base)?
"""
LIKELY = r"(?=\S{0,200}?[A-Za-z])(?=\S{0,200}?[\d!@\#%^*?])"  # a letter, and a digit or a sign
# No path, variable or call, no attribute of code, and no word of prose such as base64-encoded.
LITERAL = (
    r"(?![~./$%*=@\#]|https?:|base64|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|\d+-(?:bit|byte|char|digit))"
)
BARE = rf"{LIKELY}{LITERAL}([^\s\"'`,;&(){{}}\[\]<>$|\\]{{6,}}+)(?![({{\[<$\\])"
QUOTE = r"\\?[\"'`]"
# A value in quotes; at once behind the sign; or at the end of the line.
VALUE = rf"""
{QUOTE}?\*{{0,2}}\s{{0,3}}(?::=|=>|[:=])\*{{0,2}}\s{{0,3}}
({QUOTE}){LIKELY}{LITERAL}([^\s\"'`]{{6,200}}?)\1
| ={BARE}
| [\"'`*]{{0,3}}[\ \t]*[:=][\"'`*]{{0,3}}[\ \t]+(?=\S{{8}}){BARE}[\ \t]*$
"""
LINES = (
    rf"(?<![A-Za-z0-9_-])({FORMS})(?![A-Za-z0-9_-])",
    rf"(?i:{NAME})(?:{VALUE})",
    rf"(?<![\w-])--(?i:(?:[a-z][\w-]{{0,50}}?)?{NAME})\ {BARE}",
    rf"(?i:\bbearer\s+|\bauthorization[\"']?\s*[:=]\s*[\"']?(?:basic|token)\s+){LIKELY}"
    r"([\w.~+/=-]{16,})",
    r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,100}:(?!pass(?:wd|word)?@)([^\s/:@$<>{}\[\]*]{3,200})@",
    # A variable of an environment: whatever stands there.
    r"(?<![A-Za-z0-9_-])[A-Z0-9_]*?(?:PASSWORD|PASSWD|SECRET|TOKEN|_KEY)=[\"']?"
    r"(?![/~.$]|(?i:your|change|x+$|true|false|none|null))([^\s\"'`;&(){}\[\]<>$|\\]{6,}+)(?![({\[<$])",
)
PEM = r"-----{} [A-Z0-9 ]{{0,30}}PRIVATE KEY(?: BLOCK)?-----"
# A private key, or as much of it as is there.
BLOCK = (
    rf"({PEM.format('BEGIN')}(?:(?:[^-]|-(?!----)){{0,20000}}?{PEM.format('END')}"
    r"|(?:(?:\s|\\n)*[A-Za-z0-9+/=]{40,})+))"
)
STRETCHES = re.compile(r"[\s\S]{1,50000}(?:\n|\Z)|[\s\S]{1,50000}")

Span = tuple[int, int]


@cache
def _patterns() -> tuple[re.Pattern[str], list[re.Pattern[str]]]:
    """The pattern of a block, and those of a line; the last group of a match is the secret."""
    return re.compile(BLOCK), [re.compile(one, re.VERBOSE | re.MULTILINE) for one in LINES]


def spans(text: str) -> list[Span]:
    """Where the secrets of a text begin and end, in order and apart from each other."""
    block, lines = _patterns()
    found = [match.span() for match in block.finditer(text)]
    # In stretches: a search holds Python's lock, and others wait.
    for stretch in STRETCHES.finditer(text):
        for pattern in lines:
            for match in pattern.finditer(stretch[0]):
                start, end = match.span(match.lastindex or 0)
                found.append((start + stretch.start(), end + stretch.start()))
    apart: list[Span] = []
    for start, end in sorted(found):
        if apart and start < apart[-1][1]:
            apart[-1] = apart[-1][0], max(end, apart[-1][1])
        else:
            apart.append((start, end))
    return apart


def without(text: str, secrets: Sequence[Span]) -> str:
    """The text with `[masked]` in the place of each of these secrets."""
    ends = [0, *(end for _, end in secrets)]
    starts = [*(start for start, _ in secrets), len(text)]
    return MASK.join(text[end:start] for end, start in zip(ends, starts, strict=True))


def masked(value: Any) -> tuple[Any, int]:
    """A text, or all texts in metadata, without secrets, and how many there were."""
    if isinstance(value, str):
        found = spans(value)
        return without(value, found), len(found)
    if isinstance(value, Mapping):
        each, count = masked(list(value.values()))
        return dict(zip(value, each, strict=True)), count
    if isinstance(value, list | tuple):
        pairs = [masked(one) for one in value]
        return [one for one, _ in pairs], sum(count for _, count in pairs)
    return value, 0
