"""What an index was told and has not written yet, by workflow id: what came lately, and what is being written just now."""

from collections.abc import Mapping
from typing import Final

from perdure.store.index.item import Item, Key

_NONE: Final[Mapping[Key, list[Item]]] = {}


class Tail:
    """`told` and `written` count items from the beginning."""

    def __init__(self) -> None:
        self.young: dict[Key, list[Item]] = {}
        self.old: Mapping[Key, list[Item]] = _NONE
        self.told = 0
        self.written = 0
        self._taken = 0

    def __contains__(self, key: Key) -> bool:
        return key in self.young or key in self.old

    @property
    def size(self) -> int:
        """Items told and not written."""
        return self.told - self.written

    def tell(self, key: Key, item: Item) -> None:
        items = self.young.get(key)
        if items is None:
            self.young[key] = [item]
        else:
            items.append(item)
        self.told += 1

    def take(self) -> Mapping[Key, list[Item]]:
        """Everything told so far, to be written; it stays here until it is `done`."""
        self.old, self.young, self._taken = self.young, {}, self.told
        return self.old

    def done(self) -> None:
        """What was taken is written."""
        self.old, self.written = _NONE, self._taken

    def items(self, key: Key, *, with_old: bool) -> list[Item]:
        """What was told of a workflow id, in order; of what is being written only if it is wanted."""
        young = self.young.get(key, [])
        return [*self.old.get(key, ()), *young] if with_old else young
