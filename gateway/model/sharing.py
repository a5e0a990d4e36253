"""Ranger's governed data sharing (GDS): resources in data shares, these in datasets, these in projects.

Policies grant access to a dataset or a project, and so to what is shared in it. What is here is in force:
shares that were only asked for, or denied, are left out when the download is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gateway.model.policy import Condition, Policy, ResourceSet, ServiceDef
from gateway.model.tags import ValiditySchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedResource:
    """One resource of a data share, with the masks and the row filter that go with it."""

    id: int
    name: str = ""
    resources: ResourceSet
    """Levels with those of the sub-resource, such as the columns that are shared."""
    above: ResourceSet
    """The same without the sub-resource: what the row filter is for."""
    sub_level: str = ""
    """The level of the sub-resource and of the masks."""
    accesses: frozenset[str] = frozenset()
    """The only access types that the share is for, whatever a dataset's policies grant."""
    conditions: tuple[Condition, ...] = ()
    masks: tuple[Policy, ...] = ()
    """A mask policy for everybody for each of the masks, in their order."""
    rows: Policy | None = None
    """A row-filter policy for everybody; None: all rows are shared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataShare:
    """Resources that are shared together."""

    id: int
    name: str = ""
    zone: str = ""
    """The security zone whose resources are shared; empty: those of none."""
    accesses: frozenset[str] = frozenset()
    """The access types that resources are shared for where they do not list their own."""
    conditions: tuple[Condition, ...] = ()
    resources: tuple[SharedResource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """That a data share is in a dataset, or a dataset in a project."""

    id: int
    """Of the data share, or of the project."""
    schedules: tuple[ValiditySchedule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Datasets that are granted together."""

    id: int
    name: str = ""
    schedules: tuple[ValiditySchedule, ...] = ()
    policies: tuple[Policy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDataset(Project):
    """Data shares that are granted together."""

    shares: tuple[Membership, ...] = ()
    projects: tuple[Membership, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """All of it that concerns one service."""

    definition: ServiceDef
    """What policies of datasets and projects follow; its access types are the service's."""
    version: int = -1
    shares: tuple[DataShare, ...] = ()
    datasets: tuple[SharedDataset, ...] = ()
    projects: tuple[Project, ...] = ()

    @property
    def depends_on_circumstances(self) -> bool:
        """Whether it matters when or from where it is asked; conditions may always ask."""
        holders: list[Project] = [*self.datasets, *self.projects]
        links = [link for one in self.datasets for link in (*one.shares, *one.projects)]
        resources = [resource for share in self.shares for resource in share.resources]
        policies = [policy for one in holders for policy in one.policies]
        return (
            any(one.schedules for one in holders)
            or any(one.schedules for one in links)
            or any(one.conditions for one in self.shares)
            or any(one.conditions for one in resources)
            or any(one.conditions or one.schedules for one in policies)
            or any(item.conditions for one in policies for item in one.allow)
        )

    def obligations(self) -> Iterator[Policy]:
        """Yield the masks and row filters of everything that is shared."""
        for share in self.shares:
            for resource in share.resources:
                yield from resource.masks
                if resource.rows is not None:
                    yield resource.rows

    def grants(self) -> Iterator[Policy]:
        """Yield each policy of a dataset or project once for each resource that it may grant."""
        shares = {share.id: share for share in self.shares}
        projects = {project.id: project for project in self.projects}
        for dataset in self.datasets:
            inside = (projects[one.id] for one in dataset.projects if one.id in projects)
            policies = [policy for holder in (dataset, *inside) for policy in holder.policies]
            for member in dataset.shares:
                share = shares.get(member.id)
                for resource in share.resources if share is not None else ():
                    for policy in policies:
                        yield replace(policy, resources=resource.resources, additional_resources=())
