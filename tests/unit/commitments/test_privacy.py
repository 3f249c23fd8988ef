"""Reports go to the named host alone; they and the key turn up nowhere else."""

import polars as pl
import pytest

from pacer.core.errors import ConfigError, PacerError
from tests.support.cases import listed_cases
from tests.support.endpoint import Reply, good
from tests.support.labelling import KEY


@pytest.mark.parametrize(("consent", "told", "address"), listed_cases(__file__, "refused"))
def test_nothing_is_sent_without_consent(endpoint, asking, label, consent, told, address) -> None:
    host = "127.0.0.1" if address is None else ""
    changes = {"send_reports_to": consent, "base_url": endpoint.url if address is None else address}
    message = f"send_reports_to is {told}, but the host of anchors.llm.base_url is '{host}': no report text is sent"
    with pytest.raises(ConfigError, match=message):
        label(config=asking().model_copy(update=changes))
    assert endpoint.keys == set()


def test_endpoint_of_the_environment_needs_consent_too(endpoint, label, labelling, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    with pytest.raises(ConfigError, match="no report text is sent"):
        label(config=labelling(provider="openai", send_reports_to="api.openai.com"))
    assert endpoint.keys == set()


def test_no_proxy_sees_reports_without_encryption(label, monkeypatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert label()["statuses"] == {"ok": 6}


@pytest.mark.parametrize("key", [None, "", "sk-k\u00e9", "sk-x\n", "two words"])
def test_key_that_cannot_be_sent(endpoint, label, monkeypatch, key) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    if key is not None:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ConfigError, match="needs an API key in OPENAI_API_KEY") as error:
        label()
    assert not key or key.strip() not in str(error.value)
    assert endpoint.keys == set()


def test_the_key_and_reports_turn_up_nowhere(endpoint, label, records, tmp_path, capfd, caplog) -> None:
    """Whatever the client is asked to log."""
    caplog.set_level("DEBUG")
    caplog.set_level("DEBUG", "openai")
    secret = records.with_columns(pl.lit("Zebrafish seen. No effusion.").alias("report_raw"))
    endpoint.replies = lambda asked, before: good(asked) if before else Reply(500, {"error": {"message": KEY}})
    label(records=secret)
    endpoint.replies = lambda asked, _: Reply(401, {"error": {"message": f"{KEY} {asked['report']}"}})
    with pytest.raises(PacerError) as error:
        label(records=secret, max_tokens=9)
    shown = "".join(capfd.readouterr()) + caplog.text + repr(error.value)
    for cause in (error.value.__cause__, error.value.__context__):
        assert cause is None or error.value.__suppress_context__
    files = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert not [record for record in caplog.records if record.name.partition(".")[0] in ("openai", "httpx2")]
    assert endpoint.keys == {f"Bearer {KEY}"}
    assert KEY not in shown + files
    assert "zebrafish" not in (shown + files).lower()
