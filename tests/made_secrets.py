"""Secrets of many kinds, random in each run, in typical sentences."""

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


# Service -> a key whose own format is recognised anywhere.
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
    "Docker Hub": "dckr_pat_" + _some(27),
    "RubyGems": "rubygems_" + _some(48, HEX),
    "NuGet": "oy2" + _some(43, string.ascii_lowercase + string.digits),
    "crates.io": "cioA" + _some(31),
    "Artifactory": "AKCp" + _some(69),
    "Azure client secret": _some(3) + "8Q~" + _some(34),
    "Azure DevOps": _some(52) + "JQQJ99" + _some(26),
    "Google refresh token": "1//0" + _some(60),
    "Bitbucket": "ATBB" + _some(32),
    "Terraform": _some(14) + ".atlasv1." + _some(67),
    "Airtable": "pat" + _some(14) + "." + _some(64, HEX),
    "Supabase": "sb_secret_" + _some(22) + "_" + _some(8),
    "PlanetScale": "pscale_pw_" + _some(43),
    "Tailscale": "tskey-auth-" + _some(12) + "CNTRL-" + _some(32),
    "HubSpot": "pat-na1-" + "-".join(_some(size, HEX) for size in (8, 4, 4, 4, 12)),
    "Resend": "re_A" + _some(7) + "_" + _some(24),
    "Square": "sq0csp-" + _some(43),
    "ours": "mqd_" + _some(43),
}
_BLOCK, _LINES = _armoured()
_HEADED = _BLOCK.replace("OPENSSH", "RSA").replace(
    "-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF\n\n", 1
)


def _word() -> str:
    """A typical password."""
    return "Xk7" + _some(9)


# Name -> a text, and the secrets in it that are recognised by the words before them.
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
    "French": ("mot de passe : {}", [_word()]),
    "private key with headers": (_HEADED, _LINES),
    "private key without its end": (_HEADED.rpartition("\n")[0], _LINES),
    "private key that is quoted": ("> " + _BLOCK.replace("\n", "\n> "), _LINES),
    "Discord webhook": ("https://discord.com/api/webhooks/112233445566/{}", [_some(68)]),
    "Feishu webhook": ("https://open.feishu.cn/open-apis/bot/v2/hook/{}", [_some(36, HEX)]),
    "Mattermost webhook": ("https://chat.example.org/hooks/{}", [_some(26)]),
    "Telegram's address": ("https://api.telegram.org/bot{}/getMe", ["1234567890:AA" + _some(33)]),
    "Azure SAS": ("https://x.blob.core.windows.net/c?sv=2022&sig={}", [_some(43) + "%3D"]),
    "Azure service bus": ("Endpoint=sb://x;SharedAccessKey={}", ["7" + _some(42) + "="]),
    "presigned": ("https://x.s3.amazonaws.com/k?X-Amz-Signature={}", [_some(64, HEX)]),
    ".netrc": ("machine api.x.org\n  login ada\n  password {}", [_some(12, LETTERS)]),
    ".npmrc": ("//registry.x.org/:_authToken={}", ["4" + _some(35, HEX)]),
    ".npmrc, basic": ("_auth={}", [base64.b64encode(b"ada:" + _word().encode()).decode()]),
    ".pgpass": ("db.x.org:5432:shed:ada:{}", [_word()]),
    "config.json of Docker": ('{{"ghcr.io": {{"auth": "{}"}}}}', ["4" + _some(31)]),
    "XML": ("<server><password>{}</password></server>", [_word()]),
    "XML, attributes": ('<add key="ClearTextPassword" value="{}" />', [_word()]),
    "XML, property": ('<property name="db.password">{}</property>', [_word()]),
    "table, row": ("| **Password** | `{}` |", [_word()]),
    "table, column": ("| User | Password |\n|---|---|\n| ada | {} |", [_word()]),
    "table, aligned": ("USER    PASSWORD\nada     {}", [_word()]),
    "table, commas": ("user,password,host\nada,{},h1", [_word()]),
    "curl -u": ("curl -s \\\n  -u 'ada:{}' https://x.org", [_some(10, LETTERS)]),
    "mysql -p": ("mysqldump -u root -p{} shed", [_some(9, LETTERS)]),
    "docker login -p": ("docker login ghcr.io -u ada -p {}", [_word()]),
    "sshpass -p": ("sshpass -p '{}' ssh ada@shed", [_word()]),
    "redis-cli -a": ("redis-cli -h shed -a {} ping", [_word()]),
    "SQL": ("CREATE USER ada IDENTIFIED BY '{}';", [_some(9, LETTERS)]),
    "Kubernetes": ("- name: DB_PASSWORD\n  value: {}", [_word()]),
    "Dockerfile": ("ENV DB_PASSWORD {}", [_word()]),
    "header": ('curl -H "X-Auth-Token: {}" https://x.org', [_word()]),
    "PHP": ("define('AUTH_SALT', '{}');", [_some(40)]),
    "call": ('source.setPassword("{}")', [_word()]),
    "prose": ("The password of the router is {}, by the way.", [_word()]),
    "prose, set": ("I changed the password to {} yesterday.", [_word()]),
    "behind a dash": ("backup-{}", ["ghp_" + _some(36)]),
    "behind an underscore": ("my_{}_old", ["AKIA" + _some(16, UPPER)]),
    "escaped": ('"a\\n{}"', ["ghp_" + _some(36)]),
}
KINDS: dict[str, tuple[str, list[str]]] = {
    **{name: (f"The key is {key} , use it.", [key]) for name, key in KEYS.items()},
    **{name: (text.format(secrets[0]), secrets) for name, (text, secrets) in NAMED.items()},
}
SECRETS = [secret for _, secrets in KINDS.values() for secret in secrets]
