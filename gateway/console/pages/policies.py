"""Policies by resource, user, tag and zone; one with its cases, history and last use; who may do what.

Administrators and auditors see all; somebody else those on what they administer by delegation, whole, and
those that name them, cut to what these say of them.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from gateway.admin.requests import BadRequest, NotFound
from gateway.console.pages.policy_sight import PolicySight
from gateway.console.routes import (
    ConsolePage,
    ConsolePart,
    ConsoleRoute,
    PagedParameters,
    Viewer,
    decode_cursor,
    encode_cursor,
    parameter,
)
from gateway.database.policy_use import PolicyUse
from gateway.model.catalog import quote, split_name
from gateway.model.context import AccessContext
from gateway.model.policy import Policy, PolicySet, PolicyType
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.policy.describing import (
    DescribedPolicy,
    PolicyLabel,
    describe_on_one_line,
    describe_policy,
    kind_of_policy,
    label_of,
)
from gateway.policy.directory import (
    PolicyCriteria,
    PolicyDirectory,
    PolicyKey,
    TreeNode,
    TreePath,
    directory_for,
    key_of_policy,
    principals_named,
)
from gateway.policy.engine import engine_for
from gateway.policy.matching import fold
from gateway.policy.matrix import MatrixRow, build_matrix
from gateway.policy.resource_names import NotAResource, resource_of_service, service_of

_TYPES = {"": None, "access": PolicyType.ACCESS, "mask": PolicyType.MASK, "filter": PolicyType.ROW_FILTER}
_NO_POLICY = "there is no such policy, or it is not for you"
UNZONED = "(none)"
MAX_CHILDREN = 100
MAX_JUDGED = 500
"""Policies of which one page asks whether the viewer may see them."""
_OF_DATABASE = 5
"""Length of the path of a database that lies in a catalog."""
MAX_ROWS = 30
MAX_MATRIX_COLUMNS = 20
_MAX_MATRIX_POLICIES = 500
"""Policies at and below a resource whose people become rows."""
_NOT_OF_RECORD = "It shows what policies say, and nothing of the record."
_OWN = (
    "Administrators and auditors see all; others what they administer by delegation, and of what names them "
    "what it says of them."
)
WhoKind = Literal["", "user", "group", "role"]
TypeName = Literal["", "access", "mask", "filter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyListQuestion(PagedParameters):
    q: str = parameter("A part of the name or the description.", "", most=200)
    service: str = parameter("Of this service.", "")
    zone: str = parameter("Of this security zone; `(none)`: of none.", "")
    type: TypeName = parameter("Of this type: access, mask or filter.", "")
    who: WhoKind = parameter("That name a user, a group or a role.", "")
    name: str = parameter("The name of that user, group or role.", "")
    tag: str = parameter("On this tag.", "")
    under: tuple[str, ...] = parameter(
        "At or below a resource of the tree: service, then level, value, level, value, ….", ()
    )
    about: str = parameter(
        "That speak of this resource, such as `sales.customer`, by wildcard and tag too.", ""
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPolicy:
    """One policy of a list."""

    policy: PolicyLabel
    kind: str
    enabled: bool
    on: str
    """Its resources on one line, cut."""
    tag: str
    """By which tag it speaks of the resource that was asked about."""
    last_used: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeChild:
    """A resource right below the one that is looked at."""

    path: tuple[str, ...]
    level: str
    value: str
    policies: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyList:
    items: tuple[ListedPolicy, ...]
    next: str
    use_noted_since: datetime | None
    """Since when use is noted: what has no last use was not used since."""
    services: tuple[str, ...]
    zones: tuple[str, ...]
    path: tuple[str, ...]
    children: tuple[TreeChild, ...]
    """Resources right below; of the tree for who sees all policies alone."""
    next_child: str
    sees_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeQuestion:
    under: tuple[str, ...] = parameter("A place of the tree: service, then level, value, ….", ())
    after: str = parameter("`next_child` of the page before.", "", most=2_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTree:
    path: tuple[str, ...]
    children: tuple[TreeChild, ...]
    next_child: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyKeyQuestion:
    service: str = parameter("The policy's service.")
    name: str = parameter("The policy's name.")
    zone: str = parameter("The policy's security zone; empty: none.", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCaseResult:
    """A case that a policy settles, or that expects it."""

    place: str
    written: str
    failures: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """One change of a policy."""

    time: datetime
    who: str
    action: str
    version: int
    difference: str
    """Unified; empty for the first that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySource:
    """Where a policy is written, and so where it is changed."""

    kind: Literal["pack", "api", "ranger", "file", "gateway"]
    where: str
    editable: bool
    """Whether it can be changed here."""
    change_at: str
    """Where to change it, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPolicy:
    policy: DescribedPolicy
    whole: bool
    """Whether the viewer sees all of it."""
    source: PolicySource
    last_used: datetime | None
    use_noted_since: datetime | None
    cases: tuple[PolicyCaseResult, ...]
    history: tuple[PolicyChange, ...]
    history_note: str
    editable_text: str
    """In Ranger's JSON, where the viewer may change it here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixQuestion:
    under: tuple[str, ...] = parameter("A place of the tree: service, then level, value, ….", ())
    access: str = parameter("The access type.", "select", most=100)
    after: str = parameter("`next` of the page before.", "", most=2_000)
    first: str = parameter("Of the resources those behind this one.", "", most=2_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessMatrix:
    path: tuple[str, ...]
    access: str
    accesses: tuple[str, ...]
    resources: tuple[TreeChild, ...]
    rows: tuple[MatrixRow, ...]
    next: str
    next_resource: str
    cut: bool
    """Whether there are more policies than people were taken from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDetails:
    """What is known of a policy beside itself."""

    source: PolicySource
    cases: tuple[PolicyCaseResult, ...] = ()
    history: tuple[PolicyChange, ...] = ()
    history_note: str = ""
    editable_text: str = ""


LoadUse = Callable[[Sequence[str]], Awaitable[PolicyUse]]
LoadDetails = Callable[[Viewer, Policy, bool], Awaitable[PolicyDetails]]
"""Viewer, policy and whether they see all of it → what is known of it."""


class PolicyPages:
    """Answers what policies there are and what they say."""

    def __init__(
        self,
        policies: Callable[[], PolicySet],
        load_use: LoadUse,
        load_details: LoadDetails,
        *,
        principals: Callable[[], Mapping[str, Principal]] = dict,
        first_catalog: str = "spark_catalog",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._policies = policies
        self._load_use = load_use
        self._load_details = load_details
        self._principals = principals
        self._first_catalog = first_catalog
        self._now = now
        self._last: PolicySet | None = None
        self._making = asyncio.Lock()

    async def _directory(self) -> tuple[PolicySet, PolicyDirectory]:
        """Return the policies in force with their directory, made in a thread where they are new."""
        async with self._making:
            policies = self._policies()
            directory = await asyncio.to_thread(directory_for, policies, self._last)
            self._last = policies
        return policies, directory

    # -- lists -----------------------------------------------------------------------------------------------

    async def list_policies(self, viewer: Viewer, asked: PolicyListQuestion) -> PolicyList:
        policies, directory = await self._directory()
        sight = PolicySight(viewer, policies, self._context(viewer))
        tags: dict[PolicyKey, str] = {}
        following = ""
        if asked.about:
            # As many policies as a catalog has are looked at; statements do not wait meanwhile.
            found = await asyncio.to_thread(self._find_about, policies, directory, asked.about, sight, tags)
        else:
            within, after = sight.list_within(directory), None
            if within is None:
                after = decode_cursor(asked.after, str, str, str) if asked.after else None
            elif asked.after:
                places = decode_cursor(asked.after, *[int] * len(within))
                within = [keys[max(0, place) :] for keys, place in zip(within, places, strict=True)]
            others = asked.who and not sight.is_own(asked.who, asked.name)
            # Whom else a policy names is told nobody who sees a part of it.
            may_see = sight.sees_whole if others else sight.may_list  # RULE (console-who-oracle)
            page = directory.find_page(
                _criteria(asked),
                after=after,
                limit=max(1, asked.limit),
                within=within,
                may_see=may_see,
                most=None if sight.sees_all else MAX_JUDGED,
            )
            found = list(page.policies)
            following = "" if page.after is None else _cursor(page.after, sight.list_within(directory))
        use = await self._load_use([policy.name for policy in found])
        path = tuple(asked.under)
        children: tuple[TreeNode, ...] = ()
        if sight.sees_all and not asked.about:
            children = directory.list_children(path, limit=MAX_CHILDREN + 1)
        return PolicyList(
            items=tuple(
                ListedPolicy(
                    policy=label_of(policy),
                    kind=kind_of_policy(policy),
                    enabled=policy.enabled,
                    on=describe_on_one_line(policy, directory.list_levels(policy.service)),
                    tag=tags.get(key_of_policy(policy), ""),
                    last_used=use.last.get(policy.name),
                )
                for policy in found
            ),
            next=following,
            use_noted_since=use.since,
            services=tuple(directory.list_names("service")),
            zones=tuple(directory.list_names("zone")) if sight.sees_all else (),
            path=path,
            children=_children(children[:MAX_CHILDREN]),
            next_child=_next_child(children),
            sees_all=sight.sees_all,
        )

    def _find_about(
        self,
        policies: PolicySet,
        directory: PolicyDirectory,
        about: str,
        sight: PolicySight,
        tags: dict[PolicyKey, str],
    ) -> list[Policy]:
        first = split_name(about.strip())[:1]
        if first and fold(first[0]) not in map(fold, policies.catalog_services) and ":" not in about:
            about = f"{quote(self._first_catalog)}.{about.strip()}"
        try:
            service = policies.services[service_of(about, policies)]
            catalogs = [c for c, name in policies.catalog_services.items() if name == service.name]
            resource = resource_of_service(about, service.definition, catalogs)
        except NotAResource as error:
            raise BadRequest(str(error)) from None
        within = sight.list_within(directory)
        theirs = None if within is None else set().union(*within)
        found: dict[PolicyKey, Policy] = {}
        judged = 0
        for policy, tag in engine_for(policies).policies_on(
            resource, self._context(sight.viewer), within=True
        ):
            key = key_of_policy(policy)
            if theirs is not None and key not in theirs:
                continue
            if len(found) >= MAX_CHILDREN or (judged >= MAX_JUDGED and theirs is not None):
                break
            judged += 1
            if sight.may_see(policy):
                found[key] = policy
                tags[key] = tag
        return list(found.values())

    async def list_tree(self, viewer: Viewer, asked: TreeQuestion) -> PolicyTree:
        _, directory = await self._directory()
        after = decode_cursor(asked.after, str, str) if asked.after else None
        found = directory.list_children(tuple(asked.under), after=after, limit=MAX_CHILDREN + 1)
        return PolicyTree(
            path=tuple(asked.under),
            children=_children(found[:MAX_CHILDREN]),
            next_child=_next_child(found),
        )

    # -- one -------------------------------------------------------------------------------------------------

    async def show_policy(self, viewer: Viewer, asked: PolicyKeyQuestion) -> ShownPolicy:
        policies, directory = await self._directory()
        policy = directory.find((asked.service, asked.zone, asked.name))
        sight = PolicySight(viewer, policies, self._context(viewer))
        if policy is None or not sight.may_see(policy):
            raise NotFound(_NO_POLICY)
        whole = sight.sees_whole(policy)
        details = await self._load_details(viewer, policy, whole)
        use = await self._load_use([policy.name])
        return ShownPolicy(
            policy=describe_policy(
                policy, None if whole else sight.subject, directory.list_levels(policy.service)
            ),
            whole=whole,
            source=details.source,
            last_used=use.last.get(policy.name),
            use_noted_since=use.since,
            cases=details.cases,
            history=details.history,
            history_note=details.history_note,
            editable_text=details.editable_text,
        )

    # -- who may do what -------------------------------------------------------------------------------------

    async def show_matrix(self, viewer: Viewer, asked: MatrixQuestion) -> AccessMatrix:
        policies, directory = await self._directory()
        path = tuple(asked.under)
        if not path:
            services = directory.list_children((), limit=MAX_CHILDREN)
            return AccessMatrix(
                path=(),
                access=asked.access,
                accesses=(),
                resources=_children(services),
                rows=(),
                next="",
                next_resource="",
                cut=False,
            )
        service = policies.services.get(path[0])
        if service is None:
            raise NotFound("there is no such service, or its policies are on tags")
        first = decode_cursor(asked.first, str, str) if asked.first else None
        # Of a database all that speaks of what is in it is asked: a quarter of the cells takes as long.
        part = 1 if len(path) >= _OF_DATABASE else 2
        width, height = MAX_MATRIX_COLUMNS // part, MAX_ROWS // part
        nodes = directory.list_children(path, after=first, limit=width + 1)
        shown = nodes[:width] or (
            (TreeNode(path=path, level=path[-2], value=path[-1], policies=0),) if len(path) > 1 else ()
        )
        resources = [_resource_at(node.path) for node in shown]
        page = directory.find_page(PolicyCriteria(under=path), limit=_MAX_MATRIX_POLICIES)
        named = {who for policy in page.policies for who in principals_named(policy)}
        engine, context = engine_for(policies), self._context(viewer)
        for policy, _ in engine.policies_on(_resource_at(path), context) if len(path) > 1 else ():
            named |= principals_named(policy)
        after = decode_cursor(asked.after, str, str) if asked.after else None
        people = sorted(who for who in named if not who[1].startswith("{") and (after is None or who > after))
        more = len(people) > height
        people = people[:height]
        rows: list[MatrixRow] = []
        for who in people:
            rows += build_matrix(
                policies,
                [who],
                resources,
                asked.access.lower(),
                context,
                find_person=self._principals().get,
                service=service.name,
            )
            await asyncio.sleep(0)  # statements wait for no more than a row
        return AccessMatrix(
            path=path,
            access=asked.access,
            accesses=tuple(one.name for one in service.definition.access_types),
            resources=_children(shown),
            rows=tuple(rows),
            next=encode_cursor(*people[-1]) if more else "",
            next_resource=encode_cursor(shown[-1].value, shown[-1].level) if len(nodes) > width else "",
            cut=page.after is not None,
        )

    def _context(self, viewer: Viewer) -> AccessContext:
        return AccessContext(
            time=self._now(), client_ip=viewer.address or None, client_type="console", action="QUERY"
        )


def _cursor(after: PolicyKey, within: Sequence[Sequence[PolicyKey]] | None) -> str:
    """Return where the next page begins. Where others' policies are left out, `after` may be one of them: the
    place in each list stands for it."""
    if within is None:
        return encode_cursor(*after)
    return encode_cursor(*(bisect_right(keys, after) for keys in within))  # RULE (console-cursor-names)


def _criteria(asked: PolicyListQuestion) -> PolicyCriteria:
    if bool(asked.who) != bool(asked.name):
        raise BadRequest("`who` and `name` go together")
    return PolicyCriteria(
        service=asked.service,
        zone={"": None, UNZONED: ""}.get(asked.zone, asked.zone),
        type=_TYPES[asked.type],
        who=(asked.who, asked.name) if asked.who else None,
        tag=asked.tag,
        under=tuple(asked.under),
        text=asked.q,
    )


def _children(nodes: Sequence[TreeNode]) -> tuple[TreeChild, ...]:
    return tuple(
        TreeChild(path=node.path, level=node.level, value=node.value, policies=node.policies)
        for node in nodes
    )


def _next_child(nodes: Sequence[TreeNode]) -> str:
    if len(nodes) <= MAX_CHILDREN:
        return ""
    return encode_cursor(nodes[MAX_CHILDREN - 1].value, nodes[MAX_CHILDREN - 1].level)


def _resource_at(path: TreePath) -> Resource:
    return Resource(tuple((path[at], path[at + 1]) for at in range(1, len(path) - 1, 2)))


def part(pages: PolicyPages) -> ConsolePart:
    """Return the routes and pages of it."""
    listed = ConsoleRoute.get(
        "/policies",
        pages.list_policies,
        "Policies by resource, user, group, role, tag and zone, a page at a time.",
        own=_OWN,
        unrecorded_because=_NOT_OF_RECORD,
    )
    tree = ConsoleRoute.get(
        "/policy-tree",
        pages.list_tree,
        "The resources that policies name, right below one place of their tree.",
        name="list_policy_tree",
        unrecorded_because=_NOT_OF_RECORD,
    )
    shown = ConsoleRoute.get(
        "/policy",
        pages.show_policy,
        "One policy with its source, cases, history and last use.",
        own=_OWN,
        unrecorded_because=_NOT_OF_RECORD,
        examples={"service": "spark", "name": "nothing"},
    )
    matrix = ConsoleRoute.get(
        "/policy-matrix",
        pages.show_matrix,
        "Who may do what with the resources right below one place, by the engine's decisions.",
        unrecorded_because=_NOT_OF_RECORD,
    )
    return ConsolePart(
        routes=(listed, tree, shown, matrix),
        pages=(
            ConsolePage(
                route=listed,
                path="/policies",
                template="policies.html",
                title="Policies",
                menu="Policies",
                place=3,
            ),
            ConsolePage(
                route=tree, path="/policy-tree", template="policy_tree.html", title="Resources of policies"
            ),
            ConsolePage(route=shown, path="/policy", template="policy.html", title="Policy"),
            ConsolePage(
                route=matrix, path="/policy-matrix", template="policy_matrix.html", title="Who may do what"
            ),
        ),
    )
