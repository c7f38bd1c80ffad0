"""Fixtures for tests of several tools."""

import pytest


@pytest.fixture(params=[None, "blue"])
def tenant(request: pytest.FixtureRequest) -> dict[str, str]:
    """Settings of a server without tenants, and with one."""
    return {"tenant_field": "group_id", "tenant_id": request.param} if request.param else {}
