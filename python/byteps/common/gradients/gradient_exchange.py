"""The exchange of gradients: one by one or in groups, as backward finishes them.

Everything that averages gradients stands on it, whichever framework they are of. It knows names,
urgency, groups, passes and who has used what; a `Gradients` knows the framework's tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from byteps.common.errors import BytepsError
from byteps.common.gradients.exchange_options import ExchangeOptions, is_whole
from byteps.common.gradients.usage import NO_GRADIENT, Usage, changed_error, usage_call
from byteps.common.operations.call import Call
from byteps.common.operations.groups import places_by_kind
from byteps.common.operations.reduction import operation_of
from byteps.common.session import default
from byteps.common.session.pending import Handle
from byteps.common.session.process_sets import has_others

TOO_MANY_PASSES = (
    "Gradients were computed more than backward_passes_per_step times before call to step(). "
    "Increase backward_passes_per_step to accumulate gradients locally."
)

Parameter = TypeVar("Parameter", bound=Hashable)


class Sent(Protocol):
    """A gradient on its way, as the framework sees it."""

    def is_changed(self) -> bool:
        """Return whether somebody wrote to it, or put another in its place, since it was sent."""


class Entry(Generic[Parameter]):
    """One parameter."""

    __slots__ = (
        "is_own",
        "is_used",
        "is_watched",
        "name",
        "own_storage",
        "parameter",
        "passes",
        "priority",
        "sent",
        "storage",
        "unit",
    )  # fmt: skip

    def __init__(self, parameter: Parameter, name: str, priority: int) -> None:
        self.parameter = parameter
        self.name = name
        self.priority = priority
        self.passes = 0  # that have computed its gradient in this step
        self.is_own = False  # the optimizer has it; others may have names
        self.is_watched = False
        self.is_used = True  # some rank has a gradient in this step
        # How this rank's gradient that is on its way is stored, and how some rank's was when last
        # there was one, which is the same on all ranks.
        self.own_storage = NO_GRADIENT
        self.storage = NO_GRADIENT
        self.unit: Unit[Parameter]
        self.sent: Any = None  # a Sent, of the framework's own class, while it is on its way

    def is_changed(self) -> bool:
        """Return whether somebody changed the gradient on its way."""
        return self.sent is not None and bool(self.sent.is_changed())


class Unit(Generic[Parameter]):
    """Parameters whose gradients travel as one operation; mostly one."""

    __slots__ = ("call", "entries", "flights", "is_done", "name", "ready")

    def __init__(self, entries: list[Entry[Parameter]], name: str, call: Call) -> None:
        self.entries = entries
        self.name = name  # as the user knows it
        self.call = call
        self.ready = 0
        self.is_done = False  # exchanged in this step
        # What is on its way, with the parameters that it is of.
        self.flights: list[tuple[Handle[Any], list[Entry[Parameter]]]] = []

    def begin(self) -> None:
        """Expect gradients again."""
        self.ready = 0
        self.is_done = False
        for entry in self.entries:
            entry.passes = 0
            entry.is_used = True
            entry.own_storage = NO_GRADIENT
            entry.sent = None


class Gradients(Protocol[Parameter]):
    """What a framework knows of its parameters and their gradients."""

    def is_parameter(self, thing: object) -> bool:
        """Return whether it can be a parameter at all."""

    def is_trained(self, parameter: Parameter) -> bool:
        """Return whether backward computes its gradient now."""

    def kind(self, parameter: Parameter) -> Hashable:
        """Return what parameters that travel together must have in common: their type."""

    def storage(self, parameter: Parameter) -> int:
        """Return how this rank's gradient is stored; see byteps.common.gradients.usage."""

    def start(self, unit: Unit[Parameter], name_of: Callable[[str], str]) -> None:
        """Start to exchange the gradients; add what is on its way to `flights`, and set `sent`.

        A rank that has none sends zeros, stored as `storage` of the entry says. What needs a call
        of its own, such as a sparse gradient, has the name that `name_of` makes of its entry's.
        """

    def write_back(self, entry: Entry[Parameter], result: Any) -> None:
        """Put the result of a flight where the user finds it: nowhere if `is_used` is False and
        there is no gradient."""

    def at_end_of_backward(self, function: Callable[[], None]) -> None:
        """Call it when the backward that runs now ends. For step_exchange.py."""


class ExchangeNames(Protocol):
    """How what an exchange sends is called in the present session; see object_names.py."""

    def follow(self) -> bool:
        """Have names in the present session; return whether they are new."""

    def gradient(self, name: str) -> str:
        """Return the name of a call."""

    def told(self, name: str) -> str:
        """Return what other ranks must call a parameter of that name."""

    @property
    def owner(self) -> str:
        """The name of the optimizer or model."""


def gradient_call(options: ExchangeOptions, name: str, priority: int) -> Call:
    """Return the call in which gradients travel."""
    return Call(
        operation_of(options.op),
        name,
        priority=priority,
        process_set=options.process_set,
        prescale=1.0 / options.predivide_factor,
        postscale=float(options.predivide_factor),
    )


class Question(Generic[Parameter]):
    """Who has gradients of some parameters: on its way. One thread at a time."""

    def __init__(
        self, entries: Sequence[Entry[Parameter]], call: Call, storages: list[int]
    ) -> None:
        """Start to ask all ranks, which ask for the same; this rank's gradients are stored so."""
        self._entries = entries
        are_changed = [entry.is_changed() for entry in entries]
        pairs = zip(entries, are_changed, strict=True)
        self._own = [entry.name for entry, is_changed in pairs if is_changed]
        self._usage = Usage(storages, are_changed, call)
        self._is_answered = False
        self._failure: Exception | None = None
        self._changed: Exception | None = None

    def learn(self) -> Exception | None:
        """Wait; note in the entries how the ranks' gradients are stored, as often as one likes.

        Returns the error of gradients that some rank has changed on their way: all ranks exchange
        them, then raise it. Raises, also later, why there is no answer: a MismatchError says that
        some of the gradients are of parameters that other ranks do not have.
        """
        if not self._is_answered:
            self._is_answered = True
            try:
                storages, changed = self._usage.wait()
            except Exception as error:
                self._failure = error
                raise
            for entry, storage in zip(self._entries, storages, strict=True):
                entry.is_used = storage != NO_GRADIENT
                entry.storage = storage or entry.storage
            if changed:
                names = [self._entries[number].name for number in changed]
                self._changed = changed_error(names, self._own)
        if self._failure is not None:
            raise self._failure
        return self._changed


class GradientExchange(Generic[Parameter]):
    """Exchanges the gradients of named parameters, in units of one or more. One thread at a time.

    The order in which parameters get their names is the model's: the first is the most urgent.
    """

    def __init__(
        self, options: ExchangeOptions, gradients: Gradients[Parameter], names: ExchangeNames
    ) -> None:
        self.options = options
        self.names = names
        self._gradients = gradients
        self._passes_per_step = int(options.passes_per_step)
        self._entries: dict[Parameter, Entry[Parameter]] = {}
        # What the last question was about, and its call: mostly the next is the same.
        self._asked: list[Entry[Parameter]] = []
        self._call_to_ask: Call | None = None

    @property
    def is_active(self) -> bool:
        """Whether there is anybody to exchange with."""
        return has_others(self.options.process_set)

    # Which parameters there are, and what travels together.

    def add(self, parameter: Parameter, name: str) -> Entry[Parameter]:
        """Name a parameter, unless it has a name. The order of the calls is the model's."""
        entry = self._entries.get(parameter)
        if entry is None:
            entry = self._entries[parameter] = Entry(parameter, name, -len(self._entries))
            self._make_unit([entry], name)
        return entry

    def knows(self, parameter: Parameter) -> bool:
        """Return whether the parameter has a name."""
        return parameter in self._entries

    def entry(self, parameter: Parameter) -> Entry[Parameter]:
        """Return the entry of a parameter that has a name."""
        return self._entries[parameter]

    def entries(self) -> list[Entry[Parameter]]:
        """Return all entries, the most urgent first."""
        return list(self._entries.values())

    def next_name(self) -> str:
        """Return a name for a parameter that has none."""
        return f"push_pull.noname.{len(self._entries)}"

    def set_groups(
        self, groups: int | Sequence[Sequence[Parameter]], own: Collection[Parameter]
    ) -> None:
        """Make gradients travel together: a number of groups of neighbours, or lists of them.

        Parameters of different types do not share a group. `own` are those of the optimizer; others
        may have names.
        """
        if not isinstance(groups, Iterable):
            if not is_whole(groups):
                raise ValueError(
                    f"groups should be a whole number, or lists of parameters; it is {groups!r}."
                )
            if groups < 0:
                raise ValueError(f"the number of groups is {groups}; it cannot be negative.")
            is_trained = self._gradients.is_trained
            entries = [entry for p, entry in self._entries.items() if is_trained(p) and p in own]
            count = min(groups, len(entries))
            lists = [entries[len(entries) * i // count : len(entries) * (i + 1) // count]
                     for i in range(count)]  # fmt: skip
        else:
            lists = [[self._own_entry(p, own) for p in self._listed(group)] for group in groups]
            if len({id(entry) for group in lists for entry in group}) != sum(map(len, lists)):
                raise ValueError("a parameter is in two groups.")
        for parameter in own:
            self._entries[parameter].is_own = True
        number = 0
        for group in lists:
            kinds = (self._gradients.kind(entry.parameter) for entry in group)
            for places in places_by_kind(kinds).values():
                self._make_unit([group[place] for place in places], f"group.{number}")
                number += 1

    def _listed(self, group: object) -> Iterable[object]:
        """Return what is in a group; it is found to be no parameter if the group is no list."""
        is_list = isinstance(group, Iterable) and not self._gradients.is_parameter(group)
        return group if is_list else [group]  # type: ignore[return-value]

    def _own_entry(self, thing: Any, own: Collection[Parameter]) -> Entry[Parameter]:
        if not self._gradients.is_parameter(thing) or thing not in own:
            raise ValueError(
                "groups should be a number, or lists of parameters of the optimizer; there is "
                f"{type(thing).__name__} that is none."
            )
        return self._entries[thing]

    def _make_unit(self, entries: list[Entry[Parameter]], name: str) -> None:
        priority = max(entry.priority for entry in entries)
        call = gradient_call(self.options, self.names.gradient(name), priority)
        unit = Unit(entries, name, call)
        for entry in entries:
            entry.unit = unit

    # What is sent and received.

    def follow_session(self) -> bool:
        """In a new session, have names there, and know as little as ranks that are new in it.

        Returns whether it is a new session."""
        if not self.names.follow():
            return False
        self._call_to_ask = None
        for entry in self._entries.values():
            entry.storage = NO_GRADIENT
            entry.unit.call.name = self.names.gradient(entry.unit.name)
        return True

    def count(self, entry: Entry[Parameter]) -> bool:
        """Count a pass that has computed the gradient; return whether that completes its unit, of
        which all gradients have had the passes of a step."""
        if entry.passes >= self._passes_per_step:
            raise AssertionError(TOO_MANY_PASSES)
        entry.passes += 1
        unit = entry.unit
        if entry.passes < self._passes_per_step:
            return False
        unit.ready += 1
        return unit.ready == len(unit.entries)

    def send(self, unit: Unit[Parameter]) -> None:
        """Start to exchange the gradients of a unit, zeros where this rank has none."""
        self.follow_session()
        for entry in unit.entries:
            entry.own_storage = self._gradients.storage(entry.parameter)
        self._gradients.start(unit, self.names.gradient)

    def ask(self, entries: list[Entry[Parameter]]) -> Question[Parameter]:
        """Start to ask who has gradients of some parameters."""
        self.follow_session()
        if self._call_to_ask is None or self._asked != entries:
            self._asked = entries
            names = [self._told(entry) for entry in entries]
            self._call_to_ask = usage_call(self.names.owner, names, self.options.process_set)
        storages = [
            entry.own_storage or self._gradients.storage(entry.parameter) for entry in entries
        ]
        return Question(entries, self._call_to_ask, storages)

    def _told(self, entry: Entry[Parameter]) -> str:
        """Return what must be equal on all ranks: the name, and that of the group if it has one."""
        name, unit = self.names.told(entry.name), entry.unit
        return name if len(unit.entries) == 1 else f"{name} in {unit.call.name}"

    def is_unknown(self, unit: Unit[Parameter]) -> bool:
        """Return whether this rank has no gradient of something in the unit, and cannot know how
        others' are stored, or whether anybody has one, until it has asked."""
        return any(
            entry.storage == NO_GRADIENT and self._gradients.storage(entry.parameter) == NO_GRADIENT
            for entry in unit.entries
            if self._gradients.is_trained(entry.parameter)
        )

    def receive(self, unit: Unit[Parameter]) -> None:
        """Wait for what the unit has sent, also after a failure, and write the results back; raise
        the first error."""
        flights, unit.flights = unit.flights, []
        first: BytepsError | None = None
        for handle, entries in flights:
            try:
                result = default.pending().synchronize(handle)
            except BytepsError as error:
                first = first or error
                continue
            for entry in entries:
                self._gradients.write_back(entry, result)
        if first is not None:
            raise first

    def forget(self, unit: Unit[Parameter]) -> None:
        """Do not wait for what the unit has sent: other ranks may never send theirs."""
        flights, unit.flights = unit.flights, []
        for handle, _ in flights:
            default.pending().abandon(handle)
