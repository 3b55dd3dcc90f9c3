"""One example of each body, for /openapi.json: real values of the types, so that they fit."""

from datetime import UTC, datetime
from typing import Any

from db.api_keys import Role
from db.ledger import UsageSpan
from graphql_api import rest_bodies as bodies
from graphql_api.model import (
    AgentView,
    DeniedCounts,
    IssuedKeyView,
    KeyView,
    OrganizationView,
    Overrides,
    UsagePoint,
)

_ORGANIZATION_ID = "8db83585-fd25-4a63-89fa-957ac5e7fb23"
_AGENT_ID = "0f6c1f0e-6a55-4b1f-9f3e-0d4f3ad4a5b1"
_KEY_ID = "5b0d7a3c-1c8e-4d0b-8a53-2f6d1e0c9b77"
_MIDNIGHT = datetime(2026, 11, 30, tzinfo=UTC)
_MOMENT = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)

_ORGANIZATION = OrganizationView(_ORGANIZATION_ID, "Acme", 7, _MOMENT)
_AGENT = AgentView(_AGENT_ID, _ORGANIZATION_ID, "support-bot", _MOMENT)
_KEY = KeyView(
    id=_KEY_ID,
    role=Role.AGENT,
    organization_id=_ORGANIZATION_ID,
    agent_id=_AGENT_ID,
    prefix="ibex_agt_Ab3d",
    name="production",
    created_at=_MOMENT,
    revoked_at=None,
)

EXAMPLES: dict[Any, Any] = {
    bodies.NewOrganization: bodies.NewOrganization("Acme"),
    bodies.NewAgent: bodies.NewAgent("support-bot"),
    bodies.NewPlatformKey: bodies.NewPlatformKey("on-call laptop"),
    bodies.NewKey: bodies.NewAgentKey(agent_id=_AGENT_ID, name="production"),
    bodies.LimitsPatch: {"requests_per_minute": 600, "tokens_per_month": None},
    bodies.AgentLimitsPatch: {"requests_per_minute": 60},
    OrganizationView: _ORGANIZATION,
    AgentView: _AGENT,
    KeyView: _KEY,
    IssuedKeyView: IssuedKeyView(_KEY, "ibex_agt_Ab3d...: the whole key, shown this once"),
    bodies.Organizations: bodies.Organizations((_ORGANIZATION,), None),
    bodies.Agents: bodies.Agents((_AGENT,), None),
    bodies.Keys: bodies.Keys((_KEY,), None),
    bodies.RateLimitStatus: bodies.RateLimitStatus(
        organization_id=_ORGANIZATION_ID,
        agent_id=_AGENT_ID,
        org_requests_per_minute=600,
        agent_requests_per_minute=60,
        org_tokens_per_month=50_000_000,
        overrides=Overrides(requests_per_minute=60, tokens_per_month=None),
        current_minute_requests=12,
        current_month_tokens=1_234_567,
        held_tokens=4_096,
        in_flight=1,
        reset_at=_MOMENT,
        version=7,
        updated_at=_MOMENT,
        updated_by=f"key:{_KEY_ID} on-call laptop",
    ),
    bodies.Usage: bodies.Usage(
        agent_id=_AGENT_ID,
        points=(UsagePoint(_MOMENT, 12, 34_567, DeniedCounts(agent=3), open=2, estimated=1_024),),
    ),
    bodies.History: bodies.History(
        organization_id=_ORGANIZATION_ID,
        by="day",
        spans=(
            UsageSpan(_MIDNIGHT, 9_876, denied=12, opened=2, tokens=4_321_000, estimated=1_024),
        ),
    ),
    bodies.Changes: bodies.Changes(
        (
            bodies.RateLimitChange(
                id="42",
                at=_MOMENT,
                by=f"key:{_KEY_ID} on-call laptop",
                via="rest",
                agent_id=_AGENT_ID,
                field="requests_per_minute",
                old=None,
                new=60,
            ),
        ),
        None,
    ),
}
