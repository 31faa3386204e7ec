"""What the tests of all frameworks share: plain asserts that explain themselves in the contract."""

import pytest

pytest.register_assert_rewrite("tests.frameworks.contract", "tests.conformance")
