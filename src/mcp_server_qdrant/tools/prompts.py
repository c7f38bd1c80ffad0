"""The prompts that a client offers to its user, as commands for the agent."""

from typing import Annotated

from mcp.server.mcpserver.prompts import Prompt
from pydantic import Field

from mcp_server_qdrant.core.notation import one_line

MAX_TOPIC = 1_000  # characters
REMEMBER = (
    "Look back over this session. Store with qdrant-store what a later session will need: "
    "decisions and why, facts, preferences, corrections. Make each a text with a title that can "
    "be understood on its own. Search with qdrant-find first: update what is there already under "
    "its "
    "id, and give outdated ids as supersedes. Store no secrets, and nothing that the project's "
    "files already say. Then list what you stored."
)
RECALL = (
    "What do you know about this: {}\n\n"
    'Search with qdrant-find in collections ["*"], then again in other words. Read with qdrant-get '
    "where a passage is not enough. Answer from what is stored, with ids and dates. Say where "
    "texts contradict each other, and what was not found."
)
TIDY = (
    "Tidy up the memory. Look with qdrant-find at {}. Find texts that say the same, are outdated "
    "or contradict each other. Show me a list with ids, and for each whether to merge, supersede, "
    "correct or delete it. Change nothing before I agree."
)

Topic = Annotated[str, Field(description="What it is about, in words")]


def remember() -> str:
    """Store what a later session will need to know of this one."""
    return REMEMBER


def recall(topic: Topic) -> str:
    """Tell what is stored about a topic."""
    return RECALL.format(one_line(topic, MAX_TOPIC))


def tidy(topic: Topic = "") -> str:
    """Find what is stored twice, is outdated or contradicts itself, and propose what to do."""
    about = f"what is stored about this: {one_line(topic, MAX_TOPIC)}"
    return TIDY.format(about if topic else "the newest texts")


def make_prompts(*, read_only: bool) -> list[Prompt]:
    """The prompts to register."""
    asking = Prompt.from_function(recall, title="What do you know about …")
    if read_only:
        return [asking]
    remembering = Prompt.from_function(remember, title="Remember this session")
    return [remembering, asking, Prompt.from_function(tidy, title="Tidy up")]
