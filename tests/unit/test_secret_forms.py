"""Each form of a secret: masked as it is published, and left alone where it only begins so."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import time
from typing import Any, NamedTuple

import pytest

from otelhooks.secret_forms import FORMS
from otelhooks.telemetry import masking, secret_options
from otelhooks.telemetry.masking import MASK, Redactor

HEX, ALNUM, UPPER = "0a1b2c3d4e5f6789", "a1B2c3D4e5F6g7H8", "A1B2C3D4E5F6G7H8"
WORD = "a1_B2-c3D4e5F6g"


def of(letters: str, length: int) -> str:
    return (letters * (length // len(letters) + 1))[:length]


# Prefix, and what follows, of the published length.
PUBLISHED = {
    "1password": ("A3-", "ABCDEF-ABCDEF12345-ABCDE-ABCDE-ABCDE"),
    "1password service account": ("ops_eyJ", of(ALNUM, 250)),
    "adobe": ("p8e-", of(ALNUM, 32)),
    "age": ("AGE-SECRET-KEY-1", of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)),
    "airtable": ("pat", of(ALNUM, 14) + "." + of(HEX, 64)),
    "alibaba": ("LTAI", of(ALNUM, 20)),
    "anthropic": ("sk-ant-api03-", of(WORD, 93) + "AA"),
    "artifactory": ("AKCp", of(ALNUM, 69)),
    "artifactory reference": ("cmVmd", of(ALNUM, 59)),
    "aws": ("AKIA", of(UPPER, 16)),
    "aws session": ("ASIA", of(UPPER, 16)),
    "bedrock": ("ABSK", of(ALNUM, 109) + "=="),
    "bedrock, short": ("bedrock-api-key-", "YmVkcm9jay5hbWF6b25hd3MuY29t"),
    "clickhouse": ("4b1d", of(ALNUM, 38)),
    "clojars": ("CLOJARS_", of(ALNUM, 60)),
    "cloudflare": ("v1.0-", of(HEX, 24) + "-" + of(HEX, 146)),
    "databricks": ("dapi", of(HEX, 32)),
    "digitalocean": ("dop_v1_", of(HEX, 64)),
    "digitalocean oauth": ("doo_v1_", of(HEX, 64)),
    "doppler": ("dp.pt.", of(ALNUM, 43)),
    "duffel": ("duffel_live_", of(WORD, 43)),
    "dynatrace": ("dt0c01.", of(ALNUM, 24) + "." + of(ALNUM, 64)),
    "easypost": ("EZAK", of(ALNUM, 54)),
    "facebook": ("EAAM", of(ALNUM, 120)),
    "flutterwave": ("FLWSECK_TEST-", of(HEX, 32) + "-X"),
    "fly.io": ("fo1_", of(WORD, 43)),
    "fly.io macaroon": ("fm2_", of(ALNUM, 120)),
    "frame.io": ("fio-u-", of(WORD, 64)),
    "github": ("ghp_", of(ALNUM, 36)),
    "github oauth": ("gho_", of(ALNUM, 36)),
    "github fine-grained": ("github_pat_", of(ALNUM, 22) + "_" + of(ALNUM, 59)),
    "gitlab": ("glpat-", of(WORD, 20)),
    "gitlab runner": ("glrt-", of(WORD, 20)),
    "gitlab job": ("glcbt-", "1a_" + of(WORD, 20)),
    "gitlab registration": ("GR1348941", of(WORD, 20)),
    "google": ("AIza", of(WORD, 35)),
    "google oauth": ("ya29.", of(WORD, 100)),
    "grafana cloud": ("glc_", of(ALNUM, 40)),
    "grafana": ("glsa_", of(ALNUM, 32) + "_" + of(HEX, 8)),
    "groq": ("gsk_", of(ALNUM, 52)),
    "harness": ("pat.", of(WORD, 22) + "." + of(ALNUM, 24) + "." + of(ALNUM, 20)),
    "heroku": ("HRKU-AA", of(WORD, 58)),
    "hugging face": ("hf_", of("abcdefghijklmnopq", 34)),
    "hugging face, organisation": ("api_org_", of("abcdefghijklmnopq", 34)),
    "infracost": ("ico-", of(ALNUM, 32)),
    "intra42": ("s-s4t2ud-", of(HEX, 64)),
    "langsmith": ("lsv2_pt_", of(HEX, 32) + "_" + of(HEX, 10)),
    "linear": ("lin_api_", of(ALNUM, 40)),
    "maxmind": ("", of(ALNUM, 6) + "_" + of(ALNUM, 29) + "_mmk"),
    "microsoft entra": ("", "abc8Q~" + of(WORD, 31)),
    "notion": ("ntn_", "12345678901" + of(ALNUM, 35)),
    "npm": ("npm_", of(ALNUM, 36)),
    "nvidia": ("nvapi-", of(WORD, 64)),
    "octopus": ("API-", of(UPPER, 26)),
    "openai": ("sk-proj-", of(WORD, 120)),
    "openshift": ("sha256~", of(WORD, 43)),
    "perplexity": ("pplx-", of(ALNUM, 48)),
    "planetscale": ("pscale_pw_", of(WORD, 43)),
    "postman": ("PMAK-", of(HEX, 24) + "-" + of(HEX, 34)),
    "prefect": ("pnu_", of(ALNUM, 36)),
    "pulumi": ("pul-", of(HEX, 40)),
    "pypi": ("pypi-AgEIcHlwaS5vcmc", of(WORD, 60)),
    "replicate": ("r8_", of(ALNUM, 37)),
    "readme": ("rdme_", of(ALNUM, 70)),
    "rubygems": ("rubygems_", of(HEX, 48)),
    "scalingo": ("tk-us-", of(WORD, 48)),
    "sendgrid": ("SG.", of(WORD, 22) + "." + of(WORD, 43)),
    "sendinblue": ("xkeysib-", of(HEX, 64) + "-" + of(ALNUM, 16)),
    "sentry": ("sntryu_", of(HEX, 64)),
    "sentry organisation": ("sntrys_eyJ", of(ALNUM, 120)),
    "settlemint": ("sm_aat_", of(ALNUM, 16)),
    "shippo": ("shippo_live_", of(HEX, 40)),
    "shopify": ("shpat_", of(HEX, 32)),
    "slack bot": ("xoxb-", "1234567890-1234567890-" + of(ALNUM, 24)),
    "slack app": ("xapp-", "1-A0123456789-0123456789012-" + of(HEX, 64)),
    "slack webhook": ("hooks.slack.com/services/", "T012AB3C4/B012AB3C4/" + of(ALNUM, 24)),
    "sourcegraph": ("sgp_", of(HEX, 16) + "_" + of(HEX, 40)),
    "square": ("sq0atp-", of(WORD, 22)),
    "stripe": ("sk_live_", of(ALNUM, 24)),
    "stripe restricted": ("rk_prod_", of(ALNUM, 24)),
    "teams webhook": ("webhook.office.com/webhookb2/", of(HEX, 73) + "/IncomingWebhook/abc"),
    "terraform": ("", of(ALNUM, 14) + ".atlasv1." + of(WORD, 67)),
    "token in base64": ("ZXlK", of(ALNUM, 100)),
    "twilio": ("SK", of(HEX, 32)),
    "vault service": ("hvs.", of(WORD, 95)),
    "vault batch": ("hvb.", of(WORD, 140)),
    "xai": ("xai-", of(ALNUM, 80)),
}


@pytest.fixture
def redactor() -> Redactor:
    return Redactor()


@pytest.mark.parametrize("kind", PUBLISHED)
def test_a_secret_of_a_published_form_is_masked_wherever_it_stands(
    redactor: Redactor, kind: str
) -> None:
    secret = "".join(PUBLISHED[kind])
    around = {
        "{}": "{}",
        "before {} after": "before {} after",
        "('{}',)": "('{}',)",
        "one\\n{}\\nanother": None,  # as in JSON text
        "https://example.org/?next=%3D{}": None,
    }
    for text, expected in around.items():
        masked = redactor.mask_text(text.format(secret))
        assert secret not in masked
        if expected is not None:
            assert masked == expected.format(MASK)
        assert redactor.mask_text(masked) == masked
    assert list(redactor.mask({secret: 1})) == [MASK]


@pytest.mark.parametrize("kind", [kind for kind, (prefix, _) in PUBLISHED.items() if prefix])
def test_what_only_begins_like_a_secret_stays(redactor: Redactor, kind: str) -> None:
    prefix, rest = PUBLISHED[kind]
    prefix = prefix.replace("sk-proj-", "sk-").replace("sk-ant-api03-", "sk-")
    near = [f"see {prefix}", f"see {prefix}{rest[:6]} there", f"{prefix}{rest[:5]} {rest[5:9]}"]
    for text in near:
        assert redactor.mask_text(text) == text


def test_what_lies_within_a_word_stays(redactor: Redactor) -> None:
    for text in (
        "task-management-for-everybody-here",
        "akiaabcdefghijklmnop",
        "MASKIT0123456789ABCDEF0123456789ABCDEF0",
        "com.example.dispatch.at.something.quite.long",
        "module.hvs.name and shp.example",
    ):
        assert redactor.mask_text(text) == text


class TestKeysOfMappings:
    """Class of the fault: what was in the place of a name was not checked."""

    KEY = "sk-" + "abcdefgh" * 4

    def test_a_secret_as_a_key_is_masked_at_any_depth(self, redactor: Redactor) -> None:
        assert redactor.mask({"by key": {self.KEY: {"n": 1}}}) == {"by key": {MASK: {"n": 1}}}
        assert self.KEY not in redactor.mask_text(json.dumps({self.KEY: [1]}))

    def test_two_of_them_stay_apart_and_masking_again_changes_nothing(
        self, redactor: Redactor
    ) -> None:
        masked = redactor.mask({self.KEY: 1, f"{self.KEY}x": 2, "plain": 3})
        assert masked == {MASK: 1, f"{MASK} (2)": 2, "plain": 3}
        assert redactor.mask(masked) == masked

    def test_patterns_of_the_user_hold_for_keys_too(self) -> None:
        assert Redactor.of([r"ACME-\d+"]).mask({"ACME-7": "x"}) == {MASK: "x"}


class TestNamesOfSecrets:
    @pytest.mark.parametrize("key", ["DB_PASS", "smtp-pass", "passWord", "pass", "PW", "passCode"])
    def test_short_and_odd_names_of_passwords(self, redactor: Redactor, key: str) -> None:
        assert redactor.mask({key: "hunter2"}) == {key: MASK}

    @pytest.mark.parametrize("key", ["pass", "first_pass", "passes", "bypass", "by-pass"])
    def test_what_passes_is_not_a_password(self, redactor: Redactor, key: str) -> None:
        assert redactor.mask({key: True, f"{key} count": 3}) == {key: True, f"{key} count": 3}

    def test_in_running_text(self, redactor: Redactor) -> None:
        assert redactor.mask_text("DB_PASS=hunter2 x") == f"DB_PASS={MASK} x"
        assert redactor.mask_text("passWord: hunter2") == f"passWord: {MASK}"
        assert redactor.mask_text("go: password := 5; x") == f"go: password := {MASK}; x"
        for text in ("pass: 12 tests", "compass: north", "bypass=1", "db_passes: 3"):
            assert redactor.mask_text(text) == text

    @pytest.mark.parametrize(
        "text",
        [
            *(
                "DB_PW=s3cr3t",
                "export DB_PW='s3cr3t'",
                "db-pw: s3cr3t",
                "pw = s3cr3t",
                "dbPw: s3cr3t",
            ),
            *("smtpPass = 's3cr3t'", "auth: { user: 'a', pass: 's3cr3t' }", "X-Auth-Key: s3cr3t"),
            *(
                "RAILS_MASTER_KEY=s3cr3t",
                "Ocp-Apim-Subscription-Key: s3cr3t",
                '"pass\\": \\"s3cr3t\\"',
            ),
        ],
    )
    def test_short_and_odd_names_in_running_text(self, redactor: Redactor, text: str) -> None:
        assert redactor.mask_text(text) == text.replace("s3cr3t", MASK)

    @pytest.mark.parametrize(
        "text", ["pwm: 5", "spw=1", "PWD2 x", "pass = 3", "it byPassed: 1", "passkey: a"]
    )
    def test_names_that_only_look_like_them_stay(self, redactor: Redactor, text: str) -> None:
        assert redactor.mask_text(text) == text

    @pytest.mark.parametrize(
        ("opened", "closed"),
        [
            *(("b'", "'"), ('rb"', '"'), ("F'", "'"), ("u'", "'"), ('b\\"', '\\"')),
            *(('"""', '"""'), ("'''", "'''"), ('f"""\n', '"""'), (r"\"\"\"", r"\"\"\"")),
        ],
    )
    @pytest.mark.parametrize("before", ["password=", "'password': ", "password := ", "D(password="])
    def test_literals_of_programs(
        self, redactor: Redactor, before: str, opened: str, closed: str
    ) -> None:
        text = f"{before}{opened}s3cr3t 'a' \"b{closed} x"
        if len(closed) == 1:
            text = f"{before}{opened}s3cr3t{closed} x"
        masked = redactor.mask_text(text)
        assert masked.replace("\n", "") == f"{before}{opened}{MASK}{closed} x".replace("\n", "")
        assert redactor.mask_text(masked) == masked

    @pytest.mark.parametrize(
        "text",
        [
            'password=""',
            'password = """""" x',
            "password: f''",
            "token:= ",
            'class Token:\n    """Of whom."""',
        ],
    )
    def test_literals_without_a_secret_stay(self, redactor: Redactor, text: str) -> None:
        assert redactor.mask_text(text) == text

    def test_a_literal_that_is_cut_off_is_masked_to_the_end(self, redactor: Redactor) -> None:
        assert redactor.mask_text("password = '''s3 cr\n3t'") == f"password = '''{MASK}"

    def test_shown_objects(self, redactor: Redactor) -> None:
        @dataclasses.dataclass
        class Login:
            password: object

        for secret in ("s3cr3t", b"s3cr3t", b"s3'cr3t"):
            assert "cr3t" not in str(redactor.mask([Login(secret)]))
            assert "cr3t" not in redactor.mask_text(f"it failed: {Login(secret)}")

    def test_fields_of_named_tuples(self, redactor: Redactor) -> None:
        class Login(NamedTuple):
            user: str
            password: str
            args: object = ()

        given = Login("bob", "s3cr3t", {"n": 1})
        assert redactor.mask({"x": [given]}) == {"x": [["bob", MASK, {"n": 1}]]}
        assert Redactor(is_on=False).mask(given) == ["bob", "s3cr3t", {"n": 1}]
        assert str(given) not in redactor.mask_text(f"it failed: {given}")

    @pytest.mark.parametrize(
        "names",
        [
            *(("name", "value"), ("key", "value"), ("Name", "Value")),
            ("ParameterKey", "ParameterValue"),
        ],
    )
    def test_pairs_of_name_and_value(self, redactor: Redactor, names: tuple[str, str]) -> None:
        name, value = names
        given = [{name: "DB_PASS", value: "hunter2"}, {name: "REGION", value: "eu"}]
        masked = [{name: "DB_PASS", value: MASK}, {name: "REGION", value: "eu"}]
        assert redactor.mask(given) == masked
        assert json.loads(redactor.mask_text(json.dumps(given))) == masked

    @pytest.mark.parametrize(
        "text",
        [
            "- name: DB_PASS\n  value: x s3cr3t\n",
            "env:\n  - value: s3cr3t\n    name: DB_PASS\n",
            "- value: 'x, s3cr3t'\n  name: 'DB_PASS'",
            "- value: x',s3cr3t\n  name: DB_PASS",
            '<property name="password" value="s3cr3t"/>',
            '<add key="ApiPassword"\n     value="a b s3cr3t"/>',
            "<add value='s3cr3t' key='ApiPassword'/>",
            '<input name="password" type="text" value="s3cr3t">',
            '<property name="db.password">x s3cr3t</property>',
            '<string name="api_key">s3cr3t</string>',
            "<name>fs.secret.key</name>\n  <value>s3cr3t</value>",
            "<key>ApiPassword</key><string>x s3cr3t</string>",
            "it failed: {'name': 'DB_PASS', 'value': 's3cr3t'}",
            "it failed: {'value': 's3cr3t', 'name': 'DB_PASS'}",
            r"it failed: {\"value\": \"s3cr3t\", \"name\": \"DB_PASS\"}",
            '{"env": [{"name": "DB_PASS", "value": "s3cr3t',
            'environment {\n  name  = "DB_PASS"\n  value = "s3cr3t"\n}',
            'corev1.EnvVar{Name: "DB_PASS", Value: "s3cr3t"}',
            "aws deploy --parameters ParameterKey=DbPassword,ParameterValue=s3cr3t x",
        ],
    )
    def test_pairs_of_name_and_value_in_running_text(self, redactor: Redactor, text: str) -> None:
        masked = redactor.mask_text(text)
        assert "s3cr3t" not in masked
        assert masked.count(MASK) == 1
        assert "PASS" in masked.upper() or "KEY" in masked.upper()
        assert redactor.mask_text(masked) == masked

    @pytest.mark.parametrize(
        "text",
        [
            "def set(key: Token, value: str) -> None: ...",
            "- name: DB_PASS\n  valueFrom:\n    x: 1\n- name: user\n  value: token",
            "- value: eu\n  name: REGION\n- name: password",
            '<a name="password">How to change it</a><input name="password">',
            '<property name="password" value=""/><name>token</name><b>x</b>',
            "its value: it is the key: a password",
        ],
    )
    def test_other_names_and_values_stay(self, redactor: Redactor, text: str) -> None:
        assert redactor.mask_text(text) == text

    @pytest.mark.parametrize("kind", [list, tuple])
    def test_headers_as_a_list_of_pairs(self, redactor: Redactor, kind: Any) -> None:
        pairs = [("X-Api-Key", "hunter2"), ("Accept", "text/html"), ("token", ""), ("n", 1, 2)]
        given = {"headers": [kind(pair) for pair in pairs]}
        shown = [["X-Api-Key", MASK], *map(list, pairs[1:])]
        assert redactor.mask(given) == {"headers": shown}
        assert json.loads(redactor.mask_text(json.dumps(given))) == {"headers": shown}

    def test_a_list_of_two_names_is_not_a_pair(self, redactor: Redactor) -> None:
        given = {"required": ["password", "email"]}
        assert redactor.mask(given) == given

    def test_a_description_of_a_parameter_is_not_a_pair(self, redactor: Redactor) -> None:
        given = {"name": "password", "type": "string", "description": "of the user"}
        assert redactor.mask(given) == given


class TestHeadersAndAddresses:
    @pytest.mark.parametrize(
        ("text", "masked"),
        [
            ("Cookie: a=1; session=s3cr3t; c=3", f"Cookie: {MASK}"),
            ("Set-Cookie: sid=s3cr3t; Path=/, b=2\nHost: x", f"Set-Cookie: {MASK}\nHost: x"),
            ("curl -H 'Cookie: a=1; b=s3cr3t' x", f"curl -H 'Cookie: {MASK}' x"),
            (
                'Authorization: Digest username="a", qop=auth, response="s3cr3t"\nHost: x',
                f"Authorization: {MASK}\nHost: x",
            ),
            ("postgres://ann:p@s3cr3t@db/x", f"postgres://{MASK}@db/x"),
            ("https://ann:s3cr3t@h/?to=a@b", f"https://{MASK}@h/?to=a@b"),
        ],
    )
    def test_every_part_of_a_secret_value(self, redactor: Redactor, text: str, masked: str) -> None:
        assert redactor.mask_text(text) == masked
        assert redactor.mask_text(masked) == masked

    @pytest.mark.parametrize("text", ["https://h:80/@me", "a cookie or two", "mailto:a@b.org"])
    def test_what_has_no_secret_stays(self, redactor: Redactor, text: str) -> None:
        assert redactor.mask_text(text) == text

    @pytest.mark.parametrize(
        ("text", "masked"),
        [
            ("mysql --password s3cr3t -u bob", f"mysql --password {MASK} -u bob"),
            ("gh --token 's3 cr3t' x", f"gh --token '{MASK}' x"),
            ("tool -token s3cr3t", f"tool -token {MASK}"),
            ("curl -u ann:s3cr3t https://h", f"curl -u {MASK} https://h"),
            ("curl --user 'ann:s3cr3t' https://h", f"curl --user '{MASK}' https://h"),
            ("curl 'x?a&b' -u 'ann:a \"b s3cr3t' h", f"curl 'x?a&b' -u '{MASK}' h"),
            ("PGPASSWORD=s3cr3t psql", f"PGPASSWORD={MASK} psql"),
            ("Basic dXNlcjpwYXNzd29yZA== it is", f"Basic {MASK} it is"),
            ("tool --password \\\n  s3cr3t -x", f"tool --password \\\n  {MASK} -x"),
            ("tool --password\\\r\ns3cr3t", f"tool --password\\\r\n{MASK}"),
            ("git clone https://a1b2c3d4e5f6a7b8c9d0@h/x", f"git clone https://{MASK}@h/x"),
            ("git+https://a1b2c3d4e5f6a7b8c9d0:@h/x", f"git+https://{MASK}:@h/x"),
        ],
    )
    def test_secrets_in_commands(self, redactor: Redactor, text: str, masked: str) -> None:
        assert redactor.mask_text(text) == masked
        assert redactor.mask_text(masked) == masked

    @pytest.mark.parametrize(
        "text",
        [
            "curl x; docker run -u 1000:1000 image; date -u +%H:%M",
            "tool --token-file /run/token --verbose",
            "tool --password --verbose",
            "Basic understanding, basic Foundations of things",
            "a token follows here",
            "tool --password \\\n  --verbose",
            "git clone https://ann@h/x; ssh://a1b2c3d4e5f6a7b8c9d0@h; https://a-very-long-name@h",
            "https://h/a1b2c3d4e5f6a7b8c9d0@x",
        ],
    )
    def test_commands_without_secrets_stay(self, redactor: Redactor, text: str) -> None:
        assert redactor.mask_text(text) == text

    @pytest.mark.parametrize(
        "arguments",
        [
            ["mysql", "--password", "s3cr3t", "-u", "bob"],
            ["/usr/bin/mysqldump", "-u", "bob", "-ps3cr3t", "db"],
            ["sudo", "sshpass", "-p", "s3cr3t", "ssh", "-p", "22", "host"],
            ["sshpass", "-ps3cr3t", "ssh", "host"],
            ["sshpass", "-p", "s3cr3t; rm"],
            ["curl", "-u", "ann:s3cr3t", "https://h"],
            ["C:\\tools\\curl.exe", "--user", "ann:s3cr3t"],
            ["docker", "login", "-u", "ann", "-p", "s3cr3t"],
            ["redis-cli", "-a", "s3cr3t"],
            ["zip", "-P", "s3cr3t", "a.zip"],
            ["gh", "auth", "-token", "s3cr3t"],
            ["bash", "-c", "mysql -ps3cr3t"],
            ["curl", "-sSu", "ann:s3cr3t", "https://h"],
            ["curl", "-kuann:s3cr3t", "https://h"],
            ["/usr/bin/docker", "login", "-u", "ann", "-ps3cr3t"],
            ["podman", "login", "-p=s3cr3t"],
            ["docker", "run", "-e", "DB_PASSWORD=a b s3cr3t", "x"],
            ["kubectl", "create", "--from-literal=password=a, b s3cr3t"],
            ["curl", "-u", "ann:a b s3cr3t"],
            ["HOME=", "DB_PASSWORD=a, b s3cr3t", "PATH=/bin"],
        ],
        ids=" ".join,
    )
    def test_secrets_in_lists_of_arguments(self, redactor: Redactor, arguments: list[str]) -> None:
        """As values, as JSON, as JSON in JSON, as Python shows them in an error, and cut off."""
        kept = [one for one in arguments if "s3cr3t" not in one]
        for given in (arguments, tuple(arguments), {"args": arguments}):
            masked = redactor.mask(given)
            assert "s3cr3t" not in str(masked)
            assert all(repr(one) in str(masked) for one in kept)
            assert redactor.mask(masked) == masked
        text = json.dumps({"args": arguments})
        for given in (text, json.dumps(text), text[:-2]):
            assert "s3cr3t" not in redactor.mask_text(given)
        assert "s3cr3t" not in redactor.mask_text(f"Command '{arguments}' returned 1")
        given = [one.encode() for one in arguments]
        assert "s3cr3t" not in redactor.mask_text(f"Command '{given}' returned 1")

    @pytest.mark.parametrize(
        "arguments",
        [
            ["mysql", "-p", "db"],
            ["docker", "run", "-u", "1000:1000", "-p", "80:80", "mysql"],
            ["curl", "-u", "ann", "x"],
            ["tool", "--token-file", "/run/token", "--password", "--verbose"],
            ["sshpass", "-e", "ssh"],
            ["sshpass", "-p", 5],
            ["unzip", "-p", "a.zip"],
            ["-p", "sshpass"],
            ["a token", "b"],
            ["vault", "login", "-path=x", "-port", "80"],
            ["docker", "run", "-p80:80", "login"],
            ["curl", "-sSo", "ann:x", "-fu", "ann"],
            ["docker", "run", "-e", "DB_PASSWORD", "-e", "DB_USER=a b"],
        ],
    )
    def test_lists_of_arguments_without_secrets_stay(
        self, redactor: Redactor, arguments: list[object]
    ) -> None:
        assert redactor.mask(arguments) == arguments
        assert redactor.mask_text(str(arguments)) == str(arguments)

    @pytest.mark.parametrize("name", ["command", "program", "cmd", "executable"])
    @pytest.mark.parametrize("arguments", ["args", "arguments", "argv"])
    @pytest.mark.parametrize(
        ("program", "given", "masked"),
        [
            ("sshpass", ["-p", "s3cr3t", "ssh"], ["-p", MASK, "ssh"]),
            ("/usr/bin/curl", ("-u", "ann:s3cr3t"), ["-u", MASK]),
            ("docker", ["login", "-ps3cr3t"], ["login", f"-p{MASK}"]),
            ("sudo docker login", ["-p", "s3cr3t"], ["-p", MASK]),
            (["docker", "login"], ["-p", "s3cr3t"], ["-p", MASK]),
            ("ls", ["-p", "x"], ["-p", "x"]),
            (None, ["-p", "x"], ["-p", "x"]),
            ([5], "-p x", "-p x"),
        ],
    )
    def test_a_program_and_its_arguments_under_two_keys(
        self,
        redactor: Redactor,
        name: str,
        arguments: str,
        program: object,
        given: object,
        masked: object,
    ) -> None:
        server = {arguments: given, name: program}
        assert redactor.mask({"x": server})["x"] == {arguments: masked, name: program}
        assert json.loads(redactor.mask_text(json.dumps(server)))[arguments] == masked
        assert Redactor(is_on=False).mask(server)[arguments] == (
            given if isinstance(given, str) else list(given)
        )

    @pytest.mark.parametrize(
        ("text", "masked"),
        [
            ("mysql -uroot -ps3cr3t db", f"mysql -uroot -p{MASK} db"),
            ("mysql -p's3 cr3t' db", f"mysql -p'{MASK}' db"),
            ("cd x && /bin/mysqldump -ps3cr3t; ls -px", f"cd x && /bin/mysqldump -p{MASK}; ls -px"),
            ("sshpass -p s3cr3t ssh -p 22 h", f"sshpass -p {MASK} ssh -p 22 h"),
            ('sshpass -p "s3 cr3t" ssh h', f'sshpass -p "{MASK}" ssh h'),
            ("openssl rsa -passin pass:s3cr3t", f"openssl rsa -passin {MASK}"),
            ("mysql -p db; sshpass -p '' x", "mysql -p db; sshpass -p '' x"),
            ("mysql -u bob \\\n -ps3cr3t db", f"mysql -u bob \\\n -p{MASK} db"),
            ("curl -uann:s3cr3t https://h", f"curl -u{MASK} https://h"),
            ("curl -uann https://h", "curl -uann https://h"),
            ("curl -sSu ann:s3cr3t https://h", f"curl -sSu {MASK} https://h"),
            ("curl -kuann:s3cr3t https://h", f"curl -ku{MASK} https://h"),
            ("curl -u \\\n  ann:s3cr3t https://h", f"curl -u \\\n  {MASK} https://h"),
            ("sshpass -p \\\n s3cr3t ssh h", f"sshpass -p \\\n {MASK} ssh h"),
            ("docker login -u ann -ps3cr3t h", f"docker login -u ann -p{MASK} h"),
            ("docker login -p=s3cr3t h", f"docker login -p{MASK} h"),
            ("vault login -path=x -port 80", "vault login -path=x -port 80"),
            ("docker run -p80:80 login", "docker run -p80:80 login"),
            ("mysql --help | grep -pager", "mysql --help | grep -pager"),
        ],
    )
    def test_options_of_one_letter(self, redactor: Redactor, text: str, masked: str) -> None:
        assert redactor.mask_text(text) == masked
        assert redactor.mask_text(masked) == masked

    @pytest.mark.parametrize(
        ("text", "masked"),
        [
            ("<password>s3cr3t</password>", f"<password>{MASK}</password>"),
            ("<a><db_pass>s3 cr3t\n</db_pass>x</a>", f"<a><db_pass>{MASK}</db_pass>x</a>"),
            (
                '<w:Password Type="t">s3cr3t</w:Password>',
                f'<w:Password Type="t">{MASK}</w:Password>',
            ),
            ("<secret><![CDATA[s3<cr3t]]></secret>", f"<secret>{MASK}</secret>"),
            ("<password>s3cr3t<\\/password>", f"<password>{MASK}<\\/password>"),
            ("<a><password>s3cr", f"<a><password>{MASK}"),
            ("<secret><![CDATA[s3 cr", f"<secret>{MASK}"),
            ("<password></password><b>x</b>", None),
            ("<password> </password><b>x</b>", None),
            ("send the <token> as it is, <b>not</b> encoded", None),
            ("curl -H 'Bearer <token>' x", None),
            ("the <token> is", None),
            ("<p>password</p><input type='password'>x</input>", None),
        ],
    )
    def test_elements_whose_name_says_so(
        self, redactor: Redactor, text: str, masked: str | None
    ) -> None:
        assert redactor.mask_text(text) == (masked or text)
        assert redactor.mask_text(masked or text) == (masked or text)

    @pytest.mark.parametrize("kind", ["PGP PRIVATE KEY BLOCK", "OPENSSH PRIVATE KEY"])
    def test_private_keys_of_every_kind(self, redactor: Redactor, kind: str) -> None:
        text = f"-----BEGIN {kind}-----\nVersion: 1\n\nlQOYBF...\n=abcd\n-----END {kind}-----"
        assert redactor.mask_text(f"a\n{text}\nb") == f"a\n{MASK}\nb"
        assert redactor.mask_text(text[:60]) == MASK
        public = text.replace("PRIVATE", "PUBLIC")
        assert redactor.mask_text(public) == public


HOSTILE = (
    *sorted({marker for marker, _ in FORMS}),
    *(
        "name: token ",
        "value: name: token ",
        "value: 'a' key: 'token ",
        'name="token">',
        "<name>token",
    ),
    *("mysql ", "mysql -p'", "'sshpass', '-p', '", "zip -P ", "<token><![CDATA[ ", "<token x<a:"),
)


def test_no_list_takes_more_than_linear_time(redactor: Redactor) -> None:
    started = time.process_time()
    redactor.mask(["mysql", "-p", "sshpass", "--token"] * 5_000)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("marker", HOSTILE)
def test_no_form_takes_more_than_linear_time(redactor: Redactor, marker: str) -> None:
    for unit in (marker, f"{marker}0_a.", f" {marker}a1-"):
        text = unit * (10_000 // len(unit))
        started = time.process_time()
        redactor.mask_text(text)
        assert time.process_time() - started < 5


class Counting:
    """A pattern that counts how many characters it has matched."""

    total = 0

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pattern, name)

    def match(self, text: str, place: int = 0) -> re.Match[str] | None:
        found = self._pattern.match(text, place)
        Counting.total += len(found[0]) if found else 0
        return found


@pytest.mark.parametrize(
    ("unit", "end"),
    [
        ("<password><![CDATA[", "]]><x"),
        ("<password><![CDATA[", "]]></password-of-another>"),
        ("<password><![CDATA[", f"]]></{'a' * 10_000}>"),
        ("<password>a<![CDATA[", " "),
        ("<![CDATA[<password><![CDATA[]]>", "<x"),
        ("<password> ", "</password>"),
    ],
)
def test_elements_are_read_once_however_many_begin_in_one_another(
    redactor: Redactor, monkeypatch: pytest.MonkeyPatch, unit: str, end: str
) -> None:
    def steps(times: int) -> int:
        Counting.total = calls = 0

        def count(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal calls
            calls += event in {"call", "c_call"}

        sys.setprofile(count)
        try:
            redactor.mask_text(unit * times + end)
        finally:
            sys.setprofile(None)
        return Counting.total + calls

    compiled = masking._compiled
    monkeypatch.setattr(masking, "_compiled", lambda pattern: Counting(compiled(pattern)))
    steps(1)
    assert steps(500) < 14 * steps(50)


@pytest.mark.parametrize(
    ("program", "option"),
    [("curl", "-u ann:s3cr3t"), ("mysql", "-ps3cr3t"), ("login", "-p s3cr3t")],
)
def test_options_of_a_program_are_looked_for_up_to_the_next_one(
    redactor: Redactor, program: str, option: str
) -> None:
    (row,) = (row for row in secret_options._ROWS if re.fullmatch(row.program, program))
    pattern = re.compile(secret_options._expression(row))
    assert pattern.match(f"{program} x {option}")
    assert not pattern.match(f"{program} x {program} {option}")
    masked = redactor.mask_text(f"{program} x {program} {option}")
    assert "s3cr3t" not in masked
    assert masked.startswith(f"{program} x {program} -")


def test_each_key_that_is_masked_gets_its_number_at_once(redactor: Redactor) -> None:
    class Keys(dict[str, int]):
        looks = 0

        def __contains__(self, key: object) -> bool:
            self.looks += 1
            return super().__contains__(key)

    keys, numbers = Keys(), dict[str, int]()
    for number in range(500):
        keys[redactor._mask_key(f"ghp_{number:036}", keys, numbers)] = number
    assert list(keys)[:2] == [MASK, f"{MASK} (2)"]
    assert len(keys) == 500
    assert keys.looks < 1_500
