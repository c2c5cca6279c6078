"""The command of a step: the program, its arguments, and its public and private environment."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field, computed_field, model_validator

from shardmill.model.base import Model, Variables
from shardmill.model.secrets.secret import MASK


class Environ(Model):
    public: Variables = Field(default_factory=dict)
    private: Variables = Field(default_factory=dict, repr=False)


class Command(Model):
    name: str = Field(min_length=1)
    args: str | None = None
    args_array: list[str] | None = None
    expand_variables: bool | None = Field(
        default=None,
        description="replace ${NAME} in the arguments by the variable of the worker, or by nothing",
    )
    dockerimage: str | None = None
    environ: Environ = Field(default_factory=Environ)
    description: str | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def has_private_env(self) -> bool:
        return bool(self.environ.private)

    @model_validator(mode="before")
    @classmethod
    def _drop_computed(cls, data: Any) -> Any:
        """Ignore `hasPrivateEnv`, which answers contain, so that an answer can be sent back."""
        if isinstance(data, dict) and isinstance(data.get("hasPrivateEnv"), bool):
            return {key: value for key, value in data.items() if key != "hasPrivateEnv"}
        return data


def masked(command: Command) -> Command:
    """The command with its private values masked."""
    if not command.environ.private:
        return command
    hidden = Environ(public=command.environ.public, private=dict.fromkeys(command.environ.private, MASK))
    return command.model_copy(update={"environ": hidden})


MaskedCommand = Annotated[Command, AfterValidator(masked)]
