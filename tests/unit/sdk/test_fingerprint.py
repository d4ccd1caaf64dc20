"""Fingerprints of code: equal wherever the same code runs, different when what it does was changed."""

import os
import subprocess
import sys
import textwrap

import pytest

from perdure.sdk.fingerprint import Fingerprint

BASE = '''
import asyncio
import helper

RATE = 3

def tax(cents):
    return cents * 2

class Basket:
    size = 3
    def total(self):
        return 1
    @property
    def half(self):
        return 2
    @staticmethod
    def check():
        return 3

def decorate(fn):
    import functools
    @functools.wraps(fn)
    async def wrapper(*args):
        return await fn(*args)
    return wrapper

def unused():
    return 1

@decorate
async def fulfil(order, rate=0.5, *, flags=("a", "b")):
    """Fulfil an order."""
    if order in {"x", "y", "z", "w", "v"}:
        return tax(1)
    basket = Basket()
    await asyncio.sleep(1)
    return [helper.shipping(line) for line in order], (lambda: basket.total())
'''

HELPER = """
def shipping(line):
    return 7

def elsewhere():
    return 8
"""


def digest(tmp_path, source=BASE, helper=HELPER, seed="0"):
    """In a process of its own, as the module `shop.code` that imports `shop.helper`."""
    folder = tmp_path / "shop"
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").write_text("")
    (folder / "code.py").write_text(source.replace("import helper", "from shop import helper"))
    (folder / "helper.py").write_text(helper)
    script = """
        from perdure.sdk.fingerprint import Fingerprint
        from shop.code import fulfil
        fingerprint = Fingerprint()
        fingerprint.code_of(fulfil)
        print(fingerprint.digest())
    """
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_fingerprint_is_stable(tmp_path):
    """Over processes, hash seeds and places on disk; comments, formatting and what the code does not use change nothing."""
    first = digest(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert len(first) == 16
    assert digest(tmp_path, seed="1") == digest(elsewhere, seed="99") == first
    moved = "# a comment\n\n\n" + BASE.replace("    return cents * 2", "    # why\n    return (cents * 2)")
    assert digest(tmp_path, moved) == first
    assert digest(tmp_path, BASE.replace("def unused():\n    return 1", "def unused():\n    return 2")) == first
    assert digest(tmp_path, helper=HELPER.replace("8", "9")) == first


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sleep(1)", "sleep(2)"),
        ("size = 3", "size = 4"),
        ("sleep(1)", "sleep(1.0)"),
        ("rate=0.5", "rate=0.6"),
        ('flags=("a", "b")', 'flags=("a", "c")'),
        ('"v"}', '"u"}'),
        ("tax(1)", "tax(True)"),
        ("cents * 2", "cents * 3"),
        ("        return 1\n", "        return 10\n"),
        ("        return 2\n", "        return 20\n"),
        ("        return 3\n", "        return 30\n"),
        ("lambda: basket.total()", "lambda: basket.half"),
        ("return await fn(*args)", "return await fn(*args[1:])"),
        ("asyncio.sleep", "asyncio.snooze"),
    ],
)
def test_a_change_of_meaning_changes_it(tmp_path, old, new):
    """In the function, in what is nested in it or around it, in its defaults, and in what it uses of its own package."""
    assert old in BASE
    assert digest(tmp_path, BASE.replace(old, new)) != digest(tmp_path)


def test_a_change_in_a_module_it_uses_changes_it(tmp_path):
    """A mended helper elsewhere in the package is a new build."""
    assert digest(tmp_path, helper=HELPER.replace("7", "6")) != digest(tmp_path)


def test_methods_take_their_class_along():
    """What a bound method may call on itself is part of it; a class that names itself comes to an end."""

    def build(number):
        class Payments:
            async def charge(self):
                return self.rate(), Payments

            def rate(self):
                return number()

            if number is one:
                rate.__defaults__ = (1,)

        return Payments()

    def one(): ...
    def two(): ...

    digests = []
    for number in (one, one, two):
        fingerprint = Fingerprint()
        fingerprint.code_of(build(number).charge)
        digests.append(fingerprint.digest())
    assert digests[0] == digests[1] != digests[2]


def test_words_do_not_run_together():
    """Two names are not one longer name."""
    one, other = Fingerprint(), Fingerprint()
    one.text("ab", "c")
    other.text("a", "bc")
    assert one.digest() != other.digest()


def test_values_without_code_are_harmless():
    """Anything may be asked for; what has no code adds nothing."""
    fingerprint, empty = Fingerprint(), Fingerprint()
    for thing in (3, None, "text", print, len):
        fingerprint.code_of(thing)
    assert fingerprint.digest() == empty.digest()
