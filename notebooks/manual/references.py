"""References of docstrings to what has no place in the manual: text, if the thing exists."""

import inspect
import re
from importlib import import_module
from typing import Any

from docutils import nodes


def plain_where_it_exists(app: Any, env: Any, node: Any, text: nodes.Node) -> nodes.Node | None:
    """The text alone, or None, which is a warning: nothing of this name is in the package.

    Types in front of a colon ("dict", "ndarray of int, shape (k,)") are prose and stay text.
    """
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    if node["reftype"] in ("class", "obj", "exc") and not target.startswith("dald_model."):
        return text
    return text if any(exists(f"{scope}{target}") for scope in scopes(node)) else None


def scopes(node: Any) -> list[str]:
    """Where a name may be meant from: nowhere, the room, the module or the class it stands in."""
    modules = ["dald_model", "dald_model.solvers", node.get("py:module") or "dald_model"]
    written = re.search(r"(\w+(?:/\w+)*)\.py:docstring", str(node.source or ""))
    if written:
        parts = written[1].split("/")
        rooms = [at for at, part in enumerate(parts) if part in ("dald_model", "solvers", "models")]
        inside = ".".join(parts[min(rooms) :]) if rooms else ""
        modules.append(inside if inside.startswith("dald_model") else f"dald_model.{inside}")
        modules.append(modules[-1].rpartition(".")[0])
    owner = node.get("py:class")
    inner = [f"{module}.{owner}" for module in modules] if owner else []
    return ["", *(f"{one}." for one in [*modules, *inner])]


def exists(name: str) -> bool:
    """Whether a dotted name is a module, something in one, or an attribute that a class sets."""
    parts = name.split(".")
    for at in range(len(parts), 0, -1):
        try:
            thing: Any = import_module(".".join(parts[:at]))
        except (ImportError, ValueError):
            continue
        for part in parts[at:]:
            if not hasattr(thing, part):
                return inspect.isclass(thing) and sets(thing, part)
            thing = getattr(thing, part)
        return True
    return False


def sets(owner: type, name: str) -> bool:
    """Whether a class or one that it inherits from annotates or assigns an attribute."""
    own = [one for one in owner.__mro__ if one.__module__.startswith("dald_model")]
    return any(re.search(rf"\b(self\.)?{name}\b\s*[:=,]", inspect.getsource(one)) for one in own)
