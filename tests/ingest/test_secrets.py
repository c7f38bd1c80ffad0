"""Keys, tokens and passwords are masked; nothing else is."""

import pytest

from mcp_server_qdrant.ingest.secrets import MASK, masked, merge, spans
from tests.made_secrets import KINDS, SECRETS

HARMLESS = [
    "The password: use twelve characters, and a token is fine.",
    "password: base64-encoded, token: uint256",
    "def login(password: str = Field('a1b2c3'), token: bytes32) -> None:",
    "client = Client(password=self.password2, secret = hmac_sha256(key), api_key=key)",
    "API_KEY=${KEY_1} TOKEN=$TOKEN2 SECRET=your-secret PWD=/home/ada2 SECRET_KEY=<your-key-1>",
    '{"password": "Passwort", "max_tokens": 4096, "type": "password"}',
    "git clone http://user:pass@host and see https://example.org:8080/a@b",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b of 550e8400-e29b-41d4-a716-446655440000",
    "sk-learn, risk-adjusted, task-force-of-the-year, -----BEGIN CERTIFICATE-----",
    "sk-admin-dashboard-of-the-garden, pypi-simple-index-of-all-the-packages-that-there-ever-were",
    "Normalisation_of_the_pump.models.a_function_with_a_rather_long_name",
    "the secret is out; Token: '#dcdccc'; key-value stores; Bearer of bad news",
    f"password={MASK} and --token {MASK}",
    "PRIMARY_KEY=customer_id SORT_KEY=created_at CACHE_KEY=d41d8cd98f00b204e9800998ecf8427e",
    "PARTITION_KEY=tenant_2024_01 REDIS_KEY=user:123:profile S3_KEY=backups/2024/a1.tgz",
    "API_KEY=changeme123, password: example1, token=xxxxxxxx9 and PASSWORD=placeholder1",
    "AKIAIOSFODNN7EXAMPLE, sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, ghp_" + "x" * 36,
    "cache-key-d41d8cd98f00b204e9800998ecf8427e, commit-3f786850e387550fdab836ed7e6dc881de23001b",
    "docker run -u 1000:1000 -p 8080:80/tcp nginx; ssh -p 2222 ada@x; mysql -u root -p shed",
    "curl -u $USER:$PASS https://x.org; docker login -u ada -p ${PASSWORD2} ghcr.io",
    "user,password,host\nleave,blank,here\n\n| Token | Meaning |\n|---|---|\n| IF | a condition |",
    "<password>changeme</password>, publicKeyToken=b77a5c561934e089, key: Ed25519PrivateKey | None",
    "the password is at least 12 characters long, the token is base64-encoded and JWT-like",
    "-----BEGIN PUBLIC KEY-----\n" + "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE" * 2,
    "Pass 1 parses. Pass 2 emits x1. The session id is 7d1c2b3a-0000-4000-8000-000000000002.",
]
NAMED = [
    {"password": "Hunter22xyz1"},
    {"password": "correct horse battery staple"},
    {"wifi password": "hunter"},
    {"Passwords": ["Hunter22xyz1"]},
    {"password": 12345678},
    {"pin": 4711},
    {"db": {"user": "ada", "pass": "Hunter22x"}},
    {"name": "DB_PASSWORD", "value": "Hunter22"},
    {"clientSecret": "abcdEFGH1234"},
    {"access_token": "7d1c2b3a-1234-4321-8abc-1234567890ab"},
    {"credentials": "ada:Hunter22x"},
    {"ghp_" + "a1" * 18: "a key that is one"},
]
UNNAMED = [
    {"max_tokens": 4096, "token": "uint256", "tokens": ["the", "a1b2c3d4"]},
    {"primary_key": "customer_id", "key": "customer_id2", "sort_key": "created_at"},
    {"password": True, "pin": 13, "secret": "basil, and grown well", "token": "strawberry"},
    {
        "password": "changeme",
        "pwd": "/home/ada",
        "hash": "3f786850e387550fdab836ed7e6dc881de23001b",
    },
    {"password": MASK, "session": "7d1c2b3a-0000-4000-8000-000000000002", "author": "Ada1"},
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_is_masked_from_end_to_end_and_counted_once(kind):
    text, secrets = KINDS[kind]
    found, count = masked(f"Before.\n{text}\nBehind.")

    assert count == 1
    assert not [one for one in secrets if one in found]
    assert found.startswith("Before.\n")
    assert found.endswith("\nBehind.")
    assert MASK in found


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_one_stays(text):
    assert masked(text) == (text, 0)


def test_the_words_around_a_secret_stay():
    assert masked("DB_PASSWORD=hunter2xyz # of the shed")[0] == f"DB_PASSWORD={MASK} # of the shed"
    assert masked("redis://a:hunter2@b/0")[0] == f"redis://a:{MASK}@b/0"


def test_many_in_one_long_text_are_found_wherever_they_lie():
    text = "\n".join(f"{'A line of prose. ' * 400}\n{text}" for text, _ in KINDS.values())
    found, count = masked(text)

    assert count == len(KINDS)
    assert not [one for one in SECRETS if one in found]


def test_texts_within_metadata_are_masked_and_names_and_numbers_stay():
    given = {"note": "token=abc123def", "list": ["x", "PASSWORD=abcdef"], "n": 3, "none": None}
    found, count = masked(given)
    texts = {"note": f"token={MASK}", "list": ["x", f"PASSWORD={MASK}"]}

    assert found == {**texts, "n": 3, "none": None}
    assert count == 2


@pytest.mark.parametrize("given", NAMED, ids=str)
def test_what_metadata_call_a_secret_is_masked_as_a_whole_once(given):
    found, count = masked(given)

    assert count == 1
    assert MASK in str(found)
    assert masked(found) == (found, 0)


@pytest.mark.parametrize("given", UNNAMED, ids=str)
def test_what_metadata_only_seem_to_call_one_stays(given):
    assert masked(given) == (given, 0)


def test_a_key_whose_end_is_missing_is_masked_as_far_as_it_goes():
    text, lines = KINDS["private key"]
    cut, _ = masked(text.partition(lines[3])[0] + "and then we went home")

    assert cut == f"{MASK}\nand then we went home"


@pytest.mark.parametrize(
    "text",
    [
        "password=" + "a" * 500_000,
        "-----BEGIN PRIVATE KEY-----" * 20_000,
        "a:" * 100_000 + "://" + "x:" * 100_000,
        "--" * 100_000 + "a-" * 100_000,
        'token="' * 50_000,
        "token" + "*" * 200_000,
        "eyJ" + "a" * 20 + ".eyJ" * 50_000,
    ],
    ids=lambda text: text[:12],
)
def test_no_text_keeps_it_busy(text):
    """Each takes a second or less; a pattern that goes back and forth would take hours."""
    assert isinstance(spans(text), list)


def test_a_span_within_another_one_does_not_shorten_it():
    assert merge([(12, 13), (0, 10), (2, 5), (9, 11)]) == [(0, 11), (12, 13)]
