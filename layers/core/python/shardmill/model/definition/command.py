"""The command of a step: what to execute, and its environment, of which a part is private."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field, computed_field, model_validator

from shardmill.model.base import Model, Variable
from shardmill.model.secret import MASK


class Environ(Model):
    public: dict[Variable, str] = Field(default_factory=dict)
    private: dict[Variable, str] = Field(default_factory=dict, repr=False)


class Command(Model):
    name: str = Field(min_length=1)
    args: str | None = None
    args_array: list[str] | None = None
    dockerimage: str | None = None
    environ: Environ = Field(default_factory=Environ)
    description: str | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def has_private_env(self) -> bool:
        return bool(self.environ.private)

    @model_validator(mode="before")
    @classmethod
    def _take_back_own_answer(cls, data: Any) -> Any:
        """`hasPrivateEnv` is worked out anew, so that an answer can be sent back as it came."""
        if isinstance(data, dict) and isinstance(data.get("hasPrivateEnv"), bool):
            return {key: value for key, value in data.items() if key != "hasPrivateEnv"}
        return data


def masked(command: Command) -> Command:
    """The command without its private values; their names stay."""
    if not command.environ.private:
        return command
    hidden = Environ(public=command.environ.public, private=dict.fromkeys(command.environ.private, MASK))
    return command.model_copy(update={"environ": hidden})


MaskedCommand = Annotated[Command, AfterValidator(masked)]
