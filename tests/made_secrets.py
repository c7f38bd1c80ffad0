"""Secrets of many kinds, made up anew in each run, in the sentences that people put them in."""

import base64
import json
import random
import string

_random = random.Random(20261123)
LETTERS = string.ascii_letters
ALL = LETTERS + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
DIGITS = "123456789"


def _some(size: int, alphabet: str = ALL) -> str:
    return "".join(_random.choice(alphabet) for _ in range(size))


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _armoured() -> tuple[str, list[str]]:
    lines = [_some(64) for _ in range(6)]
    begin, end = (f"-----{word} OPENSSH PRIVATE KEY-----" for word in ("BEGIN", "END"))
    return "\n".join([begin, *lines, end]), lines


# What a service calls its keys: the key itself is recognised, wherever it stands.
KEYS = {
    "AWS access key": "AKIA" + _some(16, UPPER),
    "Anthropic": "sk-ant-api03-" + _some(93) + "AA",
    "OpenAI": "sk-proj-" + _some(74) + "T3Blbk" + "FJ" + _some(74),
    "OpenAI, older": "sk-" + _some(48),
    "OpenRouter": "sk-or-v1-" + _some(64, HEX),
    "GitHub": "ghp_" + _some(36),
    "GitHub, fine-grained": "github_pat_" + _some(22) + "_" + _some(59),
    "GitHub app": "ghs_" + _some(36),
    "GitLab": "glpat-" + _some(20),
    "Slack": "xoxb-" + _some(12, DIGITS) + "-" + _some(13, DIGITS) + "-" + _some(24),
    "Stripe": "sk_live_" + _some(24),
    "Google": "AIza" + _some(35),
    "Google OAuth": "GOCSPX-" + _some(28),
    "Hugging Face": "hf_" + _some(34, LETTERS),
    "npm": "npm_" + _some(36),
    "PyPI": "pypi-AgEI" + _some(100),
    "SendGrid": "SG." + _some(22) + "." + _some(43),
    "Twilio": "SK" + _some(32, HEX),
    "Telegram": _some(10, DIGITS) + ":AA" + _some(33),
    "Discord": "MT" + "4" + _some(21) + "." + _some(6) + "." + _some(27),
    "DigitalOcean": "dop_v1_" + _some(64, HEX),
    "Shopify": "shpat_" + _some(32, HEX),
    "JWT": ".".join([_part({"alg": "HS256", "typ": "JWT"}), _part({"sub": "1234"}), _some(43)]),
    "age": "AGE-SECRET-KEY-1" + _some(58, UPPER),
    "Linear": "lin_api_" + _some(40),
    "Databricks": "dapi" + _some(32, HEX),
    "Doppler": "dp.pt." + _some(43),
    "Grafana": "glsa_" + _some(32) + "_" + _some(8, HEX),
    "Vault": "hvs." + _some(95),
    "Groq": "gsk_" + _some(52),
    "xAI": "xai-" + _some(80),
    "Perplexity": "pplx-" + _some(48),
    "Replicate": "r8_" + _some(37),
    "Notion": "ntn_" + _some(46),
}
_BLOCK, _LINES = _armoured()
# Name -> a text, and the secrets in it that are recognised by what stands before them.
NAMED = {
    "AWS secret key": ("aws_secret_access_key = {}", ["9" + _some(39)]),
    "Slack webhook": (
        "https://hooks.slack.com/services/{}",
        [f"T{_some(8, UPPER)}/B{_some(10, UPPER)}/{_some(24)}"],
    ),
    "Azure storage": ("AccountName=x;AccountKey={};", ["7" + _some(85) + "=="]),
    "private key": (_BLOCK, _LINES),
    "password in a URL": ("postgres://shed:{}@db.example.org:5432/app", ["Xk7-" + _some(9)]),
    "bearer token": ('curl -H "Authorization: Bearer {}" https://x.org', ["4" + _some(31)]),
    "basic authorization": ("Authorization: Basic {}", ["4" + _some(18) + "=="]),
    "environment": ("export DB_PASSWORD={}", [_some(12, LETTERS)]),
    "JSON": ('{{"password": "{}"}}', ["corr3ct-" + _some(5)]),
    "YAML": ("api_key: '{}'", ["3" + _some(23)]),
    "a sentence": ("Here it is: the **Password:** `{}`", ["hunter2" + _some(4)]),
    "a flag": ("mysql --password {} shed", ["hunter2" + _some(4)]),
    "German": ("Passwort: {}", ["geheim123" + _some(4)]),
}
KINDS: dict[str, tuple[str, list[str]]] = {
    **{name: (f"The key is {key} , use it.", [key]) for name, key in KEYS.items()},
    **{name: (text.format(secrets[0]), secrets) for name, (text, secrets) in NAMED.items()},
}
SECRETS = [secret for _, secrets in KINDS.values() for secret in secrets]
