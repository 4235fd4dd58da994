"""What the user and the rules ask for: policies, pins from patterns, and suspicions from public reports.

In: a `Policy` from arguments and environment variables, rule files, facts about units and the machine. Out: pins and
groups of exact paths, and which rules apply to which units. Never: a framework, a measurement, a placement.
"""

from autoplace.rules.facts import PLUGINS as PLUGINS
from autoplace.rules.facts import Surroundings as Surroundings
from autoplace.rules.facts import UnitFacts as UnitFacts
from autoplace.rules.facts import surroundings as surroundings
from autoplace.rules.library import built_in as built_in
from autoplace.rules.library import find_rule as find_rule
from autoplace.rules.library import load as load
from autoplace.rules.library import read_file as read_file
from autoplace.rules.matching import Suspicion as Suspicion
from autoplace.rules.matching import applies_around as applies_around
from autoplace.rules.matching import by_unit as by_unit
from autoplace.rules.matching import suspicions as suspicions
from autoplace.rules.policy import Policy as Policy
from autoplace.rules.policy import get_policy as get_policy
from autoplace.rules.policy import set_policy as set_policy
from autoplace.rules.rule import Conditions as Conditions
from autoplace.rules.rule import Rule as Rule
from autoplace.rules.rule import verdict_by as verdict_by
from autoplace.rules.selection import resolve_groups as resolve_groups
from autoplace.rules.selection import resolve_pins as resolve_pins
