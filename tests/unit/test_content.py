"""Masking, rendering, cutting and shaping of content; bounded time on hostile input."""

from __future__ import annotations

import json
import time

import pydantic
import pytest

from otelhooks.errors import ConfigError
from otelhooks.telemetry.content import (
    MASK,
    CaptureMode,
    Content,
    Redactor,
    is_secret_key,
    limit_of,
    message,
    messages,
    output_message,
    parse_arguments,
    render,
    system_instructions,
    text_part,
    tool_call_part,
    tool_call_response_part,
    tool_definitions,
)
from otelhooks.telemetry.masking import MAX_DEPTH, MAX_NODES

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
PRIVATE_KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc==\n-----END RSA PRIVATE KEY-----"


@pytest.fixture
def redactor():
    return Redactor()


class TestKeys:
    @pytest.mark.parametrize(
        "key",
        [
            *("password", "DB_PASSWORD", "userPassword", "apiKey", "api_key", "API-KEY", "apikey"),
            *("access_token", "token", "authToken", "client_secret", "Authorization", "cookie"),
            *("Set-Cookie", "private_key", "aws_secret_access_key", "x-api-key", "credentials"),
        ],
    )
    def test_these_keys_name_a_secret(self, key):
        assert is_secret_key(key)

    @pytest.mark.parametrize(
        "key",
        [
            *("max_tokens", "input_tokens", "tokens", "token_count", "key", "primary_key"),
            *("keyboard", "passenger", "author", "secretary", "", "user", "x" * 500, 5),
        ],
    )
    def test_these_keys_do_not(self, key):
        assert not is_secret_key(key)


class TestMaskValues:
    def test_secrets_are_masked_at_any_depth_and_the_rest_is_kept(self, redactor):
        value = {"user": "ann", "auth": {"list": [{"password": "hunter2", "n": 1}]}}
        assert redactor.mask(value) == {
            "user": "ann",
            "auth": {"list": [{"password": MASK, "n": 1}]},
        }
        assert value["auth"]["list"][0]["password"] == "hunter2"

    def test_everything_below_a_secret_key_is_masked(self, redactor):
        assert redactor.mask({"credentials": {"user": "a", "pw": "b"}}) == {"credentials": MASK}

    def test_an_empty_secret_stays_as_it_is(self, redactor):
        assert redactor.mask({"token": None, "password": ""}) == {"token": None, "password": ""}

    def test_json_text_is_masked_inside(self, redactor):
        text = json.dumps({"password": 'a"b\\', "n": [1, 2]})
        assert json.loads(redactor.mask_text(text)) == {"password": MASK, "n": [1, 2]}

    def test_json_text_without_secrets_is_not_touched(self, redactor):
        text = '{ "a" :  1.50 }'
        assert redactor.mask_text(text) == text

    def test_escaped_json_text_is_masked_at_every_level(self, redactor):
        value = {"password": 'p"\\w', "ok": "yes"}
        for _ in range(4):
            value = {"inner": json.dumps(value)}
        masked = redactor.mask(value)
        for _ in range(4):
            masked = json.loads(masked["inner"])
        assert masked == {"password": MASK, "ok": "yes"}

    @pytest.mark.parametrize("levels", [1, 2, 3])
    def test_escaped_json_inside_running_text_is_masked(self, redactor, levels):
        text = json.dumps({"api_key": 'se"cr\\et', "ok": "kept"})
        for _ in range(levels - 1):
            text = json.dumps(text)[1:-1]
        masked = redactor.mask_text(f"the server said {text} and closed")
        assert "cr" not in masked
        assert "kept" in masked
        assert masked.endswith("and closed")

    def test_json_that_was_cut_off_is_masked(self, redactor):
        masked = redactor.mask_text('{"a": 1, "password": "hunter2 is so')
        assert "hunter2" not in masked
        assert masked.startswith('{"a": 1')

    def test_other_objects_become_their_masked_text(self, redactor):
        class Thing:
            def __str__(self) -> str:
                return "Thing(password='hunter2')"

        class Broken:
            def __str__(self) -> str:
                raise RuntimeError("boom")

        assert "hunter2" not in redactor.mask(Thing())
        assert redactor.mask(Broken()) == "[Broken]"

    def test_containers_that_cannot_be_read_become_their_class(self, redactor):
        class Shut(dict):
            def items(self):
                raise ValueError("shut")

        class Closed(list):
            def __iter__(self):
                raise ValueError("closed")

        assert redactor.mask([Shut(a=1), {"b": Closed()}]) == ["[Shut]", {"b": "[Closed]"}]

    def test_what_cannot_be_compared_is_masked_under_the_name_of_a_secret(self, redactor):
        class Array:
            def __eq__(self, other):
                raise ValueError("ambiguous")

        masked = redactor.mask({"password": Array(), "headers": [["X-Api-Key", Array()]]})
        assert masked == {"password": "[MASKED]", "headers": [["X-Api-Key", "[MASKED]"]]}

    def test_numbers_too_long_to_be_written_are_hexadecimal(self, redactor):
        huge = 10**5000
        masked = redactor.mask({"n": -huge, huge: 1, huge + 1: 2})
        assert masked == {"n": hex(-huge), hex(huge): 1, hex(huge + 1): 2}

    @pytest.mark.parametrize("is_on", [True, False])
    def test_keys_that_become_one_text_are_all_kept(self, is_on):
        value = {"1": "a", 1: "b", (1,): "c", "(1,)": "d", "(1,) (2)": "e"}
        masked = {"1": "a", "1 (2)": "b", "(1,)": "c", "(1,) (2)": "d", "(1,) (2) (2)": "e"}
        assert Redactor(is_on=is_on).mask(value) == masked

    def test_the_copy_is_json_like(self, redactor):
        value = {1: (2, {3}), "b": b"abc", "nan": float("nan"), "inf": float("-inf"), "t": True}
        assert redactor.mask(value) == {
            "1": [2, [3]],
            "b": "[3 bytes]",
            "nan": "nan",
            "inf": "-inf",
            "t": True,
        }

    def test_a_cycle_ends_at_the_depth_limit(self, redactor):
        value: dict = {}
        value["again"] = value
        text = render(redactor.mask(value))
        assert text.count("again") == MAX_DEPTH

    def test_a_structure_that_fans_out_ends_at_the_node_limit(self, redactor):
        value: list = []
        for _ in range(60):
            value = [value, value]
        started = time.process_time()
        redactor.mask(value)
        assert time.process_time() - started < 10
        assert len(redactor.mask([0] * (MAX_NODES * 2))) <= MAX_NODES


class TestMaskText:
    @pytest.mark.parametrize(
        "secret",
        [
            "Bearer abcdef0123456789abcdef",
            "sk-proj-abcdefghijklmnopqrstuvwx",
            "sk_live_abcdefghijklmnop1234",
            "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
            "github_pat_abcdefghijklmnopqrstuv_1",
            "glpat-abcdefghijklmnop1234",
            "xoxb-1234567890-abcdef",
            "hf_abcdefghijklmnopqrstuvwxyzABCD",
            "AIzaSyA-abcdefghijklmnopqrstuvwxyz01234",
            "AKIAIOSFODNN7EXAMPLE",
            JWT,
            PRIVATE_KEY,
            "4111 1111 1111 1111",
            "5500-0000-0000-0004",
            "378282246310005",
        ],
    )
    def test_a_secret_with_a_known_form_is_masked(self, redactor, secret):
        masked = redactor.mask_text(f"before {secret} after")
        assert masked == f"before {MASK} after"

    @pytest.mark.parametrize(
        ("text", "masked"),
        [
            ("password=hunter2 x", f"password={MASK} x"),
            ("Password: hunter2", f"Password: {MASK}"),
            ("https://h/?api_key=abc&q=1", f"https://h/?api_key={MASK}&q=1"),
            ("postgres://ann:pw@db/x", f"postgres://{MASK}@db/x"),
            ("Authorization: Basic YW5uOnB3", f"Authorization: {MASK}"),
            ("'secret': 'abc'", f"'secret': '{MASK}'"),
            ("secret => abc", f"secret => {MASK}"),
            ('{"token": 12345, "a": 1} tail', '{"token": [MASKED], "a": 1} tail'),
            ('x {"credentials": {"a": ["b"]}, "c": 1}', 'x {"credentials": [MASKED], "c": 1}'),
            ("key password= and more", f"key password= {MASK} more"),
        ],
    )
    def test_a_secret_after_its_key_is_masked(self, redactor, text, masked):
        assert redactor.mask_text(text) == masked

    @pytest.mark.parametrize(
        "text",
        [
            "The password is not here.",
            "max_tokens: 100, input_tokens=5",
            "1732230000123456789 and 4111 1111 1111 1112",
            "Basic understanding of bearer tokens",
            "risk-averse task-oriented",
            '{"token": null}!',
            "ann@example.com",
            "",
        ],
    )
    def test_ordinary_text_is_not_touched(self, redactor, text):
        assert redactor.mask_text(text) == text

    def test_a_card_number_as_a_number_is_masked(self, redactor):
        assert redactor.mask({"pan": 4111111111111111, "n": 4111111111111112}) == {
            "pan": MASK,
            "n": 4111111111111112,
        }

    def test_emails_are_masked_on_request(self):
        assert Redactor(emails=True).mask_text("ask ann@example.com now") == f"ask {MASK} now"

    @pytest.mark.parametrize(
        "unit",
        [
            *("eyJ", "-eyJ", "eyJaaaaaaaa.", "sk-", "password", 'password"', '"password":"'),
            *("token: ", "\\", "4", "1 2 3 4 ", "a@", "a.", "://", "-----BEGIN PRIVATE KEY-----"),
            *("bearer ", "[", '{"a":', "credentials: {", " ", "Aa"),
        ],
    )
    def test_hostile_text_takes_bounded_time(self, unit):
        """Quadratic behaviour would take minutes to hours."""
        text = unit * (100_000 // len(unit))
        redactor = Redactor(emails=True)
        started = time.process_time()
        redactor.mask_text(text)
        assert time.process_time() - started < 5

    @pytest.mark.parametrize("unit", ["a", "password=", '"password":"' + '\\"' * 9_000, "4-"])
    def test_a_megabyte_takes_bounded_time(self, unit):
        started = time.process_time()
        Redactor().mask_text(unit * (1_000_000 // len(unit)))
        assert time.process_time() - started < 20


class TestInCode:
    @pytest.mark.parametrize(
        ("text", "masked"),
        [
            ('password: str = "hunter2!"', f'password: str = "{MASK}"'),
            ('password: Final[str]="hunter2!"', f'password: Final[str]="{MASK}"'),
            ("password: str | None = b'hunter2!'", f"password: str | None = b'{MASK}'"),
            ("const apiKey: string = 'k-1';", f"const apiKey: string = '{MASK}';"),
            ("let apiKey: Map<string, u> | null = 'k-1'", None),
            ('val apiKey: String? = "k-1"', f'val apiKey: String? = "{MASK}"'),
            ('static API_KEY: &str = "k-1";', f'static API_KEY: &str = "{MASK}";'),
            ('var password string = "hunter2!"', f'var password string = "{MASK}"'),
            ('password: SecretStr = SecretStr("hunter2!")', None),
            ('password = SecretStr("hunter2!")', f'password = SecretStr("{MASK}")'),
            ('password = (\n    "hunter2!"\n)', f'password = (\n    "{MASK}"\n)'),
            ('def f(password: str = "hunter2!", n: int = 2):', None),
        ],
    )
    def test_a_typed_assignment_loses_its_value(self, redactor, text, masked):
        found = redactor.mask_text(text)
        assert "hunter2!" not in found
        assert "k-1" not in found
        assert found.count(MASK) == 1
        assert masked is None or found == masked

    @pytest.mark.parametrize("text", ['token=abc1="x"', 'password: hunter2 = "x"'])
    def test_what_no_type_can_be_is_the_value(self, redactor, text):
        assert redactor.mask_text(text).startswith(text.split("=")[0].split(":")[0])
        assert "abc1" not in redactor.mask_text(text)
        assert "hunter2" not in redactor.mask_text(text)

    @pytest.mark.parametrize(
        ("text", "masked"),
        [
            ("db:\n  password: |\n    one\n\n    two\n  user: a", f"{MASK}\n  user: a"),
            ("password: >-\r\n  one two\r\nuser: a", f"password: >-\r\n  {MASK}\r\nuser: a"),
            ("- password: |2-\n    one\n  user: a", f"{MASK}\n  user: a"),
            ("password: |\n  one\n  two", f"password: |\n  {MASK}"),
        ],
    )
    def test_a_block_of_yaml_is_masked_to_its_end(self, redactor, text, masked):
        found = redactor.mask_text(text)
        assert found.endswith(masked)
        assert "one" not in found
        assert "two" not in found

    @pytest.mark.parametrize(
        ("text", "masked"),
        [
            ("secrets:\n  - one\n\n  - two\nuser: a", f"secrets:\n  {MASK}\nuser: a"),
            ("secrets:\n- one\n- two\nuser: a", f"secrets:\n{MASK}\nuser: a"),
            ("- credentials:\r\n    user: one\r\n    x:\r\n      - two\r\n- b", f"{MASK}\r\n- b"),
            ('a:\n  "password":\n    type: one\n  b: c', f'a:\n  "password":\n    {MASK}\n  b: c'),
            ("credentials:\n  user: one", f"credentials:\n  {MASK}"),
        ],
    )
    def test_so_is_all_below_such_a_key_as_in_json(self, redactor, text, masked):
        found = redactor.mask_text(text)
        assert found.endswith(masked)
        assert "one" not in found
        assert "two" not in found
        assert redactor.mask_text(found) == found

    @pytest.mark.parametrize(
        "text",
        [
            "password:\nuser: ann",
            "a:\n    password:\n  b: c",
            "class Token:\n    kind: str = 'a'\n",
            "valueFrom:\n  secretKeyRef:\n    name: db\n    key: password\n",
            "tls:\n- hosts: [a]\n  secretName: db\n",
            "envFrom:\n- secretRef:\n    name: db\n- configMapRef:\n    name: a\n",
            '{"secretKeyRef": {"name": "db", "key": "password"}}',
        ],
    )
    def test_an_empty_field_and_a_reference_have_no_secret(self, redactor, text):
        assert redactor.mask_text(text) == text

    @pytest.mark.parametrize("sign", [*";)}]&,'\"#(", "=", "$x", "{h2}", "(a)", "[", "; x", " y "])
    @pytest.mark.parametrize("before", ["USER=a\n", "# db\nexport ", "[db]\nuser = a\n"])
    def test_a_field_in_lines_of_fields_is_masked_to_its_end(self, redactor, before, sign):
        for value in (f"{sign}h2", f"a{sign}h2", f"{sign}a{sign}h2"):
            found = redactor.mask_text(f"{before}DB_PASSWORD={value.strip()}\nOTHER=b\n")
            assert "h2" not in found
            assert "OTHER=b" in found or sign in "'\""  # a literal may have several lines
        found = redactor.mask_text(f"{before}db_password = a{sign}h2\nOTHER=b\n")
        assert "h2" not in found
        assert "OTHER=b" in found

    @pytest.mark.parametrize(
        ("text", "masked"),
        [
            *((f"DB_PASSWORD=a{sign}h2", f"DB_PASSWORD={MASK}") for sign in ";)}&,'"),
            ("x\n  export DB_PASSWORD=a;h2\n", f"x\n  export DB_PASSWORD={MASK}\n"),
            ("A=b\nDB_PASSWORD=x h2  # note\n", f"A=b\nDB_PASSWORD={MASK}  # note\n"),
            ("A=b\r\nDB_PASSWORD=x; h2\r\nB=c", f"A=b\r\nDB_PASSWORD={MASK}\r\nB=c"),
            ("f(\n  user=a,\n  password=h2,\n)", f"f(\n  user=a,\n  password={MASK},\n)"),
            ("password=a&user=ann", f"password={MASK}&user=ann"),
            ("level=info passwd=}h2}h2,h2 user=bob", f"level=info passwd={MASK} user=bob"),
            ("DB_PASSWORD=a,h2 ./run --fast", f"DB_PASSWORD={MASK} ./run --fast"),
            ("def f(a, password=h2):\n", f"def f(a, password={MASK}):\n"),
            ("const password = env.PW ?? 'h2';", f"const password = {MASK}"),
            ("password ||= 'h2'; token += 'h2'", f"password ||= '{MASK}'; token += '{MASK}'"),
            ("x.setPassword('h2').withToken('h2')", f"x.setPassword('{MASK}').withToken('{MASK}')"),
            ("[(b'X-Api-Key', b'h2'), (b'a', b'b')]", f"[(b'X-Api-Key', b'{MASK}'), (b'a', b'b')]"),
            ('x: [["a", "b"], ["token", "h2"]]', f'x: [["a", "b"], ["token", "{MASK}"]]'),
            ("\x1b[32mTOKEN\x1b[0m=\x1b[1mh2\x1b[0m", f"\x1b[32mTOKEN\x1b[0m=\x1b[1m{MASK}"),
            ('\x1b[34m"token"\x1b[0m: \x1b[32m"h2"', f'\x1b[34m"token"\x1b[0m: \x1b[32m"{MASK}"'),
            ("git config --global github.token h2", f"git config --global github.token {MASK}"),
            ("npm config set //r/:_authToken h2\nx", f"npm config set //r/:_authToken {MASK}\nx"),
            ("f(a, password=h2), password=h2;", f"f(a, password={MASK}), password={MASK};"),
            ("client_secret: a;b]h2", f"client_secret: {MASK}"),
            ("Server=x;Password=,a}b h2;Database=y", f"Server=x;Password={MASK};Database=y"),
            ("x --set 'db.password=a'\"'\"'h2' y", f"x --set 'db.password={MASK}' y"),
            ("curl -H 'X-Api-Key: a} b, h2' x", f"curl -H 'X-Api-Key: {MASK}' x"),
            (
                "- **apiKey**: h2\n- **Password:** h2\n",
                f"- **apiKey**: {MASK}\n- **Password:** {MASK}\n",
            ),
            ("`DB_PASSWORD`: `h2`", f"`DB_PASSWORD`: `{MASK}`"),
            ('proxy_set_header X-Api-Key "h2";', f"proxy_set_header X-Api-Key {MASK}"),
            ("SetEnv DB_PASSWORD x h2\nA b", f"SetEnv DB_PASSWORD {MASK}\nA b"),
            ("user        bob\npassword    h2\nx", f"user        bob\npassword    {MASK}\nx"),
            ("| user | bob |\n| password | a h2 |\n", f"| user | bob |\n| password | {MASK} |\n"),
            ("DB_PASSWORD\th2\n", f"DB_PASSWORD\t{MASK}\n"),
            ('docker run -e "DB_PASSWORD=a b h2" x', f'docker run -e "DB_PASSWORD={MASK}" x'),
            ("docker run -e 'DB_PASSWORD=a \"b\" h2' x", f"docker run -e 'DB_PASSWORD={MASK}' x"),
            ('x --from-literal="password=(a h2"', f'x --from-literal="password={MASK}"'),
            (r'sh -c "x -e \"DB_PASSWORD=a h2\" y"', rf'sh -c "x -e \"DB_PASSWORD={MASK}\" y"'),
            (r'x -e "DB_PASSWORD=a \"b\" h2"', f'x -e "DB_PASSWORD={MASK}"'),
            ('["-e", "DB_PASSWORD=a b h2', f'["-e", "DB_PASSWORD={MASK}'),
            ('curl -d "password=h2&user=ann b" x', f'curl -d "password={MASK}&user=ann b" x'),
        ],
    )
    def test_so_is_a_word_with_any_sign_and_one_in_quotes(self, redactor, text, masked):
        assert redactor.mask_text(text) == masked
        assert redactor.mask_text(masked) == masked

    @pytest.mark.parametrize(
        ("text", "masked"),
        [
            ("export OPERATOR_KEY=302e0201", f"export OPERATOR_KEY={MASK}"),
            ("AccountName=a;AccountKey=Zm9+/w==;x=y", f"AccountName=a;AccountKey={MASK};x=y"),
            ('x {"auth": "YW5uOmh1bnRlcjI="}', f'x {{"auth": "{MASK}"}}'),
            (r"{\"auth\": \"YW5uOmh1bnRlcjI=\"}", rf"{{\"auth\": \"{MASK}\"}}"),
            ("//registry/:_auth=YW5uOmh1bnRlcjI=", f"//registry/:_auth={MASK}"),
            ("CREATE USER a IDENTIFIED BY 'x''y';", f"CREATE USER a IDENTIFIED BY '{MASK}';"),
            ("create user a identified by 'xy'", f"create user a identified by '{MASK}'"),
            ("ALTER USER 'a'@'h' IDENTIFIED WITH plug BY 'x'", None),
            ("SET PASSWORD FOR 'a'@'h' = 'x'", f"SET PASSWORD FOR 'a'@'h' = '{MASK}'"),
            ("SET PASSWORD FOR 'a' = PASSWORD('x')", f"SET PASSWORD FOR 'a' = PASSWORD('{MASK}')"),
            ('ALTER ROLE a ENCRYPTED PASSWORD "x"', f'ALTER ROLE a ENCRYPTED PASSWORD "{MASK}"'),
            (r"psql -c \"alter role a password \'x\'\"", None),
            ("machine h login u password p4", f"machine h login u password {MASK}"),
            ("machine h\n\tlogin u\n\tpassword p4\n", f"machine h\n\tlogin u\n\tpassword {MASK}\n"),
        ],
    )
    def test_so_are_keys_logins_statements_and_netrc(self, redactor, text, masked):
        found = redactor.mask_text(text)
        assert found.count(MASK) == 1
        assert masked is None or found == masked
        assert redactor.mask_text(found) == found

    @pytest.mark.parametrize(
        ("text", "masked"),
        [
            ("CREATE LOGIN a WITH PASSWORD = N'h2'", f"CREATE LOGIN a WITH PASSWORD = N'{MASK}'"),
            ("LOGIN a WITH OLD_PASSWORD=N'h2', x", f"LOGIN a WITH OLD_PASSWORD=N'{MASK}', x"),
            ("ALTER USER a PASSWORD E'h2'", f"ALTER USER a PASSWORD E'{MASK}'"),
            ("ALTER USER a PASSWORD U&'h2'", f"ALTER USER a PASSWORD U&'{MASK}'"),
            ("SET password='x''h2' WHERE id='1'", f"SET password='{MASK}' WHERE id='1'"),
            ('os.environ["DB_PASSWORD"] = "h2"', f'os.environ["DB_PASSWORD"] = "{MASK}"'),
            ("process.env['DB_PASSWORD'] = `x h2`", f"process.env['DB_PASSWORD'] = `{MASK}`"),
            ('env.setdefault("DB_PASSWORD", "h2")', f'env.setdefault("DB_PASSWORD", "{MASK}")'),
            ("define('DB_PASSWORD', 'h2');", f"define('DB_PASSWORD', '{MASK}');"),
            ("FROM x\nENV DB_PASSWORD x h2\nRUN y", f"FROM x\nENV DB_PASSWORD {MASK}\nRUN y"),
            ("setx DB_PASSWORD h2", f"setx DB_PASSWORD {MASK}"),
            ('let password: String = String::from("h2");', None),
            ('String password = new String("h2");', f'String password = new String("{MASK}");'),
            ('string password = @"h2";', f'string password = @"{MASK}";'),
            ('let password: &str = r#"h2"#;', f'let password: &str = r#"{MASK}"#;'),
            ('password := []byte("h2")', f'password := []byte("{MASK}")'),
            ('char password[16] = "h2";', f'char password[16] = "{MASK}";'),
            ('password: list[str] = ["h2"]', f"password: list[str] = {MASK}"),
            ("password: `x h2`", f"password: `{MASK}`"),
            ("password: ``h2``", f"password: ``{MASK}``"),
            ("Server=x;Pwd=x h2;User=y", f"Server=x;Pwd={MASK};User=y"),
            ("password: !!str h2\nuser: a", f"password: {MASK}\nuser: a"),
            ("password: &pw h2", f"password: {MASK}"),
            ("password: !vault |\n  h2\nuser: a", f"password: !vault |\n  {MASK}\nuser: a"),
            ('if password == "h2":', f'if password == "{MASK}":'),
            ("ALTER USER a PASSWORD $$x'h2$$;", f"ALTER USER a PASSWORD $${MASK}$$;"),
            ("alter role a password $p$x h2$p$;", f"alter role a password $p${MASK}$p$;"),
            ("CREATE USER a IDENTIFIED BY h2;", f"CREATE USER a IDENTIFIED BY {MASK};"),
            ("alter user a identified by h2", f"alter user a identified by {MASK}"),
            ("ALTER USER a IDENTIFIED BY h2\n  QUOTA 1M ON x", None),
            ("GRANT CONNECT TO a IDENTIFIED BY h2;", f"GRANT CONNECT TO a IDENTIFIED BY {MASK};"),
            ("ALTER USER a IDENTIFIED BY h2 REPLACE h2x;", None),
            ("ALTER USER a IDENTIFIED BY 'h2' REPLACE 'x''h2';", None),
            (
                "INSERT INTO u (name, password, n) VALUES ('a', 'x, h2', 1), ('b', f('h2'), 2);",
                f"INSERT INTO u (name, password, n) VALUES ('a', {MASK}, 1), ('b', {MASK}, 2);",
            ),
            ('insert into `u` (`token`) values ("h2', f"insert into `u` (`token`) values ({MASK}"),
            ('std::string password{"h2"};', f'std::string password{{"{MASK}"}};'),
            ('const std::string password("h2");', f'const std::string password("{MASK}");'),
            ('auto password = std::string{"h2"};', None),
            ("user: a\npassword: x y h2", f"user: a\npassword: {MASK}"),
            ("- passphrase: x h2 # note\n  user: a", f"- passphrase: {MASK} # note\n  user: a"),
            ("db:\n  password: x h2\n", f"db:\n  password: {MASK}\n"),
            ("INSERT IGNORE INTO u (a, pwd) VALUES (1, 'h2')", None),
            ("INSERT OR REPLACE INTO u (a, pwd) VALUES (1, 'h2')", None),
            ("REPLACE INTO u (a, pwd) VALUES (1, 'h2')", None),
            ('"INSERT INTO u (a, pwd) VALUES (\\"x\\", \\"h2\\"), (\\"y\\", \\"h2\\")"', None),
            ("INSERT u (a, pwd) VALUES (1, 'h2')", None),
            ("MERGE INTO u WHEN NOT MATCHED THEN INSERT (a, pwd) VALUES (1, 'h2')", None),
            ("INSERT INTO \"my u\" AS v (a, pwd) VALUE (1, 'h2')", None),
            ("INSERT INTO u (a, pwd) -- note\nVALUES ROW(1, 'h2'), ROW(2, 'h2')", None),
            ("INSERT INTO u (a, pwd) OUTPUT inserted.id VALUES (1, 'h2')", None),
            ("INSERT INTO u (a, pwd) VALUES ($$it's$$, 'h2'), ($$a,b$$, 'h2')", None),
            (
                r"INSERT INTO u (a, pwd) VALUES ('C:\', 'h2'), ('x', 'h2')",
                rf"INSERT INTO u (a, pwd) VALUES ('C:\', {MASK}), ('x', {MASK})",
            ),
            (
                r"INSERT INTO u (pwd, a) VALUES ('h2\'', 'it\'s'); x",
                rf"INSERT INTO u (pwd, a) VALUES ({MASK}, 'it\'s'); x",
            ),
            ("set password for ann = 'h2'", f"set password for ann = '{MASK}'"),
            ("export DB_PASSWORD='a'\"h2\" x", f"export DB_PASSWORD={MASK} x"),
            (r"export DB_PASSWORD='a'\''h2' x", f"export DB_PASSWORD={MASK} x"),
            ('DB_PASSWORD="a"h2; x', f"DB_PASSWORD={MASK}; x"),
            ("DB_PASSWORD=a'b h2' x", f"DB_PASSWORD={MASK} x"),
            (r"DB_PASSWORD=a\ h2 x", f"DB_PASSWORD={MASK} x"),
            ("password: |  # note\n  h2\nuser: a", f"password: |  # note\n  {MASK}\nuser: a"),
            ("- name: DB_PASSWORD\n  value: x h2\n", f"- name: DB_PASSWORD\n  value: {MASK}\n"),
            ("- name: 'TOKEN'\n  value: \"x h2\"\n", f"- name: 'TOKEN'\n  value: \"{MASK}\"\n"),
            ("- name: TOKEN\n  value: |\n    h2\n", f"- name: TOKEN\n  value: |\n    {MASK}\n"),
            ('user: a\n"password": x h2', f'user: a\n"password": {MASK}'),
            ("user: a\npassword:   x h2", f"user: a\npassword:   {MASK}"),
            ("-   password: x h2\n    user: a", f"-   password: {MASK}\n    user: a"),
            ("Server=x;Password=x h2;", f"Server=x;Password={MASK};"),
            ('c = "Server=x;Password=x h2;"', f'c = "Server=x;Password={MASK};"'),
            ("create user ann\nwith password 'h2'", f"create user ann\nwith password '{MASK}'"),
            (
                "create user a identified by 'x;y',\n  'b'@'c' identified with p by 'h2'",
                f"create user a identified by '{MASK}',\n  'b'@'c' identified with p by '{MASK}'",
            ),
            (r'"alter user a\n  identified by \"h2\", b identified by \"h2\"; x"', None),
            ("create user a identified by 'x', b identified by 'h2", None),
            ("UPSERT INTO u (a, pwd) VALUES (1, 'h2')", None),
            ("INSERT OVERWRITE u (a, pwd) VALUES (1, 'h2')", None),
            ("INSERT OVERWRITE TABLE u PARTITION (d = 'x') (a, pwd) VALUES (1, 'h2')", None),
            ("INSERT INTO u PARTITION (p0, p1) (a, pwd) VALUES (1, 'h2')", None),
            ("INSERT INTO u (a /* the (a, b) */, pwd) VALUES (1, 'h2')", None),
            ("INSERT INTO u (a, -- the (a, b)\n  pwd) -- (x)\nVALUES (1, 'h2')", None),
            ("INSERT /*+ APPEND (x) */ INTO u (a, pwd) VALUES (1, 'h2')", None),
            ("INSERT LOW_PRIORITY IGNORE u (a, pwd) VALUES (1, 'h2')", None),
            ("INSERT INTO u (a, pwd) OVERRIDING SYSTEM VALUE VALUES (1, 'h2')", None),
        ],
    )
    def test_forms_of_literals_and_of_assignments(self, redactor, text, masked):
        found = redactor.mask_text(text)
        assert "h2" not in found
        assert masked is None or found == masked
        assert redactor.mask_text(found) == found

    @pytest.mark.parametrize(
        ("text", "masked"),
        [
            ('API_KEY: str = os.getenv("X", "h2")\nx = 1', f"API_KEY: str = {MASK}\nx = 1"),
            ('API_KEY = os.environ.get("X") or "h2"\nx = 1', f"API_KEY = {MASK}\nx = 1"),
            ('password = SecretStr(secret_value="h2")', f"password = {MASK}"),
            ("Config(password=SecretStr(v='h2'), n=1)", f"Config(password={MASK}, n=1)"),
            ('password: str = Field(description="x)",\n  default="h2",\n)\nx', f"{MASK}\nx"),
            ('password: SecretStr = SecretStr(getenv("A", "h2"))', f"{MASK}"),
            ('password = vault["a"]["h2"]', f"password = {MASK}"),
            ('password = f(a, "h2" is cut off\nuser', f"password = {MASK}\nuser"),
            ('password = f(\n  a,\n  "h2', f"password = {MASK}"),
            ('password = h2("', f"password = {MASK}"),
            ("password: (h2) or another", f"password: {MASK} or another"),
            ("password=SecretStr('h2') user='ann'", f"password=SecretStr('{MASK}') user='ann'"),
        ],
    )
    def test_a_call_that_is_more_than_one_literal_is_masked_as_a_whole(
        self, redactor, text, masked
    ):
        found = redactor.mask_text(text)
        assert "h2" not in found
        assert found.endswith(masked)
        assert redactor.mask_text(found) == found

    def test_logins_in_values_are_masked_too(self, redactor):
        value = {"auths": {"r": {"auth": "YW5uOmh1bnRlcjI="}}, "auth": "required"}
        assert redactor.mask(value) == {"auths": {"r": {"auth": MASK}}, "auth": "required"}

    @pytest.mark.parametrize(
        "text",
        [
            "A record is identified by 'id', a user by the password 'policy' of the page.",
            "The default login page asks the machine for a password string, then for a type.",
            "auth: required, auth=enabledByDefault, oauth: 'YW5uOmh1bnRlcjI='",
            "the account is the key; the operator has a key: none of them here",
            "max_tokens: int = 5\nprimary_key: str = 'id'\naccount: str = 'k'",
            "if pass_count == 2 and key: value = fn('x')",
            "select password from users where name = 'x'; -- create user later",
            "note: |\n  first\n  second\n",
            'for name in ["user", "password"]:\n    check(name)',
            "required = ['user', 'password']\nx = 'y'",
            'fields("user", "password", "city") and target("token", "x")',
            "set the environment's ENV password in setx; then setenv password",
            "Create user stories identified by the team; RISKS IDENTIFIED BY THE BOARD",
            "CREATE USER a IDENTIFIED BY RANDOM PASSWORD",
            "insert into u (name, password) values (?, ?), ($1, NULL), (:a, %(password)s)",
            "INSERT INTO u (name, city) VALUES ('a', 'b'); insert into the (password) field",
            "PASSWORD $5 a month, IDENTIFIED $$",
            'check_password("x") and password("x"); t("token")',
            "- name: DB_PASSWORD\n  valueFrom: x\n- name: user\n  value: token",
            "insert the name (password) here; values (a, b) replace them",
            "Insert the key into the lock (password) and check the values (two).",
            "insert into u (name, password) values ({name}, {password}), ('{name}', '{password}')",
            "insert into u (password) values ('${password}'), (#{u.password}), (?1), ('%s'), (:p)",
            "UPDATE u SET password = NULL, token = ? WHERE id = 1 and password = $1",
            "UPDATE u\nSET\n  name = :n,\n  password = :p, secret = @s\nWHERE token = %(token)s",
            "| name | password | city |\n secret.py | 5 +++--\npassword      the password of it",
            "def login(user: str, password: str) -> Token:\n    token: SecretStr\n",
            "interface Login { user: string; password: string; token?: string }",
            "fields = ['token', 'kind'], ('token', 'kind', 'x'), f('token', 'kind')",
            "- **Token**: a piece of text\n- **Secret:** what only you know; `token`: the key",
            "Create user stories.\n\nThey are identified by 'id', their password is 'x'",
            "replace into u (name, city) values ('C:\\', 'b')",
            "- name: tokens\n  value: 5",
        ],
    )
    def test_ordinary_text_and_code_stay(self, redactor, text):
        assert redactor.mask_text(text) == text

    @pytest.mark.parametrize(
        "unit",
        [
            *("create user ", "PASSWORD ", "PASSWORD '", "IDENTIFIED BY ", "machine a login b "),
            *("machine ", "password: |\n", "password: |\n ", "  password: |\n\n", "token: a|"),
            *("token: a[", "token: (", "token: f(f(", 'auth": "', "password: a = ", "' password"),
            *("PASSWORD ''", "alter role password", "token:f()", "token:f(\n", "token:f(,\n"),
            *("token: `", "token:f('x') ", "token:f('x',", 'token:f(\\"', "ENV token ", "token['"),
            *("get('token', ", "pwd=a b ", "token: !a ", "pwd='a''", "token=a::"),
            *("PASSWORD $$", "PASSWORD $a$ ", "IDENTIFIED BY a REPLACE ", "create user a "),
            *("GRANT a TO b ", "insert into a (pwd) values (", "insert into a (pwd) values ('"),
            *(r"insert into a (pwd) values ('\', ", "insert a (pwd) ", "replace into a ", "$$"),
            *(
                "insert into a (pwd) values ($$",
                "token='a'",
                'token=a"',
                "token=a\\ ",
                "token='a'b",
            ),
            *("name: token\n", "name: token\n value: a\n", "a=b;token=a b", "a=b;token=a b;"),
            *("token:\n- a\n", "token:\n a:\n", "token:\na:\n", "token:\n", "token:\n\n a: b\n"),
            *(
                "token=a\n",
                "token=a;",
                "a=b\ntoken=a b #\n",
                '"token=a b ',
                "'token=a \\",
                '\\"token=a "',
            ),
            *("token=a&b=", "token=(\n", "export token=", "token=a;\n", "[a]\ntoken=a [\n"),
            *(
                "create user '",
                "create user a\n",
                "create user a, ",
                "create user a 'b",
                "upsert into ",
            ),
            *(
                "insert into a (pwd /* ",
                "insert into a (pwd -- ",
                "insert /* ",
                "insert a partition (",
                "insert into a (pwa: b\n--pw{a}",
                "insert --\n",
                "pass/*{a}insert *//*",
                "| token | a",
                "('token', 'a",
                "\x1b[1mtoken\x1b[0m=",
                "setToken(",
                "git config ",
                "token = a ?? ",
                "token  a ",
                "token\ta\n",
                "**token**: ",
                "'token=a'\"b\"",
                "'token=a;b",
                "'a-token: b ",
                "--a=token=b ",
                "insert into a (a) /**/ ",
            ),
            *(
                "insert into a (pwd -- \n",
                "insert into a (/**/",
                "set token = ",
                "insert overwrite a (",
            ),
            *("token: a b\n", "token: a ", "a: b\n", 'token{"', "auto token(", "token: a b\n\n"),
        ],
    )
    def test_hostile_text_takes_bounded_time(self, redactor, unit):
        text = unit * (100_000 // len(unit))
        started = time.process_time()
        redactor.mask_text(text)
        assert time.process_time() - started < 5


class TestRedactorSetting:
    def test_false_masks_nothing_but_still_copies(self):
        value = {"password": "hunter2"}
        copy = Redactor.of(False).mask(value)
        assert copy == value
        assert copy is not value

    @pytest.mark.parametrize("setting", [True, None])
    def test_true_and_none_mask_with_the_built_in_patterns(self, setting):
        assert Redactor.of(setting).mask({"password": "x"}) == {"password": MASK}

    def test_patterns_and_callables_come_on_top(self):
        redactor = Redactor.of([r"project-\w+", lambda text: text.replace("blue", "red")])
        masked = redactor.mask_text("project-x is blue, password=1")
        assert masked == f"{MASK} is red, password={MASK}"

    def test_a_redactor_is_taken_as_it_is(self):
        redactor = Redactor(emails=True)
        assert Redactor.of(redactor) is redactor

    def test_a_failing_callable_hides_the_text_and_is_logged_once(self, caplog):
        def fail(text):
            raise RuntimeError("boom")

        redactor = Redactor.of(fail)
        assert redactor.mask(["a", "b"]) == [MASK, MASK]
        assert len(caplog.records) == 1

    @pytest.mark.parametrize("setting", ["(", 5, [5]])
    def test_a_wrong_setting_is_an_error(self, setting):
        with pytest.raises(ConfigError, match="redact"):
            Redactor.of(setting)


class TestRender:
    def test_json_is_compact_and_keeps_characters(self):
        assert render({"a": [1, "ü"]}) == '{"a":[1,"ü"]}'

    def test_a_text_stays_as_it_is(self):
        assert render("plain") == "plain"

    def test_what_utf8_cannot_encode_is_replaced(self):
        assert render({"a": "\ud800"}).encode()

    def test_other_objects_become_text(self):
        assert render({"a": object}) == '{"a":"<class \'object\'>"}'

    def test_what_json_cannot_write_does_not_fail(self):
        value: list = []
        value.append(value)
        assert "list" in render(value)

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ('{"a": 1}', {"a": 1}),
            (b'{"a": 1}', {"a": 1}),
            ({"a": 1}, {"a": 1}),
            ("[1]", "[1]"),
            ("no json", "no json"),
            (None, None),
        ],
    )
    def test_arguments_are_decoded_if_they_are_an_object(self, given, expected):
        assert parse_arguments(given) == expected


class TestContent:
    @pytest.mark.parametrize(
        ("mode", "on_span", "on_event"),
        [
            (CaptureMode.NO_CONTENT, False, False),
            (CaptureMode.SPAN_ONLY, True, False),
            (CaptureMode.EVENT_ONLY, False, True),
            (CaptureMode.SPAN_AND_EVENT, True, True),
        ],
    )
    def test_the_mode_says_where_content_goes(self, mode, on_span, on_event):
        content = Content(mode)
        assert (content.on_span, content.on_event) == (on_span, on_event)

    def test_spans_get_text_and_events_structure_both_masked(self):
        content = Content(CaptureMode.SPAN_AND_EVENT)
        value = {"command": "ls", "token": "abc"}
        assert content.span_value(value) == '{"command":"ls","token":"[MASKED]"}'
        assert content.event_value(value) == {"command": "ls", "token": MASK}

    def test_long_texts_are_shortened_and_the_structure_kept(self):
        content = Content(limit=400)
        value = json.loads(content.span_value({"path": "/a", "text": "x" * 5_000}))
        assert value["path"] == "/a"
        assert value["text"].startswith("xxx")
        assert value["text"].endswith("...[5000 characters]")

    def test_what_cannot_be_shortened_says_its_size(self):
        content = Content(limit=100)
        assert content.event_value(list(range(1_000))) == [{"truncated": 3891}]
        assert content.event_value({str(n): n for n in range(100)}) == {"truncated": 781}

    def test_a_plain_text_is_cut(self):
        assert len(Content(limit=100).span_value("x" * 500)) == 100

    @pytest.mark.parametrize("limit", [220, 300, 1_000, 3_000])
    def test_messages_beyond_the_limit_lose_their_oldest_parts(self, limit):
        content = Content(limit=limit)
        given = [message("user", text_part(f"{number} " + "y" * 80)) for number in range(40)]
        text = content.span_messages(given)
        kept = json.loads(text)
        assert len(text) <= limit
        assert kept[-1]["parts"][-1]["content"].startswith("39 y")
        note = kept[0]["parts"][0]
        whole = sum(part["type"] == "text" for item in kept for part in item["parts"])
        assert note == {"type": "truncated", "parts": 40 - whole}

    def test_a_single_long_part_is_shortened(self):
        text = Content(limit=300).span_messages([message("user", text_part("z" * 10_000))])
        [kept] = json.loads(text)
        assert len(text) <= 300
        assert kept["parts"][-1]["content"].endswith("...[10000 characters]")

    def test_messages_within_the_limit_are_kept_whole(self):
        given = [message("user", text_part("hi"))]
        assert Content().event_messages(given) == given

    @pytest.mark.parametrize(
        ("variables", "limit"),
        [
            ({}, 65_536),
            ({"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "100"}, 100),
            ({"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "50"}, 50),
            ({"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "1000000"}, 65_536),
            ({"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "many"}, 65_536),
        ],
    )
    def test_the_limit_of_the_sdk_is_respected(self, variables, limit):
        assert limit_of(variables) == limit


class TestShapes:
    def test_a_tool_call_and_its_response_have_the_keys_of_the_conventions(self):
        assert tool_call_part("t", '{"a":1}', "c1") == {
            "type": "tool_call",
            "id": "c1",
            "name": "t",
            "arguments": {"a": 1},
        }
        assert tool_call_response_part([1], "c1") == {
            "type": "tool_call_response",
            "id": "c1",
            "response": [1],
        }

    def test_instructions_are_text_parts(self):
        assert system_instructions("be kind", "") == [{"type": "text", "content": "be kind"}]

    def test_definitions_have_description_and_schema_where_tools_have_them(self):
        schema = {"type": "object"}
        nested = {"type": "function", "function": {"name": "t", "parameters": schema}}

        class Tool:
            name = "u"
            description = "e"
            params_json_schema = schema

        bedrock = {"name": "w", "inputSchema": {"json": schema}}
        assert tool_definitions([nested, Tool(), "v", bedrock]) == [
            {"type": "function", "name": "t", "parameters": schema},
            {"type": "function", "name": "u", "description": "e", "parameters": schema},
            {"type": "function", "name": "v"},
            {"type": "function", "name": "w", "parameters": schema},
        ]

    @pytest.mark.parametrize(
        ("reasons", "calls", "reason"),
        [(["length"], [], "length"), ([], [], "stop"), ([], [("c1", "t", {})], "tool_call")],
    )
    def test_an_output_message_always_has_a_finish_reason(self, reasons, calls, reason):
        assert output_message("hi", calls, reasons)["finish_reason"] == reason

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            (None, []),
            ("hi", [("user", [text_part("hi")])]),
            ({"role": "system", "content": "s"}, [("system", [text_part("s")])]),
            (
                [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}],
                [("user", [text_part("a")])],
            ),
            (
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "1",
                            "type": "function",
                            "function": {"name": "t", "arguments": "{}"},
                        }
                    ],
                },
                [("assistant", [tool_call_part("t", {}, "1")])],
            ),
            (
                {"role": "tool", "tool_call_id": "1", "content": "done"},
                [("tool", [tool_call_response_part("done", "1")])],
            ),
            (
                {"type": "function_call", "call_id": "1", "name": "t", "arguments": '{"a":1}'},
                [("assistant", [tool_call_part("t", {"a": 1}, "1")])],
            ),
            (
                {"type": "function_call_output", "call_id": "1", "output": "done"},
                [("tool", [tool_call_response_part("done", "1")])],
            ),
            (
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}],
                },
                [("user", [tool_call_response_part("x", "1")])],
            ),
            (
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]},
                [("assistant", [{"type": "reasoning", "content": "hm"}])],
            ),
            (
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
                [("user", [{"type": "uri", "modality": "image", "uri": "u"}])],
            ),
            ({"role": "user", "content": {"text": "t"}}, [("user", [text_part("t")])]),
            ({"role": "user", "content": {"x": 1}}, [("user", [text_part('{"x":1}')])]),
            (5, [("user", [text_part("5")])]),
        ],
    )
    def test_the_forms_of_providers_are_read(self, given, expected):
        assert messages(given) == [{"role": role, "parts": parts} for role, parts in expected]

    def test_message_objects_are_read(self):
        class AIMessage:
            type = "ai"
            content = "hi"
            tool_calls = ({"name": "t", "args": {"a": 1}, "id": "1", "type": "tool_call"},)

        assert messages([AIMessage()]) == [
            message("assistant", text_part("hi"), tool_call_part("t", {"a": 1}, "1"))
        ]

    def test_message_models_are_read_wherever_an_attribute_lies(self):
        class Message(pydantic.BaseModel, extra="allow"):
            content: str

            @property
            def type(self):
                return "ai"

        class Renamed(pydantic.BaseModel):
            said: str

            def __getattr__(self, name):
                return {"role": "system", "content": self.said}.get(name)

        assert messages([Message(content="a"), Message(content="b", role="tool")]) == [
            message("assistant", text_part("a")),
            message("tool", text_part("b")),
        ]
        assert messages(Renamed(said="c")) == [message("system", text_part("c"))]

    def test_a_message_model_is_not_asked_for_what_it_lacks(self, monkeypatch):
        class Message(pydantic.BaseModel):
            role: str
            content: str

        missed = []
        original = pydantic.BaseModel.__getattr__

        def noted(self, name):
            missed.append(name)
            return original(self, name)

        messages(Message(role="user", content="a"))  # what is kept of its class
        monkeypatch.setattr(pydantic.BaseModel, "__getattr__", noted)
        messages(Message(role="user", content="a"))
        assert missed == []

    def test_messages_of_the_conventions_stay_as_they_are(self):
        given = [message("user", text_part("hi"), name="ann")]
        assert messages(given) == given
