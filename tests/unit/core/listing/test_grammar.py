"""Reading list queries: what is a query, and where one that is none goes wrong."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.core.errors import InvalidArgument
from perdure.core.listing.columns import Cell, Column
from perdure.core.listing.condition import EVERYTHING, All, Compare, HasValue, Not, Some
from perdure.core.listing.grammar import DEPTH_MAX, TERMS_MAX, parse
from perdure.core.listing.lexer import QUERY_CHARS_MAX

TYPE = Column("type", "text")


def is_(value: str) -> Compare:
    return Compare(TYPE, "=", (Cell("text", value),))


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ("", EVERYTHING),
        (" \n\t", EVERYTHING),
        ("type = 'a'", is_("a")),
        ("type='it''s'", is_("it's")),
        ("type = ''", is_("")),
        ("type != 'a'", All((HasValue(TYPE), Not(is_("a"))))),
        ("type <> 'a'", All((HasValue(TYPE), Not(is_("a"))))),
        ("type is null", Not(HasValue(TYPE))),
        ("type IS NOT NULL", HasValue(TYPE)),
        ("type in ('a', 'b')", Some((is_("a"), is_("b")))),
        ("type not in ('a')", All((HasValue(TYPE), Not(is_("a"))))),
        ("type = 'a' or type = 'b' and not type = 'c'", Some((is_("a"), All((is_("b"), Not(is_("c"))))))),
        ("(type = 'a' OR type = 'b') AND type = 'c'", All((Some((is_("a"), is_("b"))), is_("c")))),
        ("length >= -3", Compare(Column("length", "number"), ">=", (Cell("number", -3),))),
        ("attr.vip = True", Compare(Column("vip"), "=", (Cell("flag", True),))),
        ("attr.or = 1.5e3", Compare(Column("or"), "=", (Cell("number", 1500.0),))),
        ('attr."a ""b""" starts_with \'x\'', Compare(Column('a "b"'), "starts_with", (Cell("text", "x"), Cell("list", "x")))),
        ("closed_at < '1970-01-01T01:00:00+01:00'", Compare(Column("closed_at", "time"), "<", (Cell("time", 0),))),
        ("attr.x = '1970-01-02'", Compare(Column("x"), "=", (Cell("text", "1970-01-02"), Cell("list", "1970-01-02"), Cell("time", 86_400_000_000)))),
        ("attr.x > '1970-01-02'", Compare(Column("x"), ">", (Cell("text", "1970-01-02"), Cell("time", 86_400_000_000)))),
    ],
)  # fmt: skip
def test_what_queries_mean(query: str, condition: object) -> None:
    """Each form of the grammar, with what binds closer than what."""
    assert parse(query) == condition


@pytest.mark.parametrize(
    ("query", "column", "words"),
    [
        ("type", 5, "there should be a comparison"),
        ("type =", 7, "there should be a value, not the end"),
        ("type = running", 8, "text stands in single quotes: 'running'"),
        ('type = "a"', 8, "single quotes"),
        ("type = 'a", 8, "the ' is not closed"),
        ("type = 'a' type", 12, "'and', 'or' or the end"),
        ("(type = 'a'", 12, "')'"),
        ("colour = 'a'", 1, "there is no column 'colour'"),
        ("and type = 'a'", 1, "there should be a column"),
        ("status = 'runing'", 10, "there is no status 'runing'"),
        ("started_at > 'soon'", 14, "no date or time"),
        ("started_at > 5", 14, "a time as text"),
        ("length = '5'", 10, "a number"),
        ("length starts_with 'a'", 20, "only text"),
        ("attr.a starts_with 5", 20, "only text"),
        ("attr.a < true", 10, "only be compared with"),
        ("attr. = 1", 6, "must not be empty"),
        ("attr.a = 9223372036854775808", 10, "too large"),
        ("attr.a = 1e400", 10, "too large"),
        ("attr.a = 1.2.3", 10, "no number"),
        ("type = 'a' ; drop table runs", 12, "';' means nothing"),
        ("type in ()", 10, "a value"),
        ("type is 'a'", 9, "'null'"),
        ("type = 'a\x00'", 10, "no text"),
        ("\ud800", 1, "no text"),
    ],
)
def test_where_a_query_goes_wrong(query: str, column: int, words: str) -> None:
    """The error names the column, counted from 1, and what should be there."""
    with pytest.raises(InvalidArgument) as refused:
        parse(query)
    assert (refused.value.column, refused.value.message.startswith("the query cannot be read at column")) == (column, True)
    assert words in refused.value.message


def test_bounds_hold_at_their_edges() -> None:
    """Length, comparisons and nesting have bounds; at the bound a query is read, past it refused."""
    parse("type = '" + "x" * (QUERY_CHARS_MAX - 9) + "'")
    numbers = ",".join(["1"] * TERMS_MAX)
    parse(f"attr.n in ({numbers})")
    parse("(" * DEPTH_MAX + "type = 'a'" + ")" * DEPTH_MAX)
    parse("not " * DEPTH_MAX + "type = 'a'")
    parse(" and ".join(["(type = 'a')"] * TERMS_MAX))
    for query in (
        "type = '" + "x" * (QUERY_CHARS_MAX - 8) + "'",
        f"attr.n in ({numbers},1)",
        "(" * (DEPTH_MAX + 1) + "type = 'a'" + ")" * (DEPTH_MAX + 1),
        "not " * (DEPTH_MAX + 1) + "type = 'a'",
        "(" * 5_000,
    ):
        with pytest.raises(InvalidArgument) as refused:
            parse(query)
        assert refused.value.column > 0


PIECES = ["type", "attr.x", 'attr."y z"', "'a'", "5", "-1.5", "true", "=", "!=", "<", "in", "(", ")", ",", "and", "or", "not"]
PIECES += ["is", "null", "starts_with", "started_at", "'2026-01-01'", "status", "'running'", "attr.", '"', "'", "é", "²", "_"]


@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join)))
@example("attr.x=²")
@example("attr.x = 1" * 900)
def test_no_text_does_worse_than_be_refused(query: str) -> None:
    """Whatever is given for a query, it is read or refused with a column within it."""
    column = 1
    try:
        parse(query)
    except InvalidArgument as refused:
        column = refused.column
    assert 1 <= column <= len(query) + 1
