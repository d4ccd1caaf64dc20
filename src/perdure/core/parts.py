"""A report that is too long for one message, in parts: how its steps are spread over messages, and become one list again. Pure."""

from perdure.core.requests import Commands, Step


def split(steps: tuple[Step, ...], commands_max: int) -> list[tuple[Step, ...]]:
    """Steps in order, in messages of at most `commands_max` commands; a step of commands may be spread over several."""
    assert commands_max > 0
    messages: list[tuple[Step, ...]] = []
    message: list[Step] = []
    room = commands_max
    for step in steps:
        if not isinstance(step, Commands):
            message.append(step)
            continue
        rest = step.commands
        while len(rest) > room:
            message.append(Commands(commands=rest[:room]))
            messages.append(tuple(message))
            message, rest, room = [], rest[room:], commands_max
        message.append(Commands(commands=rest))
        room -= len(rest)
    return [*messages, tuple(message)]


def append(steps: list[Step], more: tuple[Step, ...]) -> None:
    """Put `more` behind `steps`. Two steps of commands in a row are one that was spread over two messages."""
    for step in more:
        last = steps[-1] if steps else None
        if isinstance(step, Commands) and isinstance(last, Commands):
            steps[-1] = Commands(commands=last.commands + step.commands)
        else:
            steps.append(step)


def count_commands(steps: tuple[Step, ...]) -> int:
    """How many commands the steps hold."""
    return sum(len(step.commands) for step in steps if isinstance(step, Commands))
