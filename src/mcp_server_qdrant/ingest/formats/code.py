"""Source code: finds classes and functions in most languages by their keywords."""

import ast
import json
import re
import warnings

from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, Mark, name_of, readable

NAMES = (
    "*.py *.pyi *.js *.mjs *.cjs *.jsx *.ts *.tsx *.java *.kt *.kts *.scala *.groovy *.c *.h *.cc "
    "*.cpp *.cxx *.hpp *.hh *.cs *.go *.rs *.swift *.m *.mm *.rb *.php *.pl *.pm *.lua *.r *.jl "
    "*.dart *.ex *.exs *.erl *.hs *.ml *.fs *.clj *.elm *.zig *.nim *.v *.sh *.bash *.zsh *.fish "
    "*.ps1 *.sql *.css *.scss *.less *.vue *.svelte *.proto *.graphql *.tf *.gradle *.cmake "
    "*.yaml *.yml *.toml *.ini *.cfg *.json *.xml"
)

# Keywords before a name in Python, JavaScript, Go, Rust, Java, Kotlin, Swift, C#, Ruby, PHP, Scala,
# Elixir and SQL. Functions without a keyword, as in Java and C, are not found.
DEFINITION = re.compile(
    r"^(?P<indent>[ \t]*)"
    r"(?:(?:export|default|public|private|protected|internal|static|abstract|final|open|async|pub"
    r"(?:\([a-z]+\))?|unsafe|override|data|sealed|partial|virtual|local)[ \t]+)*"
    r"(?:class|def|defp|defmodule|function\*?|func|fun|fn|interface|struct|enum|trait|impl|module"
    r"|namespace|object|protocol|extension|record|CREATE[ \t]+(?:TABLE|VIEW|FUNCTION))[ \t]+"
    r"(?:\([^)\n]*\)[ \t]*)?(?P<name>[\w$.:<>]+)",
    re.MULTILINE,
)
END = re.compile(r"^(?P<indent>[ \t]*)(?:\}[;,)]*|end)[ \t]*\r?$", re.MULTILINE)
LINE_END = re.compile(r"\r\n|\r|\n")
# In JSON. They hide words: `stra\u00dfe`, or `pier` in `rope\npier`.
ESCAPES = re.compile(r'(?:\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt]))+')
COMMENT = re.compile(r"[ \t]*#")
HOLDERS = (ast.stmt, ast.excepthandler, ast.match_case)  # nodes that may contain definitions
TAB = "    "


def read(path: str, text: str) -> Contents:
    """The text with its definitions as marks; in JSON the escapes of strings are resolved."""
    if path.lower().endswith(".json"):
        text = ESCAPES.sub(lambda found: readable(json.loads(f'"{found[0]}"')), text)
    found = _python(text) if path.endswith((".py", ".pyi")) else None
    return Contents(
        [Loaded(text, name_of(path), marks=find_marks(text) if found is None else found)]
    )


def find_marks(text: str) -> tuple[Mark, ...]:
    """The definitions in order, with the indentation as level.

    A definition ends at a closing brace or `end` on a line of its own that is not indented deeper.
    """
    begins = [(one.start(), one["indent"], one["name"]) for one in DEFINITION.finditer(text)]
    ends = [(one.end(), one["indent"], "") for one in END.finditer(text)] if begins else []
    return tuple(
        Mark(place, len(indent.replace("\t", TAB)) + 1, name.rstrip(":"))
        for place, indent, name in sorted([*begins, *ends], key=lambda one: one[0])
    )


def _python(text: str) -> tuple[Mark, ...] | None:
    """The definitions and their ends by Python's parser; None if it fails."""
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    places = [0, *(end.end() for end in LINE_END.finditer(text)), len(text)]
    found: list[Mark] = []
    waiting: list[tuple[ast.AST, int]] = [(tree, 1)]
    while waiting:
        node, level = waiting.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            line = min(one.lineno for one in (node, *node.decorator_list)) - 1
            while line and COMMENT.match(text, places[line - 1]):
                line -= 1
            found.append(Mark(places[line], level, node.name))
            found.append(Mark(places[node.end_lineno or line], level, ""))
            level += 1
        waiting += [(one, level) for one in ast.iter_child_nodes(node) if isinstance(one, HOLDERS)]
    return tuple(sorted(found, key=lambda mark: (mark.start, mark.name != "", mark.level)))
