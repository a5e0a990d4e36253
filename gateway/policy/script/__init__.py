"""Scripts of policies: conditions and `${{…}}` in our own small expression language, parsed once.

There is no interpreter behind it, only the closures that `program` makes; docs/conditions.md has the
grammar. Where JavaScript would raise an error, or something is asked that is not known, the answer is None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from gateway.policy.facts import Facts
from gateway.policy.script.names import BARE, CALLED, VARIABLES, Getter, ScriptScope
from gateway.policy.script.parser import CONSTANTS, GLOBALS, Parser
from gateway.policy.script.tokens import Untranslatable
from gateway.policy.script.values import UNDEFINED, Indeterminate, ScriptValue, truthy

__all__ = ["Indeterminate", "PolicyScript", "ScriptValue", "Untranslatable", "parse"]


@dataclass(frozen=True, slots=True)
class PolicyScript:
    """A parsed script."""

    context_dependencies: frozenset[str]
    """Fields of the AccessContext that it reads."""
    _run: Callable[[ScriptScope], ScriptValue] = field(repr=False)

    def value(self, facts: Facts) -> ScriptValue:
        """Return the value of the script; raise CannotTell, and nothing else."""
        return self._run(ScriptScope(facts))

    def holds(self, facts: Facts) -> bool | None:
        """Return the script as a condition: None when it has no answer.

        As in Ranger a boolean is the answer; anything else leaves it to what was assigned to `ctx.result`,
        and without an assignment the condition does not hold.
        """
        scope = ScriptScope(facts)
        try:
            value = self._run(scope)
        except Indeterminate:
            return None  # RULE (failing-script)
        return value if isinstance(value, bool) else scope.result


@lru_cache(maxsize=4096)
def parse(text: str) -> PolicyScript:
    """Parse a script; raise Untranslatable for what is not of our language."""
    parser = Program(text)
    run = parser.program()
    return PolicyScript(frozenset(parser.context_dependencies), run)


# Statements of the language: expressions, `if`, variables, and assignments to `result` and `ctx.result`.


_TAKEN = frozenset({*VARIABLES, *CALLED, *BARE, *CONSTANTS, *GLOBALS, "REQ", "ctx", "if", "else"})


class Program(Parser):
    """Reads one whole script."""

    def program(self) -> Getter:
        """Read the whole script; its value is that of its last statement that has one."""
        if self._peek().kind == "end":
            raise Untranslatable("a script is empty")
        statements = []
        while self._peek().kind != "end":
            statements.append(self._statement())
        return _sequence(statements)

    def _statement(self) -> Getter:
        if self._take(";"):
            return lambda _: UNDEFINED
        if self._take("{"):
            self._go_deeper()
            inner = []
            while not self._take("}"):
                if self._peek().kind == "end":
                    raise self._build_refusal("stands where `}` is expected")
                inner.append(self._statement())
            self._depth -= 1
            return _sequence(inner)
        if self._is_name("if") and self._is("(", 1):
            return self._if()
        if any(self._is_name(word) for word in ("var", "let", "const")):
            return self._declaration()
        run = self._assignment() if self._assigns() else self.expression().run
        if not self._take(";") and self._peek().kind != "end" and not self._is("}"):
            raise self._build_refusal("does not belong to the expression before it")
        return run

    def _if(self) -> Getter:
        self._go_deeper()
        self._at += 2
        condition = self.expression().run
        self._expect(")")
        then = self._statement()
        otherwise: Getter | None = None
        if self._is_name("else"):
            self._at += 1
            otherwise = self._statement()
        self._depth -= 1

        def run(scope: ScriptScope) -> ScriptValue:
            if truthy(condition(scope)):
                return then(scope)
            return otherwise(scope) if otherwise is not None else UNDEFINED

        return run

    def _declaration(self) -> Getter:
        self._at += 1
        token = self._next()
        if token.kind != "name" or token.text in _TAKEN:
            self._at -= 1
            raise self._build_refusal("cannot be a variable")
        self._expect("=")
        value = self.expression().run
        self._variables.add(token.text)
        if not self._take(";") and self._peek().kind != "end":
            raise self._build_refusal("does not belong to the declaration before it")

        def run(scope: ScriptScope) -> ScriptValue:
            scope.variables[token.text] = value(scope)
            return UNDEFINED

        return run

    def _assigns(self) -> bool:
        token = self._peek()
        if token.kind != "name":
            return False
        if token.text == "ctx":
            return self._is(".", 1) and self._peek(2).text == "result" and self._is("=", 3)
        return self._is("=", 1)

    def _assignment(self) -> Getter:
        name = self._peek().text
        if name != "ctx" and name not in self._variables:
            raise self._build_refusal("assigns to what is not a variable of this script")
        self._at += 4 if name == "ctx" else 2
        value = self.expression().run

        def run(scope: ScriptScope) -> ScriptValue:
            made = value(scope)
            if name == "ctx":
                scope.result = truthy(made)
            else:
                scope.variables[name] = made
            return made

        return run


def _sequence(statements: list[Getter]) -> Getter:
    def run(scope: ScriptScope) -> ScriptValue:
        value: ScriptValue = UNDEFINED
        for statement in statements:
            made = statement(scope)
            value = value if made is UNDEFINED else made
        return value

    return run
