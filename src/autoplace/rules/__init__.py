"""What the user and the rules ask for: policies, and pins from patterns.

In: a `Policy` from arguments and environment variables, unit paths. Out: pins and groups of exact paths. Never: a
framework, a measurement, a placement.
"""

from autoplace.rules.policy import Policy as Policy
from autoplace.rules.policy import get_policy as get_policy
from autoplace.rules.policy import set_policy as set_policy
from autoplace.rules.selection import resolve_groups as resolve_groups
from autoplace.rules.selection import resolve_pins as resolve_pins
