"""What is tried again, how often, and what is not."""

import pytest

from mcp_server_qdrant.core.tasks import retry


class Flaky:
    """Fails with these errors, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


async def test_a_fault_that_passes_is_tried_again():
    call = Flaky(OSError(), OSError())

    assert await retry(call, (0.0, 0.0), (OSError,)) == "done"
    assert call.calls == 3


async def test_the_last_fault_is_raised():
    call = Flaky(OSError("first"), OSError("second"))

    with pytest.raises(OSError, match="second"):
        await retry(call, (0.0,), (OSError,))


@pytest.mark.parametrize("fault", [ValueError(), OSError("final")])
async def test_what_will_not_pass_is_raised_at_once(fault):
    call = Flaky(fault)

    with pytest.raises(type(fault)):
        await retry(call, (0.0,), (OSError,), lambda error: str(error) != "final")

    assert call.calls == 1
