"""The settings of what each kind of evidence counts: a part of `Settings`, which reads them."""

from typing import Annotated, Any, Self

from pydantic import AliasChoices, BaseModel, Field, field_validator, model_validator
from pydantic_settings import NoDecode


def _variable(name: str, default: Any, description: str) -> Any:
    return Field(default=default, validation_alias=AliasChoices(name), description=description)


class WeightSettings(BaseModel):
    """How much meaning, keywords, titles and likeness count."""

    hybrid_alpha: float | None = _variable(
        "HYBRID_ALPHA",
        None,
        "Share of meaning in the relevance; 1: vectors only, 0: keywords only. Default: by size.",
    )
    hybrid_alpha_steps: Annotated[tuple[float, ...], NoDecode] = _variable(
        "HYBRID_ALPHA_STEPS",
        (0.5, 0.5, 0.5),
        "The share by size: below the first of HYBRID_ALPHA_SIZES, below the second, and above.",
    )
    hybrid_alpha_sizes: Annotated[tuple[int, ...], NoDecode] = _variable(
        "HYBRID_ALPHA_SIZES", (500, 5000), "Points in all the collections of a search together."
    )
    title_factor: int = _variable(
        "QDRANT_TITLE_FACTOR", 3, "How often a word in a title counts; 1: as one in the text."
    )

    @field_validator("hybrid_alpha_steps", "hybrid_alpha_sizes", mode="before")
    @classmethod
    def _by_comma(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return tuple(part.strip() for part in value.strip("[]").split(",") if part.strip())

    @field_validator("hybrid_alpha")
    @classmethod
    def _fixed_share(cls, value: float | None) -> float | None:
        if value is not None and not 0 <= value <= 1:
            raise ValueError("must be between 0 and 1")
        return value

    @field_validator("hybrid_alpha_steps")
    @classmethod
    def _shares(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 <= one <= 1 for one in value):
            raise ValueError("must be numbers between 0 and 1")
        return value

    @field_validator("hybrid_alpha_sizes")
    @classmethod
    def _rising(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if list(value) != sorted(set(value)):
            raise ValueError("must be rising numbers")
        return value

    @field_validator("title_factor")
    @classmethod
    def _at_least_once(cls, value: int) -> int:
        if not 1 <= value <= 10:
            raise ValueError("must be between 1 and 10")
        return value

    @model_validator(mode="after")
    def _a_step_more_than_sizes(self) -> Self:
        if len(self.hybrid_alpha_steps) != len(self.hybrid_alpha_sizes) + 1:
            raise ValueError("HYBRID_ALPHA_STEPS must be one value more than HYBRID_ALPHA_SIZES")
        return self
