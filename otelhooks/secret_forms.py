"""Forms of secrets that are recognisable by their beginning: API keys, tokens, private keys.

Prefixes, alphabets and lengths are facts from gitleaks' rules (``config/gitleaks.toml`` of release
8.30.1, rules last changed 2025-11-20), and from what some makers of models publish about their
keys. Rules of gitleaks that need a word such as the maker's name nearby have no row: keys that name
a secret cover them.

A secret is masked to its end, however long it is, so a row only has the shortest length; where
makers have changed it, or a text may be cut off, it is shorter than in gitleaks.
"""

from __future__ import annotations

__all__ = ["FORMS"]

_LETTERS = {
    "hex": "0-9A-Fa-f",
    "alnum": "0-9A-Za-z",
    "upper": "0-9A-Z",
    "word": r"\w-",  # base64 for URLs
    "base64": "0-9A-Za-z+/=_-",
    "dotted": r"\w.=-",
    "path": r"\w@/-",
}

# Marker, which must occur in a text; expression of the prefix; letters that follow; their number.
_PREFIXED = (
    ("A3-", r"A3-", "upper-", 33),  # 1Password
    ("ops_eyJ", r"ops_eyJ", "base64", 50),
    ("p8e-", r"p8e-", "alnum", 32),  # Adobe
    ("AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1", "upper", 58),
    ("LTAI", r"LTAI", "alnum", 20),  # Alibaba
    ("AKCp", r"AKCp", "alnum", 60),  # Artifactory
    ("cmVmd", r"cmVmd", "alnum", 59),
    ("ABSK", r"ABSK", "base64", 100),  # Bedrock
    ("bedrock-api-key-", r"bedrock-api-key-", "base64", 24),
    ("4b1d", r"4b1d", "alnum", 38),  # ClickHouse
    ("CLOJARS_", r"CLOJARS_", "alnum", 60),
    ("v1.0-", r"v1\.0-", "hex-", 160),  # Cloudflare
    ("dapi", r"dapi", "hex", 32),  # Databricks
    ("_v1_", r"do[opr]_v1_", "hex", 64),  # DigitalOcean
    ("dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.", "dotted", 40),  # Doppler
    ("duffel_", r"duffel_(?:test|live)_", "dotted", 40),
    ("dt0c01.", r"dt0c01\.", "dotted", 80),  # Dynatrace
    ("EZ", r"EZ[AT]K", "alnum", 54),  # EasyPost
    ("EAA", r"EAA[MC]", "alnum", 100),  # Facebook
    ("FLW", r"FLW(?:SECK|PUBK)_TEST-", "word", 12),  # Flutterwave
    ("fo1_", r"fo1_", "word", 43),  # Fly.io
    ("fm", r"fm(?:1[ar]|2)_", "base64", 100),
    ("fio-u-", r"fio-u-", "dotted", 60),  # Frame.io
    ("AIza", r"AIza", "word", 35),  # Google
    ("ya29.", r"ya29\.", "word", 30),
    ("gh", r"gh[opusr]_", "alnum", 30),  # GitHub
    ("github_pat_", r"github_pat_", "word", 22),
    ("gl", r"gl(?:pat|ptt|dt|ft|rt|ffct|imt|agent|oas|soat|cbt)-", "dotted", 16),  # GitLab
    ("GR1348941", r"GR1348941", "word", 20),
    ("glc_", r"glc_", "base64", 32),  # Grafana
    ("glsa_", r"glsa_", "word", 41),
    ("gsk_", r"gsk_", "alnum", 40),  # Groq
    ("hv", r"hv[bsr]\.", "word", 24),  # HashiCorp Vault
    ("HRKU-AA", r"HRKU-AA", "word", 50),  # Heroku
    ("hf_", r"hf_", "alnum", 30),  # Hugging Face
    ("api_org_", r"api_org_", "alnum", 30),
    ("ico-", r"ico-", "alnum", 32),  # Infracost
    ("s-s4t2", r"s-s4t2(?:ud|af)-", "hex", 64),  # 42 Intra
    ("lsv2_", r"lsv2_(?:pt|sk)_", "word", 32),  # LangSmith
    ("lin_api_", r"lin_api_", "alnum", 40),  # Linear
    ("ntn_", r"ntn_", "alnum", 40),  # Notion
    ("npm_", r"npm_", "alnum", 36),
    ("nvapi-", r"nvapi-", "word", 40),  # NVIDIA
    ("API-", r"API-", "upper", 26),  # Octopus Deploy
    ("sk-", r"sk-", "word", 16),  # Anthropic, OpenAI, OpenRouter and others
    ("sha256~", r"sha256~", "word", 43),  # OpenShift
    ("pplx-", r"pplx-", "alnum", 40),  # Perplexity
    ("pscale_", r"pscale_(?:tkn|oauth|pw)_", "dotted", 32),  # PlanetScale
    ("PMAK-", r"PMAK-", "hex-", 59),  # Postman
    ("pnu_", r"pnu_", "alnum", 36),  # Prefect
    ("pul-", r"pul-", "hex", 40),  # Pulumi
    ("pypi-AgE", r"pypi-AgE", "word", 50),
    ("r8_", r"r8_", "alnum", 37),  # Replicate
    ("rdme_", r"rdme_", "alnum", 70),  # ReadMe
    ("rubygems_", r"rubygems_", "hex", 48),
    ("tk-us-", r"tk-us-", "word", 48),  # Scalingo
    ("SG.", r"SG\.", "dotted", 60),  # SendGrid
    ("xkeysib-", r"xkeysib-", "word", 80),  # Sendinblue
    ("sntry", r"sntry(?:s_eyJ|u_)", "base64", 50),  # Sentry
    ("sm_", r"sm_[aps]at_", "alnum", 16),  # SettleMint
    ("shippo_", r"shippo_(?:live|test)_", "hex", 40),
    ("shp", r"shp(?:at|ca|pa|ss)_", "hex", 32),  # Shopify
    ("xox", r"xox[abeoprs][-.]", "dotted", 10),  # Slack
    ("xapp-", r"xapp-", "word", 20),
    ("slack.com/", r"hooks\.slack\.com/(?:services|workflows|triggers)/", "path", 40),
    ("webhookb2/", r"webhook\.office\.com/webhookb2/", "path", 60),
    ("sgp_", r"sgp_", "word", 40),  # Sourcegraph
    ("sq0", r"sq0(?:atp|csp)-", "word", 22),  # Square
    ("k_", r"[rs]k_(?:test|live|prod)_", "alnum", 10),  # Stripe
    ("SK", r"SK", "hex", 32),  # Twilio
    ("xai-", r"xai-", "alnum", 60),  # xAI
    ("ZXlK", r"ZXlK", "base64", 60),  # a JSON web token in base64
)

# A secret begins where no letter or digit is before it, not counting the escapes of JSON text and
# of URLs.
_START = r"(?:(?<![0-9A-Za-z])|(?<=\\[bfnrt])|(?<=%[0-9A-Fa-f]{2}))"


def _expression(prefix: str, letters: str, shortest: int) -> str:
    more = "-" if letters.endswith("-") else ""
    return f"(?a){_START}{prefix}[{_LETTERS[letters.rstrip('-')]}{more}]{{{shortest},}}"


# Each expression has a text that must occur for it to match: a plain search is far cheaper. None
# starts with an unbounded repetition, and an unbounded repetition cannot start again inside what it
# has passed, so that the time stays linear on hostile text.
FORMS: tuple[tuple[str, str], ...] = (
    *((row[0], _expression(*row[1:])) for row in _PREFIXED),
    ("A", rf"{_START}(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{{16}}(?![A-Za-z0-9])"),
    ("pat", rf"{_START}pat[0-9A-Za-z]{{14}}\.[a-f0-9]{{64}}"),  # Airtable
    ("at.", rf"(?a){_START}[ps]at\.[\w-]{{22}}\.[0-9A-Za-z]{{24}}\.[0-9A-Za-z]{{20}}"),  # Harness
    (".atlasv1.", rf"(?a){_START}[0-9A-Za-z]{{14}}\.atlasv1\.[\w=-]{{60,}}"),  # HashiCorp Terraform
    ("Q~", rf"(?a){_START}[\w~.]{{3}}\dQ~[\w~.-]{{31,34}}"),  # Microsoft Entra
    ("_mmk", rf"{_START}[0-9A-Za-z]{{6}}_[0-9A-Za-z]{{29}}_mmk"),  # MaxMind
    ("eyJ", r"(?a)(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),  # JSON web tokens
    (
        "PRIVATE KEY",
        (
            r"(?s)-----BEGIN (?:[A-Z]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            r".*?(?:-----END [A-Z ]{0,48}-----|\Z)"
        ),
    ),
    # User and password of curl; numbers are the user and group of a container.
    (
        "curl",
        (
            r"(?:(?:(?<=-u )|(?<=--user ))(?![\"'])|(?:(?<=-u ([\"']))|(?<=--user ([\"']))))"
            r"(?![+\[]|\d+:\d+(?![^\s\"']))[^\s:\"']{1,128}:"
            r"(?(1)(?:(?!\1).){1,256}|(?(2)(?:(?!\2).){1,256}|[^\s\"']{1,256}))"
        ),
    ),
    ("://", r"(?<=://)[^/\s:@]{0,128}:[^/\s]{1,256}(?=@)"),  # a password may have @ in it
    (  # a token as the user's name
        "://",
        r"(?a)(?:(?<=http://)|(?<=https://))(?=[A-Za-z_-]{0,128}\d)(?=[\w-]*[A-Za-z])[\w-]{12,128}(?=:?@)",
    ),
)
"""Markers, and expressions to search for where a marker occurs."""
