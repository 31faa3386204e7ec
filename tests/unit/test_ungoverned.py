"""Agent frameworks and model clients that no adapter guards: a program that uses one is told.

Only their names matter, so they are small stand-ins here; the real `groq` is asked in
`tests/frameworks/test_ungoverned.py`.
"""

import asyncio
import importlib
import sys
import threading
import types as python_types

import pytest

import otelhooks
from otelhooks import errors, policy
from otelhooks.config import load
from otelhooks.setup import catalogue
from otelhooks.setup.known import KNOWN
from otelhooks.setup.ungoverned import installed, ungoverned

FRAMEWORKS = [known for known in KNOWN if not known.is_client]
CLIENTS = [known for known in KNOWN if known.is_client and known.requests is None]
DENY = [policy.deny("run_command")]
CLIENT = """
class Options:
    def __init__(self, url, method="post"):
        self.url, self.method = url, method

class SyncAPIClient:
    def request(self, cast_to, options, *, stream=False):
        return "answered"

class AsyncAPIClient:
    async def request(self, cast_to, options, *, stream=False):
        return "answered"
"""


class Library:
    """Packages in a folder on the search path."""

    def __init__(self, folder):
        self.folder = folder
        self.names = set()

    def add(self, module, distribution="", text="", requires=()):
        parts = module.split(".")
        place = self.folder.joinpath(*parts)
        place.mkdir(parents=True)
        (place / "__init__.py").write_text(text)
        (place / "deeper.py").write_text("")
        self.names.add(parts[0])
        if distribution:
            self.distribution(distribution, requires)
        importlib.invalidate_caches()

    def distribution(self, name, requires=()):
        info = self.folder / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        lines = "".join(f"Requires-Dist: {each}\n" for each in requires)
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{lines}"
        (info / "METADATA").write_text(text)

    def client(self, name="groq"):
        self.add(name, name, f"from {name} import _base_client\n")
        (self.folder / name / "_base_client.py").write_text(CLIENT)


@pytest.fixture
def library(tmp_path, monkeypatch, no_adapters):
    folder = tmp_path / "library"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(ungoverned, "_told", set())
    library = Library(folder)
    before = set(sys.modules)
    yield library
    otelhooks.uninstrument()
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in library.names:
            del sys.modules[name]


@pytest.fixture
def said(caplog):
    return lambda: [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]


@pytest.mark.parametrize("known", [*FRAMEWORKS, *CLIENTS], ids=lambda known: known.name)
def test_what_no_adapter_guards_is_told_once_when_it_is_imported(library, said, known):
    """The class: a program whose agents no rule is asked about, and which looks governed."""
    for module in known.modules:
        library.add(module)
    library.distribution(known.distributions[0])
    otelhooks.instrument(policies=DENY)
    for module in known.modules:
        importlib.import_module(f"{module}.deeper")
        importlib.import_module(module)
    [warning] = said()
    assert f"`{known.modules[0]}` is imported, and nothing guards it" in warning
    assert f'frameworks={{"{known.name}": "off"}}' in warning
    assert "@otelhooks.tool" in warning


@pytest.mark.parametrize("module", ["griptape", "livekit.agents", "autogen_core"])
def test_what_was_imported_before_is_told_too(library, said, module):
    library.add(module)
    importlib.import_module(module)
    otelhooks.instrument(policies=DENY)
    assert len(said()) == 1


def test_a_rule_that_comes_later_tells_of_what_is_imported(library, said):
    library.add("griptape")
    handle = otelhooks.instrument()
    import griptape  # noqa: F401

    assert said() == []
    handle.register(*DENY)
    assert len(said()) == 1


def test_a_rule_of_a_block_tells_too(library, said):
    library.add("griptape")
    otelhooks.instrument()
    import griptape  # noqa: F401

    with otelhooks.scope(policies=DENY):
        assert len(said()) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"policies": [policy.allow("run_command")]},
        {"policies": DENY, "mode": "monitor"},
        {"policies": DENY, "frameworks": {"griptape": "off"}},
    ],
)
def test_nothing_is_said_where_nothing_can_deny_or_the_application_knows(library, said, settings):
    library.add("griptape")
    otelhooks.instrument(**settings)
    import griptape  # noqa: F401

    assert said() == []


def test_to_guard_only_some_frameworks_is_not_to_know_of_others(library, said):
    library.add("griptape")
    otelhooks.instrument(policies=DENY, frameworks=[])
    import griptape  # noqa: F401

    assert len(said()) == 1


def test_a_thread_that_imports_it_is_told_once_too(library, said):
    library.add("griptape")
    otelhooks.instrument(policies=DENY)
    threads = [
        threading.Thread(target=importlib.import_module, args=(name,))
        for name in ("griptape", "griptape.deeper") * 2
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said()) == 1


def test_the_variable_says_that_the_application_knows(library, said, monkeypatch):
    monkeypatch.setenv("OTELHOOKS_FRAMEWORKS", "livekit_agents=off")
    library.add("livekit.agents")
    otelhooks.instrument(policies=DENY)
    importlib.import_module("livekit.agents")
    assert said() == []


def test_the_strict_that_is_on_by_itself_breaks_no_import(library, said):
    library.add("griptape")
    handle = otelhooks.instrument(policies=DENY)
    assert handle.is_strict(handle._runtime.loaded)
    import griptape  # noqa: F401

    assert len(said()) == 1


@pytest.mark.parametrize("module", ["griptape", "griptape.deeper", "livekit.agents.deeper"])
def test_under_strict_an_import_is_refused_each_time(library, module):
    name = module.removesuffix(".deeper")
    library.add(name, text="raise AssertionError('ran')")
    otelhooks.instrument(policies=DENY, strict=True)
    for _ in range(2):
        with pytest.raises(ImportError, match="no adapter guards it") as caught:
            importlib.import_module(module)
        assert f'frameworks={{"{name.replace(".", "_")}": "off"}}' in str(caught.value)
    assert name not in sys.modules


def test_under_strict_nothing_starts_beside_what_is_imported(library):
    library.add("griptape")
    import griptape  # noqa: F401

    with pytest.raises(errors.SeatError, match="griptape is not guarded"):
        otelhooks.instrument(policies=DENY, strict=True)
    otelhooks.instrument(policies=DENY)  # nothing was left behind


def test_under_strict_what_the_application_knows_is_imported(library):
    library.add("griptape")
    otelhooks.instrument(policies=DENY, strict=True, frameworks={"griptape": "off"})
    import griptape  # noqa: F401


def test_after_uninstrumenting_nothing_is_told_or_refused(library, said):
    library.add("griptape")
    otelhooks.instrument(policies=DENY, strict=True)
    otelhooks.uninstrument()
    import griptape  # noqa: F401

    assert said() == []


def test_another_package_of_the_same_name_is_not_meant(library, said):
    """Django has a `haystack` too."""
    library.add("haystack", "django-haystack")
    otelhooks.instrument(policies=DENY, strict=True)
    import haystack  # noqa: F401

    assert said() == []


class TestClients:
    """A model client is recognised by its requests, not by its importer."""

    @pytest.fixture
    def client(self, library):
        library.client()
        return lambda: importlib.import_module("groq._base_client")

    def test_an_import_alone_says_nothing(self, client, said):
        otelhooks.instrument(policies=DENY, strict=True)
        client()
        assert said() == []

    @pytest.mark.parametrize(
        "url",
        [
            "/chat/completions",
            "/chat/completions/",
            "/chat/completions#x?y",
            "/completions",
            "/responses",
            "/responses/compact",
            "/threads/t/runs/r/submit_tool_outputs",
            "/v1/messages?beta=true",
        ],
    )
    @pytest.mark.parametrize("first", ["import", "instrument"])
    def test_a_request_outside_any_guarded_model_call_is_told_once(self, client, said, url, first):
        groq = client() if first == "import" else None
        otelhooks.instrument(policies=DENY)
        groq = groq or client()
        for _ in range(2):
            options = groq.Options(url)
            assert groq.SyncAPIClient().request(str, options) == "answered"
            request = groq.AsyncAPIClient().request(cast_to=str, options=options)
            assert asyncio.run(request) == "answered"
        [warning] = said()
        assert "`groq` calls a model outside any guarded agent" in warning
        assert "tools without @otelhooks.tool are not asked about" in warning

    def test_under_strict_it_is_refused(self, client):
        otelhooks.instrument(policies=DENY, strict=True)
        groq = client()
        with pytest.raises(errors.SeatError, match="groq is not guarded"):
            groq.SyncAPIClient().request(str, groq.Options("/responses"))
        with pytest.raises(errors.SeatError, match="groq is not guarded"):
            groq.AsyncAPIClient().request(str, groq.Options("/responses"))

    def test_a_tool_that_asks_a_model_of_its_own_is_outside(self, client):
        otelhooks.instrument(policies=DENY, strict=True)
        groq = client()

        @otelhooks.tool
        def summarize(text: str) -> str:
            return groq.SyncAPIClient().request(str, groq.Options("/responses"))

        with pytest.raises(errors.SeatError):
            summarize("text")

    def test_inside_a_decorated_function_it_is_guarded(self, client, said):
        otelhooks.instrument(policies=DENY, strict=True)
        groq = client()

        @otelhooks.model_call(model="m", provider="groq")
        def ask(messages):
            return groq.SyncAPIClient().request(str, groq.Options("/responses"))

        @otelhooks.model_call(model="m", provider="groq")
        async def ask_async(messages):
            return await groq.AsyncAPIClient().request(str, groq.Options("/responses"))

        assert ask([]) == "answered"
        assert asyncio.run(ask_async([])) == "answered"
        assert said() == []

    @pytest.mark.parametrize(
        ("url", "method"), [("/embeddings", "post"), ("/responses", "get"), ("/files", "post")]
    )
    def test_requests_for_no_answer_of_a_model_are_not_meant(self, client, said, url, method):
        otelhooks.instrument(policies=DENY, strict=True)
        groq = client()
        groq.SyncAPIClient().request(str, groq.Options(url, method))
        assert said() == []

    def test_a_request_that_cannot_be_read_may_be_one(self, client, said):
        otelhooks.instrument(policies=DENY)
        groq = client()
        with pytest.raises(TypeError, match="options"):
            groq.SyncAPIClient().request(str)
        assert len(said()) == 1

    def test_a_version_without_the_place_for_requests_is_told_at_its_import(self, library, said):
        library.add("groq", text="from groq import _base_client")
        (library.folder / "groq" / "_base_client.py").write_text("class SyncAPIClient: pass")
        otelhooks.instrument(policies=DENY)
        importlib.import_module("groq")
        [warning] = said()
        assert "`groq` is imported" in warning

    def test_uninstrumenting_puts_the_methods_back(self, client):
        groq = client()
        before = vars(groq.SyncAPIClient)["request"]
        otelhooks.instrument(policies=DENY)
        assert vars(groq.SyncAPIClient)["request"] is not before
        otelhooks.uninstrument()
        assert vars(groq.SyncAPIClient)["request"] is before

    @pytest.mark.parametrize("user", ["langchain-ollama", "livekit-agents"])
    def test_one_that_an_agent_framework_brings_is_not_meant(self, library, said, user):
        library.add("ollama", "ollama")
        library.distribution(user, ["Ollama>=0.5", "httpx"])
        otelhooks.instrument(policies=DENY, strict=True)
        importlib.import_module("ollama")
        assert said() == []


class TestSettings:
    @pytest.mark.parametrize(
        "frameworks", [["griptape"], {"griptape": "on"}, {"griptape": {"spans": "off"}}, "griptape"]
    )
    def test_what_no_adapter_guards_cannot_be_switched_on(self, frameworks):
        with pytest.raises(errors.ConfigError, match="no adapter guards `griptape`"):
            otelhooks.instrument(frameworks=frameworks)

    @pytest.mark.parametrize(
        ("frameworks", "meant"),
        [(["openai_agent"], "openai_agents"), ({"langchian": "off"}, "langchain")],
    )
    def test_a_misspelt_framework_is_told_which_one_is_meant(self, frameworks, meant):
        with pytest.raises(errors.ConfigError, match=f"did you mean `{meant}`"):
            catalogue.wanted(load(frameworks=frameworks).frameworks)


class TestInstalled:
    def test_what_is_installed_is_found_without_an_import(self, library):
        library.add("griptape", "griptape", "raise AssertionError('imported')", ["groq>=1"])
        library.client("groq")
        library.client("cohere")
        found = [(known.name, name, version) for known, name, version in installed()]
        assert found == [("griptape", "griptape", "1.0"), ("cohere", "cohere", "1.0")]
        assert [known.name for known, _, _ in installed({"griptape"})] == ["cohere"]

    def test_names_are_unique_and_no_adapters(self):
        names = [known.name for known in KNOWN]
        modules = [module for known in KNOWN for module in known.modules]
        assert len(set(names)) == len(names)
        assert len(set(modules)) == len(modules)
        assert not {*names, *modules} & {"mcp", "agents", "langchain", "openai_agents"}


def test_the_gauge_of_adapters_reports_it(library, meter_provider, metrics_reader):
    library.add("griptape", "griptape")
    otelhooks.instrument(policies=DENY, meter_provider=meter_provider)
    import griptape  # noqa: F401

    data = metrics_reader.get_metrics_data()
    states = [
        dict(point.attributes)
        for scope in data.resource_metrics[0].scope_metrics
        for metric in scope.metrics
        if metric.name == "otelhooks.adapter.info"
        for point in metric.data.data_points
    ]
    assert states == [
        {
            "otelhooks.adapter.framework": "griptape",
            "otelhooks.adapter.version": "1.0",
            "otelhooks.adapter.state": "unguarded",
        }
    ]


def test_otelhooks_imports_none_of_them():
    assert isinstance(otelhooks, python_types.ModuleType)
    otelhooks.instrument(policies=DENY)
    assert not {module for known in KNOWN for module in known.modules} & set(sys.modules)
