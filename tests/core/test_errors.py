"""The error tree, and what turns other people's errors into ours."""

import asyncio

import pytest

from mcp_server_qdrant.core.errors import BackendError, QdrantMcpError, RequestError, contained


class Panic(BaseException):
    """As libraries in Rust raise."""


@pytest.mark.parametrize("fault", [OverflowError, MemoryError, RecursionError, KeyError, Panic])
def test_a_fault_of_any_kind_becomes_one_of_ours_with_its_name(fault):
    sentence = f"^broken: {fault.__name__}$"
    with (
        pytest.raises(RequestError, match=sentence) as caught,
        contained(lambda name: RequestError(f"broken: {name}")),
    ):
        raise fault("a text that nobody is to see")

    assert isinstance(caught.value.__cause__, fault)


@pytest.mark.parametrize(
    "fault", [asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit, BackendError]
)
def test_what_ends_a_task_or_the_process_and_what_is_ours_passes(fault):
    with pytest.raises(fault), contained(QdrantMcpError):
        raise fault("as it is")
