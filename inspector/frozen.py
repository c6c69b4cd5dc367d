"""Frozen dataclasses, whose `__init__` is written when the first object is made.

The standard library writes six methods of each frozen class and compiles them while its module is imported: a
quarter of the time until the first screen, where more than half of the classes make no object. What is made
here is a dataclass all the same (`fields`, `replace`, `asdict`, `match`); comparing, hashing and repr are
shared functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from functools import cache
    from operator import attrgetter

    _make = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)

    def dataclass(cls=None, /, **options):
        """The decorator; a class with other options is the standard library's."""
        if cls is None and options == {"frozen": True, "slots": True}:
            return _frozen
        return dataclasses.dataclass(cls, **options)

    def _frozen(cls):
        own = cls.__dict__
        shared = {name: method for name, method in _SHARED.items() if not own.get(name)}
        if not cls.__doc__:
            # The standard library would put the signature, which takes as long as all the rest.
            cls.__doc__ = cls.__name__
        cls = _make(cls)
        for name, method in shared.items():
            setattr(cls, name, method)

        def __init__(self, *values, **named):
            cls.__init__ = _written(cls)
            cls.__init__(self, *values, **named)

        cls.__init__ = __init__
        return cls

    def _written(cls):
        """`__init__` of the class: as the standard library's, but it sets through the slots."""
        names, parameters, lines = {"missing": dataclasses.MISSING}, ["self"], []
        for field in dataclasses.fields(cls):
            name, default, value = field.name, f"default_{field.name}", field.name
            names[f"set_{name}"] = getattr(cls, name).__set__
            if field.default_factory is not dataclasses.MISSING:
                names[default] = field.default_factory
                value = f"{default}() if {name} is missing else {name}" if field.init else f"{default}()"
                parameters += [f"{name}=missing"] if field.init else []
            elif field.default is not dataclasses.MISSING:
                names[default] = field.default
                value = name if field.init else default
                parameters += [f"{name}={default}"] if field.init else []
            elif field.init:
                parameters.append(name)
            else:
                continue
            lines.append(f" set_{name}(self, {value})")
        if hasattr(cls, "__post_init__"):
            lines.append(" self.__post_init__()")
        exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines or [" pass"]), names)
        return names["__init__"]

    @cache
    def _compared(cls):
        """From an object to its values that are compared."""
        names = [field.name for field in dataclasses.fields(cls) if field.compare]
        return attrgetter(*names) if names else lambda _: ()

    def _equal(self, other):
        if other.__class__ is not self.__class__:
            return NotImplemented
        values = _compared(self.__class__)
        return values(self) == values(other)

    def _hash(self):
        return hash(_compared(self.__class__)(self))

    def _repr(self):
        shown = (field.name for field in dataclasses.fields(self) if field.repr)
        return (
            f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"
        )

    def _refuse_to_set(self, name, value):
        raise dataclasses.FrozenInstanceError(f"cannot assign {value!r} to field {name!r} of {self!r}")

    def _refuse_to_delete(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r} of {self!r}")

    def _restore(self, state):
        """What pickle and copy have kept of an object with slots: a pair whose second is name to value."""
        for name, value in state[1].items():
            object.__setattr__(self, name, value)

    _SHARED = {
        "__eq__": _equal,
        "__hash__": _hash,
        "__repr__": _repr,
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
        "__setstate__": _restore,
    }
