"""A critical deny pages: the rule fires, the webhook gets rule and link, and later that it is over.

The last test waits for the alert to resolve, five minutes after the last deny; it runs after all
other tests, see `pytest_collection_modifyitems`.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import pytest

from otelhooks.records import semconv
from tests.e2e.asking import Jaeger, Prometheus, eventually
from tests.e2e.conftest import Traffic
from tests.e2e.stack.webhook import Webhook

ALERT = "OtelhooksCriticalDeny"


def pages(webhook: Webhook, status: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the alerts of this rule that the on-call webhook got, by service and policy rule."""
    return {
        (alert["labels"]["service_name"], alert["labels"]["otelhooks_policy_rule_id"]): alert
        for notification in webhook.notifications
        if notification.kind == "oncall"
        for alert in notification.body["alerts"]
        if alert["labels"]["alertname"] == ALERT and alert["status"] == status
    }


def denied(traffic: Traffic) -> set[tuple[str, str]]:
    """Return service and rule of every deny that was made."""
    return {
        (agent.service, record["rule_id"])
        for agent in traffic.agents
        for record in agent.records
        if record["decision"] == semconv.DECISION_DENY
    }


def test_every_service_and_rule_that_denied_is_paged(traffic: Traffic, webhook: Webhook) -> None:
    eventually(lambda: denied(traffic) <= pages(webhook, "firing").keys(), 90)


def test_the_page_links_to_the_traces_of_that_rule(
    traffic: Traffic, webhook: Webhook, jaeger: Jaeger
) -> None:
    eventually(lambda: denied(traffic) <= pages(webhook, "firing").keys(), 90)
    for agent in traffic.agents:
        for service, rule in denied(traffic):
            if service != agent.service:
                continue
            link = urllib.parse.urlsplit(
                pages(webhook, "firing")[service, rule]["annotations"]["traces"]
            )
            asked = dict(urllib.parse.parse_qsl(link.query))

            found = jaeger.find(asked["service"], json.loads(asked["tags"]))

            assert sorted(found) == sorted(agent.traces)


def test_the_addresses_are_not_labels_of_alerts(traffic: Traffic, webhook: Webhook) -> None:
    eventually(lambda: pages(webhook, "firing"), 90)

    for alert in pages(webhook, "firing").values():
        assert not [label for label in alert["labels"] if label.endswith("_url")]


def test_the_webhook_takes_nothing_without_its_token(webhook: Webhook) -> None:
    request = urllib.request.Request(f"{webhook.url}/oncall", data=b"{}", method="POST")

    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request)


@pytest.mark.last
def test_the_alert_resolves(traffic: Traffic, webhook: Webhook, prometheus: Prometheus) -> None:
    eventually(lambda: denied(traffic) <= pages(webhook, "firing").keys(), 90)

    eventually(lambda: denied(traffic) <= pages(webhook, "resolved").keys(), 480)

    # Other tests make denies of their own, which may still fire.
    left = [a["labels"] for a in prometheus.alerts() if a["labels"]["alertname"] == ALERT]
    firing = {(labels["service_name"], labels["otelhooks_policy_rule_id"]) for labels in left}
    assert firing.isdisjoint(denied(traffic))
