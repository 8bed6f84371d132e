"""Names that objects have for as long as they live, in one session after the other."""

from __future__ import annotations

from collections.abc import Callable

from byteps.common.session import default
from byteps.common.session.names import numbered
from byteps.common.session.process_sets import ProcessSet, global_process_set, registered_number


class ObjectName:
    """What keeps the operations of an object apart from those of others of its kind.

    Objects get their names by the order in which they are made. In a later session each has the one
    that it had, unless a new object has it by then; all are settled by the order in which they are
    made, or first used. So ranks agree if they do that in the same order, also those that were not
    in the session before. One thread at a time.
    """

    def __init__(self, base: Callable[[], str]) -> None:
        """Take a name in the present session. `base` is what the first would be called there."""
        session = default.current()
        self._base = base
        self._plain_in = self._seen = session.number
        self._number = session.given.give(base())
        self.text = numbered(base(), self._number)

    def follow(self) -> bool:
        """Have a name in the present session; return whether it is a new session."""
        session = default.current()
        if session.number == self._seen:
            return False
        age = session.number - self._plain_in
        self.text = session.given.keep(self._base(), self._number, age)
        self._seen = session.number
        # The age counts from the last session in which it had its plain name: a rank that joined
        # later, where it is younger, counts the same.
        if self.text == numbered(self._base(), self._number):
            self._plain_in = session.number
        return True


class OptimizerNames:
    """What the exchange of an optimizer calls its gradients: names with an ending, which the first
    of all optimizers has not.

    Ranks agree if they make their optimizers for a process set in the same order, whatever else
    they make.
    """

    def __init__(self, process_set: ProcessSet = global_process_set) -> None:
        """Take an ending in the present session."""

        def base() -> str:
            number = registered_number(process_set)
            return f"@{number}" if number else ""

        self._ending = ObjectName(base)

    def follow(self) -> bool:
        """Have an ending in the present session; return whether it is a new session."""
        return self._ending.follow()

    def gradient(self, name: str) -> str:
        """Return what the gradient of a parameter, or of a group, is called on its way."""
        return f"Gradient.{name}{self._ending.text}"

    def told(self, name: str) -> str:
        """Return what other ranks must call a parameter of that name."""
        return name + self._ending.text

    @property
    def owner(self) -> str:
        """The name of the optimizer."""
        return f"optimizer{self._ending.text}"


class ModelNames:
    """What the exchange of a model calls its gradients: names with a prefix, which the first of all
    models has not. One that is not taken yet is taken with the first `follow`."""

    def __init__(self, take_now: bool) -> None:
        """Take a prefix in the present session, if that is wanted."""
        self._name = ObjectName(self._base) if take_now else None

    @staticmethod
    def _base() -> str:
        return "model"

    def follow(self) -> bool:
        """Have a prefix in the present session, if there is one; return whether it is new."""
        if not default.is_initialized():
            return False
        if self._name is None:
            self._name = ObjectName(self._base)
            return True
        return self._name.follow()

    @property
    def prefix(self) -> str:
        """What the names of the model begin with."""
        if self._name is None or self._name.text == self._base():
            return ""
        return f"{self._name.text}."

    def gradient(self, name: str) -> str:
        """Return what the gradient of a parameter is called on its way."""
        return f"Gradient.{self.prefix}{name}"

    def told(self, name: str) -> str:
        """Return what other ranks must call a parameter of that name."""
        return f"{self.prefix}{name}"

    @property
    def owner(self) -> str:
        """The name of the model."""
        return f"{self.prefix}DistributedDataParallel"
