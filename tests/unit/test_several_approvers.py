"""Rules that ask several people about one call."""

import pytest

import otelhooks
from otelhooks import policy
from otelhooks.approvals import Approval


@pytest.fixture
def transfer():
    ran = []

    @otelhooks.tool
    def transfer(amount):
        ran.append(amount)

    def call(first, second):
        otelhooks.instrument(
            frameworks=[],
            policies=[policy.ask_user("transfer", handler=second)],
            hooks=[policy.enforce([policy.ask_user("transfer", handler=first)])],
        )
        transfer(10)
        return ran

    yield call
    otelhooks.uninstrument()


def test_each_of_them_must_approve(transfer):
    with pytest.raises(otelhooks.errors.Denied):
        transfer(lambda call: True, lambda call: False)


def test_all_of_them_approve_and_the_call_runs(transfer):
    assert transfer(lambda call: True, lambda call: True) == [10]


def test_an_edit_is_shown_to_the_other(transfer):
    """What runs is what was approved: both have to approve the amount that runs."""

    def edit(call):
        return Approval("approved", edit={"amount": 1_000_000})

    assert transfer(edit, lambda call: call.args["amount"] == 1_000_000) == [1_000_000]
    otelhooks.uninstrument()
    with pytest.raises(otelhooks.errors.Denied):
        transfer(edit, lambda call: call.args["amount"] == 10)
