"""The rights of the admission check: its roles grant exactly these, and the page lists those that the scheduler
lacks.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import yaml

from podwright.kube.client.access import READ
from podwright.kube.rights import SCHEDULING, election, params
from podwright.kueue.options import CHECK_LEASE
from podwright.kueue.rights import CHECKING

ROOT = Path(__file__).parents[3]
NAMESPACE = "podwright-system"


def test_the_roles_grant_exactly_what_the_check_uses():
    granted = []
    for role in yaml.safe_load_all((ROOT / "manifests" / "kueue" / "access.yaml").read_text()):
        for rule in role.get("rules", ()):
            names = rule.get("resourceNames", [""])
            where = [role["metadata"].get("namespace", "")]
            granted += product(where, rule["apiGroups"], rule["resources"], names, rule["verbs"])
    used = (*CHECKING, *params(NAMESPACE), *election(NAMESPACE, CHECK_LEASE))
    assert sorted(granted) == sorted(
        (right.namespace, right.resource.group, right.plural, right.name, right.verb) for right in used
    )


def test_it_changes_no_pods_and_reads_no_secrets():
    writes = {right.plural for right in CHECKING if right.verb not in (*READ, "get")}
    assert writes == {"workloads/status", "admissionchecks/status", "reservations", "events"}
    assert not any("secrets" in right.plural for right in CHECKING)


def test_the_page_lists_the_rights_that_the_scheduler_lacks_and_the_writes():
    rows = re.findall(r"^\| ([a-z, ]+) \| ([a-z/, ]+) \|", (ROOT / "docs" / "kueue.md").read_text(), re.MULTILINE)
    rows = rows[rows.index(("verbs", "resources")) + 1 :]
    documented = sorted(pair for verbs, plurals in rows for pair in product(verbs.split(", "), plurals.split(", ")))
    own = [right for right in CHECKING if right not in SCHEDULING or right.verb not in READ]
    assert documented == sorted((right.verb, right.plural) for right in own)
